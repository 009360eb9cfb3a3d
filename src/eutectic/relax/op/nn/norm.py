"""Normalisations of elements along axes: batch_norm, layer_norm, rms_norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.nn.norm_parts import affine, along, check, legalize_affine, normalised
from eutectic.relax.op.numerics import Array, cast, dtype_of, exact, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, tensor_args
from eutectic.relax.op.separable import not_along_first, only_first
from eutectic.relax.op.shapes import int_of, ints_of, like
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo
from eutectic.te import Tensor

_batch_norm = define_op("relax.nn.batch_norm", arity=5, fusion="opaque")
_layer_norm = define_op("relax.nn.layer_norm", arity=3, fusion="opaque")
_rms_norm = define_op("relax.nn.rms_norm", arity=2, fusion="opaque")


@node("relax.attrs.BatchNormAttrs")
class BatchNormAttrs(Attrs):
    """Options of batch_norm; see its constructor."""

    axis: int
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    momentum: float = 0.1
    training: bool = True


@node("relax.attrs.LayerNormAttrs")
class LayerNormAttrs(Attrs):
    """Options of layer_norm; see its constructor."""

    axes: tuple[int, ...]
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@node("relax.attrs.RMSNormAttrs")
class RMSNormAttrs(Attrs):
    """Options of rms_norm; see its constructor."""

    axes: tuple[int, ...]
    epsilon: float = 1e-5


def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = True,
    *,
    span: Any = None,
) -> Call:
    """Each channel shifted and scaled by its statistics, then by two parameters.

    Args:
        data: Any shape with an axis of size `c`; a float dtype.
        gamma: `(c,)`, the new scale; same dtype, as all parameters.
        beta: `(c,)`, the new mean.
        moving_mean: `(c,)`, used as the mean unless `training`.
        moving_var: `(c,)`, used as the variance unless `training`.
        axis: The axis of the channels.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether `gamma` is applied.
        momentum: Weight of the new statistics when `training`.
        training: Whether the statistics of `data` are used, and mixed into the moving ones.
        span: Python source of the call, for errors.

    Returns:
        A tuple: the result with shape and dtype of `data`, the new moving mean, the new moving variance.

    Raises:
        TypeInferenceError: not one float dtype, no such axis, or parameters of other sizes.

    Accuracy: factors are computed in float64; variances are those of the population.
    Reference: torch.nn.functional.batch_norm; TVM relax.nn.batch_norm.
    """
    attrs = BatchNormAttrs(
        int_of(axis, "axis"), float(epsilon), bool(center), bool(scale), float(momentum), bool(training)
    )
    return call(_batch_norm, data, gamma, beta, moving_mean, moving_var, attrs=attrs, span=span)


@_batch_norm.infer
def _infer_batch_norm(c: Call) -> TupleStructInfo:
    data, _ = check(c, (attrs_of(c, BatchNormAttrs).axis,))
    mean, variance = tensor_args(c, (3, 4))
    return TupleStructInfo((like(data), like(mean), like(variance)))


@_batch_norm.reference
def _reference_batch_norm(
    attrs: BatchNormAttrs, x: Array, gamma: Array, beta: Array, mean: Array, variance: Array
) -> tuple[Array, Array, Array]:
    axis = attrs.axis % x.ndim
    spread = [x.shape[axis] if i == axis else 1 for i in range(x.ndim)]
    used = (exact(mean), exact(variance))
    after = (mean, variance)
    if attrs.training:
        others = tuple(i for i in range(x.ndim) if i != axis)
        used = (exact(x).mean(axis=others), exact(x).var(axis=others))
        mixed = [
            (1 - attrs.momentum) * exact(old) + attrs.momentum * new
            for old, new in zip((mean, variance), used, strict=True)
        ]
        after = (cast(mixed[0], dtype_of(mean)), cast(mixed[1], dtype_of(variance)))
    factor = 1 / np.sqrt(used[1] + attrs.epsilon) * (exact(gamma) if attrs.scale else 1.0)
    wide = widen(x)
    out = wide - used[0].astype(wide.dtype).reshape(spread)
    out *= factor.astype(wide.dtype).reshape(spread)
    if attrs.center:
        out += widen(beta).reshape(spread)
    return cast(out, dtype_of(x)), after[0], after[1]


@_batch_norm.legalize
def _legalize_batch_norm(builder: Builder, c: Call) -> Expr:
    attrs = attrs_of(c, BatchNormAttrs)
    data, gamma, beta, mean, variance = c.args
    parameters = (gamma if attrs.scale else None, beta if attrs.center else None, mean, variance)
    options: dict[str, Any] = {"axis": attrs.axis, "epsilon": attrs.epsilon, "primfunc_name_hint": "batch_norm"}
    if attrs.training:
        return builder.call_te(topi.nn.batch_norm_training, data, *parameters, momentum=attrs.momentum, **options)
    out = builder.emit(builder.call_te(topi.nn.batch_norm_inference, data, *parameters, **options))
    return Tuple((out, mean, variance), span=c.span)


def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    *,
    span: Any = None,
) -> Call:
    """`data` with mean 0 and variance 1 over some axes, then scaled and shifted element by element of those axes.

    Args:
        data: Any shape; a float dtype.
        gamma: The sizes of `axes`: the new scale; same dtype.
        beta: The sizes of `axes`: the new mean; same dtype.
        axes: The axes that are normalised over.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether `gamma` is applied.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not one float dtype, no such axis, or parameters of other sizes.

    Accuracy: computed in float64 and rounded once.
    Reference: torch.nn.functional.layer_norm; TVM relax.nn.layer_norm.
    """
    attrs = LayerNormAttrs(ints_of(axes, "axes"), float(epsilon), bool(center), bool(scale))
    return call(_layer_norm, data, gamma, beta, attrs=attrs, span=span)


@_layer_norm.separable
@_rms_norm.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    assert c.attrs is not None
    return only_first(c, batched) and not_along_first(c.attrs["axes"], tensor_args(c)[0].ndim)


@_layer_norm.infer
def _infer_layer_norm(c: Call) -> TensorStructInfo:
    data, _ = check(c, attrs_of(c, LayerNormAttrs).axes)
    return like(data)


@_layer_norm.reference
def _reference_layer_norm(attrs: LayerNormAttrs, x: Array, gamma: Array, beta: Array) -> Array:
    out = normalised(x, attrs.axes, attrs.epsilon)
    return cast(affine(out, gamma, beta, attrs.axes, attrs), dtype_of(x))


def _sorted(parameter: Tensor | None, axes: Sequence[int], ndim: int) -> Tensor | None:
    """A parameter with its axes in the order of those of the data."""
    places = [axis % ndim for axis in axes]
    if parameter is None or places == sorted(places):
        return parameter
    return topi.transpose(parameter, sorted(range(len(places)), key=places.__getitem__))


def _layer_norm_program(data: Tensor, gamma: Tensor | None, beta: Tensor | None, attrs: LayerNormAttrs) -> Tensor:
    scale, centre = (_sorted(x, attrs.axes, len(data.shape)) for x in (gamma, beta))
    return topi.nn.layer_norm(data, scale, centre, attrs.axes, attrs.epsilon)


@_layer_norm.legalize
def _legalize_layer_norm(builder: Builder, c: Call) -> Expr:
    return legalize_affine(builder, c, _layer_norm_program, attrs_of(c, LayerNormAttrs))


def rms_norm(
    data: Expr, weight: Expr, axes: int | Sequence[int] = -1, epsilon: float = 1e-5, *, span: Any = None
) -> Call:
    """`data` divided by its root mean square over some axes, then scaled element by element of those axes.

    Args:
        data: Any shape; a float dtype.
        weight: The sizes of `axes`, same dtype.
        axes: The axes that are normalised over.
        epsilon: Added to the mean square.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not one float dtype, no such axis, or a weight of other sizes.

    Accuracy: computed in float64 and rounded once.
    Reference: torch.nn.functional.rms_norm; TVM relax.nn.rms_norm.
    """
    return call(_rms_norm, data, weight, attrs=RMSNormAttrs(ints_of(axes, "axes"), float(epsilon)), span=span)


@_rms_norm.infer
def _infer_rms_norm(c: Call) -> TensorStructInfo:
    data, _ = check(c, attrs_of(c, RMSNormAttrs).axes)
    return like(data)


@_rms_norm.reference
def _reference_rms_norm(attrs: RMSNormAttrs, x: Array, weight: Array) -> Array:
    wide = exact(x)
    size = np.square(wide).mean(axis=attrs.axes, keepdims=True)
    return cast(wide / np.sqrt(size + attrs.epsilon) * along(weight, attrs.axes, x.ndim), dtype_of(x))


def _rms_norm_program(data: Tensor, weight: Tensor, attrs: RMSNormAttrs) -> Tensor:
    scale = _sorted(weight, attrs.axes, len(data.shape))
    assert scale is not None
    return topi.nn.rms_norm(data, scale, attrs.axes, attrs.epsilon)


lower(_rms_norm, _rms_norm_program, name="rms_norm", options=lambda attrs: {"attrs": attrs})
