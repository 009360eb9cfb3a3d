"""A two-layer perceptron built with BlockBuilder, compiled and run."""

import numpy as np
import tvm
from tvm import relax

bb = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((2, 8), "float32"))
rng = np.random.default_rng(0)
w0, w1 = rng.standard_normal((8, 16)).astype("float32"), rng.standard_normal((16, 4)).astype("float32")
with bb.function("main", [x]):
    with bb.dataflow():
        hidden = bb.emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(w0))))
        out = bb.emit_output(relax.op.matmul(hidden, relax.const(w1)))
    bb.emit_func_output(out)
mod = bb.get()
assert relax.analysis.well_formed(mod) in (True, None)
print(mod["main"].ret_struct_info)

vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
data = rng.standard_normal((2, 8)).astype("float32")
result = vm["main"](tvm.runtime.tensor(data)).numpy()
np.testing.assert_allclose(result, np.maximum(data @ w0, 0) @ w1, rtol=1e-4, atol=1e-4)
print("done")
