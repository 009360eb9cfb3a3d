"""Operators of topi as tensor programs."""

import numpy as np
import tvm
from tvm import te, topi

A = te.placeholder((4, 6), name="A")
programs = {
    "relu": topi.nn.relu(A),
    "softmax": topi.nn.softmax(A),
    "transpose": topi.transpose(A, (1, 0)),
    "sum": topi.sum(A, axis=0),
    "exp": topi.exp(A),
}
data = np.random.default_rng(4).standard_normal((4, 6)).astype("float32")
powers = np.exp(data - data.max(-1, keepdims=True))
expected = {
    "relu": np.maximum(data, 0),
    "softmax": powers / powers.sum(-1, keepdims=True),
    "transpose": data.T,
    "sum": data.sum(0),
    "exp": np.exp(data),
}
for name, result in programs.items():
    func = te.create_prim_func([A, result])
    out = tvm.runtime.tensor(np.zeros(expected[name].shape, "float32"))
    tvm.compile(tvm.IRModule({"main": func}), target="llvm")["main"](tvm.runtime.tensor(data), out)
    np.testing.assert_allclose(out.numpy(), expected[name], rtol=1e-4, atol=1e-5)
    print(name, [int(size) for size in result.shape])
print("done")
