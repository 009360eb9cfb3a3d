"""Stages that share their outer axes, such as the rows of a softmax, are done row by row, or tile by tile.

Products whose own axes are a tile that fits into registers, beside the shared ones, are done with the others: so the
scores of attention are used up where they were computed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.rules.stage import Stage

_MOST_ROW_BYTES: Final = 1 << 20  # of a row's values that are kept by each thread
_FEWEST: Final = 8  # points of each axis that keep a product busy, and of shared axes that keep threads busy


@dataclass(frozen=True)
class Group:
    """Stages that are done together for each point of their outer axes.

    Attributes:
        stages: In order.
        depth: How many axes, from the outermost on, they share; none when a stage is alone.
        kept: Stages whose results are needed within one row only.
    """

    stages: tuple[Stage, ...]
    depth: int = 0
    kept: tuple[Stage, ...] = ()


def groups_of(stages: Sequence[Stage], intermediates: Collection[Buffer]) -> list[Group]:
    """Stages in order, those put together that one point of shared axes after the other can be done for."""
    out: list[Group] = []
    at = 0
    while at < len(stages):
        best, count = Group((stages[at],)), 1
        for end in range(at + 2, len(stages) + 1):
            group = _together(stages[at:end], stages[end:], intermediates)
            if group is None:
                break
            best, count = group, end - at
        out.append(best)
        at += count
    return out


def _together(stages: Sequence[Stage], later: Sequence[Stage], intermediates: Collection[Buffer]) -> Group | None:
    depth = min(len(stage.spatial) for stage in stages)
    while depth and not all(_same(stages[0], stage, depth) for stage in stages[1:]):
        depth -= 1
    fits = _has_tiles if any(map(_is_matrix_like, stages)) else _has_rows
    depth = next((some for some in range(depth, 0, -1) if fits(stages, some)), 0)
    if not depth:
        return None
    read_later = {load.buffer for stage in later for load in stage.reads()}
    kept = [stage for stage in stages if stage.result in intermediates and stage.result not in read_later]
    sizes = {stage: _row_bytes(stage, depth) for stage in kept}
    known = [stage for stage, size in sizes.items() if size is not None]  # rows of others stay in memory of all threads
    if sum(sizes[stage] or 0 for stage in known) > _MOST_ROW_BYTES:
        return None
    return Group(tuple(stages), depth, tuple(known))


def _has_rows(stages: Sequence[Stage], depth: int) -> bool:
    """Whether stages that share so many axes can be done point by point."""
    has_rows = _size(stages[0], depth) >= 2 and any(len(stage.spatial) > depth or stage.reduce for stage in stages)
    return has_rows and all(_own_rows(stage, stages, depth) for stage in stages)


def _has_tiles(stages: Sequence[Stage], depth: int) -> bool:
    """Whether products have enough to do at each point, with threads for the points."""
    products = (stage for stage in stages if _is_matrix_like(stage))
    own = ([axis for axis in stage.spatial[depth:] if (axis.size or _FEWEST) >= _FEWEST] for stage in products)
    return _size(stages[0], depth) >= _FEWEST and _has_rows(stages, depth) and all(len(axes) > 1 for axes in own)


def _same(first: Stage, other: Stage, depth: int) -> bool:
    pairs = zip(first.spatial[:depth], other.spatial[:depth], strict=True)
    return all(structural_equal(a.extent, b.extent) and a.loop.dtype == b.loop.dtype for a, b in pairs)


def _size(stage: Stage, depth: int) -> int:
    total = 1
    for axis in stage.spatial[:depth]:
        total *= axis.size if axis.size is not None else 2
    return total


def _own_rows(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    """Whether a stage reads results of the others at its own point of the shared axes only."""
    results = {other.result: other for other in stages}
    for load in stage.reads():
        other = results.get(load.buffer)
        if other is None or other is stage:
            continue
        last = other.epilogue or other
        places = [load.indices[k] for k, index in enumerate(last.indices) if isinstance(index, Var)]
        mine = [axis.var for axis in stage.spatial[:depth]]
        if not all(place is var for place, var in zip(places[:depth], mine, strict=False)):
            return False
    return True


def _is_matrix_like(stage: Stage) -> bool:
    """A reduction that reads what it shares between points of an axis: it has a better schedule of its own."""
    if stage.init is None:
        return False
    used: list[bool] = []
    for axis in stage.spatial:
        reads = [any(axis.var in _variables(index) for index in load.indices) for load in stage.reads()[:2]]
        used.append(len(reads) > 1 and any(reads) and not all(reads))
    return sum(used) >= 2


def _variables(expr: PrimExpr) -> set[Var]:
    return {part for part in post_order(expr) if isinstance(part, Var)}


def _row_bytes(stage: Stage, depth: int) -> int | None:
    """Size of what a stage writes for one point of the shared axes; None when it is not known."""
    last = stage.epilogue or stage
    shared = {axis.var for axis in stage.spatial[:depth]}
    total = item_bytes(last.output.dtype)
    for index, size in zip(last.indices, last.output.shape, strict=True):
        if isinstance(index, Var) and index in shared:
            continue
        if not isinstance(size, IntImm):
            return None
        total *= size.value
    return total
