"""Sizes of operator results: broadcasting, axes, windows, and options given once or per axis.

All functions work on scalar expressions, so that symbolic sizes pass through
every operator; what cannot be shown stays unknown and is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final, NoReturn, TypeAlias

from eutectic.arith import prove_equal, prove_unequal, simplify
from eutectic.ir.dtype import KNOWN
from eutectic.ir.prim_expr import BinaryExpr, IntImm, PrimExpr, Var, as_prim
from eutectic.ir.span import caller_span
from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Call
from eutectic.relax.op.registry import refuse, short_name
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import TypeInferenceError
from eutectic.support.shown import clipped
from eutectic.support.spelling import did_you_mean

Dims: TypeAlias = tuple[PrimExpr, ...]


_SYMBOLS: Final = {
    "tir.Add": "+",
    "tir.Sub": "-",
    "tir.Mul": "*",
    "tir.FloorDiv": "//",
    "tir.FloorMod": "%",
}


def reject(message: str, *, help: str | None = None) -> NoReturn:
    """Raise a `TypeInferenceError` about an option, before there is a call to speak of."""
    span = caller_span()
    raise TypeInferenceError(clipped(message), at=span.excerpt() if span else None, help=help)


def tensor_info(dims: Iterable[PrimExpr | int] | None, dtype: str, ndim: int = -1) -> TensorStructInfo:
    """A tensor of the given sizes; with `dims` None only its rank is stated."""
    if dims is None:
        return TensorStructInfo(None, dtype, ndim=ndim)
    return TensorStructInfo(ShapeExpr(tuple(as_prim(size) for size in dims)), dtype)


def like(info: TensorStructInfo, dtype: str | None = None) -> TensorStructInfo:
    """A tensor of the shape of `info`, of another dtype if given."""
    return TensorStructInfo(info.shape, info.dtype if dtype is None else dtype, info.vdevice, info.ndim)


@deep
def size_text(size: PrimExpr) -> str:
    """A size as people write it."""
    if isinstance(size, IntImm):
        return str(size.value)
    if isinstance(size, Var):
        return size.name
    if isinstance(size, BinaryExpr):
        left, right = size_text(size.a), size_text(size.b)
        symbol = _SYMBOLS.get(size.type_key)
        return f"({left} {symbol} {right})" if symbol else f"{type(size).__name__.lower()}({left}, {right})"
    return size.script()


def dims_text(dims: Sequence[PrimExpr] | None) -> str:
    """A shape as a Python tuple."""
    if dims is None:
        return "an unknown shape"
    return "(" + ", ".join(map(size_text, dims)) + ("," if len(dims) == 1 else "") + ")"


def dtype_option(dtype: str | None) -> str:
    """An optional dtype, with "void" for none.

    Raises:
        TypeInferenceError: the dtype is unknown.
    """
    if dtype is None or dtype in ("", "void"):
        return "void"
    if dtype not in KNOWN:
        reject(
            f"unknown dtype {dtype!r}", help=did_you_mean(dtype, KNOWN) or f"choose one of {', '.join(sorted(KNOWN))}"
        )
    return dtype


def static(size: PrimExpr) -> int | None:
    """The size as a Python int, or None when it is symbolic."""
    return size.value if isinstance(size, IntImm) else None


def static_dims(dims: Sequence[PrimExpr] | None) -> tuple[int, ...] | None:
    """All sizes as Python ints, or None when one is symbolic."""
    if dims is None or not all(isinstance(size, IntImm) for size in dims):
        return None
    return tuple(size.value for size in dims if isinstance(size, IntImm))


def product(dims: Iterable[PrimExpr]) -> PrimExpr:
    """Number of elements."""
    return simplify(prod(dims, start=as_prim(1)))


def differ(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether the two sizes are provably different."""
    return prove_unequal(a, b)


