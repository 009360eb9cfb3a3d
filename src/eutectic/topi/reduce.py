"""Reductions over axes: sum, prod, max, min, mean, variance, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor, comm_reducer, reduce_axis
from eutectic.te import prod as te_prod
from eutectic.te import sum as te_sum
from eutectic.te.reduction import highest, lowest
from eutectic.tir import op
from eutectic.topi.elementwise import cast, identity
from eutectic.topi.shapes import axes_of, axis_of, elementwise, product, ravel, stage
from eutectic.topi.special_values import accumulator, is_narrow, precedes, reduce_max, reduce_min

Axis = int | Sequence[int] | None


def reduced(
    data: Tensor, axis: Axis, keepdims: bool, reducer: Callable[..., Any], value: Callable[..., Any], name: str
) -> Any:
    """A stage that reduces over axes `k0`, `k1`, ...

    Args:
        data: What is reduced; its shape says what the axes are.
        axis: The axes that go; None means all.
        keepdims: Whether they stay with size one.
        reducer: What `te.comm_reducer` made.
        value: What is reduced: takes the whole index, those of kept axes among it.
        name: Name of the stage.
    """
    gone = axes_of(axis, len(data.shape))
    over = {a: reduce_axis((0, data.shape[a]), f"k{i}") for i, a in enumerate(gone)}
    sizes = [
        IntImm(size.dtype, 1) if a in over else size for a, size in enumerate(data.shape) if keepdims or a not in over
    ]

    if not over:
        return stage(sizes, value, name)

    def element(*at: PrimExpr) -> Any:
        left = iter(at if not keepdims else [i for a, i in enumerate(at) if a not in over])
        index = [over[a] if a in over else next(left) for a in range(len(data.shape))]
        return reducer(value(*index), list(over.values()))

    return stage(sizes, element, name, "comm_reduce")


def _reduction(name: str, reducer: Callable[..., Any], summary: str, *, sums: bool) -> Callable[..., Tensor]:
    """Define one reduction that keeps the dtype; `sums` says whether it rounds."""

    def definition(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        if not axes_of(axis, len(data.shape)):
            return identity(data)
        wide = accumulator(data.dtype) if sums else data.dtype
        reduction: Tensor = reduced(
            data, axis, keepdims, reducer, lambda *at: data(*at).astype(wide), f"{data.name}_red"
        )
        return cast(reduction, data.dtype) if reduction.dtype != data.dtype else reduction

    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"""{summary}

    Args:
        data: Any shape; numbers.
        axis: The axes that go; None means all.
        keepdims: Whether they stay with size one.

    Returns:
        The other sizes, dtype of `data`; one stage named after `data` with `_red`{
        ", and a cast of floats of 16 bits, which are summed in float32" if sums else ""
    }.

    Raises:
        ValueError: no such axis, or one given twice.

    Reference: TVM topi.{name}.
    """
    return definition


sum = _reduction("sum", te_sum, "Sum; of no elements zero.", sums=True)
prod = _reduction("prod", te_prod, "Product; of no elements one.", sums=True)
max = _reduction("max", reduce_max, "The largest element; NaN if there is one.", sums=False)
min = _reduction("min", reduce_min, "The smallest element; NaN if there is one.", sums=False)


def _count(data: Tensor, axis: Axis, dtype: str) -> PrimExpr:
    return product([data.shape[a] for a in axes_of(axis, len(data.shape))]).astype(dtype)


def _divided(total: Tensor, data: Tensor, axis: Axis, dtype: str) -> Tensor:
    count = _count(data, axis, total.dtype)
    return stage(total.shape, lambda *at: (total(*at) / count).astype(dtype), "T_divide", "broadcast")


def mean_wide(data: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """The mean in the dtype in which `data` is summed."""
    wide = accumulator(data.dtype)
    total = reduced(data, axis, keepdims, te_sum, lambda *at: data(*at).astype(wide), f"{data.name}_red")
    return _divided(total, data, axis, wide)


def variance_wide(data: Tensor, mean_of: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """The mean squared distance from `mean_of`, which keeps its axes, in the dtype of that."""
    gone = axes_of(axis, len(data.shape))

    def squared(*at: PrimExpr) -> PrimExpr:
        centre = mean_of(*(IntImm(data.shape[a].dtype, 0) if a in gone else i for a, i in enumerate(at)))
        apart = data(*at).astype(mean_of.dtype) - centre
        return apart * apart

    total = reduced(data, axis, keepdims, te_sum, squared, f"{data.name}_red")
    return _divided(total, data, axis, mean_of.dtype)


def _need_floats(name: str, data: Tensor) -> None:
    if not is_float(data.dtype):
        raise TypeError(f"{name} needs a float dtype, got {data.dtype}")


def mean(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean; of no elements NaN.

    Args:
        data: Any shape; a float dtype.
        axis: The axes that go; None means all.
        keepdims: Whether they stay with size one.

    Returns:
        The other sizes, dtype of `data`; a sum and a stage `T_divide`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis, or one given twice.
    """
    _need_floats("mean", data)
    if not axes_of(axis, len(data.shape)):
        return identity(data)
    return _rounded(mean_wide(data, axis, keepdims), data.dtype)


