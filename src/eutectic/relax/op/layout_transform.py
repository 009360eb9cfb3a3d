"""relax.layout_transform: the same tensor in another layout."""

from __future__ import annotations

from typing import Any

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.layout import arrange, arrange_dims, check_layout
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.shapes import dims_text, reject, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.tir.data_layout import layout, rearrangement

_layout_transform = define_op("relax.layout_transform", arity=1, fusion="injective")


@node("relax.attrs.LayoutTransformAttrs")
class LayoutTransformAttrs(Attrs):
    """The layout that there is, and the one that is wanted."""

    src_layout: str
    dst_layout: str


def layout_transform(x: Expr, src_layout: str, dst_layout: str, *, span: Any = None) -> Call:
    """The same elements in another layout.

    Args:
        x: The axes of `src_layout`, any dtype.
        src_layout: Such as `NCHW`.
        dst_layout: Such as `NCHW16c`; the same axes, in any order, cut into full blocks.
        span: Python source of the call, for errors.

    Returns:
        The axes of `dst_layout`, dtype of `x`.

    Raises:
        TypeInferenceError: a text is no layout, the axes of both or the rank of `x` differ, or an axis is not cut into
            full blocks.

    Reference: TVM relay.layout_transform; relax.layout_transform there takes an index map, which is
    `eutectic.tir.data_layout.layout(dst_layout).index_map()`.
    """
    names = _layout(src_layout).names
    _layout(dst_layout)
    attrs = LayoutTransformAttrs(src_layout, check_layout(dst_layout, names, "dst_layout", blocked=True))
    return call(_layout_transform, x, attrs=attrs, span=span)


def _layout(text: str) -> Any:
    try:
        return layout(text)
    except ValueError as error:
        reject(str(error), help="a layout is such as NCHW or NCHW16c")


@_layout_transform.identity
def _changes_nothing(c: Call) -> bool:
    attrs = attrs_of(c, LayoutTransformAttrs)
    return attrs.src_layout == attrs.dst_layout


@_layout_transform.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, LayoutTransformAttrs)
    rank = layout(attrs.src_layout).ndim
    if info.ndim not in (-1, rank):
        refuse(
            c,
            f"layout_transform from {attrs.src_layout} needs {rank} axes, got {info.ndim}: {dims_text(info.dims)}",
            help="src_layout is the layout that the tensor has",
        )
    if info.dims is None:
        return tensor_info(None, info.dtype, layout(attrs.dst_layout).ndim)
    return tensor_info(arrange_dims(info.dims, attrs.src_layout, attrs.dst_layout), info.dtype)


@_layout_transform.reference
def _reference(attrs: LayoutTransformAttrs, x: Array) -> Array:
    return arrange(x, attrs.src_layout, attrs.dst_layout)


@_layout_transform.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    """Reshapes, which cost nothing, around a change of places, where there is one."""
    attrs = attrs_of(c, LayoutTransformAttrs)
    (info,) = tensor_args(c)
    assert info.dims is not None
    way = rearrangement(layout(attrs.src_layout), layout(attrs.dst_layout), info.dims)
    x = c.args[0]
    if not way.moves_nothing:
        seen = x if len(way.split) == len(info.dims) else builder.emit(builder.call_te(topi.reshape, x, way.split))
        moved = builder.call_te(topi.transpose, seen, list(way.order))
        if len(way.joined) == len(way.split):
            return moved
        x = builder.emit(moved)
    return builder.call_te(topi.reshape, x, way.joined)
