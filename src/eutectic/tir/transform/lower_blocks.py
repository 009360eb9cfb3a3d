"""LowerBlocks: blocks become their bodies, with values for their axes and memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, cast, logical_and
from eutectic.ir.transform import PassContext
from eutectic.tir.analysis.conditions import conjuncts
from eutectic.tir.analysis.index_facts import IndexFacts
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, MatchBufferRegion
from eutectic.tir.buffer_layout import offset_of, span_of, strides_of
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import address_of
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, For, IfThenElse, Stmt
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.lower_init_block import lower_init_block


@dataclass(frozen=True)
class LowerBlocks(PrimFuncPass):
    """Replace blocks by their bodies.

    Axes become their values, predicates branches where they are not known to hold,
    buffers that a block allocates become allocations around its body, regions with
    names become accesses of what they name. Loops of one iteration go.

    before:                                  after:
        for i in range(16):                      for i in range(16):
            with T.block("b"):                       y[i] = x[i] + T.float32(1)
                v = T.axis.spatial(16, i)
                y[v] = x[v] + T.float32(1)

    Cost: linear in the size of the function, and one proof per predicate.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return lower_blocks(func)


ConvertBlocksToOpaque = LowerOpaqueBlock = LowerBlocks  # TVM's two steps are one here


def lower_blocks(func: PrimFunc) -> PrimFunc:
    """`LowerBlocks` of one function."""
    func = lower_init_block(func)
    return with_body(func, _BlockLowering(IndexFacts(func.body)).stmt(func.body))


class _BlockLowering(Substituter):
    """Substitutes on the way down; each variable is bound once, so nothing has to be undone."""

    def __init__(self, facts: IndexFacts) -> None:
        super().__init__({})
        self.facts = facts
        self.regions: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}

    def visit_for(self, stmt: For) -> Stmt:
        if isinstance(stmt.extent, IntImm) and stmt.extent.value == 1 and stmt.kind != "thread_binding":
            self.values[stmt.loop_var] = self.expr(stmt.min)
            return self.stmt(stmt.body)
        return super().visit_for(stmt)

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        block = stmt.block
        for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            self.values[axis.var] = self.expr(value)
        for buffer in block.alloc_buffers:
            if isinstance(buffer.elem_offset, Var):
                self.values.setdefault(buffer.elem_offset, IntImm(buffer.elem_offset.dtype, 0))
        allocated = [self.declared(buffer) for buffer in block.alloc_buffers]
        for match in block.match_buffers:
            self.name_region(match)
        body = self.stmt(block.body)
        for buffer in reversed(allocated):
            body = allocation(buffer, body)
        condition = self.unproved(self.expr(stmt.predicate))
        return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)

    def unproved(self, condition: PrimExpr) -> PrimExpr:
        """What of a predicate has to be checked."""
        out: PrimExpr = IntImm("bool", 1)
        for part in conjuncts(condition):
            if not self.facts.analyzer.can_prove(part):
                out = logical_and(out, part)
        return out

    # ---- names for regions

    def name_region(self, match: MatchBufferRegion) -> None:
        """Make accesses of a name accesses of its source, and give values to the variables of its declaration."""
        buffer = match.buffer
        begin = tuple(self.expr(part.min) for part in match.source.region)
        source = self.buffer(match.source.buffer)
        if source in self.regions:
            source, begin = self._moved(source, begin)
        self.regions[buffer] = (source, begin)
        strides = strides_of(source)
        rank = len(buffer.shape)
        inner = strides[len(strides) - rank :]
        sizes = [self.expr(part.extent) for part in match.source.region][len(strides) - rank :]
        for wanted, actual in (*zip(buffer.shape, sizes, strict=True), *zip(buffer.strides, inner, strict=False)):
            self._define(wanted, actual)
        if buffer.elem_offset is not None:
            self._define(buffer.elem_offset, offset_of(source, begin))
            self.values[buffer.data] = source.data
        else:
            self.values[buffer.data] = address_of(BufferLoad(source, begin))

    def _define(self, wanted: PrimExpr, actual: PrimExpr) -> None:
        if isinstance(wanted, Var) and wanted not in self.values:
            self.values[wanted] = cast(wanted.dtype, actual)

    def _moved(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        """The access of the source that an access of a named region is."""
        source, begin = self.regions[buffer]
        skipped = len(begin) - len(indices)
        return source, (*begin[:skipped], *(add(b, i) for b, i in zip(begin[skipped:], indices, strict=True)))

    def leaf(self, expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, BufferLoad) and expr.buffer in self.regions:
            source, indices = self._moved(expr.buffer, expr.indices)
            return replace(expr, buffer=source, indices=indices)
        return super().leaf(expr)

    def visit_store(self, stmt: BufferStore) -> Stmt:
        if stmt.buffer not in self.regions:
            return super().visit_store(stmt)
        source, indices = self._moved(stmt.buffer, self.exprs(stmt.indices))
        predicate = self.maybe(stmt.predicate)
        return replace(stmt, buffer=source, indices=indices, value=self.expr(stmt.value), predicate=predicate)


def allocation(buffer: Buffer, body: Stmt) -> Stmt:
    """`body` with memory for a buffer."""
    extents = buffer.shape or (IntImm("int32", 1),)
    if buffer.strides or buffer.elem_offset is not None:
        extents = (span_of(buffer),)
    return Allocate(buffer.data, buffer.dtype, extents, IntImm("bool", 1), DeclBuffer(buffer, body))
