"""relax.nn.conv1d, conv2d, conv3d: cross-correlation with strides, padding, dilation and groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim, floordiv, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import SPATIAL, arrange, arrange_dims, check_layout, is_blocked
from eutectic.relax.op.lowering import lower, summed
from eutectic.relax.op.nn.conv_blocks import check_blocks, check_groups, in_layouts
from eutectic.relax.op.nn.conv_reference import convolve, finish, working
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
    size_text,
    tensor_info,
)
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout

_OPS = {
    rank: define_op(f"relax.nn.conv{rank}d", arity=2, fusion="out_fusible", traits=["convolution"]) for rank in SPATIAL
}

_BLOCKED = {2: topi.nn.conv2d_nchwc, 3: topi.nn.conv3d_ncdhwc}  # with channels in blocks


@node("relax.attrs.ConvAttrs")
class ConvAttrs(Attrs):
    """Options of a convolution.

    Attributes:
        strides: Step between windows per spatial axis.
        padding: Zeros before each spatial axis, then after each.
        dilation: Step between the taps of a window per spatial axis.
        groups: Number of independent groups of channels.
        data_layout: Order of the axes of the data; N batch, C channels, D H W space.
        kernel_layout: Order of the axes of the weights; O output, I input channels per group.
        out_layout: Order of the axes of the result.
        out_dtype: Dtype of the result; `void` takes the operands'.

    Channels of two or three spatial axes may be in blocks; `conv_blocks.py` says which layouts go together.
    """

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    data_layout: str
    kernel_layout: str
    out_layout: str
    out_dtype: str = "void"


def conv1d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Cross-correlation over one spatial axis.

    Args:
        data: `(n, c, w)` in `data_layout`; any dtype but bool.
        weight: `(o, c / groups, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between windows; positive.
        padding: Zeros on both sides, or (left, right).
        dilation: Step between taps; positive.
        groups: Divides `c` and `o`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, (w + left + right - dilation * (kw - 1) - 1) // strides + 1)` in `out_layout`.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or no window fits.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv1d without bias; TVM relax.nn.conv1d.
    """
    options = (strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv(1, data, weight, options, span)


def conv2d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Cross-correlation over two spatial axes.

    Args:
        data: `(n, c, h, w)` in `data_layout`; any dtype but bool.
        weight: `(o, c / groups, kh, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between windows; positive, one value or one per axis.
        padding: Zeros around: one value, (height, width), or (top, left, bottom, right).
        dilation: Step between taps; positive, one value or one per axis.
        groups: Divides `c` and `o`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, oh, ow)` in `out_layout`, `oh = (h + top + bottom - dilation * (kh - 1) - 1) // stride + 1`.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or no window fits.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv2d without bias; TVM relax.nn.conv2d.
    """
    options = (strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv(2, data, weight, options, span)


def conv3d(
    data: Expr,
    weight: Expr,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
    *,
    span: Any = None,
) -> Call:
    """Cross-correlation over three spatial axes.

    Args:
        data: `(n, c, d, h, w)` in `data_layout`; any dtype but bool.
        weight: `(o, c / groups, kd, kh, kw)` in `kernel_layout`, same dtype unless `out_dtype` is given.
        strides: Step between windows; positive, one value or one per axis.
        padding: Zeros around: one value, one per axis, or three before and three after.
        dilation: Step between taps; positive, one value or one per axis.
        groups: Divides `c` and `o`.
        data_layout: Order of the axes of `data`.
        kernel_layout: Order of the axes of `weight`.
        out_layout: Order of the axes of the result; None takes that of `data`.
        out_dtype: Dtype of the result; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(n, o, od, oh, ow)` in `out_layout`, each size as in conv2d.

    Raises:
        TypeInferenceError: ranks, dtypes, channels or groups disagree, or no window fits.

    Accuracy: 16-bit floats are summed in float32 and rounded once.
    Reference: torch.nn.functional.conv3d without bias; TVM relax.nn.conv3d.
    """
    options = (strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype)
    return _conv(3, data, weight, options, span)


def _conv(rank: int, data: Expr, weight: Expr, options: tuple[Any, ...], span: Any) -> Call:
    strides, padding, dilation, groups, data_layout, kernel_layout, out_layout, out_dtype = options
    may_block = rank in _BLOCKED
    attrs = ConvAttrs(
        per_axis(strides, rank, "strides"),
        paddings(padding, rank),
        per_axis(dilation, rank, "dilation"),
        per_axis(groups, 1, "groups")[0],
        check_layout(data_layout, "NC" + SPATIAL[rank], "data_layout", blocked=may_block),
        check_layout(kernel_layout, "OI" + SPATIAL[rank], "kernel_layout", blocked=may_block),
        check_layout(out_layout or data_layout, "NC" + SPATIAL[rank], "out_layout", blocked=may_block),
        dtype_option(out_dtype),
    )
    check_blocks((attrs.data_layout, attrs.kernel_layout, attrs.out_layout), attrs.groups)
    return call(_OPS[rank], data, weight, attrs=attrs, span=span)


def operand_dtype(c: Call, data: TensorStructInfo, weight: TensorStructInfo, out_dtype: str) -> str:
    """Dtype of a convolution's result.

    Raises:
        TypeInferenceError: bool, or operands of different dtypes without an `out_dtype`.
    """
    if "bool" in (data.dtype, weight.dtype):
        refuse(c, f"{short_name(c)} is not defined for bool", help="cast with astype first")
    if out_dtype != "void":
        return out_dtype
    if data.dtype and weight.dtype and data.dtype != weight.dtype:
        refuse(
            c,
            f"{short_name(c)} of {data.dtype} data with {weight.dtype} weights",
            help="cast one side with astype, or give out_dtype",
        )
    return data.dtype if weight.dtype else ""


def check_ranks(c: Call, infos: Sequence[TensorStructInfo], layouts: Sequence[str]) -> None:
    """Refuse data, and weights, that have not the axes of their layouts."""
    for what, info, name in zip(("data", "weight"), infos, layouts, strict=False):
        rank = layout(name).ndim
        if info.ndim not in (-1, rank):
            refuse(
                c,
                f"{short_name(c)} needs {what} with {rank} axes, got {info.ndim}: {dims_text(info.dims)}",
                help="add axes with expand_dims, or use the operator of that rank",
            )


def _infer(c: Call) -> TensorStructInfo:
    data, weight = tensor_args(c)
    attrs = attrs_of(c, ConvAttrs)
    rank = len(attrs.strides)
    check_ranks(c, (data, weight), (attrs.data_layout, attrs.kernel_layout))
    dtype = operand_dtype(c, data, weight, attrs.out_dtype)
    if data.dims is None or weight.dims is None:
        return tensor_info(None, dtype, layout(attrs.out_layout).ndim)
    x = arrange_dims(data.dims, attrs.data_layout, "NC" + SPATIAL[rank])
    w = arrange_dims(weight.dims, attrs.kernel_layout, "OI" + SPATIAL[rank])
    if differ(x[1], w[1] * attrs.groups):
        refuse(
            c,
            f"{short_name(c)} of {size_text(x[1])} channels with weights for {size_text(w[1])} times "
            f"{attrs.groups} groups: data {dims_text(data.dims)}, weight {dims_text(weight.dims)}",
            help="the channels of the data must be those of the weights times groups",
        )
    if differ(floormod(w[0], attrs.groups), as_prim(0)):
        refuse(
            c,
            f"{short_name(c)}: {size_text(w[0])} output channels do not divide into {attrs.groups} groups",
            help="make the output channels of the weights a multiple of groups",
        )
    check_groups(c, (attrs.data_layout, attrs.kernel_layout, attrs.out_layout), attrs.groups, w)
    out = (x[0], w[0], *_out_sizes(c, attrs, x[2:], w[2:]))
    return tensor_info(arrange_dims(out, "NC" + SPATIAL[rank], attrs.out_layout), dtype)


def _out_sizes(c: Call, attrs: ConvAttrs, sizes: Dims, kernel: Dims) -> Dims:
    rank = len(sizes)
    out = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        room = size + (attrs.padding[i] + attrs.padding[rank + i]) - (k - 1) * attrs.dilation[i] - 1
        extent = floordiv(room, attrs.strides[i]) + 1
        help = "pad the data, or use a smaller window"
        out.append(at_least(c, extent, 1, f"no window of {size_text(k)} fits {size_text(size)}; the size", help))
    return tuple(out)


def _reference(attrs: ConvAttrs, data: Array, weight: Array) -> Array:
    space = SPATIAL[len(attrs.strides)]
    dtype = attrs.out_dtype if attrs.out_dtype != "void" else dtype_of(data)
    work = working(data, weight, dtype)
    x = arrange(data, attrs.data_layout, "NC" + space).astype(work, copy=False)
    w = arrange(weight, attrs.kernel_layout, "OI" + space).astype(work, copy=False)
    out = convolve(x, w, attrs.strides, attrs.padding, attrs.dilation, attrs.groups)
    return arrange(finish(out, dtype), "NC" + space, attrs.out_layout)


def _work(c: Call) -> float:
    out, weight = c.struct_info, c.args[1].struct_info
    if not isinstance(out, TensorStructInfo) or not isinstance(weight, TensorStructInfo):
        return inf
    if out.static_shape is None or weight.static_shape is None:
        return inf
    name = attrs_of(c, ConvAttrs).out_layout
    channels = layout(name).factor_of("C") * out.static_shape[layout(name).names.index("C")]
    return 2.0 * prod(out.static_shape) * prod(weight.static_shape) / max(channels, 1)


def _define(rank: int, op: OpDef) -> None:
    op.infer(_infer)
    op.reference(_reference)
    op.work(_work)
    op.separable(only_first)
    if rank in _BLOCKED:
        op.in_layouts(in_layouts)
    name = f"conv{rank}d"
    whole = getattr(topi.nn, name)

    def convolution(data: Tensor, weight: Tensor, **options: Any) -> Tensor:
        if not is_blocked(options["out_layout"]):
            convolved: Tensor = whole(data, weight, **options)
            return convolved
        names = ("strides", "padding", "dilation", "groups", "out_dtype")
        return _BLOCKED[rank](data, weight, **{name: options[name] for name in names})

    def program(data: Tensor, weight: Tensor, out_dtype: str, **options: Any) -> Tensor:
        return summed(lambda dtype: convolution(data, weight, out_dtype=dtype, **options), (data, weight), out_dtype)

    lower(op, program, name=name, options=_options)


def _options(attrs: ConvAttrs) -> dict[str, Any]:
    names = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout", "out_dtype")
    return {name: getattr(attrs, name) for name in names}


for _rank, _op in _OPS.items():
    _define(_rank, _op)
