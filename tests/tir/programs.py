"""Small tensor programs that the tests of this folder and of the printer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eutectic import tir
from eutectic.tir import (
    DETECT_ACCESS,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    For,
    IterVar,
    PrimFunc,
    Range,
    Stmt,
    Var,
    complete,
)

Body = Callable[..., Stmt]


def axis(name: str, extent: Any, kind: str = "S") -> IterVar:
    return IterVar(Range(extent), name, kind)


def nest(names: str, extents: tuple[Any, ...], body: Callable[..., Stmt], dtype: str = "int32") -> Stmt:
    """Serial loops around a body that takes the loop variables."""
    loops = [Var(name, dtype) for name in names]
    stmt = body(*loops)
    for var, extent in zip(reversed(loops), reversed(extents), strict=True):
        stmt = For(var, 0, extent, "serial", stmt)
    return stmt


def block(
    name: str, axes: dict[str, tuple[Any, str]], values: Any, body: Body, init: Body | None = None, **options: Any
) -> BlockRealize:
    """A block whose regions are left out; `body` and `init` take the axes."""
    iter_vars = [axis(n, extent, kind) for n, (extent, kind) in axes.items()]
    inside = [v.var for v in iter_vars]
    predicate = options.pop("predicate", True)
    return BlockRealize(
        values,
        predicate,
        Block(
            iter_vars,
            (),
            (),
            name,
            body(*inside),
            None if init is None else init(*inside),
            annotations={DETECT_ACCESS: 3, **options.pop("annotations", {})},
            **options,
        ),
    )


def matmul(prefix: str = "", size: Any = 16, dtype: str = "float32") -> PrimFunc:
    """`C = A @ B`, with names that begin with `prefix`."""
    a, b, c = (Buffer(prefix + name, (size, size), dtype) for name in "ABC")

    def update(i: Var, j: Var, k: Var) -> Stmt:
        return BufferStore(c, c[i, j] + a[i, k] * b[k, j], (i, j))

    def body(i: Var, j: Var, k: Var) -> Stmt:
        axes = {f"{prefix}vi": (size, "S"), f"{prefix}vj": (size, "S"), f"{prefix}vk": (size, "R")}
        return block(prefix + "matmul", axes, (i, j, k), update, lambda i, j, k: BufferStore(c, 0, (i, j)))

    index = "int32" if isinstance(size, int) else size.dtype
    return complete(PrimFunc((a, b, c), nest("ijk", (size,) * 3, body, index)))


def softmax() -> PrimFunc:
    """A softmax along rows in four blocks."""
    x, y = Buffer("x", (4, 8)), Buffer("y", (4, 8))
    top, e, total = Buffer("top", (4,)), Buffer("e", (4, 8)), Buffer("total", (4,))
    reduced = {"vi": (4, "S"), "vk": (8, "R")}
    mapped = {"vi": (4, "S"), "vj": (8, "S")}

    def store(buffer: Buffer, value: Body, rank: int) -> Body:
        return lambda *at: BufferStore(buffer, value(*at), at[:rank])

    stages = (
        ("top", reduced, store(top, lambda i, k: tir.max(top[i], x[i, k]), 1), tir.min_value("float32"), top),
        ("e", mapped, store(e, lambda i, j: tir.exp(x[i, j] - top[i]), 2), None, None),
        ("total", reduced, store(total, lambda i, k: total[i] + e[i, k], 1), 0.0, total),
        ("y", mapped, store(y, lambda i, j: e[i, j] / total[i], 2), None, None),
    )
    stmts = []
    for name, axes, body, first, into in stages:
        init = None if into is None else (lambda i, k, into=into, first=first: BufferStore(into, first, (i,)))
        stmts.append(nest("ij", (4, 8), lambda i, j, n=name, a=axes, b=body, init=init: block(n, a, (i, j), b, init)))
    return complete(PrimFunc((x, y), tir.seq(*stmts)), (top, e, total))
