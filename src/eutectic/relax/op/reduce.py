"""Reductions over axes: sum, mean, max, min, prod, variance, std, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, dtype_of, exact, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import not_along_first
from eutectic.relax.op.shapes import axes_of, axis_of, dims_text, int_of, ints_of, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo


@node("relax.attrs.StatisticalAttrs")
class StatisticalAttrs(Attrs):
    """The axes that go (None means all), and whether they stay with size one."""

    axis: tuple[int, ...] | None = None
    keepdims: bool = False


@node("relax.attrs.ArgReduceAttrs")
class ArgReduceAttrs(Attrs):
    """The axis that is searched (None means all elements), and whether it stays with size one."""

    axis: int | None = None
    keepdims: bool = False


class ReductionConstructor(Protocol):
    """A constructor of a reduction."""

    def __call__(
        self, x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, span: Any = None
    ) -> Call:
        """Reduce `x`."""
        ...


class ArgReductionConstructor(Protocol):
    """A constructor of a search for an element."""

    def __call__(self, x: Expr, axis: int | None = None, keepdims: bool = False, *, span: Any = None) -> Call:
        """Search `x`."""
        ...


def _reduced(
    c: Call, info: TensorStructInfo, axes: tuple[int, ...] | None, keepdims: bool, dtype: str, empty: bool
) -> TensorStructInfo:
    """Struct info with `axes` reduced; `empty` says whether there is a result for no elements."""
    if info.ndim < 0:
        return tensor_info((), dtype) if axes is None and not keepdims else tensor_info(None, dtype)
    gone = tuple(range(info.ndim)) if axes is None else axes_of(c, axes, info.ndim)
    if info.dims is None:
        left = info.ndim if keepdims else info.ndim - len(gone)
        return tensor_info((), dtype) if left == 0 else tensor_info(None, dtype, left)
    if not empty and any(static(info.dims[axis]) == 0 for axis in gone):
        refuse(
            c,
            f"{short_name(c)} of {dims_text(info.dims)} over axes {list(gone)} has no elements to choose from",
            help="make sure that the reduced axes are not empty",
        )
    sizes = [1 if i in gone else size for i, size in enumerate(info.dims) if keepdims or i not in gone]
    return tensor_info(sizes, dtype)


def _options(attrs: StatisticalAttrs | ArgReduceAttrs) -> dict[str, Any]:
    return {"axis": attrs.axis, "keepdims": attrs.keepdims}


def _reduction(
    name: str,
    compute: Callable[[Array, tuple[int, ...] | None, bool], Array],
    summary: str,
    *,
    floats: bool = False,
    bools: bool = False,
    empty: bool = True,
) -> ReductionConstructor:
    """Define one reduction that keeps the dtype, and return its constructor."""
    op = define_op(f"relax.{name}", arity=1, fusion="reduction")
    wants = "a float dtype" if floats else "any dtype" if bools else "numbers"

    def constructor(
        x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, span: Any = None
    ) -> Call:
        attrs = StatisticalAttrs(None if axis is None else ints_of(axis, "axis"), bool(keepdims))
        return call(op, x, attrs=attrs, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        attrs = attrs_of(c, StatisticalAttrs)
        if (floats and info.dtype and not is_float(info.dtype)) or (info.dtype == "bool" and not bools):
            refuse(c, f"{short_name(c)} needs {wants}, got {info.dtype}", help="cast with astype first")
        return _reduced(c, info, attrs.axis, attrs.keepdims, info.dtype, empty)

    @op.separable
    def _separable(c: Call, batched: Sequence[bool]) -> bool:
        (info,) = tensor_args(c)
        return not_along_first(attrs_of(c, StatisticalAttrs).axis, info.ndim)

    @op.reference
    def _reference(attrs: StatisticalAttrs, x: Array) -> Array:
        return cast(compute(x, attrs.axis, attrs.keepdims), dtype_of(x))

    lower(op, getattr(topi, name), options=_options)
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        x: Any shape; {wants}.
        axis: The axes to reduce; None means all.
        keepdims: Whether the reduced axes stay with size one.
        span: Python source of the call, for errors.

    Returns:
        The other sizes, dtype of `x`.

    Raises:
        TypeInferenceError: another dtype, no such axis, or an axis given twice{"" if empty else ", or no elements"}.

    Accuracy: floats are summed in float64 and rounded once; integers wrap around.
    Reference: TVM relax.{name}.
    """
    return constructor


def _arg_reduction(name: str, compute: Callable[..., Any], summary: str) -> ArgReductionConstructor:
    """Define a search for the place of an element, and return its constructor."""
    op = define_op(f"relax.{name}", arity=1, fusion="reduction")

    def constructor(x: Expr, axis: int | None = None, keepdims: bool = False, *, span: Any = None) -> Call:
        attrs = ArgReduceAttrs(None if axis is None else int_of(axis, "axis"), bool(keepdims))
        return call(op, x, attrs=attrs, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        attrs = attrs_of(c, ArgReduceAttrs)
        if attrs.axis is not None and info.ndim >= 0:
            axis_of(c, attrs.axis, info.ndim)
        axes = None if attrs.axis is None else (attrs.axis,)
        return _reduced(c, info, axes, attrs.keepdims, "int64", empty=False)

    @op.reference
    def _reference(attrs: ArgReduceAttrs, x: Array) -> Array:
        return cast(compute(widen(x), axis=attrs.axis, keepdims=attrs.keepdims), "int64")

    lower(op, getattr(topi, name), options=_options)
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        x: Any shape and dtype.
        axis: The axis to search; None searches all elements in C order.
        keepdims: Whether the searched axes stay with size one.
        span: Python source of the call, for errors.

    Returns:
        The other sizes, dtype int64. Of several equal elements the first; a NaN wins.

    Raises:
        TypeInferenceError: no such axis, or no elements.

    Reference: TVM relax.{name}; numpy.{name}.
    """
    return constructor


def _sum(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return np.asarray(np.sum(exact(x), axis=axis, keepdims=keepdims, dtype=exact(x[:0] if x.ndim else x).dtype))


def _mean(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    total = _sum(x, axis, keepdims)
    count = x.size if axis is None else np.prod([x.shape[i] for i in axis], dtype=np.int64)
    return np.asarray(total / np.float64(count))


def _prod(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    wide = exact(x)
    return np.asarray(np.prod(wide, axis=axis, keepdims=keepdims, dtype=wide.dtype))


def _max(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return np.asarray(np.max(widen(x), axis=axis, keepdims=keepdims))


def _min(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return np.asarray(np.min(widen(x), axis=axis, keepdims=keepdims))


def _variance(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    wide = exact(x)
    return _mean(np.square(wide - _mean(wide, axis, True)), axis, keepdims)


def _std(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return np.asarray(np.sqrt(_variance(x, axis, keepdims)))


sum = _reduction("sum", _sum, "Sum; of no elements zero.")
mean = _reduction("mean", _mean, "Mean; of no elements NaN.", floats=True)
prod = _reduction("prod", _prod, "Product; of no elements one.")
max = _reduction("max", _max, "The largest element; NaN if there is one.", bools=True, empty=False)
min = _reduction("min", _min, "The smallest element; NaN if there is one.", bools=True, empty=False)
variance = _reduction("variance", _variance, "Mean squared distance from the mean (of the population).", floats=True)
std = _reduction("std", _std, "Square root of the variance (of the population).", floats=True)
argmax = _arg_reduction("argmax", np.argmax, "Place of the largest element.")
argmin = _arg_reduction("argmin", np.argmin, "Place of the smallest element.")
