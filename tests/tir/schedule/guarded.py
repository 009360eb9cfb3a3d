"""Reductions under predicates, with what they compute by the definition of initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eutectic.script import tir as T
from eutectic.tir import PrimFunc

ROWS, TERMS = 6, 4


@T.prim_func(private=True)
def late_terms(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """Rows from the fourth on have no terms."""
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def early_terms(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """The first row has no terms."""
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k < i)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def rows_from_terms(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """More rows are looped over than there are; what keeps them out is about terms too."""
    for i, k in T.grid(9, 4):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vk = T.axis.reduce(4, k)
            T.where(i + k < 6)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def some_terms(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k > 0)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def some_rows(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i < 4)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def rows_and_terms(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(i < 4 and k != i)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def from_memory(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    """Terms are chosen by values, as in sums over masked elements."""
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(A[i, k] > 1)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def terms_outside(A: T.Buffer((6, 4), "int32"), B: T.Buffer((6,), "int32")):
    for k, i in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]


@T.prim_func(private=True)
def with_reader(A: T.Buffer((6, 4), "int32"), D: T.Buffer((6,), "int32")):
    """The sum is in memory of its own, and all of it is read."""
    B = T.alloc_buffer((6,), "int32")
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            with T.init():
                B[vi] = 3
            B[vi] = B[vi] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = B[vi] * 2


@T.prim_func(private=True)
def of_floats(A: T.Buffer((6, 4), "float32"), D: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,), "float32")
    for i, k in T.grid(6, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k >= i)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = T.max(B[vi], T.float32(0))


@T.prim_func(private=True)
def two_axes(A: T.Buffer((6, 4), "int32"), B: T.Buffer((2, 3), "int32")):
    """Two spatial axes and two of the reduction."""
    for i, j, k, m in T.grid(2, 3, 2, 2):
        with T.block("B"):
            vi, vj, vk, vm = T.axis.remap("SSRR", [i, j, k, m])
            T.where(k + m >= j)
            with T.init():
                B[vi, vj] = 3
            B[vi, vj] = B[vi, vj] + A[vi * 3 + vj, vk * 2 + vm]


Holds = Callable[[Any, int, int], bool]
SUMS: dict[str, tuple[PrimFunc, Holds, Callable[[int], bool]]] = {
    "late terms": (late_terms, lambda a, i, k: k >= i, lambda i: True),
    "early terms": (early_terms, lambda a, i, k: k < i, lambda i: True),
    "rows from terms": (rows_from_terms, lambda a, i, k: i + k < 6, lambda i: True),
    "some terms": (some_terms, lambda a, i, k: k > 0, lambda i: True),
    "some rows": (some_rows, lambda a, i, k: i < 4, lambda i: i < 4),
    "rows and terms": (rows_and_terms, lambda a, i, k: i < 4 and k != i, lambda i: i < 4),
    "from memory": (from_memory, lambda a, i, k: bool(a[i, k] > 1), lambda i: True),
    "terms outside": (terms_outside, lambda a, i, k: k >= i, lambda i: True),
    "two axes": (two_axes, lambda a, i, k: k // 2 + k % 2 >= i % 3, lambda i: True),
    "with reader": (with_reader, lambda a, i, k: k >= i, lambda i: True),
    "of floats": (of_floats, lambda a, i, k: k >= i, lambda i: True),
}


def arguments(name: str, seed: int = 0) -> list[Any]:
    """Terms, and results that hold something else before."""
    a, b = SUMS[name][0].buffers
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 10, (ROWS, TERMS)).astype(a.dtype)
    return [values, np.full([size.value for size in b.shape], 77, b.dtype)]


def wanted(name: str, given: list[Any]) -> Any:
    """The result: each row that has a initial value begins with it, and gets the terms that its predicate admits."""
    _, holds, begins = SUMS[name]
    terms, out = given[0], np.copy(given[1]).reshape(-1)
    for i, row in enumerate(_rows(name, terms, holds)):
        if begins(i):
            out[i] = {"with reader": 2 * row, "of floats": max(row - 3, 0)}.get(name, row)
    return out.reshape(given[1].shape)


def _rows(name: str, terms: Any, holds: Holds) -> Iterator[int]:
    for i in range(ROWS):
        yield 3 + sum(int(terms[i, k]) for k in range(TERMS) if holds(terms, i, k))
