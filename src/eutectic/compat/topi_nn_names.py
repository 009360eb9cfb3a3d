"""`tvm.topi.nn`: what it has beside the operators of `eutectic.topi.nn`, and its spelling of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from eutectic import topi as _topi
from eutectic.compat.topi_nn_conv import not_rewritten as _not_rewritten
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as _te_sum
from eutectic.tir import op as _op
from eutectic.topi import nn as _nn
from eutectic.topi.image import resize2d as _resize2d
from eutectic.topi.nn.windows import paddings as _paddings
from eutectic.topi.shapes import axis_of as _axis_of
from eutectic.topi.shapes import product as _product
from eutectic.topi.shapes import stage as _stage
from eutectic.topi.shapes import static as _static
from eutectic.topi.shapes import unravel as _unravel

Ints = int | Sequence[int]


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Matrix product, with a bias for each column."""
    _not_rewritten(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    product = _nn.matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)
    return product if bias is None else _topi.add(product, bias)


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """`data @ weight.T + bias`; see `eutectic.topi.nn.dense`."""
    _not_rewritten(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return _nn.dense(data, weight, bias, out_dtype)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Matrix product of two batches; see `eutectic.topi.nn.batch_matmul`."""
    _not_rewritten(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    return _nn.batch_matmul(tensor_a, tensor_b, oshape, out_dtype, transpose_a, transpose_b)


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """Channels scaled and shifted by stored statistics, or with `training` by their own: result, mean, variance."""
    channel, small = 1 if axis is None else axis, 1e-5 if epsilon is None else epsilon
    grown = None if scale is False else gamma
    shifted = None if center is False else beta
    if training:
        share = 0.1 if momentum is None else momentum
        return _nn.batch_norm_training(data, grown, shifted, moving_mean, moving_var, channel, small, share)
    out = _nn.batch_norm_inference(data, grown, shifted, moving_mean, moving_var, channel, small)
    return [out, moving_mean, moving_var]


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axis: Sequence[int], epsilon: float = 1e-5
) -> Tensor:
    """Mean 0 and variance 1 over some axes, then each channel scaled and shifted."""
    return _nn.instance_norm(data, gamma, beta, channel_axis, axis, epsilon)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """`x` where positive, `slope * x` elsewhere; see `eutectic.topi.nn.prelu`."""
    return _nn.prelu(x, slope, axis)


def flatten(data: Tensor) -> Tensor:
    """All axes but the first as one."""
    return _topi.reshape(data, (data.shape[0], _product(data.shape[1:])))


def dilate(data: Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput") -> Tensor:
    """Elements apart by steps, with a value between them."""
    value = as_prim(dilation_value, data.dtype)
    shape = [(size - 1) * step + 1 for size, step in zip(data.shape, strides, strict=True)]

    def element(*at: PrimExpr) -> PrimExpr:
        hits = [(i % step).equal(0) for i, step in zip(at, strides, strict=True) if step > 1]
        inside = data(*(i // step if step > 1 else i for i, step in zip(at, strides, strict=True)))
        return _op.if_then_else(_op.all(*hits), inside, value) if hits else inside

    return _stage(shape, element, name, "injective,dilate")


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """A buffer with new elements at its end, of which the oldest are gone."""
    along = _axis_of(axis, len(buffer.shape))
    size, count = buffer.shape[along], data.shape[along]

    def element(*at: PrimExpr) -> PrimExpr:
        i = at[along]
        old, new = ([*at[:along], place, *at[along + 1 :]] for place in (i + count, i - (size - count)))
        return _op.if_then_else(i < size - count, buffer(*old), data(*new))

    return _stage(buffer.shape, element, "new_buffer", "injective")


def lrn(data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2) -> Tensor:
    """Each element divided by `(bias + alpha * sum(squares of its neighbours) / size) ** beta` along an axis."""
    along, reach = _axis_of(axis, len(data.shape)), size // 2
    near = reduce_axis((0, size), "rxs")

    def squares(*at: PrimExpr) -> Any:
        place = at[along] + near - reach
        inside = _op.all(place >= 0, place < data.shape[along])
        value = data(*at[:along], place, *at[along + 1 :])
        return _te_sum(_op.if_then_else(inside, value * value, as_prim(0.0, data.dtype)), near)

    names = [f"ax{i}" for i in range(len(data.shape))]
    total = compute(data.shape, lambda *at: squares(*at), "tensor", varargs_names=names)
    return _stage(
        data.shape,
        lambda *at: data(*at) / _op.pow(total(*at) * (alpha / size) + bias, as_prim(beta, data.dtype)),
        "T_lrn",
    )


def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """A tensor with elements of one value added around; `attrs` are annotations of the block."""
    padded = _nn.pad(data, pad_before, pad_after, pad_value, name)
    if not attrs:
        return padded
    (value,) = padded.op.body
    names = [axis.var for axis in padded.op.axis]
    from eutectic.ir.visit import rewrite  # only this needs it

    def again(*at: PrimExpr) -> Any:
        places = dict(zip(names, at, strict=True))
        return rewrite(value, lambda item: places.get(item))

    named = [var.name for var in names]
    tensor: Tensor = compute(padded.shape, lambda *at: again(*at), name, padded.op.tag, attrs, named)
    return tensor


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """A tensor mirrored at its borders; `SYMMETRIC` repeats the border, `REFLECT` does not. `name` is accepted."""
    after = pad_before if pad_after is None else pad_after
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(f"mirror_pad knows SYMMETRIC and REFLECT, got {mode!r}")
    if mode == "REFLECT":
        return _nn.pad_from(data, pad_before, after, "reflect")
    shape = [size + (b + a) for size, b, a in zip(data.shape, pad_before, after, strict=True)]

    def source(i: PrimExpr, size: PrimExpr, before: int) -> PrimExpr:
        at = i - before
        at = _op.if_then_else(at < 0, 0 - at - 1, at)
        return _op.if_then_else(at >= size, size * 2 - 1 - at, at)

    return _stage(shape, lambda *at: data(*map(source, at, data.shape, pad_before)), name, "injective,pad")


def reflect_pad(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None, name: str = "ReflectPadInput"
) -> Tensor:
    """A tensor mirrored at its borders, which are not repeated. `name` is accepted."""
    return _nn.pad_from(data, pad_before, pad_before if pad_after is None else pad_after, "reflect")


def replicate_pad(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None, name: str = "ReplicatePadInput"
) -> Tensor:
    """A tensor with its borders repeated. `name` is accepted."""
    return _nn.pad_from(data, pad_before, pad_before if pad_after is None else pad_after, "edge")


def circular_pad(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None, name: str = "CircularPadInput"
) -> Tensor:
    """A tensor that goes on from its other end. `name` is accepted."""
    return _nn.pad_from(data, pad_before, pad_before if pad_after is None else pad_after, "wrap")


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of pixels as channels: pixel `p` of a block has the channels from `p` times their number on."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"space_to_depth knows NCHW and NHWC, got {layout}")
    c, h, w = (layout.index(letter) for letter in "CHW")
    channels = data.shape[c]
    shape = [*data.shape]
    shape[c], shape[h], shape[w] = channels * block_size**2, shape[h] // block_size, shape[w] // block_size

    def element(*at: PrimExpr) -> PrimExpr:
        place, pixel = list(at), at[c] // channels
        place[c] = at[c] % channels
        place[h] = at[h] * block_size + pixel // block_size
        place[w] = at[w] * block_size + pixel % block_size
        return data(*place)

    return _stage(shape, element, "T_space_to_depth", "injective")


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Channels as blocks of pixels; `DCR` counts pixels first, `CRD` channels."""
    if mode not in ("DCR", "CRD") or layout not in ("NCHW", "NHWC"):
        raise ValueError(f"depth_to_space knows DCR and CRD of NCHW and NHWC, got {mode} of {layout}")
    c, h, w = (layout.index(letter) for letter in "CHW")
    shape = [*data.shape]
    shape[c] = channels = data.shape[c] // block_size**2
    shape[h], shape[w] = shape[h] * block_size, shape[w] * block_size

    def element(*at: PrimExpr) -> PrimExpr:
        place, pixel = list(at), at[h] % block_size * block_size + at[w] % block_size
        place[c] = pixel * channels + at[c] if mode == "DCR" else at[c] * block_size**2 + pixel
        place[h], place[w] = at[h] // block_size, at[w] // block_size
        return data(*place)

    return _stage(shape, element, "T_depth_to_space", "injective")


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Blocks of points, after padding, as members of the batch: `(batch * prod(block_shape), ...)`."""
    rank = len(block_shape)
    rest = [0] * (len(data.shape) - 1 - rank)
    whole = _nn.pad(data, [0, *pad_before, *rest], [0, *pad_after, *rest], pad_value)
    batch = data.shape[0]
    spatial = [size // side for size, side in zip(whole.shape[1 : rank + 1], block_shape, strict=True)]

    def element(*at: PrimExpr) -> PrimExpr:
        points = _unravel(at[0] // batch, [as_prim(side, at[0].dtype) for side in block_shape])
        inner = [i * side + p for i, side, p in zip(at[1 : rank + 1], block_shape, points, strict=True)]
        return whole(at[0] % batch, *inner, *at[rank + 1 :])

    shape = [batch * prod(block_shape), *spatial, *data.shape[rank + 1 :]]
    return _stage(shape, element, "T_space_to_batch_nd", "injective")


def batch_to_space_nd(
    data: Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """What `space_to_batch_nd` did undone, with points cut off at both ends."""
    rank = len(block_shape)
    batch = data.shape[0] // prod(block_shape)
    cuts = list(zip(data.shape[1 : rank + 1], block_shape, crop_begin_list, crop_end_list, strict=True))

    def element(*at: PrimExpr) -> PrimExpr:
        points = [i + begin for i, begin in zip(at[1 : rank + 1], crop_begin_list, strict=True)]
        block = as_prim(0, at[0].dtype)
        for point, side in zip(points, block_shape, strict=True):
            block = block * side + point % side
        inner = [point // side for point, side in zip(points, block_shape, strict=True)]
        return data(block * batch + at[0], *inner, *at[rank + 1 :])

    spatial = [size * side - begin - end for size, side, begin, end in cuts]
    return _stage([batch, *spatial, *data.shape[rank + 1 :]], element, "T_batch_to_space_nd", "injective")


def adaptive_pool1d(data: Tensor, output_size: Ints, pool_type: str, layout: str = "NCW") -> Tensor:
    """Pooling of one axis to a size."""
    return _nn.adaptive_pool(data, output_size, pool_type, layout)


def adaptive_pool3d(data: Tensor, output_size: Ints, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """Pooling of three axes to sizes."""
    return _nn.adaptive_pool(data, output_size, pool_type, layout)


def _scaled(data: Tensor, factor: Tensor, offset: Tensor, axes: Sequence[int]) -> Tensor:
    def element(*at: PrimExpr) -> PrimExpr:
        channel = [at[axis] for axis in axes]
        return data(*at) * factor(*channel) + offset(*channel)

    return _stage(data.shape, element, "ScaleShift", "broadcast")


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Channels of NCHW data scaled and shifted."""
    return _scaled(Input, Scale, Shift, (1,))


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Channels of NHWC data scaled and shifted."""
    return _scaled(Input, Scale, Shift, (3,))


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Channels of NCHWc data scaled and shifted, by `(blocks, channels of a block)`."""
    return _scaled(Input, Scale, Shift, (1, 4))


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """`softmax`; there is one exponential function here."""
    return _nn.softmax(x, axis)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """`softmax`; there is one exponential function here."""
    return _nn.softmax(x, axis)


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """Images enlarged by factors, by nearest element or linear interpolation (`bilinear`)."""
    height, width = (_static(data.shape[layout.index(letter)]) or 0 for letter in "HW")
    size = output_shape or (round(height * scale_h), round(width * scale_w))
    mode = "align_corners" if align_corners else "asymmetric"
    kind = "linear" if method in ("bilinear", "linear") else method
    return _resize2d(data, size, layout, kind, mode, "floor" if kind == "nearest_neighbor" else "round")


def nll_loss(predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str, ignore_index: int) -> Tensor:
    """The negative of the prediction of each target's class, weighted; `mean` divides by the weights that count.

    Args:
        predictions: `(n, classes, ...)`, logarithms of probabilities.
        targets: `(n, ...)`, numbers of classes.
        weights: `(classes,)`.
        reduction: `mean`, `sum` or `none`.
        ignore_index: A target that does not count.
    """
    zero = as_prim(0.0, predictions.dtype)

    def term(loss: bool) -> Tensor:
        def element(*at: PrimExpr) -> PrimExpr:
            target = targets(*at)
            weight: PrimExpr = weights(target)
            value = 0.0 - predictions(at[0], target, *at[1:]) * weight if loss else weight
            return _op.if_then_else(target.not_equal(ignore_index), value, zero)

        return _stage(targets.shape, element, "T_nll_loss")

    if reduction == "none":
        return term(True)
    total = _topi.sum(term(True))
    return _topi.divide(total, _topi.sum(term(False))) if reduction == "mean" else total


def get_pad_tuple(padding: Any, kernel: Sequence[int]) -> tuple[int, int, int, int]:
    """Padding of two axes as elements above, left, below and right; `VALID` and `SAME` are understood."""
    if isinstance(padding, str):
        whole = [size - 1 if padding == "SAME" else 0 for size in kernel]
        up, left = ((n + 1) // 2 for n in whole)
        return up, left, whole[0] - up, whole[1] - left
    before, after = _paddings(padding, 2)
    return before[0], before[1], after[0], after[1]


def get_pad_tuple1d(padding: Any, kernel: Sequence[int]) -> tuple[int, int]:
    """Padding of one axis as elements before and after."""
    if isinstance(padding, str):
        whole = kernel[0] - 1 if padding == "SAME" else 0
        return (whole + 1) // 2, whole - (whole + 1) // 2
    before, after = _paddings(padding, 1)
    return before[0], after[0]


def unpack_NCHWc_to_nchw(packed_out: Tensor, out_dtype: str) -> Tensor:
    """Blocks of channels side by side."""
    n, blocks, height, width, lanes = packed_out.shape

    def element(image: PrimExpr, c: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        return packed_out(image, c // lanes, y, x, c % lanes).astype(out_dtype)

    return _stage((n, blocks * lanes, height, width), element, "output_unpack", "injective")