def same(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether the two sizes are provably equal."""
    return prove_equal(a, b)


def is_one(size: PrimExpr) -> bool:
    """Whether the size is provably one."""
    return isinstance(simplify(size), IntImm) and static(simplify(size)) == 1


def broadcast(c: Call, infos: Sequence[TensorStructInfo]) -> tuple[Dims | None, int]:
    """Sizes and rank of the broadcast of several tensors by NumPy's rule.

    Args:
        c: The call, for the error.
        infos: Struct info of the tensors.

    Returns:
        (sizes or None when one cannot be shown, rank or -1).

    Raises:
        TypeInferenceError: two static sizes differ and neither is 1.
    """
    if any(info.ndim < 0 for info in infos):
        return None, -1
    ndim = max(info.ndim for info in infos)
    merged: list[PrimExpr | None] = [None] * ndim
    for place in range(1, ndim + 1):
        sizes = [info.dims[-place] if info.dims is not None else None for info in infos if info.ndim >= place]
        merged[-place] = _broadcast_axis(c, sizes, infos)
    known = tuple(size for size in merged if size is not None)
    return (known if len(known) == ndim else None), ndim


def _broadcast_axis(c: Call, sizes: list[PrimExpr | None], infos: Sequence[TensorStructInfo]) -> PrimExpr | None:
    result: PrimExpr | None = as_prim(1)
    for size in sizes:
        if size is None or result is None:
            result = None
        elif is_one(result):
            result = size
        elif is_one(size) or same(result, size):
            pass
        elif static(result) is not None and static(size) is not None:
            shapes = " and ".join(dims_text(info.dims) for info in infos)
            refuse(
                c,
                f"{short_name(c)} cannot broadcast {shapes}: {static(result)} against {static(size)}",
                help="sizes must be equal or 1, counted from the last axis; reshape or expand_dims one side",
            )
        else:
            result = None
    return result


def axis_of(c: Call, axis: int, ndim: int) -> int:
    """`axis` counted from zero.

    Raises:
        TypeInferenceError: there is no such axis.
    """
    if not -ndim <= axis < ndim:
        refuse(
            c,
            f"axis {axis} of {short_name(c)} is out of range for a tensor with {ndim} axes",
            help=f"give an axis from {-ndim} to {ndim - 1}" if ndim else "a tensor without axes has none to choose",
        )
    return axis % ndim


def axes_of(c: Call, axes: Iterable[int], ndim: int) -> tuple[int, ...]:
    """All `axes` counted from zero.

    Raises:
        TypeInferenceError: one does not exist, or is given twice.
    """
    stated = tuple(axes)
    resolved = tuple(axis_of(c, axis, ndim) for axis in stated)
    if len(set(resolved)) != len(resolved):
        refuse(c, f"{short_name(c)} got the same axis twice: {list(stated)}", help="give each axis once")
    return resolved


def int_of(value: Any, name: str) -> int:
    """An option as a Python int.

    Raises:
        TypeInferenceError: it is not an integer.
    """
    if isinstance(value, IntImm):
        return value.value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        reject(f"{name} must be an integer, got {value!r}")
    return int(value.__index__())


def ints_of(value: Any, name: str) -> tuple[int, ...]:
    """One integer or several, as a tuple of Python ints."""
    if isinstance(value, (list, tuple)) or (hasattr(value, "__iter__") and not isinstance(value, PrimExpr)):
        return tuple(int_of(item, name) for item in value)
    return (int_of(value, name),)


def per_axis(value: Any, count: int, name: str, *, least: int = 1) -> tuple[int, ...]:
    """An option given once or once per spatial axis.

    Args:
        value: One integer, or a sequence of one or `count`.
        count: Number of spatial axes.
        name: Name of the option.
        least: Smallest legal value.

    Raises:
        TypeInferenceError: another number of values, or one below `least`.
    """
    values = ints_of(value, name)
    if len(values) not in (1, count):
        reject(f"{name} has {len(values)} values for {count} spatial axes", help=f"give 1 or {count} values")
    if min(values) < least:
        reject(f"{name} must be at least {least}, got {list(values)}")
    return values * count if len(values) == 1 else values


def paddings(value: Any, count: int) -> tuple[int, ...]:
    """Padding before each axis, then after each: one value, one per axis, or all `2 * count`.

    Raises:
        TypeInferenceError: another number of values, or a negative one.
    """
    values = ints_of(value, "padding")
    if len(values) not in (1, count, 2 * count):
        reject(f"padding has {len(values)} values for {count} spatial axes", help=f"give 1, {count} or {2 * count}")
    if min(values) < 0:
        reject(f"padding must not be negative, got {list(values)}", help="slice the input with strided_slice")
    if len(values) == 2 * count:
        return values
    return values * 2 * (count if len(values) == 1 and count > 1 else 1)


def ceil_div(a: PrimExpr, b: int) -> PrimExpr:
    """`a / b` rounded up."""
    return (a + (b - 1)) // b


def at_least(c: Call, size: PrimExpr, least: int, what: str, help: str) -> PrimExpr:
    """`size` simplified, refused when it is a constant below `least`."""
    size = simplify(size)
    known = static(size)
    if known is not None and known < least:
        refuse(c, f"{short_name(c)}: {what} would be {known}", help=help)
    return size
