"""The loops of a tile of accumulators: tiles outside, the reduction, what is in registers inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from eutectic.ir.prim_expr import PrimExpr, floordiv, floormod
from eutectic.support.errors import ScheduleError
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.buffer import Buffer
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
from eutectic.tir.schedule.rules.walk import Span
from eutectic.tir.stmt import For


@dataclass(frozen=True)
class _Part:
    """Tiles of one form.

    Attributes:
        block: Name of the reduction in them.
        store: Name of the block that stores what is finished.
        ragged: Spans of which a tile has fewer iterations than it could, and how many is not known.
    """

    block: str
    store: str
    ragged: tuple[Span, ...] = ()


class TileNest:
    """A reduction whose spans are cut into tiles.

    Args:
        nest: The loops of the reduction.
        outer: Spans whose tiles are outermost.
        inner: Spans whose tiles follow within.
        tile: The spans of which a tile has several iterations, in their order in it, each with how many.
        panel: An operand that is copied for all tiles of one outer iteration, and the span that its vectors lie along.
        strip: Tiles along that span, the last of the outer ones, that an outer iteration has; it is whole strips then.

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
    ) -> None:
        self.nest, self.sch, self.tile, self.strip = nest, nest.sch, tile, strip
        self.panel = None if panel is None else self._copy_panel(*panel)
        self.spans = [*outer, *inner]
        self.threads = len(outer)
        parts = {span: nest.sch.split(nest.loops[span], [None, self._width(span)]) for span in self.tile}
        tiles = {span: loops[0] for span, loops in parts.items()}
        within: list[LoopRV] = []
        if panel is not None and strip > 1:
            tiles[panel[1]], one = nest.sch.split(tiles[panel[1]], [None, strip])
            within.append(one)
        around = [tiles.get(span, nest.loops[span]) for span in self.spans]
        self.outside = [*around, *within]
        self.inside = [parts[span][1] for span in self.tile]
        self.terms = nest.of(nest.walk.reduce)
        self.blocks = [_Part(nest.block, nest.store)]
        self.split = {span: [loop] for span, loop in zip(self.spans, around, strict=True)}
        reorder(self.sch, [*self.outside, *nest.reduce_units, *self.terms, *self.inside])

    def _width(self, span: Span) -> int:
        return self.tile[span] if span.size is None else min(self.tile[span], span.size)

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
        for span in self.spans:
            size, width = span.size, self.tile.get(span)
            if width in (None, 1) or (size is not None and (size <= width or not size % width)):
                continue
            place = self.depth - len(self.outside) + self.spans.index(span)
            blocks: list[_Part] = []
            for part in self.blocks:
                if not has_no_remainder(self.sch, part.block):
                    loop = self.sch.get_loops(part.block)[place]
                    blocks += self._whole_and_rest(part, span, loop)
            self.blocks = blocks or self.blocks

    def _whole_and_rest(self, part: _Part, span: Span, loop: LoopRV) -> list[_Part]:
        parts = self.sch.loop_partition(loop, ["whole", None])
        if len(self.blocks) == 1:
            self.split[span] = parts
        names = copies(self.sch, parts, part.block, part.store)
        ragged = (*part.ragged, span) if span.size is None else part.ragged
        return [_Part(block, store, rest) for (block, store), rest in zip(names, (part.ragged, ragged), strict=True)]

    def use_registers(
        self, vector: Span | None, unrolled: Sequence[bool], ahead: tuple[Buffer, int] | None = None
    ) -> None:
        """Write the tile out, with vectors along one of its spans.

        Args:
            vector: The span.
            unrolled: Which loops over the reduction are written out, too.
            ahead: An operand in panels of which those of the next tile are asked for, and how many a tile has.
        """
        for part in self.blocks:
            loops = self.sch.get_loops(part.block)[self.depth :]
            first_inside = len(loops) - len(self.inside)
            inside, all_terms = loops[first_inside:], loops[:first_inside]  # those of one iteration are first
            terms = all_terms[len(all_terms) - len(self.terms) :]
            stored = self._stored(part.store) if self.outside else []
            serial = [span for span in part.ragged if span is not vector]
            if serial:
                inside, stored = self._one_by_one(serial, all_terms, inside, stored)
            spans = [span for span in self.tile if span not in serial]
            nests = [(spans, inside), (spans, stored)] if stored else [(spans, inside)]
            if all_terms:
                nests.append(self._cleared(part.block, all_terms[0], spans, inside, self.depth + len(serial)))
            for of, nest in nests:
                self._in_registers(of, nest, vector)
            for loop, is_unrolled in zip(terms, unrolled, strict=True):
                if is_unrolled:
                    self.sch.unroll(loop)
            if ahead is not None and not all(unrolled):
                self._look_ahead(f"{part.block}_update", ahead, self.depth + len(serial) + len(all_terms), unrolled)

    def _look_ahead(self, block: str, ahead: tuple[Buffer, int], depth: int, unrolled: Sequence[bool]) -> None:
        """Ask for the next panels in the innermost loop over terms that is one, of those within so many loops."""
        panels, count = ahead
        loops = self.sch.get_loops(block)[:depth]
        inside = list(unrolled[::-1]).index(False)
        terms = [span.size or 1 for span in self.nest.walk.reduce]
        distance = count * prod(terms[: len(terms) - inside])
        number = number_of_read(self.sch, block, panels)
        self.sch.prefetch(block, number, loops[-1 - inside], distance, spread=True)

    def _cleared(
        self, block: str, term: LoopRV, spans: Sequence[Span], inside: Sequence[LoopRV], depth: int
    ) -> tuple[list[Span], list[LoopRV]]:
        """The loops in which accumulators begin, and the spans that they run along: those that elements depend on.

        An element of a tile of one iteration may be at a place that is known, and then depends on no loop.

        Args:
            block: The reduction.
            term: Its first loop over terms.
            spans: The spans of a tile.
            inside: The loops along them around the reduction.
            depth: How many loops are around its terms.
        """
        realize = realize_of(self.sch, block)
        used = {var for value in realize.iter_values for var in variables(value)}
        left = [span for span, loop in zip(spans, inside, strict=True) if variable_of(self.sch, loop) in used]
        loops = self.sch.get_loops(self.sch.decompose_reduction(block, term))[depth:]
        return left, loops

    def _one_by_one(
        self, serial: Sequence[Span], terms: Sequence[LoopRV], inside: Sequence[LoopRV], stored: Sequence[LoopRV]
    ) -> tuple[list[LoopRV], list[LoopRV]]:
        """Spans of which a tile has an unknown number of iterations are done one iteration after the other."""
        chosen = [span in serial for span in self.tile]
        outer = [loop for loop, is_serial in zip(inside, chosen, strict=True) if is_serial]
        inner = [loop for loop, is_serial in zip(inside, chosen, strict=True) if not is_serial]
        reorder(self.sch, [*outer, *terms, *inner])
        around = [loop for loop, is_serial in zip(stored, chosen, strict=True) if is_serial]
        rest = [loop for loop, is_serial in zip(stored, chosen, strict=True) if not is_serial]
        reorder(self.sch, [*around, *rest])
        self.sch.merge(outer[-1], around[-1])
        return inner, rest

    def _stored(self, store: str) -> list[LoopRV]:
        """The loops of a tile around the block that stores it, in the order of the tile."""
        own = self.sch.get_loops(store)[self.depth :]
        by_span = {span: loop for span, loop in zip(self.nest.store_spans, own, strict=True) if span is not None}
        loops = [by_span[span] for span in self.tile]
        reorder(self.sch, loops)
        return loops

    def _in_registers(self, spans: Sequence[Span], loops: Sequence[LoopRV], vector: Span | None) -> None:
        for span, loop in zip(spans, loops, strict=True):
            if span is vector:
                self.sch.vectorize(loop)
            else:
                self.sch.unroll(loop)

    def share(self, within: bool = False) -> None:
        """Let threads share the outermost tiles, down to the first span that was cut: what follows is in two loops.

        Args:
            within: Whether they share the tiles that follow within, too.
        """
        outer = [self.split[span] for span in self.spans[: None if within else self.threads]]
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
