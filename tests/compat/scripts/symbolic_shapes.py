"""Sizes that are known when a function is called."""

import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z


print(Module["main"].ret_struct_info.ndim, [size.name for size in Module["main"].ret_struct_info.shape])
vm = relax.VirtualMachine(tvm.compile(Module, target="llvm"), tvm.cpu())
rng = np.random.default_rng(5)
for n, m in ((1, 3), (5, 2)):
    x, w = rng.standard_normal((n, 4)).astype("float32"), rng.standard_normal((4, m)).astype("float32")
    result = vm["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
    np.testing.assert_allclose(result, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-5)
    print(result.shape)
print("done")
