"""The accumulators of a reduction, and the block that stores what is finished, over the same axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eutectic.ir.prim_expr import PrimExpr, Var, add, mul
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.nest import Nest, loops_by_variable, realize_of, reorder
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.schedule import Schedule

Groups: TypeAlias = "list[list[tuple[int, int]]]"  # new axes as sums of old ones, each with its factor


class Accumulators(Nest):
    """A reduction into memory of its own, and its epilogue, which may be a copy.

    Axes that are one span become one axis of both blocks, and of the buffer between them, so that a part of a span is
    a part of the buffer.

    Args:
        sch: The schedule, in which the loops of the stage are as they were when it was read.
        walk: A stage with a reduction and an epilogue.

    Attributes:
        store: Name of the block that stores finished elements.
        store_shared: Loops of its nest over the axes that the stage shares with others.
        store_spans: What each axis of that block is; None for shared ones and those of one iteration.
    """

    def __init__(self, sch: Schedule, walk: Walk) -> None:
        epilogue = walk.stage.epilogue
        assert epilogue is not None
        self.store = epilogue.name
        depth = len(walk.shared)
        loops = {axis.loop: k for k, axis in enumerate(epilogue.spatial)}
        spans = [None] * depth + [span for span in walk.spatial for _ in span.axes]
        self.store_spans: list[Span | None] = []
        self._terms: list[Var | None] = []  # old loops over the reduction
        if any(len(span.axes) > 1 for span in walk.spatial):
            self._put_together(sch, walk)
            self.store_spans = [*([None] * depth), *walk.spatial]
            self._read_again(sch, walk)
        else:
            values = _bound(sch, self.store)
            self.store_spans = [spans[loops[var]] if var in loops else None for var in values]
            super().__init__(sch, walk)
            by_variable = loops_by_variable(sch, self.store)
            wanted = [by_variable[axis.loop] for axis in epilogue.spatial]
            units = [by_variable[var] for var in epilogue.units if var in by_variable]
            reorder(sch, [*wanted[:depth], *units, *wanted[depth:]])
            self.store_shared = wanted[:depth]

    @property
    def innermost_shared(self) -> dict[str, LoopRV]:
        """See `Nest`."""
        return {**super().innermost_shared, self.store: self.store_shared[-1]}

    def _put_together(self, sch: Schedule, walk: Walk) -> None:
        stage, epilogue = walk.stage, walk.stage.epilogue
        assert epilogue is not None
        place = {axis.var: k for k, axis in enumerate(stage.spatial)}
        dims = [place.get(index, -1) if isinstance(index, Var) else -1 for index in stage.indices]
        sch.transform_layout(stage.name, ("write", 0), _map(dims, _groups(walk)))
        for block, axes in ((stage.name, stage.spatial), (epilogue.name, epilogue.spatial)):
            loops = {axis.loop: k for k, axis in enumerate(axes)}
            units = stage.units if block == stage.name else epilogue.units
            bound = _bound(sch, block)
            kept = [k for k, var in enumerate(bound) if var is not None and var not in loops and var not in units]
            self._terms = [bound[k] for k in kept] or self._terms
            sch.transform_block_layout(
                block, _map([-1 if var is None else loops.get(var, -1) for var in bound], _groups(walk), kept)
            )

    def _read_again(self, sch: Schedule, walk: Walk) -> None:
        """The loops after the axes were put together: one for each shared axis, span, and axis of the reduction."""
        self.sch, self.walk, self.block = sch, walk, walk.stage.name
        depth, count = len(walk.shared), len(walk.spatial)
        loops = sch.get_loops(self.block)
        self.shared, self.units = loops[:depth], []
        kept = {var: loop for var, loop in zip(self._terms, loops[depth + count :], strict=True) if var is not None}
        self.reduce_units = [loop for var, loop in kept.items() if var in walk.stage.reduce_units]
        order = [kept[axis.loop] for span in walk.reduce for axis in span.axes]
        reorder(sch, [*loops[: depth + count], *self.reduce_units, *order])
        self.loops = dict(zip(walk.spatial, loops[depth : depth + count], strict=True))
        self.loops |= {span: self._one(span, kept) for span in walk.reduce}
        self.store_shared = sch.get_loops(self.store)[:depth]


def _groups(walk: Walk) -> Groups:
    """Spans as sums of the axes that they are made of."""
    groups: Groups = [[(k, 1)] for k in range(len(walk.shared))]
    at = len(walk.shared)
    for span in walk.spatial:
        factors, size = [], 1
        for k in reversed(range(len(span.axes))):
            factors.append((at + k, size))
            size *= span.axes[k].size or 1
        groups.append(factors[::-1])
        at += len(span.axes)
    return groups


def _map(places: Sequence[int], groups: Groups, kept: Sequence[int] = ()) -> IndexMap:
    """A map from indices, of which each is an axis by number or nothing, to groups of axes; some are kept behind."""

    def function(*indices: PrimExpr) -> list[PrimExpr]:
        of = {place: index for place, index in zip(places, indices, strict=True) if place >= 0}
        sums = []
        for group in groups:
            total = mul(of[group[0][0]], group[0][1])
            for axis, factor in group[1:]:
                total = add(total, mul(of[axis], factor))
            sums.append(total)
        return [*sums, *(indices[k] for k in kept)]

    return IndexMap.from_func(function, len(places))


def _bound(sch: Schedule, block: str) -> list[Var | None]:
    """The loop that each axis of a block is bound to."""
    return [value if isinstance(value, Var) else None for value in realize_of(sch, block).iter_values]
