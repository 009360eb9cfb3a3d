"""What was done to a program, as text, done again to another."""

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
i, j = sch.get_loops(block)
sch.reorder(j, i)
sch.split(i, factors=[None, 4])
print(sch.trace)
again = tvm.tir.Schedule(double)
sch.trace.apply_to_schedule(again, remove_postproc=False)
tvm.ir.assert_structural_equal(sch.mod, again.mod)
print("done")
