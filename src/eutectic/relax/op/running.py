"""Running maxima, minima and logarithms of sums of exponentials along an axis: cummax, cummin, logcumsumexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.op.lowering import own_sizes
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.shapes import axis_of, int_of, like
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.topi.running import logcumsumexp_program, running_extreme_program

_LOGCUMSUMEXP: Final = define_op("relax.logcumsumexp", arity=1, fusion="opaque")


@node("relax.attrs.RunningAttrs")
class RunningAttrs(Attrs):
    """The axis."""

    axis: int = -1


class RunningConstructor(Protocol):
    """A constructor of a running maximum or minimum."""

    def __call__(self, data: Expr, axis: int = -1, *, span: Any = None) -> Call:
        """The extremes of `data`."""
        ...


def _extreme(name: str, is_new: Callable[[Array, Array], Array], summary: str) -> RunningConstructor:
    """Define a running maximum or minimum and return its constructor."""
    op = define_op(f"relax.{name}", arity=1, fusion="opaque")

    def constructor(data: Expr, axis: int = -1, *, span: Any = None) -> Call:
        return call(op, data, attrs=RunningAttrs(int_of(axis, "axis")), span=span)

    @op.infer
    def _infer(c: Call) -> StructInfo:
        info = _along(c)
        return TupleStructInfo((like(info), like(info, "int64")))

    @op.reference
    def _reference(attrs: RunningAttrs, x: Array) -> Any:
        wide = np.moveaxis(widen(x), attrs.axis, 0)
        places = np.zeros(wide.shape, np.int64)
        for k in range(1, len(wide)):
            held = np.take_along_axis(wide, places[k - 1 : k], 0)[0]
            found = np.isnan(wide[k]) | (~np.isnan(held) & is_new(wide[k], held))
            places[k] = np.where(found, k, places[k - 1])
        places = np.moveaxis(places, 0, attrs.axis)
        return np.take_along_axis(x, places, attrs.axis), cast(places, "int64")

    @op.legalize
    def _legalize(builder: Builder, c: Call) -> Expr:
        (info,) = tensor_args(c)
        if info.dims is None or not info.dtype:
            return c
        program = running_extreme_program(name, own_sizes(info.dims, "n"), info.dtype, attrs_of(c, RunningAttrs).axis)
        assert isinstance(c.struct_info, TupleStructInfo)
        return call_tir(builder.add_func(program, name), c.args, c.struct_info.fields)

    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        data: At least one axis; any dtype.
        axis: The axis.
        span: Python source of the call, for errors.

    Returns:
        A tuple of the values, with shape and dtype of `data`, and their places along the axis, int64. Of equal
        elements it is the last one; a NaN is handed on, and the last NaN's place with it.

    Raises:
        TypeInferenceError: no such axis.

    Reference: torch.{name}.
    """
    return constructor


def _along(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    if info.ndim >= 0:
        axis_of(c, attrs_of(c, RunningAttrs).axis, info.ndim)
    return info


cummax = _extreme("cummax", np.greater_equal, "The largest of all elements up to each position, and where it is.")
cummin = _extreme("cummin", np.less_equal, "The smallest of all elements up to each position, and where it is.")


def logcumsumexp(data: Expr, axis: int = -1, *, span: Any = None) -> Call:
    """Logarithms of the sums of the exponentials of all elements up to each position.

    Args:
        data: At least one axis; floats.
        axis: The axis.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: no such axis, or no floats.

    Accuracy: computed in float64 and rounded at the end.
    Reference: torch.logcumsumexp.
    """
    return call(_LOGCUMSUMEXP, data, attrs=RunningAttrs(int_of(axis, "axis")), span=span)


@_LOGCUMSUMEXP.infer
def _infer_logcumsumexp(c: Call) -> TensorStructInfo:
    info = _along(c)
    if info.dtype and not is_float(info.dtype):
        refuse(c, f"logcumsumexp of {info.dtype}, which is no float dtype", help="cast it with astype")
    return like(info)


@_LOGCUMSUMEXP.reference
def _reference_logcumsumexp(attrs: RunningAttrs, x: Array) -> Array:
    wide = x.astype(np.float64)
    return cast(np.logaddexp.accumulate(wide, axis=attrs.axis), dtype_of(x))


@_LOGCUMSUMEXP.legalize
def _legalize_logcumsumexp(builder: Builder, c: Call) -> Expr:
    (info,) = tensor_args(c)
    if info.dims is None or not info.dtype or c.struct_info is None:
        return c
    program = logcumsumexp_program(own_sizes(info.dims, "n"), info.dtype, attrs_of(c, RunningAttrs).axis)
    return call_tir(builder.add_func(program, "logcumsumexp"), c.args, c.struct_info)
