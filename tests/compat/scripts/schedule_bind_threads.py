"""Loops bound to the threads of a GPU; the program is printed, not run."""

import tvm
from tvm.script import tir as T


@T.prim_func
def double(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for i in range(1024):
        with T.block("B"):
            vi = T.axis.spatial(1024, i)
            B[vi] = A[vi] * T.float32(2)


sch = tvm.tir.Schedule(double)
(i,) = sch.get_loops(sch.get_block("B"))
outer, inner = sch.split(i, factors=[None, 128])
sch.bind(outer, "blockIdx.x")
sch.bind(inner, "threadIdx.x")
for line in sch.mod["main"].script().splitlines():
    if "thread_binding" in line:
        print(line.strip())
print("done")
