"""Windows of an image as columns of a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor
from eutectic.topi.nn.windows import per_axis
from eutectic.topi.shapes import stage

Ints = int | Sequence[int]


def im2col(data: Tensor, kernel: Ints, strides: Ints, dilation: Ints) -> Tensor:
    """What each place of a window sees, as the window goes over an image.

    Args:
        data: `(n, c, h, w)`; any dtype.
        kernel: Height and width of a window, or one number for both.
        strides: Points from one window to the next, likewise, as all that follows.
        dilation: Points from one place of a window to the next.

    Returns:
        `(n, c, kernel[0], kernel[1], rows, columns)`; one stage `T_im2col`.

    Raises:
        ValueError: another number of axes, or numbers for more or fewer than two.
    """
    if len(data.shape) != 4:
        raise ValueError(f"im2col needs data of 4 axes, got {len(data.shape)}")
    window, step, apart = (
        per_axis(kernel, 2, "kernel"),
        per_axis(strides, 2, "strides"),
        per_axis(dilation, 2, "dilation"),
    )
    spans = [
        simplify((size - d * (k - 1) - 1) // s + 1)
        for size, k, s, d in zip(data.shape[2:], window, step, apart, strict=True)
    ]

    def element(n: PrimExpr, c: PrimExpr, i: PrimExpr, j: PrimExpr, y: PrimExpr, x: PrimExpr) -> PrimExpr:
        place = (y * step[0] + i * apart[0], x * step[1] + j * apart[1])
        value: PrimExpr = data(n, c, *place)
        return value

    return stage([*data.shape[:2], *window, *spans], element, "T_im2col")
