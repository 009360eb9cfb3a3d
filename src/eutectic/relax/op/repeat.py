"""Operators that repeat or reverse elements along an axis: repeat, tile, flip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, tensor_args
from eutectic.relax.op.shapes import axis_of, int_of, ints_of, like, per_axis, product, reject, tensor_info
from eutectic.relax.struct_info import TensorStructInfo

_repeat = define_op("relax.repeat", arity=1, fusion="injective")
_tile = define_op("relax.tile", arity=1, fusion="injective")
_flip = define_op("relax.flip", arity=1, fusion="injective")


@node("relax.attrs.RepeatAttrs")
class RepeatAttrs(Attrs):
    """How often each element is repeated along an axis; axis None flattens first."""

    repeats: int
    axis: int | None = None


@node("relax.attrs.TileAttrs")
class TileAttrs(Attrs):
    """How often the whole tensor is repeated, per axis, counted from the last."""

    repeats: tuple[int, ...]


@node("relax.attrs.FlipAttrs")
class FlipAttrs(Attrs):
    """The axis to reverse."""

    axis: int


def repeat(data: Expr, repeats: int, axis: int | None = None, *, span: Any = None) -> Call:
    """Each element several times in a row.

    Args:
        data: Any shape and dtype.
        repeats: How often; not negative.
        axis: Along which axis; None repeats the flattened elements.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `data`, that of `axis` times `repeats`.

    Raises:
        TypeInferenceError: `repeats` is negative or there is no such axis.

    Reference: TVM relax.repeat; numpy.repeat.
    """
    (count,) = per_axis(repeats, 1, "repeats", least=0)
    return call(_repeat, data, attrs=RepeatAttrs(count, None if axis is None else int_of(axis, "axis")), span=span)


@_repeat.infer
def _infer_repeat(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, RepeatAttrs)
    if attrs.axis is None:
        dims = None if info.dims is None else [simplify(product(info.dims) * attrs.repeats)]
        return tensor_info(dims, info.dtype, 1)
    if info.ndim < 0:
        return tensor_info(None, info.dtype)
    axis = axis_of(c, attrs.axis, info.ndim)
    if info.dims is None:
        return tensor_info(None, info.dtype, info.ndim)
    return tensor_info(
        [simplify(size * attrs.repeats) if i == axis else size for i, size in enumerate(info.dims)], info.dtype
    )


@_repeat.reference
def _reference_repeat(attrs: RepeatAttrs, data: Array) -> Array:
    return np.repeat(data, attrs.repeats, axis=attrs.axis)


def tile(data: Expr, repeats: int | Sequence[int], *, span: Any = None) -> Call:
    """The whole tensor several times along each axis.

    Args:
        data: Any shape and dtype.
        repeats: How often per axis, counted from the last; more than there are axes adds leading ones.
        span: Python source of the call, for errors.

    Returns:
        Each size times its repeats.

    Raises:
        TypeInferenceError: a number of repeats is negative.

    Reference: TVM relax.tile; numpy.tile.
    """
    values = ints_of(repeats, "repeats")
    if any(value < 0 for value in values):
        reject(f"tile with negative repeats {list(values)}", help="give numbers that are not negative")
    return call(_tile, data, attrs=TileAttrs(values), span=span)


@_tile.infer
def _infer_tile(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    repeats = attrs_of(c, TileAttrs).repeats
    if info.ndim < 0:
        return tensor_info(None, info.dtype)
    ndim = max(info.ndim, len(repeats))
    if info.dims is None:
        return tensor_info(None, info.dtype, ndim)
    sizes = (*[as_prim(1)] * (ndim - info.ndim), *info.dims)
    counts = (*[1] * (ndim - len(repeats)), *repeats)
    return tensor_info([simplify(size * count) for size, count in zip(sizes, counts, strict=True)], info.dtype)


@_tile.reference
def _reference_tile(attrs: TileAttrs, data: Array) -> Array:
    return np.tile(data, attrs.repeats)


def flip(data: Expr, axis: int, *, span: Any = None) -> Call:
    """`data` with one axis reversed.

    Args:
        data: Any shape and dtype.
        axis: The axis.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: there is no such axis.

    Reference: TVM relax.flip; numpy.flip.
    """
    return call(_flip, data, attrs=FlipAttrs(int_of(axis, "axis")), span=span)


@_flip.infer
def _infer_flip(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    axis = attrs_of(c, FlipAttrs).axis
    if info.ndim >= 0:
        axis_of(c, axis, info.ndim)
    return like(info)


@_flip.reference
def _reference_flip(attrs: FlipAttrs, data: Array) -> Array:
    return np.flip(data, attrs.axis)


lower(_repeat, topi.repeat, options=lambda attrs: {"repeats": attrs.repeats, "axis": attrs.axis})
lower(_tile, topi.tile, options=lambda attrs: {"reps": attrs.repeats})
lower(_flip, topi.flip, options=lambda attrs: {"axis": attrs.axis})
