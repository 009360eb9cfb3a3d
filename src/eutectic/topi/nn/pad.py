"""Padding with a constant, or with elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.arith.proofs import simplify
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.te import Tensor
from eutectic.tir import op
from eutectic.tir.op import all, if_then_else
from eutectic.topi.shapes import stage, static


def pad(
    data: Tensor,
    pad_before: Sequence[int | PrimExpr],
    pad_after: Sequence[int | PrimExpr] | None = None,
    pad_value: PrimExpr | float = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """A tensor with elements added around.

    Args:
        data: Any shape and dtype.
        pad_before: How many come before, per axis; negative numbers cut off. Sizes that are not known are allowed.
        pad_after: How many come after; None takes `pad_before`.
        pad_value: Their value.
        name: Name of the stage.

    Returns:
        The larger shape, dtype of `data`; one stage.

    Raises:
        ValueError: there are not two numbers per axis.
    """
    after = pad_before if pad_after is None else pad_after
    if not len(pad_before) == len(after) == len(data.shape):
        raise ValueError(f"pad got {len(pad_before)} and {len(after)} widths for {len(data.shape)} axes")
    value = as_prim(pad_value, data.dtype)
    shape = [simplify(size + (b + a)) for size, b, a in zip(data.shape, pad_before, after, strict=True)]

    def element(*at: PrimExpr) -> PrimExpr:
        conditions: list[PrimExpr] = []
        for i, size, b, a in zip(at, data.shape, pad_before, after, strict=True):
            conditions += [i >= b] if _may_add(b) else []
            conditions += [i < size + b] if _may_add(a) else []
        inside = data(*(i if static(b) == 0 else i - b for i, b in zip(at, pad_before, strict=True)))
        return if_then_else(all(*conditions), inside, value) if conditions else inside

    return stage(shape, element, name, "injective,pad")


def _may_add(width: int | PrimExpr) -> bool:
    """Whether elements may be added, as far as is known."""
    size = static(width)
    return size is None or size > 0


def pad_from(data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int], mode: str) -> Tensor:
    """A tensor with elements of its own added around.

    Args:
        data: Any shape and dtype.
        pad_before: How many come before, per axis; not negative.
        pad_after: How many come after.
        mode: `reflect` mirrors without repeating the border, `edge` repeats the border, `wrap` continues
            from the other end.

    Returns:
        The larger shape, dtype of `data`; one stage `T_pad`.

    Raises:
        ValueError: an unknown mode, or there are not two numbers per axis.

    Reference: TVM topi.nn.mirror_pad, reflect_pad, replicate_pad, circular_pad.
    """
    if mode not in ("reflect", "edge", "wrap"):
        raise ValueError(f"there is no padding from the tensor in mode {mode!r}")
    if not len(pad_before) == len(pad_after) == len(data.shape):
        raise ValueError(f"pad got {len(pad_before)} and {len(pad_after)} widths for {len(data.shape)} axes")
    shape = [simplify(size + (b + a)) for size, b, a in zip(data.shape, pad_before, pad_after, strict=True)]

    def source(i: PrimExpr, size: PrimExpr, before: int, after: int) -> PrimExpr:
        at = i - before if before else i
        if mode == "edge":
            at = op.max(at, 0) if before else at
            return op.min(at, size - 1) if after else at
        if mode == "wrap":
            return at % size if before or after else at
        at = op.abs(at) if before else at
        return op.min(at, 2 * (size - 1) - at) if after else at

    return stage(
        shape,
        lambda *at: data(*map(source, at, data.shape, pad_before, pad_after)),
        "T_pad",
        "injective",
    )
