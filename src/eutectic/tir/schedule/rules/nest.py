"""A stage within a schedule: its loops in the order in which a rule wants them, and cut into tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.ir.prim_expr import Var
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import For


class Nest:
    """The loops of one stage, by span.

    Loops of one iteration become the outermost, and the axes of each span one loop.

    Args:
        sch: The schedule, in which the loops of the stage are as they were when it was read.
        walk: The stage.

    Attributes:
        block: Name of the block that computes the stage.
        units: Loops of one iteration.
        loops: The loop of each span.
    """

    def __init__(self, sch: Schedule, walk: Walk) -> None:
        self.sch, self.walk, self.block = sch, walk, walk.stage.name
        loops = {_variable(sch, rv): rv for rv in sch.get_loops(self.block)}
        spans = (*walk.spatial, *walk.reduce)
        axes = [axis.loop for span in spans for axis in span.axes]
        self.units = [loops[var] for var in walk.stage.units if var in loops]
        wanted = [*self.units, *(loops[var] for var in axes if var is not None)]
        if wanted != [rv for rv in loops.values() if rv in wanted]:
            sch.reorder(*wanted)
        self.loops = {span: self._one(span, loops) for span in spans}

    def _one(self, span: Span, loops: dict[Var, LoopRV]) -> LoopRV:
        parts = [loops[axis.loop] for axis in span.axes if axis.loop is not None]
        return parts[0] if len(parts) == 1 else self.sch.fuse(*parts)

    def of(self, spans: Sequence[Span]) -> list[LoopRV]:
        """The loops of spans."""
        return [self.loops[span] for span in spans]


def _variable(sch: Schedule, rv: LoopRV) -> Var:
    loop = sch.get(rv)
    assert isinstance(loop, For)
    return loop.loop_var


@dataclass(frozen=True)
class Tiles:
    """A loop cut into tiles of a width, and a narrower one for what remains.

    Attributes:
        outside: Loops over tiles that follow each other: over whole ones, and over the remainder.
        inside: The loop over the iterations of a tile in each of them.
    """

    outside: tuple[LoopRV, ...]
    inside: tuple[LoopRV, ...]

    def joined(self, sch: Schedule, together: bool) -> list[LoopRV]:
        """The loops over tiles, as one that threads can share when `together`."""
        if together and len(self.outside) > 1:
            return [sch.loop_join(*self.outside)]
        return list(self.outside[:1])


def tiles(nest: Nest, loop: LoopRV, span: Span, width: int, inner: Sequence[LoopRV] = ()) -> Tiles:
    """Cut a loop into tiles.

    Args:
        nest: The nest.
        loop: Its loop, which gets inside of all others.
        span: What the loop runs over.
        width: Iterations of a tile.
        inner: Loops that come between the tiles and their iterations.
    """
    sch, size = nest.sch, span.size
    if size is not None and size <= width:
        if inner:
            sch.reorder(*inner, loop)
        return Tiles((), (loop,))
    outer, lanes = sch.split(loop, [None, width])
    sch.reorder(outer, *inner, lanes)
    if size is None or size % width == 0:
        return Tiles((outer,), (lanes,))
    parts = sch.loop_partition(outer, [size // width, 1])
    return Tiles(tuple(parts), tuple(_innermost(sch, nest.block, len(parts))))


def _innermost(sch: Schedule, block: str, parts: int) -> list[LoopRV]:
    names = [block, *(f"{block}_partition_{k}" for k in range(1, parts))]
    return [sch.get_loops(name)[-1] for name in names]


def run_by_threads(nest: Nest, loops: Sequence[LoopRV], threads: bool) -> None:
    """Let threads share loops, the outermost ones of a nest, when they may."""
    if threads and loops:
        both = [*nest.units, *loops]
        nest.sch.parallel(both[0] if len(both) == 1 else nest.sch.fuse(*both))
