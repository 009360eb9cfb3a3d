"""Operators that choose elements by index: take, gather, strided_slice; and tensors from nothing: full, arange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import ExprOp, FloatImm, IntImm, PrimExpr, as_prim
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor
from eutectic.tir import op
from eutectic.topi.shapes import axis_of, index_dtype, product, stage, static
from eutectic.topi.special_values import convert
from eutectic.topi.transform import reshape

TAKE_MODES = ("fast", "clip", "wrap", "nan")


def take(a: Tensor, indices: Tensor, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Slices of a tensor, chosen by indices along an axis.

    Args:
        a: Any shape and dtype.
        indices: Integers of any shape.
        axis: The axis; None takes all elements in C order.
        mode: What an index outside of the axis means: `clip` takes the nearest, `wrap` counts on from the
            other end, `nan` gives NaN; `fast` promises that there is none.

    Returns:
        The shape of `a` with that of `indices` in the place of `axis`; one stage `T_take`.

    Raises:
        ValueError: no such axis or mode, or NaN is asked for of integers.
    """
    if mode not in TAKE_MODES:
        raise ValueError(f"take has no mode {mode!r}; choose one of {', '.join(TAKE_MODES)}")
    if mode == "nan" and not is_float(a.dtype):
        raise ValueError(f"take with mode nan needs a float dtype, got {a.dtype}")
    if axis is None:
        return take(reshape(a, (product(a.shape),)), indices, 0, mode)
    along = axis_of(axis, len(a.shape))
    size, count = a.shape[along], len(indices.shape)

    def element(*at: PrimExpr) -> PrimExpr:
        place: PrimExpr = indices(*at[along : along + count])
        place = place.astype("int64" if place.dtype == "int64" else index_dtype(a))
        if mode == "clip":
            place = op.max(op.min(place, size - 1), 0)
        elif mode == "wrap":
            place = place % size
        taken = a(*at[:along], place, *at[along + count :])
        if mode != "nan":
            return taken
        inside = op.logical_and(place >= 0, place < size)
        return op.if_then_else(inside, taken, FloatImm(a.dtype, float("nan")))

    return stage([*a.shape[:along], *indices.shape, *a.shape[along + 1 :]], element, "T_take", "injective")


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """One element per element of `indices`, which replaces the position along an axis.

    Args:
        data: Any shape and dtype.
        axis: The axis.
        indices: As many axes as `data`; integers in `[0, size)`, which is checked for each: where only the whole
            buffer is looked at, one too large is an element of the next row.

    Returns:
        The shape of `indices`, dtype of `data`; one stage `T_gather`.

    Raises:
        ValueError: no such axis, or `indices` has another number of axes.
    """
    along = axis_of(axis, len(data.shape))
    if len(indices.shape) != len(data.shape):
        raise ValueError(f"gather from {len(data.shape)} axes with indices of {len(indices.shape)}")
    size, said = data.shape[along], f"an index of gather is outside of axis {along}"

    def element(*at: PrimExpr) -> PrimExpr:
        place: PrimExpr = indices(*at)
        if along:  # rows outside are outside of the buffer, which is looked at in any case
            place = place.astype("int64" if place.dtype == "int64" else index_dtype(data))
            extent = IntImm(place.dtype, size.value) if isinstance(size, IntImm) else size
            place = op.checked_index(place, extent, said)
        return data(*at[:along], place, *at[along + 1 :])

    return stage(indices.shape, element, "T_gather", "injective")


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Part of a tensor, as Python's slices take it.

    Args:
        a: Any shape and dtype; the sizes of the axes that are cut are constants.
        begin: First index per axis of `axes`; negative ones count from the end.
        end: Index after the last.
        strides: Step, not zero; None for one.
        axes: The axes that are cut; None for the first ones.

    Returns:
        The smaller shape; one stage `T_strided_slice_with_axes`.

    Raises:
        ValueError: no such axis, one given twice, a step of zero, or a symbolic size.
    """
    steps = [1] * len(begin) if strides is None else [int(s) for s in strides]
    places = [axis_of(int(x), len(a.shape)) for x in (range(len(begin)) if axes is None else axes)]
    if not len(begin) == len(end) == len(steps) == len(places) == len(set(places)) or 0 in steps:
        raise ValueError(f"bad slice: axes {places}, begin {list(begin)}, end {list(end)}, strides {steps}")
    taken: dict[int, range] = {}
    for axis, first, last, step in zip(places, begin, end, steps, strict=True):
        size = static(a.shape[axis])
        if size is None:
            raise ValueError(f"axis {axis} of symbolic size {a.shape[axis]} cannot be sliced")
        taken[axis] = range(*slice(int(first), int(last), step).indices(size))

    def element(*at: PrimExpr) -> PrimExpr:
        return a(*(i * taken[k].step + taken[k].start if k in taken else i for k, i in enumerate(at)))

    shape = [IntImm(size.dtype, len(taken[k])) if k in taken else size for k, size in enumerate(a.shape)]
    return stage(shape, element, "T_strided_slice_with_axes", "injective")


def dynamic_strided_slice(
    a: Tensor, axes: Sequence[int], begin: Sequence[PrimExpr], strides: Sequence[int], shape: Any
) -> Tensor:
    """Part of a tensor whose place and sizes may be expressions.

    Args:
        a: Any shape and dtype.
        axes: The axes that are cut.
        begin: Index of the first element taken along each of them, inside of the tensor.
        strides: Step along each of them.
        shape: Sizes of the result.

    Returns:
        `shape`; one stage `T_dynamic_strided_slice`.
    """
    taken = {axis: (first, step) for axis, first, step in zip(axes, begin, strides, strict=True)}

    def element(*at: PrimExpr) -> PrimExpr:
        return a(*(i * taken[k][1] + taken[k][0].astype(i.dtype) if k in taken else i for k, i in enumerate(at)))

    return stage(shape, element, "T_dynamic_strided_slice", "injective")


def full(shape: Any, dtype: str, fill_value: PrimExpr | float) -> Tensor:
    """A tensor of one value.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        fill_value: The value; converted to `dtype`.

    Returns:
        One stage `T_full`.
    """
    value = convert(as_prim(fill_value), dtype) if isinstance(fill_value, ExprOp) else op.const(fill_value, dtype)
    return stage(shape, lambda *at: value, "T_full", "elemwise")


def full_like(x: Tensor, fill_value: PrimExpr | float) -> Tensor:
    """A tensor of one value, with the shape and dtype of another; one stage `T_full`."""
    return full(x.shape, x.dtype, fill_value)


def arange(start: int, stop: int | None = None, step: int = 1, dtype: str = "float32") -> Tensor:
    """Numbers from `start` on, below `stop`, in steps.

    Args:
        start: The first number; without `stop` it is the end, and zero the first.
        stop: The end, which is not reached.
        step: Step, not zero.
        dtype: Dtype of the result.

    Returns:
        `(ceil((stop - start) / step),)`; one stage `T_arange`.

    Raises:
        ValueError: the step is zero.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("arange with a step of zero")
    count = max(0, -(-(last - first) // step))
    wide = IntImm("int64", count)
    return stage((wide,), lambda i: as_prim(i * step + first, "int64").astype(dtype), "T_arange", "injective")


def arange_of(shape: Any, start: PrimExpr | float, step: PrimExpr | float, dtype: str, wide: str = "int64") -> Tensor:
    """Numbers from `start` on in steps, as many as a shape says.

    Args:
        shape: One size.
        start: The first number, which may be an expression.
        step: Difference of neighbours.
        dtype: Dtype of the result.
        wide: Dtype in which they are computed.

    Returns:
        `shape`; one stage `T_arange`.
    """
    first, apart = (as_prim(value, wide).astype(wide) for value in (start, step))
    return stage(shape, lambda i: (i.astype(wide) * apart + first).astype(dtype), "T_arange", "injective")


def listed(values: Sequence[PrimExpr | int], dtype: str) -> Tensor:
    """Some scalars as a tensor with one axis; one stage `T_listed`."""
    numbers = [as_prim(value, dtype).astype(dtype) for value in values]

    def element(i: PrimExpr) -> PrimExpr:
        chosen = numbers[-1] if numbers else as_prim(0, dtype)
        for place in reversed(range(len(numbers) - 1)):
            chosen = Select(i.equal(place), numbers[place], chosen)
        return chosen

    return stage((len(numbers),), element, "T_listed", "injective")
