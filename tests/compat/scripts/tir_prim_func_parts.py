"""The parts of a tensor program: parameters, buffers, loops, blocks."""

import tvm
from tvm.script import tir as T


@T.prim_func
def add(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vi, vj]


print([buffer.name for buffer in add.buffer_map.values()], bool(add.attrs["tir.noalias"]))
root = add.body.block
loop = root.body
inner = loop.body.body
print(type(loop).__name__, type(inner.block.body).__name__, inner.block.name_hint)
print(root.name_hint, int(loop.extent), loop.loop_var.name, int(loop.body.extent))
tvm.ir.assert_structural_equal(add, tvm.script.from_source(add.script()))
print("done")
