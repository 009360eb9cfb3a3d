"""Layouts such as NCHW or NCHW16c: which letter is which axis, and how to get to the canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.arith import simplify
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import infer_call
from eutectic.relax.op.shapes import Dims, reject
from eutectic.tir.data_layout import layout as parsed
from eutectic.tir.data_layout import rearrangement

_USUAL: Final = "NOICDHW"
SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def check_layout(layout: str, canonical: str, what: str, *, blocked: bool = False) -> str:
    """`layout`, which must name every axis of `canonical` once.

    Args:
        layout: The name.
        canonical: Letters of the axes.
        what: What it is the layout of.
        blocked: Whether axes may be cut into blocks.

    Raises:
        TypeInferenceError: a letter is missing, unknown or repeated.
    """
    if sorted(_names(layout) if blocked else layout) != sorted(canonical):
        reject(f"{what} {layout!r} is not an order of the axes {', '.join(canonical)}", help=f"try {canonical!r}")
    return layout


def check_out_layout(out_layout: str | None, layout: str, canonical: str) -> str:
    """The layout of a result: another order of the axes, or that of the data, which may have blocks.

    Raises:
        TypeInferenceError: it is neither.
    """
    wanted = out_layout or layout
    if wanted != layout and (_names(layout) != layout or _names(wanted) != wanted):
        reject(f"data in layout {layout} with a result in {wanted}", help="blocks stay: use layout_transform")
    return check_layout(wanted, canonical, "out_layout", blocked=True)


def _names(layout: str) -> str:
    """The axes of a layout without their blocks; of what is none, the text."""
    try:
        return parsed(layout).names
    except ValueError:
        return layout


def is_blocked(layout: str) -> bool:
    """Whether a layout cuts an axis into blocks."""
    return parsed(layout).is_blocked


def in_one_layout(c: Call, args: Sequence[Expr], operands: Sequence[str], result: str) -> Call:
    """A call whose options say the `layout` of its data and the `out_layout` of its result, in another one."""
    assert c.attrs is not None
    attrs = replace(c.attrs, layout=operands[0] or c.attrs["layout"], out_layout=result or c.attrs["out_layout"])
    return infer_call(replace(c, args=tuple(args), attrs=attrs, struct_info=None))


def in_the_layout_of_the_result(c: Call, args: Sequence[Expr], operands: Sequence[str], result: str) -> Call:
    """A call whose options say the `layout` of its data and of its result, in another one."""
    assert c.attrs is not None
    attrs = replace(c.attrs, layout=result or c.attrs["layout"])
    return infer_call(replace(c, args=tuple(args), attrs=attrs, struct_info=None))


def in_layouts_of_data_and_result(c: Call, args: Sequence[Expr], operands: Sequence[str], result: str) -> Call:
    """A call whose options say the `data_layout` of its first operand and the `out_layout` of its result, in others."""
    assert c.attrs is not None
    layouts = operands[0] or c.attrs["data_layout"], result or c.attrs["out_layout"]
    attrs = replace(c.attrs, data_layout=layouts[0], out_layout=layouts[1])
    return infer_call(replace(c, args=tuple(args), attrs=attrs, struct_info=None))


def spatial_rank(layout: str) -> int:
    """Number of spatial axes of a layout.

    Raises:
        TypeInferenceError: there are none, or more than three.
    """
    rank = sum(letter in "DHW" for letter in layout)
    if rank not in SPATIAL:
        reject(f"layout {layout!r} has {rank} spatial axes, expected 1 to 3", help="try 'NCHW'")
    return rank


def row_major(name: str) -> str:
    """The layout of the graph for a value that is in another layout: the same axes in their usual order."""
    return "".join(sorted(parsed(name).names, key=_USUAL.index))


def order(layout: str, wanted: str) -> tuple[int, ...]:
    """For each axis of `wanted`, its place in `layout`."""
    return tuple(layout.index(letter) for letter in wanted)


def arrange(x: Array, layout: str, wanted: str) -> Array:
    """`x` from one layout to another, as a view unless blocks change.

    Raises:
        ValueError: an axis is not cut into full blocks.
    """
    if layout == wanted:
        return x
    source, target = parsed(layout), parsed(wanted)
    if source.is_blocked or target.is_blocked:
        return rearrangement(source, target, x.shape)(x)
    return x.transpose(order(layout, wanted))


def arrange_dims(dims: Dims, layout: str, wanted: str) -> Dims:
    """Sizes from one layout to another.

    Raises:
        TypeInferenceError: an axis is not cut into full blocks.
    """
    source, target = parsed(layout), parsed(wanted)
    if not source.is_blocked and not target.is_blocked:
        return tuple(dims[place] for place in order(layout, wanted))
    try:
        return tuple(simplify(as_prim(size)) for size in rearrangement(source, target, dims).joined)
    except ValueError as error:
        reject(str(error), help="choose blocks that divide the sizes, or keep the axis whole")
