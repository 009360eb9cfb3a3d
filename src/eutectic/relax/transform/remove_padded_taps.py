"""RemovePaddedTaps: windows without the taps that see nothing but padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.layout import is_blocked
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class RemovePaddedTaps(FunctionPass):
    """Cut taps off the ends of constant windows that lie outside of the image wherever the window is.

    That is so where taps are farther apart than an image is large, as in the pyramids of networks that segment small
    images: of a 3x3 window with taps 24 apart only the one in the middle sees an image of 14 by 14. Sums leave out
    products with zeros only; taps with weights that are not finite stay, as their products with zeros are not zero.
    Channels in blocks have been laid out by somebody, and are left as they are.

    before:                                                            after:
        x: (1, 8, 14, 14), w: (4, 8, 3, 3)                                 w1: (4, 8, 1, 1), the middle of w
        lv = nn.conv2d(x, w, padding=(24, 24, 24, 24), dilation=(24, 24))  lv = nn.conv2d(x, w1)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Cut the windows of one function."""
        return mutated(function, _Cutter())


class _Cutter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Cut the window of one convolution."""
        if has_trait(call, "convolution") and not has_trait(call, "transposed"):
            call = _without_padded_taps(call)
        return super().visit_call_(call)


def _without_padded_taps(call: Call) -> Call:
    data, weight, attrs = call.args[0].struct_info, call.args[1], call.attrs
    if attrs is None or not isinstance(weight, Constant) or not isinstance(data, TensorStructInfo) or not data.dims:
        return call
    if is_blocked(attrs["data_layout"]) or is_blocked(attrs["kernel_layout"]):
        return call
    axes, places = _spatial(attrs["data_layout"]), _spatial(attrs["kernel_layout"])
    sizes = [getattr(data.dims[axis], "value", None) for axis in axes]
    rank = len(axes)
    if None in sizes or len(places) != rank or len(weight.data.shape) != len(attrs["kernel_layout"]):
        return call
    kept, padding = [slice(None)] * weight.data.ndim, list(attrs["padding"])
    for i, place in enumerate(places):
        taps, size, widths = weight.data.shape[place], int(sizes[i] or 0), (padding[i], padding[rank + i])
        first, last = _useful(taps, size, widths, attrs["strides"][i], attrs["dilation"][i])
        kept[place] = slice(first, last + 1)
        padding[i] -= first * attrs["dilation"][i]
        padding[rank + i] -= (taps - 1 - last) * attrs["dilation"][i]
    cut = weight.data[tuple(kept)]
    if cut.shape == weight.data.shape or not _is_finite(weight.data):
        return call
    return Call(
        call.op,
        (call.args[0], Constant(np.ascontiguousarray(cut), span=weight.span)),
        replace(attrs, padding=tuple(padding)),
        call.sinfo_args,
        call.span,
    )


def _spatial(layout: str) -> list[int]:
    return [i for i, axis in enumerate(layout) if axis not in "NCOI"]


def _useful(taps: int, size: int, padding: tuple[int, int], stride: int, dilation: int) -> tuple[int, int]:
    """The first and the last tap that must stay: those that see the image, and any that would leave negative padding.

    Args:
        taps: Of the window along an axis.
        size: Of the image.
        padding: Zeros before and behind it.
        stride: Step between windows.
        dilation: Step between taps.
    """
    before, behind = padding
    windows = range(-before, size + behind - (taps - 1) * dilation, stride)
    shifted = [range(windows.start + tap * dilation, windows.stop + tap * dilation, stride) for tap in range(taps)]
    seeing = [tap for tap, places in enumerate(shifted) if _meets(places, size)]
    if not seeing:
        return 0, taps - 1
    first, last = min(seeing), max(seeing)
    return min(first, before // dilation), max(last, taps - 1 - behind // dilation)


def _meets(places: range, size: int) -> bool:
    """Whether any of some places, in order, is in an image."""
    return next((place for place in places if place >= 0), size) < size


def _is_finite(weights: np.ndarray[Any, Any]) -> bool:
    return bool(np.isfinite(weights.astype(np.float32, copy=False)).all())
