"""A block is replaced by an intrinsic that is described by two tensor programs."""

import tvm
from tvm.script import tir as T


@T.prim_func
def dot_description(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for k in range(4):
            with T.block("dot"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk] * B[vk]


@T.prim_func
def dot_implementation(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] = C[0] + A[0] * B[0] + A[1] * B[1] + A[2] * B[2] + A[3] * B[3]


@T.prim_func
def dots(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * B[vi, vk]


tvm.tir.TensorIntrin.register("mine.dot4", dot_description, dot_implementation)
sch = tvm.tir.Schedule(dots)
block = sch.get_block("C")
i, k = sch.get_loops(block)
sch.decompose_reduction(block, k)
sch.tensorize(k, "mine.dot4")
text = sch.mod["main"].script()
print("vk" in text, len(sch.get_loops(sch.get_block("C_update_o"))))
print("done")
