"""softmax and log_softmax, in stages named as TVM names them."""

from __future__ import annotations

from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir import op
from eutectic.topi.shapes import axis_of
from eutectic.topi.special_values import accumulator, reduce_max


def _reduced(x: Tensor, axis: int, reducer: Any, dtype: str, name: str, value: Any) -> Tensor:
    """A reduction along one axis `k`; `value` takes the index of an element."""
    k = reduce_axis((0, x.shape[axis]), "k")
    reduction: Tensor = compute(
        (*x.shape[:axis], *x.shape[axis + 1 :]),
        lambda *i: reducer(value(*i[:axis], k, *i[axis:]).astype(dtype), k),
        name,
        "softmax",
    )
    return reduction


def _without(at: tuple[PrimExpr, ...], axis: int) -> tuple[PrimExpr, ...]:
    return (*at[:axis], *at[axis + 1 :])


def _check(x: Tensor, axis: int) -> int:
    if not is_float(x.dtype):
        raise TypeError(f"softmax needs a float dtype, got {x.dtype}")
    return axis_of(axis, len(x.shape))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Exponentials along an axis, divided by their sum.

    Args:
        x: At least one axis; a float dtype.
        axis: The axis that sums to one.

    Returns:
        Shape and dtype of `x`; stages `T_softmax_maxelem`, `T_softmax_exp`, `T_softmax_expsum` and
        `T_softmax_norm`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis.

    Accuracy: the maximum is subtracted first; floats of 16 bits are computed in float32.
    """
    along, wide = _check(x, axis), accumulator(x.dtype)
    top = _reduced(x, along, reduce_max, wide, "T_softmax_maxelem", x)
    powers: Tensor = compute(
        x.shape, lambda *i: op.exp(x(*i).astype(wide) - top(*_without(i, along))), "T_softmax_exp", "softmax"
    )
    total = _reduced(powers, along, te_sum, wide, "T_softmax_expsum", powers)
    normalized: Tensor = compute(
        x.shape,
        lambda *i: (powers(*i) / total(*_without(i, along))).astype(x.dtype),
        "T_softmax_norm",
        "softmax",
        {"axis": along},
    )
    return normalized


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Logarithm of softmax, computed without forming it.

    Args:
        x: At least one axis; a float dtype.
        axis: The axis whose exponentials sum to one.

    Returns:
        Shape and dtype of `x`; stages `T_softmax_maxelem`, `compute` (the sum) and `compute_1`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis.

    Accuracy: the maximum is subtracted first; floats of 16 bits are computed in float32.
    """
    along, wide = _check(x, axis), accumulator(x.dtype)
    top = _reduced(x, along, reduce_max, wide, "T_softmax_maxelem", x)

    def moved(*i: Any) -> PrimExpr:
        return x(*i).astype(wide) - top(*_without(i, along))

    total = _reduced(x, along, te_sum, wide, "compute", lambda *i: op.exp(moved(*i)))
    normalized: Tensor = compute(
        x.shape, lambda *i: (moved(*i) - op.log(total(*_without(i, along)))).astype(x.dtype), "compute", "softmax"
    )
    return normalized
