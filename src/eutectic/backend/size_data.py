"""Sizes of the IR as the runtime's data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    LogicalBinary,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from eutectic.runtime.sizes import Size, SizeExpr
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError

_NAMES: Final[dict[type[PrimExpr], str]] = {
    Add: "add",
    Sub: "sub",
    Mul: "mul",
    FloorDiv: "floordiv",
    FloorMod: "floormod",
    TruncDiv: "truncdiv",
    TruncMod: "truncmod",
    Min: "min",
    Max: "max",
    EQ: "eq",
    NE: "ne",
    LT: "lt",
    LE: "le",
    GT: "gt",
    GE: "ge",
    And: "and",
    Or: "or",
}
_KINDS: Final = {name: kind for kind, name in _NAMES.items()}


@deep
def size_data(value: PrimExpr, names: Mapping[Var, str]) -> Size:
    """An integer expression as data.

    Args:
        value: The expression.
        names: Names of its variables.

    Raises:
        CodegenError: it has a part that sizes do not have.
    """
    match value:
        case IntImm():
            return value.value
        case Var():
            return names[value]
        case Not():
            return SizeExpr("not", (size_data(value.a, names),))
        case Select():
            parts = (value.condition, value.true_value, value.false_value)
            return SizeExpr("select", tuple(size_data(part, names) for part in parts))
        case Cast():
            return _converted(value, size_data(value.value, names))
        case BinaryExpr() | Comparison() | LogicalBinary() if type(value) in _NAMES:
            return SizeExpr(_NAMES[type(value)], (size_data(value.a, names), size_data(value.b, names)))
        case _:
            raise CodegenError(f"a size is computed by {type(value).__name__}, which is no operation on integers")


def _converted(cast: Cast, value: Size) -> Size:
    if cast.dtype == "bool":
        return SizeExpr("ne", (value, 0))
    bits = 8 * item_bytes(cast.dtype)
    if cast.dtype.startswith("uint"):
        return SizeExpr("wrap_unsigned", (value, bits))
    if cast.dtype.startswith("int"):
        return value if bits == 64 else SizeExpr("wrap", (value, bits))
    raise CodegenError(f"a size is converted to {cast.dtype}, which is no integer")


@deep
def size_expr(size: Size, values: Mapping[str, PrimExpr]) -> PrimExpr:
    """Inverse of `size_data`.

    Args:
        size: The size.
        values: What its names stand for.

    Raises:
        KeyError: it has another name.
        CodegenError: it has an operation that only comes from a conversion.
    """
    if isinstance(size, int):
        return IntImm("int64", size)
    if isinstance(size, str):
        return values[size]
    parts = [size_expr(part, values) for part in size.parts]
    if size.op == "not":
        return Not(*parts)
    if size.op == "select":
        return Select(*parts)
    if size.op not in _KINDS:
        raise CodegenError(f"the operation {size.op!r} of a size has no expression of its own")
    return _KINDS[size.op](*parts)
