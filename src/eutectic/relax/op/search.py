"""Places that data decides, and elements at such places: bucketize, nonzero, unique, multinomial_from_uniform.

How many elements `nonzero` and `unique` have is known when the program runs; the runtime computes them in NumPy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, PrimValue
from eutectic.relax.op.binary import less, less_equal
from eutectic.relax.op.composed import composed
from eutectic.relax.op.create import InitAttrs
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.index import take
from eutectic.relax.op.numerics import Array, cast, widen
from eutectic.relax.op.reduce import sum as sum_of
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.reshape import expand_dims
from eutectic.relax.op.scan import cumsum
from eutectic.relax.op.shapes import axis_of, differ, dims_text, dtype_option, int_of, tensor_info
from eutectic.relax.op.ternary import clip
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

_BUCKETIZE: Final = define_op("relax.bucketize", arity=2)
_NONZERO: Final = define_op("relax.nonzero", arity=1)
_UNIQUE: Final = define_op("relax.unique", arity=1)
_MULTINOMIAL: Final = define_op("relax.multinomial_from_uniform", arity=3)


@node("relax.attrs.BucketizeAttrs")
class BucketizeAttrs(Attrs):
    """Whether the result is int32, and whether a bucket has its lower boundary instead of its upper one."""

    out_int32: bool = False
    right: bool = False


def bucketize(
    input_tensor: Expr, boundaries: Expr, out_int32: bool = False, right: bool = False, *, span: Any = None
) -> Call:
    """The number of the interval that each element is in.

    Args:
        input_tensor: Numbers of any shape.
        boundaries: `(n,)`, ascending, of the same dtype.
        out_int32: Whether the result is int32 instead of int64.
        right: Whether an element equal to a boundary is above it.
        span: Python source of the call, for errors.

    Returns:
        Shape of `input_tensor`, integers from 0 to `n`.

    Raises:
        TypeInferenceError: boundaries with more than one axis, or of another dtype.

    Reference: TVM relax.bucketize; torch.bucketize.
    """
    return call(_BUCKETIZE, input_tensor, boundaries, attrs=BucketizeAttrs(bool(out_int32), bool(right)), span=span)


def _check_bucketize(c: Call) -> StructInfo | None:
    info, boundaries = tensor_args(c)
    if boundaries.ndim not in (-1, 1) or (info.dtype and boundaries.dtype and info.dtype != boundaries.dtype):
        refuse(
            c,
            f"bucketize needs a vector of {info.dtype} as boundaries, got "
            f"{dims_text(boundaries.dims)} of {boundaries.dtype}",
        )
    dtype = "int32" if attrs_of(c, BucketizeAttrs).out_int32 else "int64"
    return None if info.dims is not None and boundaries.ndim == 1 else tensor_info(info.dims, dtype, info.ndim)


def _bucketize(c: Call) -> Expr:
    attrs, (info, _) = attrs_of(c, BucketizeAttrs), tensor_args(c)
    below = (less_equal if attrs.right else less)(c.args[1], expand_dims(c.args[0], info.ndim))
    return sum_of(astype(below, "int32" if attrs.out_int32 else "int64"), info.ndim)


composed(_BUCKETIZE, _bucketize, _check_bucketize)


@_BUCKETIZE.reference
def _reference_bucketize(attrs: BucketizeAttrs, x: Array, boundaries: Array) -> Array:
    wide, edges = widen(x), widen(boundaries)
    below = edges <= wide[..., None] if attrs.right else edges < wide[..., None]
    return cast(below.sum(-1), "int32" if attrs.out_int32 else "int64")


def nonzero(x: Expr, *, span: Any = None) -> Call:
    """The places of the elements that are not zero, in C order.

    Args:
        x: At least one axis; any dtype.
        span: Python source of the call, for errors.

    Returns:
        `(ndim, count)`, int64, as many columns as there are such elements.

    Raises:
        TypeInferenceError: `x` is no tensor.

    Reference: TVM relax.nonzero; numpy.nonzero.
    """
    return call(_NONZERO, x, span=span)


@_NONZERO.infer
def _infer_nonzero(c: Call) -> TensorStructInfo:
    tensor_args(c)
    return tensor_info(None, "int64", 2)


@_NONZERO.reference
def _reference_nonzero(attrs: None, x: Array) -> Array:
    return cast(np.stack(np.nonzero(np.atleast_1d(x))), "int64")


@node("relax.attrs.UniqueAttrs")
class UniqueAttrs(Attrs):
    """The order, what is returned besides the elements, and the axis whose slices are compared."""

    sorted: bool = True
    return_index: bool = False
    return_inverse: bool = False
    return_counts: bool = False
    axis: int | None = None


def unique(
    x: Expr,
    sorted: bool | Expr = True,
    return_index: bool | Expr = False,
    return_inverse: bool | Expr = False,
    return_counts: bool | Expr = False,
    axis: int | Expr | None = None,
    *,
    span: Any = None,
) -> Call:
    """The different elements of a tensor, or slices of it.

    Args:
        x: Any shape; numbers or bool.
        sorted: Whether in ascending order; else in the order in which they are met.
        return_index: Whether to return the place of the first of each.
        return_inverse: Whether to return the number of each element of `x` among the different ones.
        return_counts: Whether to return how often each is there.
        axis: The axis whose slices are compared; None compares elements.
        span: Python source of the call, for errors.

    Returns:
        The elements, `(count,)` or slices along `axis`, dtype of `x`; in a tuple with each of the others that was
        asked for, int64.

    Raises:
        TypeInferenceError: no such axis.

    Reference: TVM relax.unique; numpy.unique.
    """
    ordered, index, inverse, counts = (
        bool(_plain(flag)) for flag in (sorted, return_index, return_inverse, return_counts)
    )
    place = None if axis is None else int_of(_plain(axis), "axis")
    return call(_UNIQUE, x, attrs=UniqueAttrs(ordered, index, inverse, counts, place), span=span)


def _plain(value: Any) -> Any:
    return getattr(value.value, "value", value.value) if isinstance(value, PrimValue) else value


@_UNIQUE.infer
def _infer_unique(c: Call) -> StructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, UniqueAttrs)
    if attrs.axis is not None and info.ndim >= 0:
        axis_of(c, attrs.axis, info.ndim)
    values = tensor_info(None, info.dtype, 1 if attrs.axis is None else info.ndim)
    extra = [attrs.return_index, attrs.return_inverse, attrs.return_counts]
    if not any(extra):
        return values
    return TupleStructInfo((values, *(tensor_info(None, "int64", 1) for asked in extra if asked)))


@_UNIQUE.reference
def _reference_unique(attrs: UniqueAttrs, x: Array) -> Any:
    values, index, inverse, counts = np.unique(widen(x), True, True, True, axis=attrs.axis)
    inverse = inverse.reshape(-1)
    if not attrs.sorted:
        order = np.argsort(index, kind="stable")
        values = np.take(values, order, axis=attrs.axis or 0)
        index, counts, inverse = index[order], counts[order], np.argsort(order)[inverse]
    values = values.astype(x.dtype)
    asked = (attrs.return_index, attrs.return_inverse, attrs.return_counts)
    extra = [cast(part, "int64") for part, wanted in zip((index, inverse, counts), asked, strict=True) if wanted]
    return (values, *extra) if extra else values


def multinomial_from_uniform(
    prob: Expr, uniform_sample: Expr, sample_indices: Expr, dtype: str = "int64", *, span: Any = None
) -> Call:
    """A number drawn for each sample, with the probabilities of a row.

    Args:
        prob: `(rows, n)`, floats; each row adds up to one.
        uniform_sample: `(samples, 1)`, of the same dtype, in `[0, 1)`.
        sample_indices: `(samples, 1)`, integers: the row of each sample.
        dtype: An integer dtype, for the result.
        span: Python source of the call, for errors.

    Returns:
        `(samples, 1)`, `dtype`: the first number up to which the probabilities add up to more than the sample.

    Raises:
        TypeInferenceError: other shapes, or two dtypes.

    Reference: TVM relax.multinomial_from_uniform.
    """
    attrs = InitAttrs(dtype_option(dtype))
    return call(_MULTINOMIAL, prob, uniform_sample, sample_indices, attrs=attrs, span=span)


def _check_multinomial(c: Call) -> StructInfo | None:
    prob, sample, rows = tensor_args(c)
    if not is_float(prob.dtype) or prob.dtype != sample.dtype or is_float(rows.dtype):
        refuse(c, f"multinomial_from_uniform of {prob.dtype}, {sample.dtype} and {rows.dtype}")
    if any(info.ndim not in (-1, 2) for info in (prob, sample, rows)):
        refuse(c, "multinomial_from_uniform needs three matrices")
    if sample.dims is None or rows.dims is None or prob.dims is None:
        return tensor_info(sample.dims, attrs_of(c, InitAttrs).dtype, 2)
    if differ(sample.dims[0], rows.dims[0]):
        refuse(c, f"multinomial_from_uniform of {dims_text(sample.dims)} samples with {dims_text(rows.dims)} rows")
    return None


def _multinomial(c: Call) -> Expr:
    prob, sample, rows = c.args
    totals = take(cumsum(prob, 1), sum_of(rows, 1), 0)
    (info, _, _) = tensor_args(c)
    assert info.dims is not None
    reached = astype(less_equal(totals, sample), attrs_of(c, InitAttrs).dtype)
    return _at_most(sum_of(reached, 1, True), info)


def _at_most(count: Expr, info: TensorStructInfo) -> Expr:
    """Rounding may leave the last sum below the sample, which then is of the last number."""
    assert info.dims is not None
    last = getattr(info.dims[1], "value", None)
    return clip(count, 0, last - 1) if isinstance(last, int) else count


composed(_MULTINOMIAL, _multinomial, _check_multinomial)


@_MULTINOMIAL.reference
def _reference_multinomial(attrs: InitAttrs, prob: Array, sample: Array, rows: Array) -> Array:
    totals = cast(np.cumsum(prob.astype(np.float64), axis=1), prob.dtype.name)[rows[:, 0]]
    return cast(np.minimum((totals <= sample).sum(1, keepdims=True), prob.shape[1] - 1), attrs.dtype)
