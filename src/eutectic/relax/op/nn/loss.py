"""Losses of predictions: cross_entropy_with_logits, nll_loss."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, const
from eutectic.relax.op.binary import divide, equal, multiply, not_equal
from eutectic.relax.op.composed import composed
from eutectic.relax.op.create import full
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.index import gather_elements, take
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.reduce import sum as sum_of
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.reshape import expand_dims, squeeze
from eutectic.relax.op.shapes import differ, dims_text, int_of, reject, static, tensor_info
from eutectic.relax.op.ternary import where
from eutectic.relax.op.unary import negative
from eutectic.support.errors import CallError

_CROSS_ENTROPY: Final = define_op("relax.nn.cross_entropy_with_logits", arity=2, fusion="opaque")
_NLL_LOSS: Final = define_op("relax.nn.nll_loss", arity=(2, 3), fusion="opaque")


def cross_entropy_with_logits(predictions: Expr, labels: Expr, *, span: Any = None) -> Call:
    """Minus the sum of the products of two tensors, over the number of rows.

    Args:
        predictions: `(n, ...)` or `(classes,)`, floats: logarithms of probabilities.
        labels: Shape and dtype of `predictions`: the probabilities that are wanted.
        span: Python source of the call, for errors.

    Returns:
        `()`, dtype of `predictions`.

    Raises:
        TypeInferenceError: two shapes or dtypes.

    Accuracy: products are rounded to the dtype of the operands, sums are taken in float64.
    Reference: TVM relax.nn.cross_entropy_with_logits.
    """
    return call(_CROSS_ENTROPY, predictions, labels, span=span)


def _check_cross_entropy(c: Call) -> StructInfo | None:
    a, b = tensor_args(c)
    if a.dtype != b.dtype or (a.dtype and not is_float(a.dtype)):
        refuse(c, f"cross_entropy_with_logits of {a.dtype} and {b.dtype}, expected one float dtype")
    if a.dims is None or b.dims is None:
        return tensor_info((), a.dtype)
    if a.ndim != b.ndim or any(map(differ, a.dims, b.dims)):
        refuse(c, f"cross_entropy_with_logits of {dims_text(a.dims)} and {dims_text(b.dims)}")
    return None if a.ndim <= 1 or static(a.dims[0]) is not None else tensor_info((), a.dtype)


def _cross_entropy(c: Call) -> Expr:
    (info, _) = tensor_args(c)
    total = sum_of(astype(multiply(*c.args), "float64"))
    rows = static(info.dims[0]) if info.dims is not None and info.ndim > 1 else 1
    return astype(divide(negative(total), const(float(rows or 0), "float64")), info.dtype)


composed(_CROSS_ENTROPY, _cross_entropy, _check_cross_entropy)


@_CROSS_ENTROPY.reference
def _reference_cross_entropy(attrs: None, predictions: Array, labels: Array) -> Array:
    total = -np.sum((predictions * labels).astype(np.float64))
    return cast(total / (predictions.shape[0] if predictions.ndim > 1 else 1), dtype_of(predictions))


@node("relax.attrs.NLLLossAttrs")
class NLLLossAttrs(Attrs):
    """How the losses of all targets become one, and the class that does not count."""

    reduction: str = "mean"
    ignore_index: int = -100


def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    *,
    span: Any = None,
) -> Call:
    """Minus the prediction of the class that each target names, times the weight of the class.

    Args:
        predictions: `(n, classes, *points)` or `(classes,)`, floats: logarithms of probabilities.
        targets: `(n, *points)` or `()`, integers in `[0, classes)`, or `ignore_index`.
        weights: `(classes,)`, dtype of `predictions`; None counts every class once.
        reduction: `none` gives the loss of each target, `sum` their sum, `mean` that over the sum of the weights.
        ignore_index: Targets with this value have no loss, and no weight.
        span: Python source of the call, for errors.

    Returns:
        Shape of `targets` for `none`, else `()`; dtype of `predictions`.

    Raises:
        TypeInferenceError: other shapes or dtypes, or another reduction.
        CallError: at run time, a target is no class.

    Accuracy: sums are taken in float64.
    Reference: TVM relax.nn.nll_loss; torch.nn.functional.nll_loss.
    """
    if reduction not in ("none", "sum", "mean"):
        reject(f"nll_loss has no reduction {reduction!r}", help="choose none, sum or mean")
    operands = [predictions, targets] if weights is None else [predictions, targets, weights]
    return call(_NLL_LOSS, *operands, attrs=NLLLossAttrs(reduction, int_of(ignore_index, "ignore_index")), span=span)


def _check_nll(c: Call) -> StructInfo | None:
    info, targets, *weights = tensor_args(c)
    if not is_float(info.dtype) or is_float(targets.dtype) or any(w.dtype != info.dtype for w in weights):
        dtypes = ", ".join(x.dtype for x in (info, targets, *weights))
        refuse(c, f"nll_loss of {dtypes}: predictions and weights are of one float dtype, targets integers")
    if info.dims is None or targets.dims is None:
        whole = attrs_of(c, NLLLossAttrs).reduction != "none"
        return tensor_info(() if whole else None, info.dtype, 0 if whole else targets.ndim)
    rest = (*info.dims[: min(1, info.ndim - 1)], *info.dims[2:])
    if info.ndim == 0 or len(rest) != targets.ndim or any(map(differ, rest, targets.dims)):
        refuse(c, f"nll_loss of {dims_text(info.dims)} needs targets {dims_text(rest)}, got {dims_text(targets.dims)}")
    for w in weights:
        if w.ndim not in (-1, 1) or (w.dims is not None and differ(w.dims[0], info.dims[min(1, info.ndim - 1)])):
            refuse(c, f"nll_loss of {dims_text(info.dims)} with weights {dims_text(w.dims)}")
    return None


def _nll(c: Call) -> Expr:
    attrs, (info, targets, *_) = attrs_of(c, NLLLossAttrs), tensor_args(c)
    axis = min(1, info.ndim - 1)
    ignored = equal(c.args[1], const(attrs.ignore_index, targets.dtype))
    zero = full((), const(0, targets.dtype))
    place = where(ignored, zero, c.args[1])
    chosen = squeeze(gather_elements(c.args[0], expand_dims(place, axis), axis), [axis])
    weight: Expr = astype(not_equal(c.args[1], const(attrs.ignore_index, targets.dtype)), info.dtype)
    if len(c.args) > 2:
        weight = where(ignored, full((), const(0, info.dtype)), take(c.args[2], place, 0))
    losses = where(ignored, full((), const(0, info.dtype)), negative(multiply(chosen, weight)))
    if attrs.reduction == "none":
        return losses
    total = sum_of(astype(losses, "float64"))
    if attrs.reduction == "mean":
        total = divide(total, sum_of(astype(weight, "float64")))
    return astype(total, info.dtype)


composed(_NLL_LOSS, _nll, _check_nll)


@_NLL_LOSS.reference
def _reference_nll(attrs: NLLLossAttrs, x: Array, targets: Array, weights: Array | None = None) -> Array:
    axis = min(1, x.ndim - 1)
    kept = targets != attrs.ignore_index
    place = np.where(kept, targets, 0)
    if ((place < 0) | (place >= x.shape[axis])).any():
        raise CallError(f"nll_loss: a target is none of the {x.shape[axis]} classes")
    chosen = np.take_along_axis(x, np.expand_dims(place, axis), axis).squeeze(axis)
    weight = np.where(kept, 1 if weights is None else weights[place], 0).astype(x.dtype)
    losses = np.where(kept, -(chosen * weight), 0).astype(x.dtype)
    if attrs.reduction == "none":
        return losses
    total = np.sum(losses.astype(np.float64))
    return cast(total / np.sum(weight.astype(np.float64)) if attrs.reduction == "mean" else total, dtype_of(x))
