"""A conditional, and calls of functions of the module."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function(private=True)
    def negate(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.negative(x)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((3,), "float32"):
        cls = Module
        if flag:
            y = cls.negate(x)
        else:
            y = R.add(x, x)
        return y


vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
data = tvm.runtime.tensor(np.array([1, 2, 3], "float32"))
for flag in (True, False):
    print(vm["main"](data, tvm.runtime.tensor(np.array(flag))).numpy().tolist())
print("done")
