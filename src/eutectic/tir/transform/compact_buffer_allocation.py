"""CompactBufferAllocation: memory within a function is as large as what is accessed where it exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.attrs import DictAttrs
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, add, floormod, mul, sub
from eutectic.ir.transform import PassContext
from eutectic.tir.access import Interval, relax
from eutectic.tir.analysis.accesses import Access, accesses_of, domains_of, has_known_bounds
from eutectic.tir.analysis.index_facts import IndexFacts, statements
from eutectic.tir.analysis.private_memory import statements_around
from eutectic.tir.annotation_keys import ALIGNMENT
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated, with_values
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, Stmt
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.lower_blocks import allocation


@dataclass(frozen=True)
class CompactBufferAllocation(PrimFuncPass):
    """Make buffers as large as the box around what is accessed of them, and give them the strides that are asked for.

    It comes after `PlanAndUpdateBufferAllocationLocation` and `LowerBlocks`, and before `FlattenBuffer`. A tile of
    accumulators becomes small enough for registers.

    before:                                  after:
        for i0 in range(4):                      for i0 in range(4):
            B = allocate((16,))                      B = allocate((4,))
            for i1 in range(4):                      for i1 in range(4):
                B[i0 * 4 + i1] = x[i0 * 4 + i1]          B[i1] = x[i0 * 4 + i1]
            for i1 in range(4):                      for i1 in range(4):
                y[i0 * 4 + i1] = B[i0 * 4 + i1]          y[i0 * 4 + i1] = B[i1]

    Cost: per buffer one walk through where it exists.

    Reference: TVM CompactBufferAllocation, and its storage_align.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return compact_buffer_allocation(func)


def compact_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """`CompactBufferAllocation` of one function."""
    if not any(isinstance(stmt, Allocate) for stmt in statements(func.body)):
        return func
    return with_body(func, _Compaction(IndexFacts(func.body).analyzer).stmt(func.body))


class _Compaction(StmtMutator):
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        allocate = super().visit_allocate(stmt)
        assert isinstance(allocate, Allocate)
        decl = allocate.body
        if not isinstance(decl, DeclBuffer) or decl.buffer.data is not allocate.buffer_var:
            return allocate
        if not statements_around(decl.body, decl.buffer):
            return allocate
        return self._compacted(allocate, decl)

    def _compacted(self, stmt: Allocate, decl: DeclBuffer) -> Stmt:
        """An allocation of what is needed."""
        buffer = decl.buffer
        accesses = accesses_of(decl.body, name_outer=True)
        own = accesses.of(buffer.data)
        known = not any(item.stmt in accesses.opaque for item in own)
        box = [
            _range(own, axis, size, self.analyzer) if known else (IntImm(size.dtype, 0), size)
            for axis, size in enumerate(buffer.shape)
        ]
        box = [(with_values(low, accesses.outer), size) for low, size in box]
        shape = tuple(size for _, size in box)
        strides = _strides(shape, stmt.annotations, self.analyzer)
        if all(a is b for a, b in zip(shape, buffer.shape, strict=True)) and not strides:
            return stmt
        small = replace(buffer, shape=shape, strides=strides)
        body = _Rebasing(buffer, small, [low for low, _ in box], self.analyzer).stmt(decl.body)
        compacted = allocation(small, body)
        assert isinstance(compacted, Allocate)
        return replace(compacted, condition=stmt.condition)


def _strides(shape: Sequence[PrimExpr], annotations: DictAttrs, analyzer: Analyzer) -> tuple[PrimExpr, ...]:
    """Strides with the distance from a multiple that is asked for; none where nothing is."""
    demands = {axis: (factor, offset) for axis, factor, offset in annotations.get(ALIGNMENT, ())}
    if not demands:
        return ()
    out: list[PrimExpr] = []
    step: PrimExpr = IntImm(shape[-1].dtype, 1)
    for axis in reversed(range(len(shape))):
        if axis in demands:
            factor, offset = demands[axis]
            missing = floormod(sub(offset, step), factor)
            step = analyzer.simplify(add(step, missing))
        out.insert(0, step)
        step = mul(step, shape[axis])
    return tuple(out)


def _range(own: Sequence[Access], axis: int, size: PrimExpr, analyzer: Analyzer) -> tuple[PrimExpr, PrimExpr]:
    """First index along an axis, and number of indices; the whole axis where less is not known."""
    whole = (IntImm(size.dtype, 0), size)
    reached: Interval | None = None
    for access in own:
        index = access.indices[axis]
        is_known = index is not None and has_known_bounds(access, index)
        ends = relax(index, domains_of(access)) if index is not None and is_known else None
        if ends is None:
            return whole
        reached = ends if reached is None else _union(reached, ends, analyzer)
        if reached is None:
            return whole
    if reached is None:
        return whole
    low, extent = analyzer.simplify(reached[0]), analyzer.simplify(add(sub(reached[1], reached[0]), 1))
    if not isinstance(extent, IntImm) or extent.value < 1 or extent.dtype != size.dtype:
        return whole
    return whole if isinstance(size, IntImm) and size.value <= extent.value else (low, extent)


def _union(a: Interval, b: Interval, analyzer: Analyzer) -> Interval | None:
    lows = [x for x, y in ((a[0], b[0]), (b[0], a[0])) if analyzer.can_prove_greater_equal(y, x)]
    highs = [x for x, y in ((a[1], b[1]), (b[1], a[1])) if analyzer.can_prove_greater_equal(x, y)]
    return (lows[0], highs[0]) if lows and highs else None


class _Rebasing(StmtMutator):
    """Makes accesses of one buffer accesses of a part of it."""

    def __init__(self, old: Buffer, new: Buffer, base: Sequence[PrimExpr], analyzer: Analyzer) -> None:
        self.old, self.new, self.base, self.analyzer = old, new, base, analyzer
        self.memo: dict[int, PrimExpr] = {}

    def expr(self, expr: PrimExpr) -> PrimExpr:
        return rewrite_expr(expr, self._load, self.memo)

    def _load(self, expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, BufferLoad) and expr.buffer is self.old:
            return replace(expr, buffer=self.new, indices=self._moved(expr.indices))
        return None

    def _moved(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        return tuple(
            self.analyzer.simplify(sub(index, low)) if not (isinstance(low, IntImm) and low.value == 0) else index
            for index, low in zip(indices, self.base, strict=True)
        )

    def visit_store(self, stmt: BufferStore) -> Stmt:
        store = super().visit_store(stmt)
        assert isinstance(store, BufferStore)
        if store.buffer is not self.old:
            return store
        return updated(store, buffer=self.new, indices=self._moved(store.indices))
