"""A tensor program printed without short forms."""

from tvm.script import tir as T


@T.prim_func
def double(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


text = double.script(syntax_sugar=False)
print([word in text for word in ("T.grid", "T.axis.remap", "T.axis.spatial(4, i)", "range(4)")])
short = double.script()
print([word in short for word in ("T.grid", "T.axis.remap", "T.axis.spatial(4, i)", "range(4)")])
print("done")
