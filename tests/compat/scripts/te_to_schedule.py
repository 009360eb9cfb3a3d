"""A program written in TE, scheduled as a tensor program."""

import numpy as np
import tvm
from tvm import te

A = te.placeholder((16, 32), name="A")
B = te.placeholder((32, 8), name="B")
k = te.reduce_axis((0, 32), name="k")
C = te.compute((16, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
func = te.create_prim_func([A, B, C])
sch = tvm.tir.Schedule(func)
i, j, red = sch.get_loops(sch.get_block("C"))
sch.reorder(i, red, j)
sch.unroll(j)
rng = np.random.default_rng(3)
a, b = rng.standard_normal((16, 32)).astype("float32"), rng.standard_normal((32, 8)).astype("float32")
out = tvm.runtime.tensor(np.zeros((16, 8), "float32"))
tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-4, atol=1e-4)
print([buffer.name for buffer in func.buffer_map.values()])
print("done")
