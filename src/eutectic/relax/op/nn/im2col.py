"""relax.nn.im2col: windows of an image as columns of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.nn.pad import pad
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import at_least, dims_text, per_axis, tensor_info
from eutectic.relax.struct_info import TensorStructInfo

_OPAQUE: Final = 8  # as `FuseOps` reads it: fused with nothing
_IM2COL: Final = define_op("relax.nn.im2col", arity=1, fusion="opaque")


@node("relax.attrs.Im2ColAttrs")
class Im2ColAttrs(Attrs):
    """Size of a window, and what `nn.max_pool2d` has, too; each for both axes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def im2col(
    data: Expr,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    *,
    span: Any = None,
) -> Call:
    """What each place of a window sees, as the window goes over an image.

    It is a kernel of its own, though it only copies: read at several places of each window, it is better stored.

    Args:
        data: `(n, c, h, w)`; any dtype.
        kernel: Height and width `kh, kw` of a window, or one number for both, as all that follows.
        strides: Points from one window to the next.
        padding: Zeros before and after.
        dilation: Points from one place of a window to the next.
        span: Python source of the call, for errors.

    Returns:
        `(n, c * kh * kw, number of windows)`, dtype of `data`.

    Raises:
        TypeInferenceError: other ranks, numbers that are too small, or windows larger than the image.

    Reference: torch.nn.functional.unfold.
    """
    attrs = Im2ColAttrs(
        per_axis(kernel, 2, "kernel"),
        per_axis(strides, 2, "strides"),
        per_axis(padding, 2, "padding", least=0),
        per_axis(dilation, 2, "dilation"),
    )
    return call(_IM2COL, data, attrs=attrs, span=span)


@_IM2COL.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,), attrs = tensor_args(c), attrs_of(c, Im2ColAttrs)
    if info.ndim not in (-1, 4):
        refuse(c, f"im2col needs four axes, got {dims_text(info.dims)}", help="add axes with expand_dims")
    if info.dims is None:
        return tensor_info(None, info.dtype, 3)
    batch, channels, *image = info.dims
    spans = []
    for size, k, s, p, d in zip(image, attrs.kernel, attrs.strides, attrs.padding, attrs.dilation, strict=True):
        span = simplify((size + (2 * p - d * (k - 1) - 1)) // s + 1)
        spans.append(at_least(c, span, 1, "number of windows", "pad the image, or take smaller windows"))
    places = attrs.kernel[0] * attrs.kernel[1]
    return tensor_info((batch, simplify(channels * places), simplify(spans[0] * spans[1])), info.dtype)


@_IM2COL.reference
def _reference(attrs: Im2ColAttrs, x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in attrs.padding)))
    reach = [d * (k - 1) + 1 for k, d in zip(attrs.kernel, attrs.dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    seen = windows[:, :, :: attrs.strides[0], :: attrs.strides[1], :: attrs.dilation[0], :: attrs.dilation[1]]
    return seen.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], x.shape[1] * attrs.kernel[0] * attrs.kernel[1], -1)


@_IM2COL.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    attrs, info = attrs_of(c, Im2ColAttrs), c.struct_info
    assert isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr)
    options = {"kernel": attrs.kernel, "strides": attrs.strides, "dilation": attrs.dilation}
    widths = [0, 0, 0, 0, *(width for width in attrs.padding for _ in range(2))]
    data = builder.emit(pad(c.args[0], widths)) if any(attrs.padding) else c.args[0]
    alone = {"op_pattern": _OPAQUE}
    columns = builder.call_te(topi.nn.im2col, data, primfunc_name_hint="im2col", primfunc_attrs=alone, **options)
    return reshape(builder.emit(columns), info.shape)
