"""CompactBufferAllocation: memory within a function lives in the innermost loops, and is as large as these need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Call, IntImm, PrimExpr, Var, add, sub
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.tir.access import Domains, Interval, relax
from eutectic.tir.analysis.own_writes import reads_own_writes
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.access import Access, accesses_of
from eutectic.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from eutectic.tir.transform.index_facts import IndexFacts, exprs_of, statements
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.statement_mutator import StmtMutator, rewrite_expr, updated

_ENTERED = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED)


@dataclass(frozen=True)
class CompactBufferAllocation(PrimFuncPass):
    """Allocate buffers in the innermost loops around all of their accesses, as large as one iteration needs.

    A buffer moves into a loop when what an iteration reads of it is proved to be written in the same iteration.
    Iterations of parallel loops then have memory of their own, and a tile of accumulators is
    small enough for registers. It comes after `LowerBlocks` and before `FlattenBuffer`.

    before:                                  after:
        B = allocate((16,))                      for i0 in range(4):
        for i0 in range(4):                          B = allocate((4,))
            for i1 in range(4):                      for i1 in range(4):
                B[i0 * 4 + i1] = x[i0 * 4 + i1]          B[i1] = x[i0 * 4 + i1]
            for i1 in range(4):                      for i1 in range(4):
                y[i0 * 4 + i1] = B[i0 * 4 + i1]          y[i0 * 4 + i1] = B[i1]

    Cost: per buffer one walk through its scope, and a proof per read and loop.

    Reference: TVM PlanAndUpdateBufferAllocationLocation and CompactBufferAllocation, which assume what is proved here.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return compact_buffer_allocation(func)


def compact_buffer_allocation(func: PrimFunc) -> PrimFunc:
    """`CompactBufferAllocation` of one function."""
    if not any(isinstance(stmt, Allocate) for stmt in statements(func.body)):
        return func
    return with_body(func, _Compaction(IndexFacts(func.body)).stmt(func.body))


class _Compaction(StmtMutator):
    def __init__(self, facts: IndexFacts) -> None:
        self.analyzer = facts.analyzer
        self.above: list[Stmt] = []

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Allocate):
            made = _compacted(stmt, self.above, self.analyzer)
            if made is not None:
                return self.stmt(made)
        self.above.append(stmt)
        done = super().stmt(stmt)
        self.above.pop()
        return done


def _compacted(stmt: Allocate, above: Sequence[Stmt], analyzer: Analyzer) -> Stmt | None:
    """What takes the place of an allocation that moves; None when it stays as it is."""
    decl = stmt.body
    if not isinstance(decl, DeclBuffer) or decl.buffer.data is not stmt.buffer_var or stmt.annotations:
        return None
    buffer = decl.buffer
    plain = not buffer.strides and buffer.elem_offset is None and buffer.shape
    if not plain or not (isinstance(stmt.condition, IntImm) and stmt.condition.value) or _has_other_uses(decl):
        return None
    line = _line(decl.body, buffer)
    for depth in reversed([k for k, item in enumerate(line[:-1]) if isinstance(item, For)]):  # the last is not entered
        loop = line[depth]
        assert isinstance(loop, For)
        found = accesses_of(loop.body)
        own = found.of(buffer.data)
        if any(item.stmt in found.opaque for item in own):
            return None
        if reads_own_writes(own, [*above, *line[: depth + 1]]):
            return _placed(stmt, decl, loop, own, analyzer)
    return None


def _has_other_uses(decl: DeclBuffer) -> bool:
    """Whether the memory is used in other ways than by loads and stores of the one buffer."""
    data = decl.buffer.data
    for stmt in statements(decl.body):
        if isinstance(stmt, DeclBuffer) and stmt.buffer.data is data:
            return True
        if isinstance(stmt, AttrStmt) and (stmt.node is decl.buffer or stmt.node is data):
            return True
        for expr in exprs_of(stmt):
            for part in post_order(expr, enter=lambda item: not isinstance(item, Buffer)):
                if part is data or (isinstance(part, Call) and any(_is_of(arg, data) for arg in part.args)):
                    return True
    return False


