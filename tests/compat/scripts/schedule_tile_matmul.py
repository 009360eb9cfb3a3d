"""A matrix product tiled, unrolled and vectorized, with the same result."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((32, 32), "float32"), B: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    for i, j, k in T.grid(32, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


sch = tvm.tir.Schedule(matmul)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
i0, i1 = sch.split(i, factors=[None, 8])
j0, j1 = sch.split(j, factors=[4, 8])
k0, k1 = sch.split(k, factors=[8, 4])
sch.reorder(i0, j0, k0, i1, k1, j1)
sch.unroll(k1)
sch.vectorize(j1)
print([int(sch.get(loop).extent) for loop in sch.get_loops(block)])

rng = np.random.default_rng(0)
a, b = (rng.standard_normal((32, 32)).astype("float32") for _ in range(2))
out = tvm.runtime.tensor(np.zeros((32, 32), "float32"))
tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-4, atol=1e-4)
print("done")
