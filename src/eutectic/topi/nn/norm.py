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


def instance_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over some axes, then each channel scaled and shifted.

    Args:
        data: Any shape with an axis of `c` channels; a float dtype.
        gamma: `(c,)`, the new scale; None for none.
        beta: `(c,)`, the new mean; None for none.
        channel_axis: The axis of the channels.
        axes: The axes that are normalised over.
        epsilon: Added to the variance.

    Returns:
        Shape and dtype of `data`; the stages of mean and variance, and `T_instance_norm`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis.
    """
    channel = axis_of(channel_axis, len(data.shape))
    value = _normalised(data, axes_of(list(axes), len(data.shape)), epsilon)
    return stage(
        data.shape,
        lambda *at: _affine(value(*at), gamma, beta, [at[channel]]).astype(data.dtype),
        "T_instance_norm",
    )


def rms_norm(data: Tensor, weight: Tensor, axis: int | Sequence[int], epsilon: float = 1e-5) -> Tensor:
    """Each element divided by the root mean square over some axes, then scaled element by element of those.

    Args:
        data: Any shape; a float dtype.
        weight: The sizes of `axis` in the order of `data`.
        axis: The axes that are normalised over.
        epsilon: Added to the mean square.

    Returns:
        Shape and dtype of `data`; the stages of the mean square, and `T_rms_norm`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis, or one given twice.

    Accuracy: floats of 16 bits are computed in float32.
    Reference: TVM topi.nn.rms_norm.
    """
    if not is_float(data.dtype):
        raise TypeError(f"a normalisation needs a float dtype, got {data.dtype}")
    axes, wide = axes_of(axis, len(data.shape)), accumulator(data.dtype)
    squares = stage(data.shape, lambda *at: data(*at).astype(wide) * data(*at).astype(wide), "T_square", "elemwise")
    size = mean_wide(squares, axes, True)

    def element(*at: PrimExpr) -> PrimExpr:
        centre = (IntImm(i.dtype, 0) if a in axes else i for a, i in enumerate(at))
        scaled = data(*at).astype(wide) / op.sqrt(size(*centre) + epsilon)
        return (scaled * weight(*(at[a] for a in axes)).astype(wide)).astype(data.dtype)

    return stage(data.shape, element, "T_rms_norm")


def batch_norm_training(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int,
    epsilon: float,
    momentum: float,
) -> list[Tensor]:
    """Channels scaled and shifted by their own statistics, which are mixed into the stored ones.

    Args:
        data: Any shape with an axis of `c` channels; a float dtype.
        gamma: `(c,)`, the new scale; None for none.
        beta: `(c,)`, the new mean; None for none.
        moving_mean: `(c,)`.
        moving_var: `(c,)`.
        axis: The axis of the channels.
        epsilon: Added to the variance.
        momentum: Weight of the new statistics.

    Returns:
        The result with shape and dtype of `data`, the new moving mean, the new moving variance.

    Raises:
        ValueError: no such axis.
    """
    channel = axis_of(axis, len(data.shape))
    others = tuple(a for a in range(len(data.shape)) if a != channel)
    mean = mean_wide(data, others, True)
    variance = variance_wide(data, mean, others, True)

    def centre(at: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [i if a == channel else IntImm(i.dtype, 0) for a, i in enumerate(at)]

    def element(*at: PrimExpr) -> PrimExpr:
        where = centre(at)
        x = (data(*at).astype(mean.dtype) - mean(*where)) / op.sqrt(variance(*where) + epsilon)
        return _affine(x, gamma, beta, [at[channel]]).astype(data.dtype)

    def mixed(old: Tensor, new: Tensor) -> Tensor:
        def value(c: PrimExpr) -> PrimExpr:
            where = [c if a == channel else IntImm(c.dtype, 0) for a in range(len(data.shape))]
            return (old(c).astype(new.dtype) * (1 - momentum) + new(*where) * momentum).astype(old.dtype)

        return stage(old.shape, value, "T_moving", "elemwise")

    out = stage(data.shape, element, "T_batch_norm")
    return [out, mixed(moving_mean, mean), mixed(moving_var, variance)]
