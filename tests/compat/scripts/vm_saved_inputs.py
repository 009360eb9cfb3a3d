"""set_input, invoke_stateful and get_outputs."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        z = R.subtract(x, y)
        return z


vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
one, two = (tvm.runtime.tensor(np.array(v, "float32")) for v in ([5, 6], [1, 2]))
vm.set_input("main", one, two)
vm.invoke_stateful("main")
print(vm.get_outputs("main").numpy().tolist())
vm.save_function("main", "saved", one, two)
print(vm["saved"]().numpy().tolist())
print("done")
