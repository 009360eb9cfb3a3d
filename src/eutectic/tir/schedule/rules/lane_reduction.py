"""Reductions of which only the terms are contiguous: vectors along them, partial results per lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.prim_expr import Var
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.legality.combiner import combiner_of
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import (
    Nest,
    block_name,
    copies,
    has_no_remainder,
    loops_by_variable,
    reorder,
    run_by_threads,
    whole_and_rest,
)
from eutectic.tir.schedule.rules.partial_sums import in_blocks, sum_blocks, terms_of_block
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.register_axes import contiguous_result
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Axis
from eutectic.tir.schedule.rules.tile_size import Iterations
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
        self.others = [self._one(span, loops) for span in axes.walk.reduce if span is not axes.terms]
        size = self._block_of_terms()
        steps = [None, size] if size and not self.others else [None]  # at once: one condition tells what remains
        *self.steps, lanes = sch.split(self._one(axes.terms, loops), [*steps, width])
        if size and self.others:
            self.others[:1] = in_blocks(sch, self.others[0], size)
        self.has_blocks = size > 0
        reorder(sch, [*self.others, *self.steps, lanes])
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
        around = [self.sch.get(rv) for rv in self.sch.get_loops(self.partial)]
        terms = [*self.others, *self.steps]
        depth = around.index(self.sch.get(terms[0])) - len(self.reduce_units)
        blocks = self._in_blocks(terms, depth) if self.has_blocks else self._in_turn(depth)
        for name in [*blocks, *self.halves[:-1]]:
            self.sch.vectorize(self.sch.get_loops(name)[-1])

    def _block_of_terms(self) -> int:
        """Iterations of the outermost loop over terms that are summed at a time; 0 for all."""
        size = self.axes.terms.size
        steps = Iterations(None if size is None else -(-size // self.width))
        others = [span for span in self.walk.reduce if span is not self.axes.terms]
        return terms_of_block(self.walk.stage, [*others, steps], rows=1)

    def _in_turn(self, depth: int) -> list[str]:
        """Sums of all terms, which are within so many loops; names of all blocks."""
        return [self._decomposed(self.partial, depth), *self._whole_and_rest(f"{self.partial}_update")]

    def _in_blocks(self, terms: Sequence[LoopRV], depth: int) -> list[str]:
        """Sums of a block of terms each, which are within so many loops; names of all blocks."""
        reorder(self.sch, [terms[0], *self.reduce_units, *terms[1:]])
        partial, _ = sum_blocks(self.sch, terms[0])
        first = self._decomposed(self.partial, depth)
        nest: tuple[str, ...] = (f"{self.partial}_update", self._decomposed(partial, depth + 1), f"{partial}_update")
        nests = [nest]
        outer = self.sch.get_loops(nest[-1])[depth]
        if not self.others and not has_no_remainder(self.sch, nest[-1], outer):
            nests = copies(self.sch, self.sch.loop_partition(outer, ["whole", None]), *nest)
        sums = [name for *rest, update in nests for name in (*rest, *self._whole_and_rest(update))]
        return [first, *sums]

    def _decomposed(self, block: str, depth: int) -> str:
        """Name of the block that begins a reduction, before the loop within so many others."""
        return block_name(self.sch, self.sch.decompose_reduction(block, self.sch.get_loops(block)[depth]))

    def _whole_and_rest(self, block: str) -> Sequence[str]:
        """Names of a block that adds whole vectors, and of one that adds what remains."""
        return whole_and_rest(self.sch, self.sch.get_loops(block)[-2], block)[1]


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
