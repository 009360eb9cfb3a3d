"""Index maps as arguments of primitives, and statements rewritten with indices in normal form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.access import block_access
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.index_map import IndexMap
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated, with_values
from eutectic.tir.stmt import BufferStore, For, Stmt


def index_map_argument(
    edit: Edit, site: BlockSite, index_map: IndexMap | Callable[..., Any], rank: int, what: str
) -> IndexMap:
    """An index map of so many indices, in the form that traces keep.

    Args:
        edit: The call.
        site: The block, for refusals.
        index_map: The map, or a function that computes it.
        rank: How many indices it takes.
        what: What has these indices.

    Raises:
        ScheduleError: it takes another number of indices, has free variables or axis separators, or operations that
            traces cannot keep.
    """
    help = "write it with +, -, *, //, %, min and max of its parameters and constants"
    if not isinstance(index_map, IndexMap) and not callable(index_map):
        edit.refuse(site, f"{edit.name}: the index map is a {type(index_map).__name__}, no function", help=help)
    try:
        converted = index_map if isinstance(index_map, IndexMap) else IndexMap.from_func(index_map, rank)
        kept = IndexMap.from_text(converted.as_python())
    except (TypeError, ValueError) as error:
        edit.refuse(site, f"{edit.name}: this is no index map for a schedule: {error}", help=help)
    if len(kept.initial_indices) != rank:
        message = f"{edit.name}: {kept.script()} takes {len(kept.initial_indices)} indices, and {what} has {rank}"
        edit.refuse(site, message, help=f"give a function of {rank} parameters")
    return kept if rank else kept.with_dtype("int32")  # without indices that say so


class Relaying(StmtMutator):
    """Accesses of a buffer made ones of the same elements in another layout.

    Args:
        analyzer: What is known of the variables around the statement; loops and axes inside are added.
        old: The buffer.
        new: The buffer in the new layout.
        index_map: Where the elements go.
    """

    def __init__(self, analyzer: Analyzer, old: Buffer, new: Buffer, index_map: IndexMap) -> None:
        self.analyzer = analyzer
        self.old, self.new, self.index_map = old, new, index_map

    def place(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Where an element is."""
        return tuple(simplified(index, self.analyzer) for index in self.index_map.map_indices(indices))

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """An expression."""

        def change(item: PrimExpr) -> PrimExpr | None:
            if isinstance(item, BufferLoad) and item.buffer is self.old:
                return BufferLoad(self.new, self.place(item.indices))
            return None

        return rewrite_expr(expr, change)

    def visit_for(self, stmt: For) -> Stmt:
        """A loop, whose variable is in its range inside."""
        _bind(self.analyzer, stmt.loop_var, Range(min=stmt.min, extent=stmt.extent))
        return super().visit_for(stmt)

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block, whose axes are in their ranges inside."""
        for axis in stmt.block.iter_vars:
            _bind(self.analyzer, axis.var, axis.dom)
        return super().visit_realize(stmt)

    def visit_store(self, stmt: BufferStore) -> Stmt:
        """A store."""
        store = super().visit_store(stmt)
        if isinstance(store, BufferStore) and store.buffer is self.old:
            return updated(store, buffer=self.new, indices=self.place(store.indices))
        return store

    def block(self, block: Block) -> Block:
        """What is inside of a block, with its regions of the buffer stated anew where it states any."""
        relaid = super().block(block)
        if self.old in relaid.alloc_buffers:
            relaid = updated(
                relaid, alloc_buffers=tuple(self.new if b is self.old else b for b in relaid.alloc_buffers)
            )
        if not any(self._concerns(region) for region in (*relaid.reads, *relaid.writes)):
            return relaid
        reads, writes = block_access(relaid)
        return updated(
            relaid, reads=self._recomputed(relaid.reads, reads), writes=self._recomputed(relaid.writes, writes)
        )

    def _concerns(self, region: BufferRegion) -> bool:
        return any(item is self.old for item in post_order(region))

    def _recomputed(
        self, stated: Sequence[BufferRegion], recomputed: Sequence[BufferRegion]
    ) -> tuple[BufferRegion, ...]:
        """The regions that a block states, with what is found in the place of those that have to do with the buffer."""
        out: dict[Buffer, BufferRegion] = {}
        fresh = {region.buffer: region for region in recomputed}
        for region in stated:
            buffer = self.new if region.buffer is self.old else region.buffer
            if not self._concerns(region):
                out.setdefault(buffer, region)
            elif buffer in fresh:
                out[buffer] = fresh[buffer]
        return tuple(out.values())


def simplified(index: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """An index in normal form; what is read from memory stays as it is."""
    return index if reads_memory(index) else analyzer.simplify(index)


def _bind(analyzer: Analyzer, var: Var, values: Range | None) -> None:
    if values is not None and not reads_memory(values.min) and not reads_memory(values.extent):
        analyzer.bind(var, values)


def with_axes(block: Block, values: Mapping[Var, PrimExpr], analyzer: Analyzer) -> Block:
    """A block with expressions in the place of its axes, and indices in normal form.

    Args:
        block: The block.
        values: What stands for its axes.
        analyzer: What is known of the variables in these; loops and axes inside are added.
    """
    for item in post_order(block):
        if isinstance(item, For):
            _bind(
                analyzer,
                item.loop_var,
                Range(min=with_values(item.min, values), extent=with_values(item.extent, values)),
            )
        elif isinstance(item, BlockRealize):
            for axis in item.block.iter_vars:
                _bind(analyzer, axis.var, axis.dom)

    def change(item: Node) -> Node | None:
        match item:
            case Var():
                return values.get(item)
            case BufferLoad() | BufferStore():
                return replace(item, indices=tuple(simplified(index, analyzer) for index in item.indices))
            case Range():
                return Range(min=simplified(item.min, analyzer), extent=simplified(item.extent, analyzer))
        return None

    rewritten = rewrite(block, change)
    assert isinstance(rewritten, Block)
    return rewritten
