"""Modules as JSON and back."""

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T

weight = np.arange(4, dtype="float32")


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), "float32"))
        if c:
            z = R.add(y, R.const(weight))
        else:
            z = R.subtract(y, x)
        return z


text = tvm.ir.save_json(Module)
again = tvm.ir.load_json(text)
tvm.ir.assert_structural_equal(again, Module)
assert again["main"].params[0].name_hint == "x"
number = tvm.ir.load_json(tvm.ir.save_json(tvm.tir.IntImm("int32", 5)))
print(int(number), type(number).__name__)
print("done")
