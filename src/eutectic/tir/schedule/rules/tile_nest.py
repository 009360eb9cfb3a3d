"""The loops of a tile of accumulators: tiles outside, the reduction, what is in registers inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Final

from eutectic.ir.prim_expr import PrimExpr, floordiv, floormod
from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.buffer import Buffer
from eutectic.tir.function_attributes import finite_params
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.accumulators import Accumulators
from eutectic.tir.schedule.rules.nest import (
    copies,
    has_no_remainder,
    joined,
    number_of_read,
    realize_of,
    reorder,
    run_by_threads,
    variable_of,
)
from eutectic.tir.schedule.rules.operand_copy import OperandCopy, operand_copy, turned
from eutectic.tir.schedule.rules.partial_sums import in_blocks, sum_blocks
from eutectic.tir.schedule.rules.tile_size import halves
from eutectic.tir.schedule.rules.walk import Span
from eutectic.tir.stmt import For

TERMS_IN_A_ROW: Final = 8
"""Of the innermost loop over terms, from which on it is worth asking whether they are padding."""
_SHARE_OF_PADDING: Final = 1 / 16  # of what points of a tile read, from which on each is worth code of its own
_MUCH_PADDING: Final = 1 / 4  # of the terms along a window, from which on those within it are better a loop
TAPS: Final = 5
"""Of a window at most, which are written out for that."""
TILES_APART: Final = 8
"""At most, of which each has code of its own for that."""
_LEAST_SHARED: Final = 8  # pieces of work that threads still have when tiles differ from each other


@dataclass(frozen=True)
class Sums:
    """Sums in registers, or totals of them.

    Attributes:
        block: Name of the block.
        depth: How many loops are around its terms.
        terms: Loops over the terms; those of one iteration are first.
        inside: Loops over the iterations of a tile.
        spans: What they run along.
    """

    block: str
    depth: int
    terms: Sequence[LoopRV]
    inside: Sequence[LoopRV]
    spans: Sequence[Span]


@dataclass(frozen=True)
class Level:
    """A loop outside of the reduction.

    Attributes:
        span: What it runs along.
        width: Iterations of the span in one of its own.
    """

    span: Span
    width: int

    @property
    def count(self) -> float:
        """Iterations of it; infinitely many where they vary."""
        return inf if self.span.size is None else -(-self.span.size // self.width)

    @property
    def is_cut(self) -> bool:
        """Whether the last one of several iterations may have less to do than the others."""
        size = self.span.size
        return self.width > 1 and (size is None or (size > self.width and size % self.width > 0))


@dataclass(frozen=True)
class Part:
    """Tiles of one form.

    Attributes:
        block: Name of the reduction in them.
        store: Name of the block that stores what is finished.
        ragged: Spans of which a tile has fewer iterations than it could, and how many is not known.
        within: How many loops are around these tiles within a larger one.
        totalled: Spans of a tile that loops around what adds it to totals run along, where it is in rounds.
    """

    block: str
    store: str
    ragged: tuple[Span, ...] = ()
    within: int = 0
    totalled: tuple[Span, ...] = ()


class TileNest:
    """A reduction whose spans are cut into tiles.

    Args:
        nest: The loops of the reduction.
        outer: Spans whose tiles are outermost.
        inner: Spans whose tiles follow within.
        tile: The spans of which a tile has several iterations, in their order in it, each with how many.
        panel: An operand that is copied for all tiles of one outer iteration, and the span that its vectors lie along.
        strip: Tiles along that span, the last of the outer ones, that an outer iteration has; it is whole strips then.
        run: One of the inner spans, and of how many tiles along it a run is; runs are outside, behind the other spans.

    Attributes:
        outside: Loops outside of the reduction.
        terms: Loops over the reduction.
        inside: Loops over the iterations of a tile.
    """

    def __init__(
        self,
        nest: Accumulators,
        outer: Sequence[Span],
        inner: Sequence[Span],
        tile: Mapping[Span, int],
        panel: tuple[Buffer, Span] | None = None,
        strip: int = 1,
        run: tuple[Span, int] | None = None,
    ) -> None:
        self.nest, self.sch, self.tile, self.strip = nest, nest.sch, tile, strip
        self.panel = None if panel is None else self._copy_panel(*panel)
        runs = [] if run is None else [Level(run[0], self._width(run[0]) * run[1])]
        self.levels = [*map(self._tiles_of, outer), *runs, *map(self._tiles_of, inner)]
        self.threads = len(outer) + len(runs)
        parts = {span: nest.sch.split(nest.loops[span], [None, self._width(span)]) for span in self.tile}
        tiles = {span: loops[0] for span, loops in parts.items()}
        within: list[LoopRV] = []
        if panel is not None and strip > 1:
            tiles[panel[1]], one = nest.sch.split(tiles[panel[1]], [None, strip])
            within.append(one)
        around = [tiles.get(span, nest.loops[span]) for span in (*outer, *inner)]
        if run is not None:
            place = len(outer) + list(inner).index(run[0])
            in_runs, around[place] = nest.sch.split(around[place], [None, run[1]])
            around.insert(len(outer), in_runs)
        self.outside = [*around, *within]
        self.inside = [parts[span][1] for span in self.tile]
        self.terms = nest.of(nest.walk.reduce)
        self.blocks = [Part(nest.block, nest.store)]
        self.split = [[loop] for loop in around]  # of each level
        self.alone = len(around)  # levels before the first whose tiles differ from each other
        reorder(self.sch, [*self.outside, *nest.reduce_units, *self.terms, *self.inside])

    def _tiles_of(self, span: Span) -> Level:
        return Level(span, self.tile.get(span, 1))

    def _width(self, span: Span) -> int:
        width = self.tile.get(span, 1)
        return width if span.size is None else min(width, span.size)

    @property
    def depth(self) -> int:
        """Loops around those over the reduction."""
        return len(self.nest.shared) + len(self.nest.units) + len(self.outside)

    def _copy_panel(self, operand: Buffer, vector: Span) -> OperandCopy | None:
        """Copy an operand with the index of the vectors last; None when a copy is refused, which nothing depends on."""
        lanes = self.sch.get(self.nest.loops[vector])
        assert isinstance(lanes, For)
        try:
            copy = operand_copy(self.sch, self.nest.block, operand)
        except ScheduleError:
            return None
        rank, last = len(copy.loops), copy.loops.index(lanes.loop_var)
        self._panel_width = self._width(vector)
        self._panel_order = [*(k for k in range(rank) if k != last), last]
        if last != rank - 1:
            self.sch.transform_layout(copy.block, ("write", 0), turned(self._panel_order, rank))
        return copy

    def place_panel(self) -> None:
        """Copy what the tiles of one outer iteration read, right before them."""
        if self.panel is None:
            return
        self.sch.compute_at(self.panel.block, self.outside[self.threads - 1], preserve_unit_loops=True)
        self.sch.set_scope(self.panel.block, 0, "local")
        loops = self.sch.get_loops(self.panel.block)
        first = len(loops) - len(self._panel_order)
        loops = [loops[first + k] for k in self._panel_order]
        reorder(self.sch, loops)
        if self.strip > 1:
            _, loops[-1] = self.sch.split(loops[-1], [self.strip, None])
            self.sch.transform_layout(self.panel.block, ("write", 0), _tile_by_tile(len(loops), self._panel_width))
        self.sch.vectorize(loops[-1])

    def keep_accumulators(self) -> None:
        """Store a tile when it is finished, so that its accumulators are needed within it only."""
        if self.outside:
            self.sch.reverse_compute_at(self.nest.store, self.outside[-1], preserve_unit_loops=True)
        self.sch.set_scope(self.nest.block, 0, "local")

    def cut_remainders(self) -> None:
        """Tiles that are not whole are loops of their own."""
        self._cut_levels(range(len(self.levels)))

    def _cut_levels(self, numbers: Iterable[int]) -> None:
        """Cut the loops of some levels into whole tiles and what remains."""
        first = self.depth - len(self.outside)
        for number in numbers:
            if not self.levels[number].is_cut:
                continue
            blocks: list[Part] = []
            for part in self.blocks:
                loop = self.sch.get_loops(part.block)[first + number]
                if has_no_remainder(self.sch, part.block, loop):
                    blocks.append(part)
                else:
                    blocks += self._whole_and_rest(part, number, loop)
            self.blocks = blocks

    def _whole_and_rest(self, part: Part, number: int, loop: LoopRV) -> list[Part]:
        """The tiles of a level in its loop, which is cut into iterations that are whole and what remains."""
        parts, span = self.sch.loop_partition(loop, ["whole", None]), self.levels[number].span
        if len(self.blocks) == 1:
            self.split[number] = parts
        ragged = (*part.ragged, span) if span.size is None else part.ragged
        whole, rest = self._copies(part, parts)
        return [whole, replace(rest, ragged=ragged)]

    def _copies(self, part: Part, loops: Sequence[LoopRV]) -> list[Part]:
        """Tiles in each of the loops that one around them was cut into."""
        names = copies(self.sch, loops, part.block, part.store)
        return [replace(part, block=block, store=store) for block, store in names]

    def _in_smaller(self, part: Part, vector: Span | None) -> list[Part]:
        """Tiles of known sizes, but along vectors, which may be masked.

        What remains of an unknown number of iterations is tiles of half as many, and so on: single ones would read all
        that they share again, and wait for their own sums.
        """
        pieces = [part]
        for span in part.ragged:
            if span is not vector:
                pieces = [piece for each in pieces for piece in self._halved(each, span)]
        return pieces

    def _halved(self, part: Part, span: Span) -> list[Part]:
        """Tiles of half as many iterations along a span, and so on, each form behind the larger one."""
        pieces = []
        for width in halves(self.tile[span]):
            loop = self._cut(part, span, width)
            factors = ["whole", None] if width > 1 else ["whole"]
            within = replace(part, within=part.within + 1)
            *whole, part = self._copies(within, self.sch.loop_partition(loop, factors))
            pieces += whole
        return [*pieces, part]

    def _cut(self, part: Part, span: Span, width: int) -> LoopRV:
        """Cut tiles into smaller ones of so many iterations along a span, which follow each other in the new loop."""
        loops = self.sch.get_loops(part.block)[self.depth + part.within :]
        first = len(loops) - len(self.inside)
        place = first + list(self.tile).index(span)
        outer, inner = self.sch.split(loops[place], [None, width])
        reorder(self.sch, [outer, *loops[:place], inner, *loops[place + 1 :]])
        self.sch.reverse_compute_at(part.store, outer, preserve_unit_loops=True)
        return outer

    def use_registers(
        self,
        vector: Span | None,
        unrolled: Sequence[bool],
        ahead: tuple[Buffer, int] | None = None,
        block_of_terms: int = 0,
        far: Buffer | None = None,
    ) -> None:
        """Write the tile out, with vectors along one of its spans.

        Args:
            vector: The span.
            unrolled: Which loops over the reduction are written out, too.
            ahead: An operand in panels of which those of the next tile are asked for, and how many a tile has.
            block_of_terms: Iterations of the outermost loop over terms that are summed at a time; 0 for all.
            far: An operand of which each block of terms asks for the next one; there are loops over blocks and in them.
        """
        pieces = [piece for part in self.blocks for piece in self._in_smaller(part, vector)]
        for part in pieces:
            depth = self.depth + part.within
            loops = self.sch.get_loops(part.block)[depth:]
            first_inside = len(loops) - len(self.inside)
            sums = Sums(part.block, depth, loops[:first_inside], loops[first_inside:], list(self.tile))
            nests = [self._stored(part, sums)] if self.outside else []
            levels = self._in_blocks(sums, block_of_terms) if block_of_terms else [sums]
            for level in levels:
                nests += [(level.spans, level.inside), *([self._cleared(level)] if level.terms else [])]
            for of, nest in nests:
                self._in_registers(of, nest, vector)
            self._go_through_terms(levels[-1], unrolled, ahead)
            if far is not None:
                update = f"{levels[-1].block}_update"
                self.sch.prefetch(update, number_of_read(self.sch, update, far), levels[-1].terms[-2])

    def _in_blocks(self, sums: Sums, size: int) -> list[Sums]:
        """Totals, and sums of so many iterations of the outermost loop over terms."""
        count = len(sums.terms) - len(self.terms)
        units, terms = sums.terms[:count], sums.terms[count:]
        blocks, *of_block = in_blocks(self.sch, terms[0], size)
        reorder(self.sch, [blocks, *units, *of_block, *terms[1:], *sums.inside])
        used = self._depended_on(sums)
        partial, blocks = sum_blocks(self.sch, blocks)
        around = sums.depth + 1
        of_total, loops = (self.sch.get_loops(name)[around:] for name in (sums.block, partial))
        first_inside = len(loops) - len(sums.inside)
        return [
            Sums(sums.block, sums.depth, [blocks], of_total, used),
            Sums(partial, around, loops[:first_inside], loops[first_inside:], sums.spans),
        ]

    def _go_through_terms(self, sums: Sums, unrolled: Sequence[bool], ahead: tuple[Buffer, int] | None) -> None:
        """Write loops over terms out, and ask for what is read next in the innermost of the others."""
        kinds = [*unrolled[max(len(unrolled) - len(sums.terms), 0) :]]  # without one that is over blocks
        if kinds and not any(kinds[:-1]) and self._skip_padding(sums, _MUCH_PADDING if kinds[-1] else 0):
            kinds[-1] = False
        for loop, is_unrolled in zip(sums.terms[len(sums.terms) - len(kinds) :], kinds, strict=True):
            if is_unrolled:
                self.sch.unroll(loop)
        if ahead is not None and not all(kinds):
            self._look_ahead(f"{sums.block}_update", ahead, sums.depth + len(sums.terms), kinds)

    def _skip_padding(self, sums: Sums, least: float) -> bool:
        """Leave out terms that are padding for a whole tile, such as rows of windows above and below an image.

        Also those that are padding for some points of a tile, where these are many: taps that are far apart. The window
        and the tiles are written out then, so that it is known what each point reads. Not where few terms follow each
        other within: asking would take as long as they do. A window that is written out would be cut into pieces.

        Args:
            sums: The sums.
            least: What part of the terms along a window must be padding.

        Returns:
            Whether terms are left out.
        """
        innermost, block = sums.terms[-1], f"{sums.block}_update"
        if not finite_params(self.sch.func) or not TERMS_IN_A_ROW <= self._size(innermost) < inf:
            return False
        is_found = False
        for number in range(len(realize_of(self.sch, block).block.reads)):
            if least and self._padding_share(sums, number) < least:
                continue
            loop = self._points_apart(sums, number) or innermost
            if self.sch.can_skip_padding(block, number, loop):
                self.sch.skip_padding(block, number, loop)
                is_found = True
        return is_found

    def _padding_share(self, sums: Sums, number: int) -> float:
        """What part of the terms along a window is padding at most."""
        block, points = f"{sums.block}_update", sums.inside[0]
        return max((self.sch.padding_share(block, number, points, window) for window in sums.terms[:-1]), default=0.0)

    def _points_apart(self, sums: Sums, number: int) -> LoopRV | None:
        """The loop over points of a tile, written out with all around it that tells what they read; or None.

        None also where little of that is padding, or it would be too much to write out.
        """
        block, points, window = f"{sums.block}_update", sums.inside[0], sums.terms[-2:][0]
        if len(sums.terms) < 2 or sums.spans[0] is list(self.tile)[-1] or self._size(window) > TAPS:
            return None
        if self.sch.padding_share(block, number, points, window) < _SHARE_OF_PADDING:
            return None
        place, *runs = (number for number, level in enumerate(self.levels) if level.span is sums.spans[0])
        *around, tiles = self.sch.get_loops(block)[: self.depth - len(self.outside) + place + 1]
        units, pieces = around[: self.depth - len(self.outside)], self.levels[: min(place, self.threads)]
        count, shared = self._size(tiles), prod([*map(self._size, units), *(level.count for level in pieces)])
        if runs or count > (TILES_APART if shared >= _LEAST_SHARED else 1):
            return None
        if count > 1:
            self.alone = min(self.alone, place)
            self.sch.unroll(tiles)
        self.sch.unroll(window)
        return points

    def _size(self, loop: LoopRV) -> float:
        """Iterations of a loop; infinitely many where they vary."""
        found = self.sch.get(loop)
        assert isinstance(found, For)
        return inf if found.static_extent is None else found.static_extent

    def _look_ahead(self, block: str, ahead: tuple[Buffer, int], depth: int, unrolled: Sequence[bool]) -> None:
        """Ask for the next panels in the innermost loop over terms that is one, of those within so many loops."""
        panels, count = ahead
        loops = self.sch.get_loops(block)[:depth]
        inside = list(unrolled[::-1]).index(False)
        terms = self._until_next(count)
        distance = prod(terms[: len(terms) - inside])
        number = number_of_read(self.sch, block, panels)
        self.sch.prefetch(block, number, loops[-1 - inside], distance, spread=True)

    def _until_next(self, panels: int) -> list[int]:
        """Iterations of each loop over terms until the next panels are read, of so many at a time."""
        first, *others = (span.size or 1 for span in self.nest.walk.reduce)
        return [panels * first, *others]

    def _cleared(self, sums: Sums) -> tuple[Sequence[Span], list[LoopRV]]:
        """The loops in which accumulators begin, and the spans that they run along."""
        used = self._depended_on(sums)
        loops = self.sch.get_loops(self.sch.decompose_reduction(sums.block, sums.terms[0]))[sums.depth :]
        return used, loops

    def _depended_on(self, sums: Sums) -> list[Span]:
        """The spans of a tile that elements depend on: one of one iteration may be at a place that is known."""
        realize = realize_of(self.sch, sums.block)
        used = {var for value in realize.iter_values for var in variables(value)}
        pairs = zip(sums.spans, sums.inside, strict=True)
        return [span for span, loop in pairs if variable_of(self.sch, loop) in used]

    def _stored(self, part: Part, sums: Sums) -> tuple[Sequence[Span], Sequence[LoopRV]]:
        """The spans of a tile, and the loops along them around the block that stores it."""
        own = self.sch.get_loops(part.store)[sums.depth :]
        by_span = {span: loop for span, loop in zip(self.nest.store_spans, own, strict=True) if span is not None}
        loops = [by_span[span] for span in self.tile]
        reorder(self.sch, loops)
        return sums.spans, loops

    def _in_registers(self, spans: Sequence[Span], loops: Sequence[LoopRV], vector: Span | None) -> None:
        for span, loop in zip(spans, loops, strict=True):
            if span is vector:
                self.sch.vectorize(loop)
            else:
                self.sch.unroll(loop)

    def share(self, within: bool = False) -> None:
        """Let threads share the outermost tiles, down to the first loop that was cut: what follows is in two loops.

        Args:
            within: Whether they share the tiles that follow within, too.
        """
        outer = self.split[: self.alone if within else min(self.threads, self.alone)]
        if not outer:
            return
        last = next((k for k, parts in enumerate(outer) if len(parts) > 1), len(outer) - 1)
        loops = [loop for (loop,) in outer[:last]]
        run_by_threads(self.sch, [*self.nest.units, *loops, *joined(self.sch, outer[last])])


def _tile_by_tile(rank: int, width: int) -> IndexMap:
    """The map that puts tiles along the last index behind each other, each with all that is in it."""

    def function(*indices: PrimExpr) -> list[PrimExpr]:
        *others, last = indices
        return [floordiv(last, width), *others, floormod(last, width)]

    return IndexMap.from_func(function, rank)
