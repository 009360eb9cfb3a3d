"""Windows of an image as columns of a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor
from eutectic.topi.shapes import stage


def im2col(data: Tensor, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Tensor:
    """What each place of a window sees, as the window goes over an image.

    Args:
        data: `(n, c, h, w)`; any dtype.
        kernel: Height and width of a window.
        strides: Points from one window to the next, likewise, as all that follows.
        dilation: Points from one place of a window to the next.

    Returns:
        `(n, c, kernel[0], kernel[1], rows, columns)`; one stage `T_im2col`.
    """
    spans = [
        simplify((size - d * (k - 1) - 1) // s + 1)
        for size, k, s, d in zip(data.shape[2:], kernel, strides, dilation, strict=True)
    ]

    def element(n: PrimExpr, c: PrimExpr, i: PrimExpr, j: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        place = (y * strides[0] + i * dilation[0], x * strides[1] + j * dilation[1])
        value: PrimExpr = data(n, c, *place)
        return value

    return stage([*data.shape[:2], *kernel, *spans], element, "T_im2col")
