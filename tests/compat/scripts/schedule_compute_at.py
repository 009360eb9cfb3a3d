"""A producer is computed where its consumer needs it, then inlined altogether."""

import tvm
from tvm.script import tir as T


@T.prim_func
def chain(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16), "float32")
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


sch = tvm.tir.Schedule(chain)
producer, consumer = sch.get_block("B"), sch.get_block("C")
sch.compute_at(producer, sch.get_loops(consumer)[0])
print(len(sch.get_loops(producer)), [int(sch.get(loop).extent) for loop in sch.get_loops(producer)])

inlined = tvm.tir.Schedule(chain)
inlined.compute_inline(inlined.get_block("B"))
print("A[vi, vj] + T.float32(1.0)" in inlined.mod["main"].script())
reversed_ = tvm.tir.Schedule(chain)
reversed_.reverse_compute_inline(reversed_.get_block("C"))
print("C[vi, vj] = (A[vi, vj] + T.float32(1.0)) * T.float32(2.0)" in reversed_.mod["main"].script())
print("done")
