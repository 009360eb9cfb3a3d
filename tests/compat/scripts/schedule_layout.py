"""Loops of one iteration, layouts of buffers."""

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
unit = sch.add_unit_loop(block)
print(int(sch.get(unit).extent), len(sch.get_loops(block)))
sch.transform_layout(block, ("write", 0), lambda a, b: (b, a))
print([int(size) for size in sch.mod["main"].buffer_map[sch.mod["main"].params[1]].shape])
print("done")
