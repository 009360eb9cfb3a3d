"""Functions of Python called from a graph."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@tvm.register_global_func("scripts.add_one")
def add_one(array, out):
    out.copyfrom(np.from_dlpack(array) + 1)


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.call_dps_packed("scripts.add_one", (x,), out_sinfo=R.Tensor((3,), "float32"))
        z = R.add(y, y)
        return z


result = tvm.runtime.tensor(np.zeros(2, "float32"))
tvm.get_global_func("scripts.add_one")(tvm.runtime.tensor(np.ones(2, "float32")), result)
print(result.numpy().tolist())
vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
print(vm["main"](tvm.runtime.tensor(np.array([1, 2, 3], "float32"))).numpy().tolist())
print("done")
