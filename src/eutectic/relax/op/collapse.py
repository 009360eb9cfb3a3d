"""Sums that undo a broadcast: collapse_sum_to, collapse_sum_like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr, ShapeStructInfo, StructInfo, as_shape
from eutectic.relax.expr import Call
from eutectic.relax.op.composed import composed
from eutectic.relax.op.numerics import Array, cast, dtype_of, exact
from eutectic.relax.op.reduce import sum as sum_of
from eutectic.relax.op.registry import call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import Dims, differ, dims_text, is_one, same, tensor_info

_TO: Final = define_op("relax.collapse_sum_to", arity=2, fusion="reduction")
_LIKE: Final = define_op("relax.collapse_sum_like", arity=2, fusion="reduction")


def collapse_sum_to(data: Expr, shape: Sequence[PrimExpr | int] | Expr, *, span: Any = None) -> Call:
    """The sum over the axes along which a smaller tensor would be repeated.

    Args:
        data: Numbers of any shape.
        shape: Sizes that broadcast to those of `data`.
        span: Python source of the call, for errors.

    Returns:
        `shape`, dtype of `data`.

    Raises:
        TypeInferenceError: `shape` does not broadcast to that of `data`.

    Accuracy: floats are summed in float64 and rounded once; integers wrap around.
    Reference: TVM relax.collapse_sum_to.
    """
    return call(_TO, data, as_shape(shape), span=span)


def collapse_sum_like(data: Expr, collapse_target: Expr, *, span: Any = None) -> Call:
    """The sum over the axes along which a tensor would be repeated.

    Args:
        data: Numbers of any shape.
        collapse_target: A tensor whose shape broadcasts to that of `data`; its elements are not read.
        span: Python source of the call, for errors.

    Returns:
        Shape of `collapse_target`, dtype of `data`.

    Raises:
        TypeInferenceError: the shape does not broadcast to that of `data`.

    Accuracy: floats are summed in float64 and rounded once; integers wrap around.
    Reference: TVM relax.collapse_sum_like.
    """
    return call(_LIKE, data, collapse_target, span=span)


def _target(c: Call) -> tuple[Dims | None, int]:
    info = c.args[1].struct_info
    if isinstance(info, ShapeStructInfo):
        return info.values, info.ndim
    if c.op.name == _TO.op.name:
        refuse(c, "argument 1 of collapse_sum_to must be a shape", help="pass the sizes as a tuple")
    (target,) = tensor_args(c, (1,))
    return target.dims, target.ndim


def _check(c: Call) -> StructInfo | None:
    (info,) = tensor_args(c, (0,))
    wanted, ndim = _target(c)
    if info.dims is None or wanted is None:
        return tensor_info(wanted, info.dtype, ndim)
    if len(wanted) > len(info.dims) or any(
        differ(a, b) and not is_one(b) for a, b in zip(info.dims[::-1], wanted[::-1], strict=False)
    ):
        refuse(c, f"{short_name(c)}: {dims_text(wanted)} does not broadcast to {dims_text(info.dims)}")
    certain = all(is_one(b) or same(a, b) for a, b in zip(info.dims[::-1], wanted[::-1], strict=False))
    return None if certain else tensor_info(wanted, info.dtype)


def _sum(c: Call) -> Expr:
    (info,) = tensor_args(c, (0,))
    wanted, _ = _target(c)
    assert info.dims is not None and wanted is not None
    extra = len(info.dims) - len(wanted)
    repeated = [extra + i for i, size in enumerate(wanted) if is_one(size) and not is_one(info.dims[extra + i])]
    axes = [*range(extra), *repeated]
    kept = sum_of(c.args[0], axes, True) if axes else c.args[0]
    return reshape(kept, wanted)


composed(_TO, _sum, _check)
composed(_LIKE, _sum, _check)


def _reference(x: Array, shape: tuple[int, ...]) -> Array:
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, size in enumerate(shape) if size != x.shape[extra + i])
    wide = exact(x)
    return cast(np.sum(wide, axis=axes, dtype=wide.dtype, keepdims=True).reshape(shape), dtype_of(x))


@_TO.reference
def _reference_to(attrs: None, x: Array, shape: tuple[int, ...]) -> Array:
    return _reference(x, shape)


@_LIKE.reference
def _reference_like(attrs: None, x: Array, target: Array) -> Array:
    return _reference(x, target.shape)
