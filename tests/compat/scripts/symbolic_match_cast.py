"""match_cast gives names to sizes; wrong ones are refused when the function runs."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tir as T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z: R.Tensor((n * m,), "float32") = R.reshape(y, (n * m,))
        return z


vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
print(vm["main"](tvm.runtime.tensor(np.zeros((3, 5), "float32"))).numpy().shape)
try:
    vm["main"](tvm.runtime.tensor(np.zeros((3,), "float32")))
except Exception:
    print("refused")
print("done")
