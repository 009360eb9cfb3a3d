"""relax.nn.conv1d_transpose, conv2d_transpose, conv3d_transpose: the adjoints of the convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout
from eutectic.relax.op.lowering import lower, rearranged, summed
from eutectic.relax.op.nn.conv import check_ranks, operand_dtype
from eutectic.relax.op.nn.conv_reference import convolve_transposed, finish, working
from eutectic.relax.op.numerics import Array, dtype_of
from eutectic.relax.op.registry import OpDef, attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.separable import only_first
from eutectic.relax.op.shapes import (
    Dims,
    at_least,
    differ,
    dims_text,
    dtype_option,
    paddings,
    per_axis,
    reject,
    size_text,
    tensor_info,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor

_OPS = {
    rank: define_op(
        f"relax.nn.conv{rank}d_transpose", arity=2, fusion="out_fusible", traits=["convolution", "transposed"]
    )
    for rank in SPATIAL
}


@node("relax.attrs.ConvTransposeAttrs")
class ConvTransposeAttrs(Attrs):
    """Options of a transposed convolution.

    Attributes:
        strides: Step between the windows written, per spatial axis.
        padding: Elements cut off before each spatial axis, then after each.
        output_padding: Elements added at the end of each spatial axis.
        dilation: Step between the taps of a window per spatial axis.
        groups: Number of independent groups of channels.
        data_layout: Order of the axes of the data.
        kernel_layout: Order of the axes of the weights; I input, O output channels per group.
        out_layout: Order of the axes of the result.
        out_dtype: Dtype of the result; `void` takes the operands'.
    """

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str
    out_dtype: str = "void"


def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Transposed convolution over one spatial axis.

    Args:
        data: `(n, i, w)` in `data_layout`; any dtype but bool.
        weight: `(i, o / groups, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between the windows written; positive.
        padding: Elements cut off on both sides, or (left, right).
        output_padding: Elements added at the end; below the stride or the dilation.
        dilation: Step between taps; positive.
        groups: Divides `i`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, (w - 1) * strides - left - right + dilation * (kw - 1) + output_padding + 1)`.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or the result is empty.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv_transpose1d without bias; TVM relax.nn.conv1d_transpose.
    """
    options = (strides, padding, output_padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv_transpose(1, data, weight, options, span)


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    output_padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Transposed convolution over two spatial axes.

    Args:
        data: `(n, i, h, w)` in `data_layout`; any dtype but bool.
        weight: `(i, o / groups, kh, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between the windows written; positive, one value or one per axis.
        padding: Elements cut off: one value, (height, width), or (top, left, bottom, right).
        output_padding: Elements added at the end of each axis; below its stride or dilation.
        dilation: Step between taps; positive, one value or one per axis.
        groups: Divides `i`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, oh, ow)`, each size as in conv1d_transpose.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or the result is empty.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv_transpose2d without bias; TVM relax.nn.conv2d_transpose.
    """
    options = (strides, padding, output_padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv_transpose(2, data, weight, options, span)


def conv3d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    output_padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Transposed convolution over three spatial axes.

    Args:
        data: `(n, i, d, h, w)` in `data_layout`; any dtype but bool.
        weight: `(i, o / groups, kd, kh, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between the windows written; positive, one value or one per axis.
        padding: Elements cut off: one value, one per axis, or three before and three after.
        output_padding: Elements added at the end of each axis; below its stride or dilation.
        dilation: Step between taps; positive, one value or one per axis.
        groups: Divides `i`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, od, oh, ow)`, each size as in conv1d_transpose.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or the result is empty.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv_transpose3d without bias.
    """
    options = (strides, padding, output_padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv_transpose(3, data, weight, options, span)


def _conv_transpose(rank: int, data: Expr, weight: Expr, options: tuple[Any, ...], span: Any) -> Call:
    strides, padding, output_padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype = options
    attrs = ConvTransposeAttrs(
        per_axis(strides, rank, "strides"),
        paddings(padding, rank),
        per_axis(output_padding, rank, "output_padding", least=0),
        per_axis(dilation, rank, "dilation"),
        per_axis(groups, 1, "groups")[0],
        check_layout(data_layout, "NC" + SPATIAL[rank], "data_layout"),
        check_layout(kernel_layout, "IO" + SPATIAL[rank], "kernel_layout"),
        check_layout(out_layout or data_layout, "NC" + SPATIAL[rank], "out_layout"),
        dtype_option(out_dtype),
    )
    for extra, stride, step in zip(attrs.output_padding, attrs.strides, attrs.dilation, strict=True):
        if extra >= max(stride, step):
            reject(
                f"output_padding {extra} must be below the stride {stride} or the dilation {step}",
                help="pad the result with nn.pad instead",
            )
    return call(_OPS[rank], data, weight, attrs=attrs, span=span)


def _infer(c: Call) -> TensorStructInfo:
    data, weight = tensor_args(c)
    attrs = attrs_of(c, ConvTransposeAttrs)
    rank = len(attrs.strides)
    check_ranks(c, (data, weight), (attrs.data_layout, attrs.kernel_layout))
    dtype = operand_dtype(c, data, weight, attrs.out_dtype)
    if data.dims is None or weight.dims is None:
        return tensor_info(None, dtype, rank + 2)
    x = arrange_dims(data.dims, attrs.data_layout, "NC" + SPATIAL[rank])
    w = arrange_dims(weight.dims, attrs.kernel_layout, "IO" + SPATIAL[rank])
    if differ(x[1], w[0]):
        refuse(
            c,
            f"{short_name(c)} of {size_text(x[1])} channels with weights for {size_text(w[0])}: "
            f"data {dims_text(data.dims)}, weight {dims_text(weight.dims)}",
            help=f"the weights are laid out {attrs.kernel_layout}, input channels at I",
        )
    if differ(floormod(x[1], attrs.groups), as_prim(0)):
        refuse(
            c,
            f"{short_name(c)}: {size_text(x[1])} input channels do not divide into {attrs.groups} groups",
            help="make the channels of the data a multiple of groups",
        )
    out = (x[0], w[1] * attrs.groups, *_out_sizes(c, attrs, x[2:], w[2:]))
    return tensor_info(arrange_dims(out, "NC" + SPATIAL[rank], attrs.out_layout), dtype)


def _out_sizes(c: Call, attrs: ConvTransposeAttrs, sizes: Dims, kernel: Dims) -> Dims:
    rank = len(sizes)
    out = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        cut = attrs.padding[i] + attrs.padding[rank + i]
        extent = (size - 1) * attrs.strides[i] - cut + (k - 1) * attrs.dilation[i] + (attrs.output_padding[i] + 1)
        out.append(at_least(c, extent, 1, f"spatial size {i} of the result", "cut less off: padding is too large"))
    return tuple(out)


def _reference(attrs: ConvTransposeAttrs, data: Array, weight: Array) -> Array:
    space = SPATIAL[len(attrs.strides)]
    dtype = attrs.out_dtype if attrs.out_dtype != "void" else dtype_of(data)
    work = working(data, weight, dtype)
    x = arrange(data, attrs.data_layout, "NC" + space).astype(work, order="C", copy=False)
    w = arrange(weight, attrs.kernel_layout, "IO" + space).astype(work, order="C", copy=False)
    out = convolve_transposed(x, w, attrs.strides, attrs.padding, attrs.output_padding, attrs.dilation, attrs.groups)
    return arrange(finish(out, dtype), "NC" + space, attrs.out_layout)


def _define(rank: int, op: OpDef) -> None:
    op.infer(_infer)
    op.separable(only_first)
    op.reference(_reference)
    name = f"conv{rank}d_transpose"
    convolution = getattr(topi.nn, name)

    def program(data: Tensor, weight: Tensor, attrs: ConvTransposeAttrs) -> Tensor:
        x = rearranged(data, attrs.data_layout, "NC" + SPATIAL[rank])
        w = rearranged(weight, attrs.kernel_layout, "IO" + SPATIAL[rank])
        options = (attrs.strides, attrs.padding, attrs.output_padding, attrs.dilation, attrs.groups)
        out = summed(lambda dtype: convolution(x, w, *options, dtype), (x, w), attrs.out_dtype)
        return rearranged(out, "NC" + SPATIAL[rank], attrs.out_layout)

    lower(op, program, name=name, options=lambda attrs: {"attrs": attrs})


for _rank, _op in _OPS.items():
    _define(_rank, _op)
