"""Parameters become constants."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


w = np.ones((3, 2), "float32")
bound = relax.transform.BindParams("main", {"w": tvm.runtime.tensor(w)})(Module)
print([param.name_hint for param in bound["main"].params])
vm = relax.VirtualMachine(tvm.compile(bound, target="llvm"), tvm.cpu())
print(vm["main"](tvm.runtime.tensor(np.full((2, 3), 2, "float32"))).numpy().tolist())
print("done")
