"""Tensor intrinsics for tests: products of tiles, and functions of elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.tir.programs import block, nest

from eutectic import tir
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir import Buffer, BufferStore, PrimFunc, Stmt, TensorIntrin, complete, seq


def operands(rows: int, columns: int, depth: int, dtype: str, **options: Any) -> tuple[Buffer, ...]:
    shapes = {"A": (rows, depth), "B": (depth, columns), "C": (rows, columns)}
    return tuple(Buffer(name, shape, dtype, **options) for name, shape in shapes.items())


def described(rows: int, columns: int, depth: int, dtype: str = "float32", init: bool = False) -> PrimFunc:
    """`C[i, j] += A[i, k] * B[k, j]`."""
    a, b, c = operands(rows, columns, depth, dtype)

    def body(i: Var, j: Var, k: Var) -> Stmt:
        axes = {"vi": (rows, "S"), "vj": (columns, "S"), "vk": (depth, "R")}
        first = (lambda i, j, k: BufferStore(c, 0, (i, j))) if init else None
        return block(
            "update", axes, (i, j, k), lambda i, j, k: BufferStore(c, c[i, j] + a[i, k] * b[k, j], (i, j)), first
        )

    return complete(PrimFunc((a, b, c), nest("ijk", (rows, columns, depth), body)))


def column_wise(
    rows: int, columns: int, depth: int, dtype: str = "float32", init: bool = False, **options: Any
) -> PrimFunc:
    """The same with the loops in another order, and terms of each element in the same."""
    a, b, c = operands(rows, columns, depth, dtype, **options)
    update = nest("kji", (depth, columns, rows), lambda k, j, i: BufferStore(c, c[i, j] + a[i, k] * b[k, j], (i, j)))
    zeros = nest("ij", (rows, columns), lambda i, j: BufferStore(c, 0, (i, j)))
    return PrimFunc((a, b, c), seq(zeros, update) if init else update)


def sum_apart(rows: int, columns: int, depth: int, dtype: str = "float32") -> PrimFunc:
    """The same with the terms added up before they are added to what is there."""
    a, b, c = operands(rows, columns, depth, dtype)

    def store(i: Var, j: Var) -> Stmt:
        total: PrimExpr = a[i, 0] * b[0, j]
        for k in range(1, depth):
            total = total + a[i, k] * b[k, j]
        return BufferStore(c, c[i, j] + total, (i, j))

    return PrimFunc((a, b, c), nest("ij", (rows, columns), store))


def mapped(value: Callable[[Any], Any], vector: bool) -> PrimFunc:
    """An element-wise function of tiles of 2 by 3."""
    a, b = Buffer("A", (2, 3)), Buffer("B", (2, 3))
    if vector:
        stmt = nest("i", (2,), lambda i: seq(*(BufferStore(b, value(a[i, j]), (i, j)) for j in range(3))))
        return PrimFunc((a, b), stmt)
    axes = {"vi": (2, "S"), "vj": (3, "S")}
    stmt = nest(
        "ij",
        (2, 3),
        lambda i, j: block("map", axes, (i, j), lambda i, j: BufferStore(b, value(a[i, j]), (i, j))),
    )
    return complete(PrimFunc((a, b), stmt))


def zeros(vector: bool) -> PrimFunc:
    c = Buffer("C", (2, 2))
    if vector:
        return PrimFunc((c,), seq(*(BufferStore(c, 0, (i, j)) for i in range(2) for j in range(2))))
    axes = {"vi": (2, "S"), "vj": (2, "S")}
    body = nest("ij", (2, 2), lambda i, j: block("zero", axes, (i, j), lambda i, j: BufferStore(c, 0, (i, j))))
    return complete(PrimFunc((c,), body))


@dataclass(frozen=True)
class Intrinsic:
    tile: tuple[int, ...]
    desc: Callable[[], PrimFunc]
    impl: Callable[[], PrimFunc]
    options: dict[str, Any] = field(default_factory=dict)


def product(*tile: int, dtype: str = "float32", init: bool = False) -> Intrinsic:
    return Intrinsic(tile, lambda: described(*tile, dtype, init), lambda: column_wise(*tile, dtype, init))


INTRINSICS: dict[str, Intrinsic] = {
    "test.update_2x2x1": product(2, 2, 1),
    "test.update_2x2x2": product(2, 2, 2),
    "test.update_2x5x3": product(2, 5, 3),
    "test.matmul_2x2x4": product(2, 2, 4, init=True),
    "test.matmul_2x3x6": product(2, 3, 6, init=True),
    "test.update_2x2x2_i32": Intrinsic(
        (2, 2, 2), lambda: described(2, 2, 2, "int32"), lambda: sum_apart(2, 2, 2, "int32")
    ),
    "test.exp": Intrinsic((2, 3), lambda: mapped(tir.exp, False), lambda: mapped(tir.exp, True)),
    "test.zeros": Intrinsic((2, 2), lambda: zeros(False), lambda: zeros(True)),
}


def registered(name: str) -> TensorIntrin:
    made = INTRINSICS[name]
    return TensorIntrin.register(name, made.desc(), made.impl(), **made.options)
