"""`tvm.topi.nn`: convolutions under the names of their layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eutectic.te import Tensor
from eutectic.topi import nn as _nn
from eutectic.topi import reshape as _reshape
from eutectic.topi import transpose as _transpose
from eutectic.topi.shapes import static as _static

Ints = int | Sequence[int]


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Ints = 1,
    padding: Any = "VALID",
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Cross-correlation over one axis; see `eutectic.topi.nn.conv1d`."""
    layout = kernel_layout or ("OIW" if data_layout == "NCW" else "WIO")
    pads = _pads(padding, kernel, layout, dilation)
    return _nn.conv1d(data, kernel, strides, pads, dilation, groups, data_layout, layout, None, out_dtype)


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Ints,
    padding: Any,
    dilation: Ints,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Cross-correlation over two axes; see `eutectic.topi.nn.conv2d`."""
    layout = kernel_layout or {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}[data_layout]
    pads = _pads(padding, filter, layout, dilation)
    return _nn.conv2d(input, filter, strides, pads, dilation, 1, data_layout, layout, None, out_dtype)


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Ints,
    padding: Any,
    dilation: Ints,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
) -> Tensor:
    """Cross-correlation over one, two or three axes; the last three arguments are for a tuner that is not here.

    Raises:
        ValueError: the tuner has rewritten the layout of the weights.
    """
    not_rewritten(auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    rank = len(inp.shape) - 2
    space = data_layout.replace("N", "").replace("C", "")
    layout = kernel_layout or (f"OI{space}" if data_layout.startswith("NC") else f"{space}IO")
    pads = _pads(padding, filt, layout, dilation)
    constructor = (_nn.conv1d, _nn.conv2d, _nn.conv3d)[rank - 1]
    return constructor(inp, filt, stride, pads, dilation, groups, data_layout, layout, None, out_dtype)


def not_rewritten(layout: str, shape: Any) -> None:
    """Refuse weights that a tuner has laid out in another way.

    Raises:
        ValueError: it has.
    """
    if layout or shape:
        raise ValueError("layouts that auto_scheduler or meta_schedule has rewritten are not supported: leave them out")


def _pads(padding: Any, kernel: Tensor, layout: str, dilation: Ints) -> Any:
    """Elements added around, of which `SAME` and `VALID` are texts."""
    if not isinstance(padding, str):
        return padding
    if padding == "VALID":
        return 0
    sizes = [_static(kernel.shape[layout.index(letter)]) for letter in layout if letter not in "OI"]
    steps = [dilation] * len(sizes) if isinstance(dilation, int) else list(dilation)
    whole = [((size or 1) - 1) * step for size, step in zip(sizes, steps, strict=True)]
    return [*(n // 2 for n in whole), *(n - n // 2 for n in whole)]


def _of_layouts(name: str, rank: int, layouts: tuple[str, str], *, grouped: bool) -> Callable[..., Tensor]:
    """`conv2d_nchw` and its like; TVM's names of the arguments differ with the rank."""
    data_layout, kernel_layout = layouts

    def apply(
        data: Tensor, kernel: Tensor, strides: Ints, padding: Any, dilation: Ints, groups: int, out: Any
    ) -> Tensor:
        pads = _pads(padding, kernel, kernel_layout, dilation)
        constructor = (_nn.conv1d, _nn.conv2d, _nn.conv3d)[rank - 1]
        return constructor(data, kernel, strides, pads, dilation, groups, data_layout, kernel_layout, None, out)

    def plain(
        Input: Tensor, Filter: Tensor, stride: Ints, padding: Any, dilation: Ints = 1, out_dtype: str | None = None
    ) -> Tensor:
        return apply(Input, Filter, stride, padding, dilation, 1, out_dtype)

    def in_groups(
        Input: Tensor,
        Filter: Tensor,
        stride: Ints,
        padding: Any,
        dilation: Ints = 1,
        groups: int = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        return apply(Input, Filter, stride, padding, dilation, groups, out_dtype)

    def line(
        data: Tensor,
        kernel: Tensor,
        strides: Ints = 1,
        padding: Any = "VALID",
        dilation: Ints = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        return apply(data, kernel, strides, padding, dilation, 1, out_dtype)

    def line_in_groups(
        data: Tensor,
        kernel: Tensor,
        strides: Ints = 1,
        padding: Any = "VALID",
        dilation: Ints = 1,
        groups: int = 1,
        out_dtype: str | None = None,
    ) -> Tensor:
        return apply(data, kernel, strides, padding, dilation, groups, out_dtype)

    definition: Any = ((plain, in_groups), (line, line_in_groups))[rank == 1][grouped]
    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"Cross-correlation of {data_layout} data with {kernel_layout} weights."
    return definition  # type: ignore[no-any-return]  # one of the four


conv1d_ncw = _of_layouts("conv1d_ncw", 1, ("NCW", "OIW"), grouped=False)
conv1d_nwc = _of_layouts("conv1d_nwc", 1, ("NWC", "WIO"), grouped=False)
conv2d_nchw = _of_layouts("conv2d_nchw", 2, ("NCHW", "OIHW"), grouped=False)
conv2d_nhwc = _of_layouts("conv2d_nhwc", 2, ("NHWC", "HWIO"), grouped=False)
conv2d_hwcn = _of_layouts("conv2d_hwcn", 2, ("HWCN", "HWIO"), grouped=False)
conv3d_ncdhw = _of_layouts("conv3d_ncdhw", 3, ("NCDHW", "OIDHW"), grouped=True)
conv3d_ndhwc = _of_layouts("conv3d_ndhwc", 3, ("NDHWC", "DHWIO"), grouped=True)
group_conv1d_ncw = _of_layouts("group_conv1d_ncw", 1, ("NCW", "OIW"), grouped=True)
group_conv1d_nwc = _of_layouts("group_conv1d_nwc", 1, ("NWC", "WIO"), grouped=True)
group_conv2d_nchw = _of_layouts("group_conv2d_nchw", 2, ("NCHW", "OIHW"), grouped=True)
group_conv2d_nhwc = _of_layouts("group_conv2d_nhwc", 2, ("NHWC", "HWIO"), grouped=True)


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: Ints, padding: Any, dilation: Ints, out_dtype: str | None = None
) -> Tensor:
    """Each channel by filters of its own: `(channels, multiplier, h, w)`."""
    channels, multiplier, *kernel = Filter.shape
    weight = _reshape(Filter, (channels * multiplier, 1, *kernel))
    return group_conv2d_nchw(Input, weight, stride, padding, dilation, _static(channels), out_dtype)


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Ints,
    padding: Any,
    dilation: Ints,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel by filters of its own: `(h, w, channels, multiplier)`, or `(h, w, multiplier, channels)`."""
    weight = Filter if kernel_layout == "HWOI" else _transpose(Filter, (0, 1, 3, 2))
    *kernel, channels, multiplier = weight.shape
    weight = _reshape(weight, (*kernel, 1, channels * multiplier))
    return group_conv2d_nhwc(Input, weight, stride, padding, dilation, _static(channels), out_dtype)


def _transposed(name: str, rank: int, spelling: str, *, grouped: bool) -> Callable[..., Tensor]:
    constructor = (_nn.conv1d_transpose, _nn.conv2d_transpose, _nn.conv3d_transpose)[rank - 1]

    def line(data: Tensor, kernel: Tensor, stride: Ints, padding: Any, out_dtype: str, output_padding: Ints) -> Tensor:
        return constructor(data, kernel, stride, padding, output_padding, 1, 1, out_dtype)

    def image(
        Input: Tensor, Filter: Tensor, strides: Ints, padding: Any, out_dtype: str, output_padding: Ints
    ) -> Tensor:
        return constructor(Input, Filter, strides, padding, output_padding, 1, 1, out_dtype)

    def in_groups(
        data: Tensor,
        kernel: Tensor,
        stride: Ints,
        padding: Any,
        out_dtype: str,
        output_padding: Ints,
        groups: int,
    ) -> Tensor:
        return constructor(data, kernel, stride, padding, output_padding, 1, groups, out_dtype)

    definition: Any = in_groups if grouped else line if rank == 1 else image
    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"The adjoint of a convolution over {rank} axes, of {spelling} data."
    return definition  # type: ignore[no-any-return]  # one of the three


conv1d_transpose_ncw = _transposed("conv1d_transpose_ncw", 1, "NCW", grouped=False)
conv2d_transpose_nchw = _transposed("conv2d_transpose_nchw", 2, "NCHW", grouped=False)
conv3d_transpose_ncdhw = _transposed("conv3d_transpose_ncdhw", 3, "NCDHW", grouped=False)
group_conv1d_transpose_ncw = _transposed("group_conv1d_transpose_ncw", 1, "NCW", grouped=True)
group_conv2d_transpose_nchw = _transposed("group_conv2d_transpose_nchw", 2, "NCHW", grouped=True)


def group_conv3d_transpose_ncdhw(
    data: Tensor, kernel: Tensor, strides: Ints, padding: Any, out_dtype: str, output_padding: Ints, groups: int
) -> Tensor:
    """The adjoint of a convolution over three axes in groups, of NCDHW data."""
    return _nn.conv3d_transpose(data, kernel, strides, padding, output_padding, 1, groups, out_dtype)
