"""Tiles in rounds: each block of terms is summed for all rows of a piece of work before the next block is.

What vectors select for one block, such as the weights of some channels, stays in the nearest cache while all rows read
it; in any other order of tiles it comes from further away once for each tile. Totals wait in memory of the thread.

Reference: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM Transactions on
Mathematical Software 2008, has the loop over blocks of terms outside of that over rows for the same reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.accumulators import Accumulators
from eutectic.tir.schedule.rules.nest import block_name, reorder
from eutectic.tir.schedule.rules.partial_sums import in_blocks
from eutectic.tir.schedule.rules.tile_nest import Level, Part, Sums, TileNest
from eutectic.tir.schedule.rules.walk import Span


class RoundNest(TileNest):
    """A reduction whose spans are cut into tiles, and whose terms into blocks, outside of the inner tiles.

    Args:
        nest: The loops of the reduction.
        outer: Spans whose tiles are pieces of work, with the runs.
        inner: Spans whose tiles are gone through in each round.
        tile: As of `TileNest`; vectors lie along the last span.
        run: As of `TileNest`; each is a piece of work with rounds of its own.
        block_of_terms: Iterations of the outermost loop over terms in a round, which divide it.
    """

    def __init__(
        self,
        nest: Accumulators,
        outer: Sequence[Span],
        inner: Sequence[Span],
        tile: Mapping[Span, int],
        run: tuple[Span, int] | None,
        block_of_terms: int,
    ) -> None:
        super().__init__(nest, outer, inner, tile, run=run)
        self.block_of_terms = block_of_terms
        rounds, *of_round = in_blocks(self.sch, self.terms[0], block_of_terms)
        self.terms = [*of_round, *self.terms[1:]]
        self.outside.insert(self.threads, rounds)
        self.levels.insert(self.threads, Level(nest.walk.reduce[0], 1))
        self.split.insert(self.threads, [rounds])
        self.alone += 1
        reorder(self.sch, [*self.outside, *nest.reduce_units, *self.terms, *self.inside])

    def keep_accumulators(self) -> None:
        """Keep sums of a round within a tile, and totals within a piece of work, which stores them when it is done."""
        self.sch.reverse_compute_at(self.nest.store, self.outside[self.threads - 1], preserve_unit_loops=True)
        self.sch.set_scope(self.nest.block, 0, "local")
        self._cut_levels(range(self.threads))
        self.blocks = [self._summed(part) for part in self.blocks]

    def _summed(self, piece: Part) -> Part:
        """What sums the terms of a round, and adds them to totals, which are cleared before and stored behind."""
        total, (*_, vector) = piece.block, self.tile
        first, last = self._pieces, self.depth - 1
        loops = self.sch.get_loops(total)
        spans = self._depended_on(Sums(total, self.depth, (), loops[-len(self.tile) :], list(self.tile)))
        partial = block_name(self.sch, self.sch.rfactor(loops[first], 0))
        self.sch.merge(*(self.sch.get_loops(block)[last] for block in (partial, total)))
        cleared = block_name(self.sch, self.sch.decompose_reduction(total, self.sch.get_loops(partial)[first]))
        self._in_vectors(cleared, -1)
        self._in_vectors(piece.store, first + self.nest.store_spans.index(vector))
        return Part(partial, f"{total}_update", totalled=tuple(spans))

    @property
    def _pieces(self) -> int:
        """Loops around the rounds."""
        return self.depth - len(self.outside) + self.threads

    def cut_remainders(self) -> None:
        """Tiles that are not whole are loops of their own; pieces of work were cut before they had rounds."""
        self._cut_levels(range(self.threads, len(self.levels)))

    def _in_vectors(self, block: str, place: int) -> None:
        """Bring one of the loops around a block inside of the others, as vectors."""
        loops = list(self.sch.get_loops(block))
        lanes = loops.pop(place)
        reorder(self.sch, [*loops[self._pieces :], lanes])
        self.sch.vectorize(lanes)

    def _in_blocks(self, sums: Sums, size: int) -> list[Sums]:
        """See `TileNest`; the terms of a round are a block."""
        return [sums]

    def _until_next(self, panels: int) -> list[int]:
        """See `TileNest`; what is read next is the next block of the same panels."""
        return [self.block_of_terms, *super()._until_next(panels)[1:]]

    def _stored(self, part: Part, sums: Sums) -> tuple[Sequence[Span], Sequence[LoopRV]]:
        """See `TileNest`; what stores a tile adds it to its totals."""
        return part.totalled, self.sch.get_loops(part.store)[sums.depth :]

    def share(self, within: bool = False) -> None:
        """Let threads share pieces of work; the rounds of each follow each other."""
        super().share()
