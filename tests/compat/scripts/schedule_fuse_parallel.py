"""Loops fused and run in parallel."""

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def double(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16, 24), "float32")):
    for i, j in T.grid(16, 24):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


sch = tvm.tir.Schedule(double)
fused = sch.fuse(*sch.get_loops(sch.get_block("B")))
outer, inner = sch.split(fused, factors=[None, 16])
sch.parallel(outer)
sch.vectorize(inner)
loops = [sch.get(loop) for loop in sch.get_loops(sch.get_block("B"))]
print([int(loop.extent) for loop in loops])
data = np.arange(16 * 24, dtype="float32").reshape(16, 24)
out = tvm.runtime.tensor(np.zeros_like(data))
tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(data), out)
np.testing.assert_array_equal(out.numpy(), data * 2)
print("done")
