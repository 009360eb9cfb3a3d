"""A second copy of statements with blocks: everything bound inside is new, so that both can stand in one program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferRegion, MatchBufferRegion
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.statement_mutator import updated
from eutectic.tir.stmt import For, Stmt
from eutectic.tir.substitute import Substituter


class BlockCopier(Substituter):
    """Copies statements; loops, axes, buffers and their variables are new.

    Args:
        values: What stands for variables from outside.
        name: The name of the copy of a block, by the name of the block.
        outside: Variables that are bound elsewhere; others in the declaration of a name for a region are bound there.
    """

    def __init__(
        self, values: Mapping[Var, PrimExpr], name: Callable[[str], str], outside: Collection[Var] = ()
    ) -> None:
        super().__init__(values, rename=True)
        self.name, self.outside = name, outside

    def visit_for(self, stmt: For) -> Stmt:
        """A loop; one that is bound to threads gets an axis of its own."""
        loop = super().visit_for(stmt)
        if isinstance(loop, For) and loop.thread_binding is not None:
            return replace(loop, thread_binding=loop.thread_binding.thread_tag)
        return loop

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block with its own axes."""
        values, predicate = self.exprs(stmt.iter_values), self.expr(stmt.predicate)
        return updated(stmt, iter_values=values, predicate=predicate, block=self.block(stmt.block))

    def block(self, block: Block) -> Block:
        """A block under another name."""
        axes = tuple(
            IterVar(None if axis.dom is None else self.range(axis.dom), self.bind(axis.var), axis.iter_type)
            for axis in block.iter_vars
        )
        reads, writes = self.regions(block.reads), self.regions(block.writes)  # before what the block names itself
        allocated = tuple(self.allocated(buffer) for buffer in block.alloc_buffers)
        matched = tuple(self.matched(match) for match in block.match_buffers)
        init = None if block.init is None else self.stmt(block.init)
        return replace(
            block,
            iter_vars=axes,
            reads=reads,
            writes=writes,
            name_hint=self.name(block.name_hint),
            body=self.stmt(block.body),
            init=init,
            alloc_buffers=allocated,
            match_buffers=matched,
        )

    def range(self, taken: Range) -> Range:
        """A range of integers."""
        return updated(taken, min=self.expr(taken.min), extent=self.expr(taken.extent))

    def region(self, region: BufferRegion) -> BufferRegion:
        """A box of elements."""
        ranges = tuple(self.range(taken) for taken in region.region)
        return BufferRegion(self.buffer(region.buffer), ranges)

    def regions(self, regions: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """Several boxes of elements."""
        return tuple(self.region(region) for region in regions)

    def allocated(self, buffer: Buffer) -> Buffer:
        """A buffer with memory of its own."""
        self.bind(buffer.data)
        self.determined(buffer.elem_offset)
        return self.declared(buffer)

    def matched(self, match: MatchBufferRegion) -> MatchBufferRegion:
        """A name for a region, with variables of its own for what the region determines."""
        source = self.region(match.source)
        return MatchBufferRegion(self.named(match.buffer), source)

    def named(self, buffer: Buffer) -> Buffer:
        """A buffer whose memory, strides and offset are given from outside."""
        self.bind(buffer.data)
        for scalar in (*buffer.strides, buffer.elem_offset):
            self.determined(scalar)
        return self.declared(buffer)

    def determined(self, scalar: PrimExpr | None) -> None:
        """A stride or an offset, which is a new variable when nothing outside binds it."""
        if isinstance(scalar, Var) and scalar not in self.values and scalar not in self.outside:
            self.bind(scalar)
