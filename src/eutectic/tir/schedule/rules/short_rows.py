"""Short rows of numbers that lie far apart, as the channels of a pixel: several rows are one vector.

Neighbours of one row are read from different places, but the same numbers of neighbouring rows lie side by side. So a
vector of 16 rows of three numbers is three contiguous loads and some shuffles, which the backend makes of places that
it knows at compile time. On a Zen 5, with two threads, patches of 16 x 16 x 3 numbers of an image of 224 x 224 took 90
us by vectors that began anywhere, and 7 so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.digit_axes import linear_walk
from eutectic.tir.schedule.rules.guards import is_guarded
from eutectic.tir.schedule.rules.nest import Nest, joined, reorder, run_by_threads, whole_and_rest
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.rules.walk import Span, Walk, walk_of
from eutectic.tir.schedule.rules.work import are_many, is_small, lanes_of, points
from eutectic.tir.schedule.schedule import Schedule

_LONGEST: Final = 7  # numbers of a row that is short: as fast as others from 8 on
_FEWEST: Final = 4  # rows that are read together: fewer are not worth a vector


@dataclass(frozen=True)
class Turned:
    """Rows of a result that are read across.

    Attributes:
        inside: Numbers of a row.
        run: How many rows lie side by side in memory; None when these are all rows of a line.
    """

    inside: int
    run: int | None


@dataclass(frozen=True)
class Axes:
    """Which axis does what.

    Attributes:
        walk: The stage.
        line: Spans that are one line of rows, outermost first.
        outer: All other spans.
        turned: Its rows.
    """

    walk: Walk
    line: tuple[Span, ...]
    outer: tuple[Span, ...]
    turned: Turned

    @property
    def size(self) -> int:
        """Numbers of a line."""
        return points(self.line) or 0

    @property
    def is_counted(self) -> bool:
        """Whether the line is one axis, of which the rows are digits."""
        return len(self.line) == 1


def turned(walk: Walk, within: int) -> Turned | None:
    """The rows of a result that are read across, which lie in a line; None when there are none.

    Args:
        walk: A stage of which all accesses are linear.
        within: Numbers of the line.
    """
    inside = 1
    for span in reversed(walk.spatial):
        if span.size is None or walk.store.coefficient(span) != inside or inside >= within:
            return None
        steps = {access.coefficient(span) for access in walk.reads} - {0}
        if 1 in steps:
            if inside == 1 or len(steps) > 1:
                return None
            return Turned(inside, None if inside * span.size >= within else span.size)
        inside *= span.size
    return None


def is_turned(stage: Stage) -> bool:
    """Whether a stage writes long rows, which are digits of one axis, and reads them across: a transposition in it."""
    if stage.init is not None or stage.epilogue is not None:
        return False
    walk = walk_of(stage)
    seen = linear_walk(walk)
    if seen is None or seen is walk or walk.spatial[-1].size is None:
        return False
    found = turned(seen, walk.spatial[-1].size)
    return found is not None and found.inside > _LONGEST and (found.run or _FEWEST) >= _FEWEST


class ShortRows:
    """A line of rows in vectors of several rows."""

    name = "short_rows"

    def matches(self, walk: Walk, processor: Processor) -> Axes | None:
        """A stage that reduces nothing, and writes rows of few numbers that are read across."""
        stage = walk.stage
        if stage.init is not None or not walk.spatial or is_guarded(stage.value):
            return None
        seen = linear_walk(walk)
        if seen is None:
            return None
        count = 1 if seen is not walk else 2
        line, outer = walk.spatial[-count:], walk.spatial[:-count]
        size = points(line)
        found = turned(seen, size) if size is not None and walk.store.coefficient(line[-1]) == 1 else None
        if found is None or found.inside > _LONGEST:
            return None
        axes = Axes(walk, line, outer, found)
        if axes.is_counted and lanes_of(walk.store.buffer.dtype, processor) % found.inside == 0:
            return None  # vectors that begin anywhere are whole rows, too
        return axes if _widths(axes, processor) else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """As many rows at a time as are few vectors."""
        return {
            "width": _widths(axes, processor)[-1],
            "threads": not is_small(axes.walk.spatial, axes.walk.stage.value),
        }

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """More or fewer rows at a time, and the other answer about threads."""
        own = self.decide(axes, processor)
        widths = [{**own, "width": width} for width in _widths(axes, processor)]
        return distinct([own, *widths, {**own, "threads": not own["threads"]}])

    def nest(self, sch: Schedule, axes: Axes, decisions: Decisions) -> Nest:
        """See `Rule`."""
        return Nest(sch, axes.walk)

    def apply(self, nest: Nest, axes: Axes, decisions: Decisions, *, shared: bool) -> None:
        """See `Rule`."""
        sch, loops = nest.sch, nest.of(axes.line)
        reorder(sch, [*nest.of(axes.outer), *loops])
        line = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        tile, _ = sch.split(line, [None, decisions["width"]])
        tiles, blocks = whole_and_rest(sch, tile, nest.block)
        for block in blocks:
            sch.vectorize(sch.get_loops(block)[-1])
        if shared and decisions["threads"]:
            # where tiles begin is a multiple of their width as long as it is not computed from what threads share
            inner = [] if axes.is_counted and are_many(axes.outer) else joined(sch, tiles)
            run_by_threads(sch, [*nest.units, *nest.of(axes.outer), *inner])


def _widths(axes: Axes, processor: Processor) -> list[int]:
    """Numbers of whole rows that lie side by side; the line is a multiple of each where it has other digits outside."""
    lanes, inside, run = lanes_of(axes.walk.store.buffer.dtype, processor), axes.turned.inside, axes.turned.run
    if run is None:
        rows = [lanes, 2 * lanes]
    else:
        rows = [count for count in range(_FEWEST, lanes + 1) if run % count == 0][-1:]
        rows += [count * 2 for count in rows if count > _FEWEST and axes.size % (count * 2 * inside) == 0]
    return [count * inside for count in rows if count * inside <= axes.size]