def _is_of(arg: Node, data: Var) -> bool:
    """Whether an argument of a call hands out memory."""
    buffer = arg.buffer if isinstance(arg, BufferRegion) else arg
    return isinstance(buffer, Buffer) and buffer.data is data


def _line(body: Stmt, buffer: Buffer) -> list[Stmt]:
    """Statements around all accesses of a buffer, outermost first."""
    line: list[Stmt] = []
    item: Stmt | None = body
    while item is not None:
        line.append(item)
        parts: tuple[Stmt, ...] = ()
        match item:
            case For() if item.kind in _ENTERED and not _touches((item.min, item.extent), buffer):
                parts = (item.body,)
            case SeqStmt():
                parts = item.seq
            case IfThenElse() if not _touches((item.condition,), buffer):
                parts = (item.then_case,) if item.else_case is None else (item.then_case, item.else_case)
            case LetStmt() if not _touches((item.value,), buffer):
                parts = (item.body,)
            case Allocate() | DeclBuffer():
                parts = (item.body,)
            case _:
                pass
        using = [part for part in parts if _uses(part, buffer)]
        item = using[0] if len(using) == 1 else None
    return line


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return any(
        (isinstance(part, BufferStore) and part.buffer is buffer) or _touches(exprs_of(part), buffer)
        for part in statements(stmt)
    )


def _touches(exprs: Sequence[PrimExpr], buffer: Buffer) -> bool:
    return any(
        isinstance(part, BufferLoad) and part.buffer is buffer
        for expr in exprs
        for part in post_order(expr, enter=lambda item: not isinstance(item, Buffer))
    )


def _placed(stmt: Allocate, decl: DeclBuffer, loop: For, own: Sequence[Access], analyzer: Analyzer) -> Stmt:
    """The body of an allocation with the memory in a loop."""
    buffer = decl.buffer
    box = [_range(own, axis, size, analyzer) for axis, size in enumerate(buffer.shape)]
    data = Var(buffer.data.name, "handle", type_annotation=buffer.data.type_annotation)
    shape = tuple(size for _, size in box)
    small = replace(buffer, shape=shape, data=data)
    body = _Rebasing(buffer, small, [low for low, _ in box], analyzer).stmt(loop.body)
    inside = Allocate(data, stmt.dtype, shape, stmt.condition, DeclBuffer(small, body))
    return _Replacing(loop, replace(loop, body=inside)).stmt(decl.body)


def _range(own: Sequence[Access], axis: int, size: PrimExpr, analyzer: Analyzer) -> tuple[PrimExpr, PrimExpr]:
    """First index along an axis, and number of indices; the whole axis where less is not known."""
    whole = (IntImm(size.dtype, 0), size)
    reached: Interval | None = None
    for access in own:
        index = access.indices[axis]
        found = None if index is None else relax(index, _domains(access))
        if found is None:
            return whole
        reached = found if reached is None else _union(reached, found, analyzer)
        if reached is None:
            return whole
    if reached is None:
        return whole
    low, extent = analyzer.simplify(reached[0]), analyzer.simplify(add(sub(reached[1], reached[0]), 1))
    if not isinstance(extent, IntImm) or extent.value < 1 or extent.dtype != size.dtype:
        return whole
    return whole if isinstance(size, IntImm) and size.value < extent.value else (low, extent)


def _domains(access: Access) -> Domains:
    domains: Domains = {}
    for var, (low, extent) in access.iters.items():
        first, last = relax(low, domains), relax(add(low, sub(extent, 1)), domains)
        domains[var] = None if first is None or last is None else (first[0], last[1])
    return domains


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
        made = super().visit_store(stmt)
        assert isinstance(made, BufferStore)
        if made.buffer is not self.old:
            return made
        return updated(made, buffer=self.new, indices=self._moved(made.indices))


class _Replacing(StmtMutator):
    """Puts a statement in the place of another."""

    def __init__(self, old: Stmt, new: Stmt) -> None:
        self.old, self.new = old, new

    def stmt(self, stmt: Stmt) -> Stmt:
        return self.new if stmt is self.old else super().stmt(stmt)
