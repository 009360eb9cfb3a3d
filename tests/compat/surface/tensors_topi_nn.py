"""Examples of `tvm.topi.nn`, against PyTorch and NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from tests.compat.surface.examples import example
from tests.compat.surface.running import floats, whole
from tests.compat.surface.tensors_topi import check, tensor
from torch.nn import functional
from tvm import topi

nn = topi.nn


def torch_of(function: Any, *arrays: Any, **options: Any) -> Any:
    """What PyTorch computes."""
    return function(*map(torch.from_numpy, arrays), **options).numpy()


def _convolution(name: str, layout: str, kernel: str, groups: int) -> None:
    """A convolution in NC... and OI... by PyTorch, in its layouts by us."""
    rank = len(layout) - 2
    a, w = floats(2, 4, *(5, 6, 7)[:rank]), floats(4, 4 // groups, *(3,) * rank)
    wanted = torch_of(
        (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1], a, w, padding=1, groups=groups
    )
    canonical, spatial = "NC" + "DHW"[-rank:], "DHW"[-rank:]
    data = a.transpose([canonical.index(x) for x in layout]).copy()
    weight = w.transpose([("OI" + spatial).index(x) for x in kernel]).copy()
    options = {"groups": groups} if "group" in name or rank == 3 else {}
    check(
        lambda x, y: getattr(nn, name)(x, y, 1, 1, 1, **options),
        wanted.transpose([canonical.index(x) for x in layout]),
        data,
        weight,
    )


for _name, _layouts in {
    "conv1d_ncw": ("NCW", "OIW"),
    "conv1d_nwc": ("NWC", "WIO"),
    "conv2d_nchw": ("NCHW", "OIHW"),
    "conv2d_nhwc": ("NHWC", "HWIO"),
    "conv2d_hwcn": ("HWCN", "HWIO"),
    "conv3d_ncdhw": ("NCDHW", "OIDHW"),
    "conv3d_ndhwc": ("NDHWC", "DHWIO"),
    "conv1d": ("NCW", "OIW"),
    "conv2d": ("NCHW", "OIHW"),
    "group_conv1d_ncw": ("NCW", "OIW"),
    "group_conv1d_nwc": ("NWC", "WIO"),
    "group_conv2d_nchw": ("NCHW", "OIHW"),
    "group_conv2d_nhwc": ("NHWC", "HWIO"),
}.items():
    example(f"tvm.topi.nn.{_name}")(partial(_convolution, _name, *_layouts, 2 if "group" in _name else 1))


@example("tvm.topi.nn.conv", "tvm.topi.nn.depthwise_conv2d_nchw", "tvm.topi.nn.depthwise_conv2d_nhwc")
def _other_convolutions() -> None:
    a, w = floats(1, 4, 6, 6), floats(4, 4, 3, 3)
    wanted = torch_of(functional.conv2d, a, w, padding="same")
    check(lambda x, y: nn.conv(x, y, 1, "SAME", 1, 1, "NCHW", "OIHW"), wanted, a, w)
    deep = floats(4, 2, 3, 3)
    wanted = torch_of(functional.conv2d, a, deep.reshape(8, 1, 3, 3), groups=4, stride=2, padding=1)
    check(lambda x, y: nn.depthwise_conv2d_nchw(x, y, 2, 1, 1), wanted, a, deep)
    last, filters = a.transpose(0, 2, 3, 1).copy(), deep.transpose(2, 3, 0, 1).copy()
    check(lambda x, y: nn.depthwise_conv2d_nhwc(x, y, 2, 1, 1), wanted.transpose(0, 2, 3, 1), last, filters)


@example(
    "tvm.topi.nn.conv1d_transpose_ncw", "tvm.topi.nn.conv2d_transpose_nchw", "tvm.topi.nn.conv3d_transpose_ncdhw",
    "tvm.topi.nn.group_conv1d_transpose_ncw", "tvm.topi.nn.group_conv2d_transpose_nchw",
    "tvm.topi.nn.group_conv3d_transpose_ncdhw",
)  # fmt: skip
def _transposed() -> None:
    names = ("conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw")
    references = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
    for rank, (name, reference) in enumerate(zip(names, references, strict=True), 1):
        a, w = floats(1, 4, *(3,) * rank), floats(4, 2, *(3,) * rank)
        options = {"stride": 2, "padding": 1, "output_padding": 1}
        plain = torch_of(reference, a, w, **options)
        check(lambda x, y, n=name: getattr(nn, n)(x, y, 2, 1, "float32", 1), plain, a, w)
        grouped = torch_of(reference, a, w, groups=2, **options)
        check(lambda x, y, n=name: getattr(nn, f"group_{n}")(x, y, 2, 1, "float32", 1, 2), grouped, a, w)


@example("tvm.topi.nn.dense", "tvm.topi.nn.matmul", "tvm.topi.nn.batch_matmul", "tvm.topi.nn.dense_pack")
def _products() -> None:
    a, w, b = floats(3, 5), floats(4, 5), floats(4)
    check(lambda x, y, z: nn.dense(x, y, z), a @ w.T + b, a, w, b)
    check(lambda x, y, z: nn.matmul(x, y, bias=z, transpose_b=True), a @ w.T + b, a, w, b)
    p, q = floats(2, 3, 5), floats(2, 4, 5)
    check(nn.batch_matmul, p @ q.transpose(0, 2, 1), p, q)
    panels = w.reshape(2, 2, 5).transpose(0, 2, 1).copy()
    check(lambda x, y: nn.dense_pack(x, y, 4), a @ w.T, a, panels)


@example(*(f"tvm.topi.nn.{name}" for name in ("relu", "leaky_relu", "prelu", "softplus")))
@example(*(f"tvm.topi.nn.{name}" for name in ("softmax", "log_softmax", "fast_softmax", "softmax_common")))
def _activations() -> None:
    a, slopes = floats(2, 3, 4, low=-1, high=1), floats(3)
    check(nn.relu, a.clip(0), a)
    check(lambda x: nn.leaky_relu(x, alpha=0.1), np.where(a > 0, a, a * 0.1), a)
    check(lambda x, s: nn.prelu(x=x, slope=s, axis=1), torch_of(functional.prelu, a, slopes), a, slopes)
    check(lambda x: nn.softplus(x, beta=2.0), torch_of(functional.softplus, a, beta=2.0), a)
    wanted = torch_of(functional.softmax, a, dim=1)
    for soft in (nn.softmax, nn.fast_softmax, partial(nn.softmax_common, use_fast_exp=True)):
        check(lambda x, f=soft: f(x, axis=1), wanted, a)
    check(lambda x: nn.log_softmax(x, axis=1), torch_of(functional.log_softmax, a, dim=1), a)


@example(*(f"tvm.topi.nn.{name}" for name in ("batch_norm", "layer_norm", "group_norm")))
@example(*(f"tvm.topi.nn.{name}" for name in ("instance_norm", "rms_norm", "lrn")))
def _norms() -> None:
    a, g, b, m, v = floats(2, 4, 3, 3), floats(4), floats(4), floats(4), floats(4)
    check(lambda *x: nn.batch_norm(*x)[0], torch_of(functional.batch_norm, a, m, v, g, b), a, g, b, m, v)
    trained = torch_of(functional.batch_norm, a, m.copy(), v.copy(), g, b, training=True)
    check(lambda *x: nn.batch_norm(*x, axis=1, training=True, momentum=0.1)[0], trained, a, g, b, m, v)
    wide, gamma, beta = floats(2, 6), floats(6), floats(6)
    check(
        lambda x, y, z: nn.layer_norm(x, y, z, axis=(1,)),
        torch_of(lambda x, y, z: functional.layer_norm(x, (6,), y, z), wide, gamma, beta),
        wide,
        gamma,
        beta,
    )
    grouped = torch_of(lambda x, y, z: functional.group_norm(x, 2, y, z), a, g, b)
    check(lambda x, y, z: nn.group_norm(x, y, z, 2, 1, [2, 3]), grouped, a, g, b)
    single = torch_of(lambda x, y, z: functional.instance_norm(x, weight=y, bias=z), a, g, b)
    check(lambda x, y, z: nn.instance_norm(x, y, z, channel_axis=1, axis=[2, 3]), single, a, g, b)
    size = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    check(lambda x, y: nn.rms_norm(x, y, axis=1), wide / size * gamma, wide, gamma)
    wanted = torch_of(functional.local_response_norm, a, size=3, alpha=0.1, beta=0.75, k=2.0)
    check(lambda x: nn.lrn(x, 3, axis=1, alpha=0.1, beta=0.75, bias=2.0), wanted, a)


@example(*(f"tvm.topi.nn.{name}" for name in ("pool1d", "pool2d", "pool3d", "global_pool")))
@example(*(f"tvm.topi.nn.{name}" for name in ("adaptive_pool", "adaptive_pool1d", "adaptive_pool3d")))
def _pools() -> None:
    biggest = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
    for rank, reference in enumerate(biggest, 1):
        a = floats(1, 2, *(6,) * rank)
        pool, ones = getattr(nn, f"pool{rank}d"), [1] * rank
        wanted = torch_of(reference, a, kernel_size=3, stride=2, padding=1)
        check(lambda x, p=pool, n=ones: p(x, [3] * len(n), [2] * len(n), n, n * 2, "max"), wanted, a)
    a = floats(1, 2, 6, 6)
    check(lambda x: nn.global_pool(x, "avg"), a.mean((2, 3), keepdims=True), a)
    check(
        lambda x: nn.adaptive_pool(x, (4, 3), "avg"), torch_of(functional.adaptive_avg_pool2d, a, output_size=(4, 3)), a
    )
    line, cube = floats(1, 2, 7), floats(1, 2, 4, 4, 4)
    check(
        lambda x: nn.adaptive_pool1d(x, 3, "max"), torch_of(functional.adaptive_max_pool1d, line, output_size=3), line
    )
    check(
        lambda x: nn.adaptive_pool3d(x, (2, 2, 3), "avg"),
        torch_of(functional.adaptive_avg_pool3d, cube, output_size=(2, 2, 3)),
        cube,
    )


@example(*(f"tvm.topi.nn.{name}" for name in ("pad", "mirror_pad", "reflect_pad", "replicate_pad", "circular_pad")))
def _pads() -> None:
    a = floats(4, 5)
    widths, numpy_widths = ([1, 2], [2, 0]), [(1, 2), (2, 0)]
    wanted = np.pad(a, numpy_widths, constant_values=7)
    check(lambda x: nn.pad(x, *widths, pad_value=7.0), wanted, a)
    check(lambda x: nn.pad(x, *widths, pad_value=7.0, attrs={"mine": 1}), wanted, a)
    assert nn.pad(tensor(a), *widths, attrs={"mine": 1}).op.attrs["mine"] == 1
    for name, mode in (("reflect_pad", "reflect"), ("replicate_pad", "edge"), ("circular_pad", "wrap")):
        check(lambda x, n=name: getattr(nn, n)(x, *widths), np.pad(a, numpy_widths, mode=mode), a)
    for mode in ("SYMMETRIC", "REFLECT"):
        check(lambda x, m=mode: nn.mirror_pad(x, *widths, mode=m), np.pad(a, numpy_widths, mode=mode.lower()), a)


@example(*(f"tvm.topi.nn.{name}" for name in ("space_to_depth", "depth_to_space")))
@example(*(f"tvm.topi.nn.{name}" for name in ("space_to_batch_nd", "batch_to_space_nd")))
def _blocks() -> None:
    a = floats(1, 8, 2, 3)
    shuffled = torch_of(torch.pixel_shuffle, a, upscale_factor=2)
    check(lambda x: nn.depth_to_space(x, 2, mode="CRD"), shuffled, a)
    pixels = a.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    check(lambda x: nn.depth_to_space(x, block_size=2), pixels, a)
    check(lambda x: nn.space_to_depth(x, 2), a, pixels.copy())
    image = floats(2, 4, 4, 3)
    parts = image.reshape(2, 2, 2, 2, 2, 3).transpose(2, 4, 0, 1, 3, 5).reshape(8, 2, 2, 3)
    check(lambda x: nn.space_to_batch_nd(x, [2, 2], [0, 0], [0, 0]), parts, image)
    check(lambda x: nn.batch_to_space_nd(x, [2, 2], [0, 1], [0, 1]), image[:, :, 1:3], parts.copy())


@example(*(f"tvm.topi.nn.{name}" for name in ("flatten", "dilate", "fifo_buffer", "upsampling", "nll_loss")))
def _others() -> None:
    a = floats(2, 3, 4, 4)
    check(nn.flatten, a.reshape(2, 48), a)
    wanted = np.full((3, 7), 5.0)
    wanted[:, ::3] = a[0, :, 0, :3]
    check(lambda x: nn.dilate(x, [1, 3], 5.0), wanted, a[0, :, 0, :3].copy())
    old, new = floats(2, 5), floats(2, 2)
    check(lambda x, y: nn.fifo_buffer(x, y, axis=1), np.concatenate((old[:, 2:], new), 1), new, old)
    check(lambda x: nn.upsampling(x, 2, 3), a.repeat(2, 2).repeat(3, 3), a)
    logits, targets, weights = floats(5, 3), whole(5, high=3), floats(3)
    for reduction in ("mean", "sum", "none"):
        loss = functional.nll_loss(
            torch.from_numpy(logits),
            torch.from_numpy(targets).long(),
            torch.from_numpy(weights),
            reduction=reduction,
            ignore_index=2,
        ).numpy()
        check(lambda x, t, w, r=reduction: nn.nll_loss(x, t, w, r, 2), loss, logits, targets, weights)


@example(*(f"tvm.topi.nn.{name}" for name in ("scale_shift_nchw", "scale_shift_nhwc", "scale_shift_nchwc")))
@example(*(f"tvm.topi.nn.{name}" for name in ("unpack_NCHWc_to_nchw", "get_pad_tuple", "get_pad_tuple1d")))
def _channels() -> None:
    a, scale, shift = floats(1, 4, 2, 3), floats(4), floats(4)
    wanted = a * scale[:, None, None] + shift[:, None, None]
    check(nn.scale_shift_nchw, wanted, a, scale, shift)
    check(nn.scale_shift_nhwc, wanted.transpose(0, 2, 3, 1), a.transpose(0, 2, 3, 1).copy(), scale, shift)
    packed = a.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 4, 2).copy()
    blocks = wanted.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 4, 2)
    check(nn.scale_shift_nchwc, blocks, packed, scale.reshape(2, 2), shift.reshape(2, 2))
    check(lambda x: nn.unpack_NCHWc_to_nchw(x, "float32"), a, packed)
    assert nn.get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)
    assert nn.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)
    assert nn.get_pad_tuple1d(1, (3,)) == (1, 1)
    assert nn.get_pad_tuple1d("VALID", (3,)) == (0, 0)
