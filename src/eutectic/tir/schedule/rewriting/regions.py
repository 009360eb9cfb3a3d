"""Regions of blocks computed again from bodies that have changed."""

from __future__ import annotations

from eutectic.tir.access import block_access
from eutectic.tir.block import Block
from eutectic.tir.statement_mutator import StmtMutator, updated


class RegionRecomputer(StmtMutator):
    """A mutator that states the regions of blocks anew when something in them has changed.

    Blocks that state no regions, as the root of a function, are left so.
    """

    def block(self, block: Block) -> Block:
        """A block with what is inside of it."""
        rewritten = super().block(block)
        return rewritten if rewritten is block else with_recomputed_regions(rewritten)


def with_recomputed_regions(block: Block) -> Block:
    """A block with the regions that its body has; one that states none stays so."""
    if not block.reads and not block.writes:
        return block
    reads, writes = block_access(block)
    return updated(block, reads=reads, writes=writes)
