"""Reductions of which only the terms are contiguous: vectors along them, partial results per lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.prim_expr import Var
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.combiner import combiner_of
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import Nest, block_name, copies, loops_by_variable, reorder, run_by_threads
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.register_tile import contiguous_result
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Axis
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.rules.work import lanes_of
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import BufferStore

_VECTORS: Final = (1, 2, 4, 8)  # of partial results


@dataclass(frozen=True)
class Axes:
    """Which axis does what.

    Attributes:
        walk: The stage.
        terms: The axis of the reduction that vectors lie along.
        lanes: Elements of an accumulator in a vector.
    """

    walk: Walk
    terms: Span
    lanes: int


class LaneReduction:
    """One partial result for each lane of some vectors, combined by halves in the end.

    Sums of floats are rounded differently then; several partial sums are more exact than one.
    """

    name = "lane_reduction"

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """Reductions along a contiguous axis, of results that are not contiguous enough for vectors."""
        stage = walk.stage
        if (
            stage.init is None
            or stage.epilogue is None
            or combiner_of(BufferStore(stage.output, stage.value, stage.indices)) is None
        ):
            return None
        lanes = lanes_of(stage.output.dtype, processor)
        terms = _terms(walk)
        if terms is None or (terms.size is not None and terms.size < lanes):
            return None
        return None if _is_wide(walk, lanes) else Axes(walk, terms, lanes)

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """How many partial results there are."""
        width, size = axes.lanes, axes.terms.size
        while width < 4 * axes.lanes and (size is None or size >= 2 * width):
            width *= 2
        return {"width": width}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Up to eight vectors of partial results, as far as there are terms for them."""
        widths = [axes.lanes * count for count in _VECTORS]
        size = axes.terms.size
        fitting = [{"width": width} for width in widths if size is None or width <= max(size, axes.lanes)]
        return distinct([self.decide(axes, processor), *fitting])

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> LaneNest:
        """See `Rule`."""
        return LaneNest(sch, axes, decisions["width"])

    def apply(self, nest: LaneNest, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """See `Rule`."""
        nest.put_together()
        nest.use_vectors()
        if shared:
            run_by_threads(nest.sch, nest.sch.get_loops(nest.store)[: len(axes.walk.stage.spatial)])


class LaneNest(Nest):
    """A reduction into partial results, the steps that combine these, and the block that stores what is finished.

    Args:
        sch: The schedule, in which the loops of the stage are as they were when it was read.
        axes: The stage.
        width: Number of partial results.

    Attributes:
        partial: Name of the block that computes partial results.
        store: Name of the block that stores finished elements.
    """

    def __init__(self, sch: Schedule, axes: Axes, width: int) -> None:
        self.sch, self.walk, self.axes, self.width = sch, axes.walk, axes, width
        stage, epilogue = axes.walk.stage, axes.walk.stage.epilogue
        assert epilogue is not None
        self.block, self.store, self.units = stage.name, epilogue.name, []
        loops = loops_by_variable(sch, self.block)
        self.reduce_units = [loops[var] for var in stage.reduce_units]
        reorder(sch, [*_spatial(loops, stage.spatial, stage.units), *self.reduce_units, *_of(loops, stage.reduce)])
        store_loops = loops_by_variable(sch, self.store)
        reorder(sch, _spatial(store_loops, epilogue.spatial, epilogue.units))
        self.terms = [self._one(span, loops) for span in axes.walk.reduce if span is not axes.terms]
        self.outer, lanes = sch.split(self._one(axes.terms, loops), [None, width])
        reorder(sch, [*self.terms, self.outer, lanes])
        self.partial = block_name(sch, sch.rfactor(lanes, -1))
        self.halves = [block_name(sch, rv) for rv in sch.tree_reduce(self.block)]

    @property
    def innermost_shared(self) -> dict[str, LoopRV]:
        """See `Nest`."""
        return self._at(len(self.walk.shared))

    def _at(self, depth: int) -> dict[str, LoopRV]:
        return {name: self.sch.get_loops(name)[depth - 1] for name in (self.partial, self.block, self.store)}

    def put_together(self) -> None:
        """One nest for each point of the result, in which all memory is a row."""
        depth = len(self.walk.stage.spatial)
        if depth > len(self.walk.shared):
            self.sch.merge(*self._at(depth).values())
        self.sch.set_scope(self.partial, 0, "local")
        self.sch.set_scope(self.block, 0, "local")

    def use_vectors(self) -> None:
        """Vectors for whole parts of the terms, for what remains, and for the steps that combine."""
        size, block = self.axes.terms.size, self.sch.get_block(self.partial)
        first = self.sch.decompose_reduction(block, [*self.reduce_units, *self.terms, self.outer][0])
        blocks = [first, block]
        if size is None or size % self.width:
            parts = self.sch.loop_partition(self.outer, ["whole", None])
            copied = copies(self.sch, parts, block_name(self.sch, block))
            blocks = [first, *(self.sch.get_block(name) for (name,) in copied)]
        for rv in blocks:
            self.sch.vectorize(self.sch.get_loops(rv)[-1])
        for name in self.halves[:-1]:
            self.sch.vectorize(self.sch.get_loops(name)[-1])


def _of(loops: Mapping[Var, LoopRV], axes: Sequence[Axis]) -> list[LoopRV]:
    return [loops[axis.loop] for axis in axes]


def _spatial(loops: Mapping[Var, LoopRV], axes: Sequence[Axis], units: Sequence[Var]) -> list[LoopRV]:
    """Loops over spatial axes, those of one iteration last, so that nests of equal axes are equally deep."""
    return [*_of(loops, axes), *(loops[var] for var in units if var in loops)]


def _terms(walk: Walk) -> Span | None:
    """A reduced axis along which everything is contiguous or constant."""
    for span in reversed(walk.reduce):
        steps = [access.coefficient(span) for access in walk.reads]
        if steps and all(step in (0, 1) for step in steps) and any(step == 1 for step in steps):
            return span
    return None


def _is_wide(walk: Walk, lanes: int) -> bool:
    """Whether results are contiguous for half a vector, so that vectors can lie along them."""
    span = contiguous_result(walk)
    return span is not None and (span.size is None or span.size >= lanes // 2)
