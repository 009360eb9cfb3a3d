"""Copies of what a block reads and writes."""

import tvm
from tvm.script import tir as T


@T.prim_func
def double(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


sch = tvm.tir.Schedule(double)
block = sch.get_block("B")
read = sch.cache_read(block, 0, "local")
write = sch.cache_write(block, 0, "local")
sch.compute_at(read, sch.get_loops(block)[0])
sch.reverse_compute_at(write, sch.get_loops(block)[0])
print(sch.get(read).name_hint, sch.get(write).name_hint)
print([buffer.scope() for buffer in sch.get(sch.get_block("root")).alloc_buffers])
print(len(sch.get_loops(read)), len(sch.get_loops(write)))
print("done")
