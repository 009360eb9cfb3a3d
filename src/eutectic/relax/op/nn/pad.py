"""relax.nn.pad: elements added around a tensor, or cut off it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node, replace
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.along_axes import AxisPlaces
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import at_least, dims_text, ints_of, reject, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor
from eutectic.tir.op import const

_pad = define_op("relax.nn.pad", arity=1, fusion="injective")


@_pad.identity
def _adds_nothing(c: Call) -> bool:
    return c.attrs is not None and not any(c.attrs["pad_width"])


# Mode of pad -> NumPy's name of it.
PAD_MODES: Final = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "edge": "edge",
    "circular": "wrap",
}


@node("relax.attrs.PadAttrs")
class PadAttrs(Attrs):
    """Elements before and after each axis, the value of new ones, and where else they come from."""

    pad_width: tuple[int, ...]
    pad_value: float = 0.0
    pad_mode: str = "constant"


def pad(
    data: Expr, pad_width: Sequence[int], pad_value: float = 0.0, pad_mode: str = "constant", *, span: Any = None
) -> Call:
    """`data` with elements added before and after each axis.

    Args:
        data: Any shape and dtype.
        pad_width: For each axis, first to last, how many before and how many after; negative
            numbers cut off, in mode `constant` only.
        pad_value: Value of new elements in mode `constant`.
        pad_mode: `constant`; `reflect` mirrors without repeating the border; `replicate` (or
            `edge`) repeats the border; `circular` continues from the other end.
        span: Python source of the call, for errors.

    Returns:
        Each size plus its two numbers, dtype of `data`.

    Raises:
        TypeInferenceError: unknown mode, not two numbers per axis, or more elements than the mode can provide.

    Reference: torch.nn.functional.pad; TVM relax.nn.pad, which has constant, reflect, replicate and circular too.
    """
    if pad_mode not in PAD_MODES:
        reject(f"pad has no mode {pad_mode!r}", help=f"choose one of {', '.join(PAD_MODES)}")
    widths = ints_of(pad_width, "pad_width")
    if pad_mode != "constant" and min(widths, default=0) < 0:
        reject(f"pad with mode {pad_mode} cannot cut off: {list(widths)}", help="use strided_slice")
    return call(_pad, data, attrs=PadAttrs(widths, float(pad_value), pad_mode), span=span)


@_pad.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    attrs = attrs_of(c, PadAttrs)
    ndim = len(attrs.pad_width) // 2
    if len(attrs.pad_width) % 2 or info.ndim not in (-1, ndim):
        refuse(
            c,
            f"{short_name(c)} got {len(attrs.pad_width)} widths for {dims_text(info.dims)}",
            help="give two per axis: before and after",
        )
    if info.dims is None:
        return tensor_info(None, info.dtype, ndim)
    sizes = []
    for axis, size in enumerate(info.dims):
        before, after = attrs.pad_width[2 * axis : 2 * axis + 2]
        _check_source(c, size, max(before, after), attrs.pad_mode)
        what = f"size of axis {axis} of the result"
        sizes.append(at_least(c, size + (before + after), 0, what, "cut less off"))
    return tensor_info(sizes, info.dtype)


def _check_source(c: Call, size: PrimExpr, width: int, mode: str) -> None:
    known = static(size)
    limit = {"reflect": -1, "circular": 0}.get(mode)
    if known is None or width <= 0:
        return
    if (limit is not None and width > known + limit) or (mode != "constant" and known == 0):
        refuse(
            c,
            f"{short_name(c)} with mode {mode} cannot make {width} elements from an axis of size {known}",
            help="pad less, or with mode constant or replicate",
        )


@_pad.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    return all(batched) and not any(attrs_of(c, PadAttrs).pad_width[:2])


@_pad.along_axes
def _along_axes(c: Call, places: AxisPlaces) -> Call | None:
    attrs = attrs_of(c, PadAttrs)
    widths = [0] * (2 * places.target.ndim)
    for axis in range(places.source.ndim):
        pair = attrs.pad_width[2 * axis : 2 * axis + 2]
        if not any(pair):
            continue
        place = places.place(axis)
        if place is None or (attrs.pad_mode != "constant" and not places.keeps(axis)):
            return None
        before, after = (places.steps(axis, width) for width in pair)
        if before is None or after is None:
            return None
        widths[2 * place : 2 * place + 2] = before, after
    return replace(c, attrs=replace(attrs, pad_width=tuple(widths)))


@_pad.reference
def _reference(attrs: PadAttrs, x: Array) -> Array:
    pairs = [(attrs.pad_width[2 * i], attrs.pad_width[2 * i + 1]) for i in range(x.ndim)]
    if attrs.pad_mode != "constant":
        return np.pad(x, pairs, mode=PAD_MODES[attrs.pad_mode])  # type: ignore[call-overload,no-any-return]  # the mode is one of NumPy's
    out = np.full(
        [size + b + a for size, (b, a) in zip(x.shape, pairs, strict=True)], cast(attrs.pad_value, dtype_of(x))
    )
    target = tuple(
        slice(max(b, 0), max(b, 0) + size + min(b, 0) + min(a, 0)) for size, (b, a) in zip(x.shape, pairs, strict=True)
    )
    source = tuple(slice(max(-b, 0), size + min(a, 0)) for size, (b, a) in zip(x.shape, pairs, strict=True))
    if out.size and all(part.stop > part.start for part in source):
        out[target] = x[source]
    return out


def _program(data: Tensor, attrs: PadAttrs) -> Tensor:
    before, after = attrs.pad_width[::2], attrs.pad_width[1::2]
    if attrs.pad_mode != "constant":
        return topi.nn.pad_from(data, before, after, PAD_MODES[attrs.pad_mode])
    return topi.nn.pad(data, before, after, const(cast(attrs.pad_value, data.dtype).item(), data.dtype))


lower(_pad, _program, name="pad", options=lambda attrs: {"attrs": attrs})
