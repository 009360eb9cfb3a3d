"""Primitives that do not apply say so, and change nothing."""

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


sch = tvm.tir.Schedule(total, error_render_level="none")
block = sch.get_block("B")
before = sch.mod.script()
for name, attempt in (
    ("parallel over a sum", lambda: sch.parallel(sch.get_loops(block)[1])),
    ("inline a reduction", lambda: sch.compute_inline(block)),
    ("wrong factors", lambda: sch.split(sch.get_loops(block)[0], factors=[3, 2])),
):
    try:
        attempt()
    except Exception as error:
        print(name, "refused:", "ScheduleError" in type(error).__name__)
assert sch.mod.script() == before
print("done")
