"""The first value of a sum is written by a block of its own."""

import tvm
from tvm.script import tir as T


@T.prim_func
def total(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 16):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]


sch = tvm.tir.Schedule(total)
block = sch.get_block("B")
init = sch.decompose_reduction(block, sch.get_loops(block)[1])
print(sch.get(init).name_hint, sch.get(block).name_hint, sch.get(block).init is None)
print(len(sch.get_loops(init)), len(sch.get_loops(block)))
print("done")