def variance(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Mean squared distance from the mean (of the population), in two passes.

    Args:
        data: Any shape; a float dtype.
        axis: The axes that go; None means all.
        keepdims: Whether they stay with size one.

    Returns:
        The other sizes, dtype of `data`; two sums, each with a stage `T_divide`.

    Raises:
        TypeError: not a float dtype.
        ValueError: no such axis, or one given twice.
    """
    _need_floats("variance", data)
    if not axes_of(axis, len(data.shape)):
        return elementwise(data, lambda e: e - e)
    return _rounded(variance_wide(data, mean_wide(data, axis, True), axis, keepdims), data.dtype)


def std(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Square root of the variance; arguments and errors as there, one stage more."""
    _need_floats("std", data)
    if not axes_of(axis, len(data.shape)):
        return elementwise(data, lambda e: e - e)
    wide = variance_wide(data, mean_wide(data, axis, True), axis, keepdims)
    return elementwise(wide, lambda e: op.sqrt(e).astype(data.dtype))


def _rounded(x: Tensor, dtype: str) -> Tensor:
    return cast(x, dtype) if is_narrow(dtype) else x


def _arg_reduction(
    name: str, better: Callable[[Any, Any], PrimExpr], worst: Callable[[str], PrimExpr], summary: str
) -> Callable[..., Tensor]:
    """Define a search for the place of an element."""

    def combine(a: tuple[PrimExpr, PrimExpr], b: tuple[PrimExpr, PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        first = precedes(a, b, better)
        return Select(first, a[0], b[0]), Select(first, a[1], b[1])

    reducer = comm_reducer(combine, lambda at, value: (op.max_value(at), worst(value)), name)

    def definition(
        data: Tensor, axis: int | None = None, keepdims: bool = False, *, out_dtype: str = "int64"
    ) -> Tensor:
        axes = None if axis is None else axis_of(axis, len(data.shape))
        if not data.shape:
            return stage((), lambda: IntImm(out_dtype, 0), f"{data.name}_red")
        gone = axes_of(axes, len(data.shape))

        def pair(*at: Any) -> tuple[PrimExpr, PrimExpr]:
            place = ravel([at[a] for a in gone], [data.shape[a] for a in gone])
            return place.astype(out_dtype), data(*at)

        winners = reduced(data, axes, keepdims, reducer, pair, f"{data.name}_red_temp")
        return stage(winners[0].shape, lambda *at: winners[0](*at), f"{data.name}_red")

    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"""{summary}

    Args:
        data: Any shape and dtype but bool.
        axis: The axis to search; None searches all elements in C order.
        keepdims: Whether the searched axes stay with size one.
        out_dtype: Dtype of the places; TVM's topi has int32 here.

    Returns:
        The other sizes. Of several equal elements the first; a NaN wins.

    Raises:
        ValueError: no such axis.

    Reference: TVM topi.{name}.
    """
    return definition


argmax = _arg_reduction("argmax", lambda a, b: a > b, lowest, "Place of the largest element.")
argmin = _arg_reduction("argmin", lambda a, b: a < b, highest, "Place of the smallest element.")
