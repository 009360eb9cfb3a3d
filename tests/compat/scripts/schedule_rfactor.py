"""A reduction in two stages."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def total(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 64):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


sch = tvm.tir.Schedule(total)
block = sch.get_block("B")
_, k = sch.get_loops(block)
outer, inner = sch.split(k, factors=[None, 8])
partial = sch.rfactor(outer, 0)
print([int(loop.extent) for loop in map(sch.get, sch.get_loops(partial))], len(sch.get_loops(block)))
data = np.random.default_rng(2).standard_normal((8, 64)).astype("float32")
out = tvm.runtime.tensor(np.zeros(8, "float32"))
tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(data), out)
np.testing.assert_allclose(out.numpy(), data.sum(1), rtol=1e-4, atol=1e-4)
print("done")
