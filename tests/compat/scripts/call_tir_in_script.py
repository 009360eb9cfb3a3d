"""A module of both levels: a tensor program called from a graph."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def scale(A: T.Buffer((3, 4), "float32"), B: T.Buffer((3, 4), "float32")):
        for i, j in T.grid(3, 4):
            with T.block("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.scale, (x,), out_sinfo=R.Tensor((3, 4), "float32"))
            z = R.add(y, x)
            R.output(z)
        return z


vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
data = np.ones((3, 4), "float32")
print(vm["main"](tvm.runtime.tensor(data)).numpy().sum())
print("done")
