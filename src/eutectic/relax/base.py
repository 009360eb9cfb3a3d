"""Roots of the graph dialect: `Expr` and `StructInfo`, and the shape classes that refer to each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eutectic.ir.node import Node, field, init_field, node
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.ir.span import Span
from eutectic.ir.structural import structural_equal


class StructInfo(Node):
    """What is known about a value before the program runs: dtype, shape, structure."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructInfo) and structural_equal(self, other)

    def __hash__(self) -> int:
        return hash(type(self).type_key)


@node("relax.Expr")
class Expr(Node):
    """Base of graph expressions.

    Attributes:
        struct_info: What is known about the value; None until it was inferred.
        span: Where in the user's source the value comes from.
    """

    struct_info: StructInfo | None = field(role="ignore", default=None, kw_only=True)
    span: Span | None = field(role="ignore", default=None, kw_only=True)

    @property
    def struct_info_(self) -> StructInfo | None:
        """The same as `struct_info`; TVM's spelling inside its C++-backed classes."""
        return self.struct_info


def dims(values: Iterable[Any]) -> tuple[PrimExpr, ...]:
    """Sizes as scalar expressions; Python integers become int64 constants."""
    return tuple(as_prim(value, "int64") for value in values)


@node("relax.ShapeStructInfo")
class ShapeStructInfo(StructInfo):
    """A shape value.

    Attributes:
        values: The sizes, or None when only the rank is known.
        ndim: Rank; -1 when unknown.
    """

    values: tuple[PrimExpr, ...] | None = None
    ndim: int = -1

    def __post_init__(self) -> None:
        if self.values is not None:
            init_field(self, "values", dims(self.values))
            init_field(self, "ndim", len(self.values))

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


@node("relax.ShapeExpr")
class ShapeExpr(Expr):
    """A shape literal; behaves like a tuple of sizes."""

    values: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        init_field(self, "values", dims(self.values))
        if self.struct_info is None:
            init_field(self, "struct_info", ShapeStructInfo(self.values))

    def __getitem__(self, index: int) -> PrimExpr:
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[PrimExpr]:
        return iter(self.values)

    @property
    def static(self) -> tuple[int, ...] | None:
        """The sizes as Python integers, or None when one is symbolic."""
        if all(isinstance(value, IntImm) for value in self.values):
            return tuple(int(value) for value in self.values)  # type: ignore[call-overload]  # all are IntImm
        return None


def as_shape(values: Any) -> ShapeExpr | Expr | None:
    """A shape argument as an expression: sequences become a `ShapeExpr`; expressions and None pass."""
    if values is None or isinstance(values, Expr):
        return values
    if isinstance(values, (int, PrimExpr)):
        return ShapeExpr(dims((values,)))
    return ShapeExpr(tuple(values))
