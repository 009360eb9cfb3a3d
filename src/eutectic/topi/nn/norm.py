"""Normalisations: layer_norm, group_norm, and batch_norm of inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor
from eutectic.tir import op
from eutectic.topi.reduce import mean_wide, variance_wide
from eutectic.topi.shapes import axes_of, axis_of, stage, static
from eutectic.topi.special_values import accumulator
from eutectic.topi.transform import reshape


def _normalised(data: Tensor, axes: tuple[int, ...], epsilon: float) -> Any:
    """A function of the index: the element with mean 0 and variance 1 over `axes`."""
    if not is_float(data.dtype):
        raise TypeError(f"a normalisation needs a float dtype, got {data.dtype}")
    mean = mean_wide(data, axes, True)
    variance = variance_wide(data, mean, axes, True)

    def element(*at: PrimExpr) -> PrimExpr:
        centre = tuple(IntImm(i.dtype, 0) if a in axes else i for a, i in enumerate(at))
        return (data(*at).astype(mean.dtype) - mean(*centre)) / op.sqrt(variance(*centre) + epsilon)

    return element


def _affine(x: PrimExpr, gamma: Tensor | None, beta: Tensor | None, at: Sequence[PrimExpr]) -> PrimExpr:
    scaled = x if gamma is None else x * gamma(*at).astype(x.dtype)
    return scaled if beta is None else scaled + beta(*at).astype(x.dtype)


def layer_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over some axes, then scaled and shifted element by element of those.

    Args:
        data: Any shape; a float dtype.
        gamma: The sizes of `axis` in the order of `data`, the new scale; None for none.
        beta: The same, the new mean; None for none.
        axis: The axes that are normalised over.
        epsilon: Added to the variance.

    Returns:
        Shape and dtype of `data`; the stages of mean and variance, and `T_layer_norm`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis, or one given twice.

    Accuracy: the variance is that of two passes; floats of 16 bits are computed in float32.
    Reference: TVM topi.nn.layer_norm, which has the variance in one pass.
    """
    axes = axes_of(axis, len(data.shape))
    value = _normalised(data, axes, epsilon)
    return stage(
        data.shape,
        lambda *at: _affine(value(*at), gamma, beta, [at[a] for a in axes]).astype(data.dtype),
        "T_layer_norm",
    )


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 in each group of channels, then each channel scaled and shifted.

    Args:
        data: Any shape with an axis of `c` channels; a float dtype.
        gamma: `(c,)`, the new scale; None for none.
        beta: `(c,)`, the new mean; None for none.
        num_groups: Number of groups; divides `c`.
        channel_axis: The axis of the channels.
        axes: The other axes that are normalised over.
        epsilon: Added to the variance.

    Returns:
        Shape and dtype of `data`; a reshape, the stages of mean and variance, and `T_group_norm`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis, or `num_groups` does not divide `c`.
    """
    channel = axis_of(channel_axis, len(data.shape))
    channels = data.shape[channel]
    known = static(channels)
    if known is not None and known % num_groups:
        raise ValueError(f"{known} channels cannot be cut into {num_groups} groups")
    each = channels // num_groups
    count = IntImm(channels.dtype, num_groups)
    grouped = reshape(data, (*data.shape[:channel], count, each, *data.shape[channel + 1 :]))
    inner = axes_of(list(axes), len(data.shape))
    value = _normalised(grouped, (channel + 1, *(a + (a > channel) for a in inner)), epsilon)

    def element(*at: PrimExpr) -> PrimExpr:
        place = (*at[:channel], at[channel] // each, at[channel] % each, *at[channel + 1 :])
        return _affine(value(*place), gamma, beta, [at[channel]]).astype(data.dtype)

    return stage(data.shape, element, "T_group_norm")


def batch_norm_inference(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Channels scaled and shifted by stored statistics.

    Args:
        data: Any shape with an axis of `c` channels; a float dtype.
        gamma: `(c,)`, the new scale; None for none.
        beta: `(c,)`, the new mean; None for none.
        moving_mean: `(c,)`.
        moving_var: `(c,)`.
        axis: The axis of the channels.
        epsilon: Added to the variance.

    Returns:
        Shape and dtype of `data`; one stage `T_batch_norm`.

    Raises:
        ValueError: no such axis.
    """
    channel = axis_of(axis, len(data.shape))
    wide = accumulator(data.dtype)

    def element(*at: PrimExpr) -> PrimExpr:
        c = at[channel]
        spread = op.sqrt(moving_var(c).astype(wide) + epsilon)
        x = (data(*at).astype(wide) - moving_mean(c).astype(wide)) / spread
        return _affine(x, gamma, beta, [c]).astype(data.dtype)

    return stage(data.shape, element, "T_batch_norm", "broadcast")
