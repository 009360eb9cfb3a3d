"""PlanAndUpdateBufferAllocationLocation: memory within a function exists in the innermost loops that it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eutectic.ir.attrs import DictAttrs, make_attrs
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.transform import PassContext
from eutectic.support.deep import deep
from eutectic.tir.analysis.index_facts import statements
from eutectic.tir.analysis.private_memory import home_of
from eutectic.tir.annotation_keys import ALIGNMENT
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator
from eutectic.tir.stmt import Allocate, DeclBuffer, For, Stmt
from eutectic.tir.transform.infra import PrimFuncPass, with_body


@dataclass(frozen=True)
class PlanAndUpdateBufferAllocationLocation(PrimFuncPass):
    """Allocate buffers in the innermost loops around all of their accesses.

    A buffer moves into a loop when what an iteration reads of it is proved to be written in the same iteration.
    Iterations of parallel loops then have memory of their own. Schedules rely on that, by the same proof, where
    iterations that run at once write to the same elements, such as those of overlapping windows.

    before:                                  after:
        B = T.alloc_buffer((16,))                for i0 in range(4):
        for i0 in range(4):                          B = allocate((16,))
            for i1 in range(4):                      for i1 in range(4):
                B[i0 * 4 + i1] = x[i0 * 4 + i1]          B[i0 * 4 + i1] = x[i0 * 4 + i1]
            for i1 in range(4):                      for i1 in range(4):
                y[i0 * 4 + i1] = B[i0 * 4 + i1]          y[i0 * 4 + i1] = B[i0 * 4 + i1]

    Cost: per buffer one walk through its scope, and a proof per read and loop.

    Reference: TVM's pass of this name, which assumes what is proved here.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return plan_allocations(func)


def plan_allocations(func: PrimFunc) -> PrimFunc:
    """`PlanAndUpdateBufferAllocationLocation` of one function."""
    return with_body(func, _Placement(_alignments(func.body)).stmt(func.body))


def _alignments(body: Stmt) -> dict[Buffer, tuple[object, ...]]:
    """Demands on strides, which stand at the blocks that write the buffers: axis, factor and offset."""
    alignments: dict[Buffer, tuple[object, ...]] = {}
    for stmt in statements(body):
        if isinstance(stmt, BlockRealize):
            for index, *demand in stmt.block.annotations.get(ALIGNMENT, ()):
                writes = stmt.block.writes
                buffer = writes[int(index)].buffer if int(index) < len(writes) else None
                if buffer is not None and not buffer.strides and buffer.elem_offset is None:  # others are laid out
                    alignments[buffer] = (*alignments.get(buffer, ()), tuple(int(item) for item in demand))
    return alignments


@dataclass(frozen=True)
class _Memory:
    """Memory to be allocated."""

    buffer: Buffer
    annotations: DictAttrs


@dataclass
class _Placement(StmtMutator):
    """Goes down with the statements above; buffers that move wait for their loop."""

    alignments: Mapping[Buffer, tuple[object, ...]]
    above: list[Stmt] = field(default_factory=list)
    homes: dict[For, list[_Memory]] = field(default_factory=dict)
    moving: set[Buffer] = field(default_factory=set)

    @deep
    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Allocate):
            decl = stmt.body
            plain = isinstance(decl, DeclBuffer) and decl.buffer.data is stmt.buffer_var and _always(stmt.condition)
            if plain and isinstance(decl, DeclBuffer) and self._moves(decl.buffer, decl.body, stmt.annotations):
                return self.stmt(decl.body)
        self.above.append(stmt)
        done = super().stmt(stmt)
        self.above.pop()
        return done

    def _moves(self, buffer: Buffer, body: Stmt, annotations: DictAttrs) -> bool:
        """Whether memory has a place further inside, where it will be allocated."""
        home = home_of(buffer, body, self.above)
        if home is not None:
            self.moving.add(buffer)
            self.homes.setdefault(home, []).append(_Memory(buffer, annotations))
        return home is not None

    def visit_for(self, stmt: For) -> Stmt:
        mine = self.homes.get(stmt, ())
        self.moving -= {item.buffer for item in mine}
        loop = super().visit_for(stmt)
        if not mine:
            return loop
        assert isinstance(loop, For)
        return replace(loop, body=_around(mine, loop.body))

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        kept: list[Buffer] = []
        here: list[_Memory] = []
        for buffer in stmt.block.alloc_buffers:
            aligned = self.alignments.get(buffer)
            annotations = make_attrs(None if aligned is None else {ALIGNMENT: aligned})
            if stmt.block.init is None and self._moves(buffer, stmt.block.body, annotations):
                continue
            if aligned is None:
                kept.append(buffer)
            else:
                here.append(_Memory(buffer, annotations))
        rewritten = super().visit_realize(stmt)
        assert isinstance(rewritten, BlockRealize)
        if len(kept) == len(stmt.block.alloc_buffers):
            return rewritten
        block = replace(rewritten.block, alloc_buffers=tuple(kept), body=_around(here, rewritten.block.body))
        return replace(rewritten, block=block)

    def block(self, block: Block) -> Block:
        gone = set(self.moving)  # regions of what is allocated further inside say nothing to those around
        rewritten = super().block(block)
        reads = tuple(region for region in rewritten.reads if region.buffer not in gone)
        writes = tuple(region for region in rewritten.writes if region.buffer not in gone)
        same = len(reads) == len(rewritten.reads) and len(writes) == len(rewritten.writes)
        return rewritten if same else replace(rewritten, reads=reads, writes=writes)


def _always(condition: PrimExpr) -> bool:
    return isinstance(condition, IntImm) and bool(condition.value)


def _around(memory: Sequence[_Memory], body: Stmt) -> Stmt:
    """A statement with memory allocated around it."""
    for item in reversed(memory):
        decl = DeclBuffer(item.buffer, body)
        buffer = item.buffer
        body = Allocate(buffer.data, buffer.dtype, buffer.shape, IntImm("bool", 1), decl, item.annotations)
    return body
