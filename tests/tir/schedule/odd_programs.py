"""Programs of forms that no operator has: gaps between rows, triangles, several writers, other names of memory."""

from __future__ import annotations

from eutectic.script import tir as T
from eutectic.tir import PrimFunc


@T.prim_func(private=True)
def strided(A: T.Buffer((4, 6), "int32"), D: T.Buffer((4,), "int32")):
    """Rows of a buffer are further apart than they are long."""
    B = T.alloc_buffer((4, 6), "int32", strides=(9, 1))
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk] * 2
    for i, k in T.grid(4, 6):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = 1
            D[vi] = D[vi] + B[vi, vk]


@T.prim_func(private=True)
def triangle(A: T.Buffer((5, 5), "int32"), B: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
    """The first row has no terms, and so has the last row of the second sum."""
    for i in range(5):
        for k in range(i):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 3
                B[vi] = B[vi] + A[vi, vk]
    for i in range(5):
        for k in range(4 - i):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = B[vi]
                C[vi] = C[vi] + A[vi, vk + vi]


@T.prim_func(private=True)
def triangle_of_rows(A: T.Buffer((5, 5), "int32"), B: T.Buffer((5,), "int32")):
    """Which rows get a term depends on the term; the first one is for all of them."""
    for k in range(5):
        for i in range(k, 5):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    B[vi] = 3
                B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def solve(L: T.Buffer((5, 5), "int32"), X: T.Buffer((5,), "int32")):
    """Each element depends on those before it."""
    for i in range(5):
        for k in range(i):
            with T.block("X"):
                vi, vk = T.axis.remap("SR", [i, k])
                X[vi] = X[vi] - L[vi, vk] * X[vk]


@T.prim_func(private=True)
def writers(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """Halves by two blocks, a row of both by a third, and one that adds to what is there."""
    for i, k in T.grid(3, 4):
        with T.block("low"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i, k in T.grid(3, 4):
        with T.block("high"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            with T.init():
                B[vi + 3] = 1
            B[vi + 3] = T.max(B[vi + 3], A[vi + 3, vk])
    for i in range(2):
        with T.block("middle"):
            vi = T.axis.spatial(2, i)
            B[vi + 2] = B[vi + 2] * 2
    for i in range(6):
        with T.block("all"):
            vi = T.axis.spatial(6, i)
            B[vi] = B[vi] + A[vi, 0]


@T.prim_func(private=True)
def shared_elements(A: T.Buffer((4, 6), "int32"), B: T.Buffer((3,), "int32")):
    """Two instances of a reduction store the same element, one after the other."""
    for k, i in T.grid(4, 6):
        with T.block("B"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                B[vi // 2] = 5
            B[vi // 2] = B[vi // 2] + A[vk, vi]


@T.prim_func(private=True)
def aliased(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """Tiles under names of their own, with sums in them."""
    for io in range(2):
        with T.block("tile"):
            vio = T.axis.spatial(2, io)
            T.reads(A[vio * 3 : vio * 3 + 3, 0:4])
            T.writes(B[vio * 3 : vio * 3 + 3])
            P = T.match_buffer(A[vio * 3 : vio * 3 + 3, 0:4], (3, 4), "int32", strides=(4, 1), offset_factor=1)
            Q = T.match_buffer(B[vio * 3 : vio * 3 + 3], (3,), "int32", offset_factor=1)
            for i, k in T.grid(3, 4):
                with T.block("Q"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.where(k >= i)
                    with T.init():
                        Q[vi] = 3
                    Q[vi] = Q[vi] + P[vi, vk]


@T.prim_func(private=True)
def initial_values_aliased(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """The block that begins the sum calls its result by another name."""
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            T.reads(A[vi, vk])
            T.writes(B[vi])
            Q = T.match_buffer(B[vi : vi + 1], (1,), "int32", offset_factor=1)
            with T.init():
                Q[0] = 3
            Q[0] = Q[0] + A[vi, vk]


PROGRAMS: dict[str, PrimFunc] = {
    "strided": strided,
    "triangle": triangle,
    "triangle of rows": triangle_of_rows,
    "solve": solve,
    "writers": writers,
    "shared elements": shared_elements,
    "aliased": aliased,
    "initial values aliased": initial_values_aliased,
}
