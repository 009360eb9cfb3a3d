"""Normalisations of channels by their own statistics: group_norm, instance_norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node, replace
from eutectic.ir.prim_expr import as_prim, floormod
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.layout import arrange, arrange_dims, order, row_major
from eutectic.relax.op.nn.norm_parts import affine, check, legalize_affine, normalised
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.registry import attrs_of, call, define_op, infer_call, refuse, short_name, tensor_args
from eutectic.relax.op.separable import not_along_first, only_first
from eutectic.relax.op.shapes import axes_of, differ, dims_text, int_of, ints_of, like, per_axis, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.data_layout import layout as parsed

_group_norm = define_op("relax.nn.group_norm", arity=3, fusion="opaque", traits=["generated"])
_instance_norm = define_op("relax.nn.instance_norm", arity=3, fusion="opaque", traits=["generated"])
CHANNEL_NORMS: Final = (_group_norm.op, _instance_norm.op)
"""The operators."""


@node("relax.attrs.GroupNormAttrs")
class GroupNormAttrs(Attrs):
    """Options of group_norm; see its constructor."""

    num_groups: int
    channel_axis: int
    axes: tuple[int, ...]
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    layout: str = ""


@node("relax.attrs.InstanceNormAttrs")
class InstanceNormAttrs(Attrs):
    """Options of instance_norm; see its constructor."""

    channel_axis: int
    axes: tuple[int, ...]
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    layout: str = ""


ChannelNormAttrs = GroupNormAttrs | InstanceNormAttrs


def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    layout: str = "",
    *,
    span: Any = None,
) -> Call:
    """Groups of channels with mean 0 and variance 1, then each channel scaled and shifted.

    Args:
        data: Any shape with an axis of size `c`; a float dtype.
        gamma: `(c,)`, the new scale; same dtype.
        beta: `(c,)`, the new mean; same dtype.
        num_groups: Divides `c`.
        channel_axis: The axis of the channels.
        axes: The axes that are normalised over, besides the channels of a group.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether `gamma` is applied.
        layout: How data and result lie in memory where it is not row-major, such as `NCHW16c`: `channel_axis` and
            `axes` are then counted row-major, as of `NCHW`. Channels may be in blocks, which come last.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not one float dtype, no such axis, parameters of other sizes, or
            `num_groups` does not divide the channels.

    Accuracy: computed in float64 and rounded once.
    Reference: torch.nn.functional.group_norm; TVM relax.nn.group_norm.
    """
    attrs = GroupNormAttrs(
        per_axis(num_groups, 1, "num_groups")[0],
        int_of(channel_axis, "channel_axis"),
        ints_of(axes, "axes"),
        float(epsilon),
        bool(center),
        bool(scale),
        str(layout),
    )
    return call(_group_norm, data, gamma, beta, attrs=attrs, span=span)


def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    layout: str = "",
    *,
    span: Any = None,
) -> Call:
    """Each channel of each sample with mean 0 and variance 1, then scaled and shifted by channel.

    Args:
        data: Any shape with an axis of size `c`; a float dtype.
        gamma: `(c,)`, the new scale; same dtype.
        beta: `(c,)`, the new mean; same dtype.
        channel_axis: The axis of the channels.
        axes: The axes that are normalised over.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether `gamma` is applied.
        layout: How data and result lie in memory where it is not row-major, such as `NCHW16c`: `channel_axis` and
            `axes` are then counted row-major, as of `NCHW`. Channels may be in blocks, which come last.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: not one float dtype, no such axis or layout, or parameters of other sizes.

    Accuracy: computed in float64 and rounded once.
    Reference: torch.nn.functional.instance_norm; TVM relax.nn.instance_norm.
    """
    channel, inner = int_of(channel_axis, "channel_axis"), ints_of(axes, "axes")
    attrs = InstanceNormAttrs(channel, inner, float(epsilon), bool(center), bool(scale), str(layout))
    return call(_instance_norm, data, gamma, beta, attrs=attrs, span=span)


@_group_norm.separable
@_instance_norm.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    assert c.attrs is not None
    axes = [c.attrs["channel_axis"], *c.attrs["axes"]]
    return only_first(c, batched) and not_along_first(axes, tensor_args(c)[0].ndim)


@_group_norm.infer
def _infer_group_norm(c: Call) -> TensorStructInfo:
    attrs = attrs_of(c, GroupNormAttrs)
    data, channel = _checked(c, attrs)
    if data.dims is not None and differ(floormod(data.dims[channel], attrs.num_groups), as_prim(0)):
        refuse(
            c,
            f"group_norm: {size_text(data.dims[channel])} channels do not divide into {attrs.num_groups} groups",
            help="choose a number of groups that divides the channels",
        )
    return like(tensor_args(c)[0])


@_instance_norm.infer
def _infer_instance_norm(c: Call) -> TensorStructInfo:
    _checked(c, attrs_of(c, InstanceNormAttrs))
    return like(tensor_args(c)[0])


def _checked(c: Call, attrs: ChannelNormAttrs) -> tuple[TensorStructInfo, int]:
    """The data as it is row-major, and the axis of its channels."""
    whole = _row_major(c, attrs.layout) if attrs.layout else None
    data, (channel,) = check(c, (attrs.channel_axis,), whole)
    inner = axes_of(c, attrs.axes, data.ndim) if data.ndim >= 0 else ()
    if channel in inner:
        refuse(
            c,
            f"{short_name(c)} lists the channel axis {channel} among the axes {list(attrs.axes)}",
            help="give the other axes only",
        )
    if parsed(attrs.layout).is_blocked and (channel != 1 or sorted(inner) != [*range(2, data.ndim)]):
        refuse(
            c,
            f"{short_name(c)} in layout {attrs.layout} of channels along axis {channel}, over the axes {list(inner)}",
            help="channels in blocks are those of axis 1, and all axes behind it are normalised over",
        )
    return data, channel


def _row_major(c: Call, name: str) -> TensorStructInfo:
    """The data as it would be without its layout."""
    data = tensor_args(c)[0]
    plain = row_major(name)
    if parsed(name).is_blocked and str(parsed(name)) != f"{plain}{parsed(name).factor_of('C')}c":
        refuse(c, f"{short_name(c)} in layout {name}", help=f"use one such as {plain}16c, with channels in blocks")
    if data.ndim not in (-1, parsed(name).ndim):
        refuse(c, f"{short_name(c)} in layout {name} of {dims_text(data.dims)}", help="give one size for each axis")
    if data.dims is None:
        return tensor_info(None, data.dtype, len(plain))
    return tensor_info(arrange_dims(data.dims, name, plain), data.dtype)


def _in_layouts(c: Call, args: Sequence[Expr], operands: Sequence[str], result: str) -> Call:
    """A call on data in a layout, with the result in the same."""
    assert c.attrs is not None
    attrs = replace(c.attrs, layout=operands[0] or c.attrs["layout"])
    return infer_call(replace(c, args=tuple(args), attrs=attrs, struct_info=None))


for _operator in (_group_norm, _instance_norm):
    _operator.in_layouts(_in_layouts)


@_group_norm.reference
def _reference_group_norm(attrs: GroupNormAttrs, x: Array, gamma: Array, beta: Array) -> Array:
    return _in_row_major(attrs, x, lambda data: _normalised_groups(attrs, data, gamma, beta))


@_instance_norm.reference
def _reference_instance_norm(attrs: InstanceNormAttrs, x: Array, gamma: Array, beta: Array) -> Array:
    def compute(data: Array) -> Array:
        out = normalised(data, attrs.axes, attrs.epsilon)
        return cast(affine(out, gamma, beta, (attrs.channel_axis % data.ndim,), attrs), dtype_of(x))

    return _in_row_major(attrs, x, compute)


def _in_row_major(attrs: ChannelNormAttrs, x: Array, compute: Callable[[Array], Array]) -> Array:
    if not attrs.layout:
        return compute(x)
    plain = row_major(attrs.layout)
    return arrange(compute(arrange(x, attrs.layout, plain)), plain, attrs.layout)


def _normalised_groups(attrs: GroupNormAttrs, x: Array, gamma: Array, beta: Array) -> Array:
    channel = attrs.channel_axis % x.ndim
    inner = [axis % x.ndim for axis in attrs.axes]
    per_group = x.shape[channel] // attrs.num_groups
    grouped = x.reshape(*x.shape[:channel], attrs.num_groups, per_group, *x.shape[channel + 1 :])
    axes = (channel + 1, *(axis + (axis > channel) for axis in inner))
    out = normalised(grouped, axes, attrs.epsilon).reshape(x.shape)
    return cast(affine(out, gamma, beta, (channel,), attrs), dtype_of(x))


def _group_norm_program(data: Tensor, gamma: Tensor | None, beta: Tensor | None, attrs: GroupNormAttrs) -> Tensor:
    if parsed(attrs.layout).is_blocked:
        return topi.nn.group_norm_in_blocks(data, gamma, beta, attrs.num_groups, attrs.epsilon)
    return topi.nn.group_norm(data, gamma, beta, attrs.num_groups, *_axes_in_memory(attrs), attrs.epsilon)


def _instance_norm_program(data: Tensor, gamma: Tensor | None, beta: Tensor | None, attrs: InstanceNormAttrs) -> Tensor:
    if parsed(attrs.layout).is_blocked:
        return topi.nn.group_norm_in_blocks(data, gamma, beta, None, attrs.epsilon)
    return topi.nn.instance_norm(data, gamma, beta, *_axes_in_memory(attrs), attrs.epsilon)


def _axes_in_memory(attrs: ChannelNormAttrs) -> tuple[int, tuple[int, ...]]:
    """The axis of the channels and those that are normalised over, as the data lies in memory."""
    if not attrs.layout:
        return attrs.channel_axis, attrs.axes
    places = order(attrs.layout, row_major(attrs.layout))
    return places[attrs.channel_axis], tuple(places[axis] for axis in attrs.axes)


@_group_norm.legalize
def _legalize_group_norm(builder: Builder, c: Call) -> Expr:
    return legalize_affine(builder, c, _group_norm_program, attrs_of(c, GroupNormAttrs))


@_instance_norm.legalize
def _legalize_instance_norm(builder: Builder, c: Call) -> Expr:
    return legalize_affine(builder, c, _instance_norm_program, attrs_of(c, InstanceNormAttrs))
