"""Elements written to places that data decides: programs, as several may go to one place, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add
from eutectic.ir.prim_logic import Select
from eutectic.tir.block import SCATTER
from eutectic.tir.buffer import Buffer
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import BufferStore, seq
from eutectic.topi.loop_nest import block_under_loops
from eutectic.topi.special_values import nan_max, nan_min, widen

REDUCTIONS: Final[Mapping[str, Callable[[Any, Any], PrimExpr]]] = {
    "update": lambda held, new: new,
    "add": lambda held, new: held + new,
    "mul": lambda held, new: held * new,
    "min": nan_min,
    "max": nan_max,
}
"""What becomes of the element that is there, and the one that is written to it."""


def scatter_program(
    shape: Sequence[PrimExpr], places: Sequence[PrimExpr], dtype: str, index_dtype: str, reduction: str = "update"
) -> PrimFunc:
    """A program that writes elements, or slices, to some places of a copy, in the order in which they are given.

    Args:
        shape: Sizes of the data, in variables of the program's own.
        places: Sizes of the indices, likewise; the last one, a constant, is the number of axes that are indexed.
        dtype: Dtype of the data.
        index_dtype: Dtype of the indices; negative ones count from the end.
        reduction: A key of `REDUCTIONS`.

    Returns:
        A function of the data, the indices, the updates `(*places[:-1], *shape[depth:])` and the result. Its blocks,
        `T_copy` and `T_scatter_nd`, say in the annotation `scatter` what they do.

    Raises:
        ValueError: another reduction.

    Accuracy: floats of 16 bits are rounded after each of their updates.
    Reference: ONNX ScatterND; TVM topi.scatter_nd, which is a function of tensors.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"a scatter has no reduction {reduction!r}; choose one of {', '.join(REDUCTIONS)}")
    *outer, depth = places
    assert isinstance(depth, IntImm)
    count = depth.value
    data, out = Buffer("data", tuple(shape), dtype), Buffer("out", tuple(shape), dtype)
    indices = Buffer("indices", tuple(places), index_dtype)
    updates = Buffer("updates", (*outer, *shape[count:]), dtype)

    def copy(*at: Var) -> BufferStore:
        return BufferStore(out, data[at], at)

    def write(*at: Var) -> BufferStore:
        first, rest = at[: len(outer)], at[len(outer) :]
        target = (*(_place(indices[(*first, k)], shape[k]) for k in range(count)), *rest)
        value = REDUCTIONS[reduction](widen(out[target]), widen(updates[at]))
        return BufferStore(out, value.astype(dtype), target)

    every = _loops("i", shape)
    turns, inner = _loops("m", outer), _loops("j", shape[count:])
    copied = block_under_loops("T_copy", every, copy, notes={SCATTER: "copy"})
    kinds = dict.fromkeys(turns, "opaque")
    written = block_under_loops("T_scatter_nd", {**turns, **inner}, write, kinds=kinds, notes={SCATTER: "write"})
    params = (data, indices, updates, out)
    return complete(PrimFunc(params, seq(copied, written), attrs={"tir.noalias": True}))  # type: ignore[arg-type]  # the node converts what it is given


def _loops(name: str, sizes: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    return {Var(f"{name}{k}", size.dtype): size for k, size in enumerate(sizes)}


def _place(index: Any, size: PrimExpr) -> PrimExpr:
    """A place along an axis; what is outside stays outside, and is seen when it is written to."""
    place: PrimExpr = index.astype(size.dtype)
    return Select(place < 0, add(place, size), place)
