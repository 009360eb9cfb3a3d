"""VectorizeLoop: loops of kind `vectorized` become statements on vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, Mul, Not, PrimExpr, Ramp, Var, add, broadcast
from eutectic.ir.transform import PassContext
from eutectic.support.deep import deep
from eutectic.tir.analysis.index_facts import IndexFacts, reads_memory
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, binary, updated
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.lane_expr import LaneExprs, is_vector
from eutectic.tir.transform.lane_memory import AccessLog, SerialOnly

_WHOLE: Final = 16  # lanes that are not taken apart: what has fewer becomes one register, whatever their number


@dataclass(frozen=True)
class VectorizeLoop(PrimFuncPass):
    """Turn vectorized loops of constant extent into statements on vectors.

    What does not depend on the loop stays scalar. Where a condition differs between
    lanes, accesses that it guards become masked. A loop becomes serial when its
    extent is not constant, when iterations share memory that one of them writes, or
    when it has what vectors do not have (calls of functions, loops whose extent differs between lanes). More than 16
    lanes are done in pieces of 2^k lanes, as processors have no registers of other sizes, and what remains: 25 lanes
    as 16 and 9.

    before:                                  after:
        for i in T.vectorized(4):                y[0:4] = x[0:4] + T.Broadcast(T.float32(1), 4)
            y[i] = x[i] + T.float32(1)

    Attributes:
        enable_vectorize: Whether to do so; otherwise such loops become serial.

    Cost: linear in the size of the function.
    """

    enable_vectorize: bool = True

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return vectorize_loop(func, self.enable_vectorize)


def vectorize_loop(func: PrimFunc, enable_vectorize: bool = True) -> PrimFunc:
    """`VectorizeLoop` of one function."""
    return with_body(func, _Vectorizing(func.body, enable_vectorize).stmt(func.body))


class _Vectorizing(StmtMutator):
    """Finds the loops, inner ones first."""

    def __init__(self, root: Stmt, enabled: bool) -> None:
        self.root, self.enabled = root, enabled
        self._facts: IndexFacts | None = None

    @property
    def facts(self) -> IndexFacts:
        if self._facts is None:
            self._facts = IndexFacts(self.root)
        return self._facts

    def visit_for(self, stmt: For) -> Stmt:
        loop = updated(stmt, body=self.stmt(stmt.body))
        if loop.kind != "vectorized":
            return loop
        lanes = loop.static_extent
        if self.enabled and lanes is not None and lanes >= 2:
            try:
                return self._pieces(loop, _Lanes(loop.loop_var, loop.min, lanes, self.facts).run(loop.body), lanes)
            except SerialOnly:
                pass
        return replace(loop, kind="serial")

    def _pieces(self, loop: For, whole: Stmt, lanes: int) -> Stmt:
        """The statement on vectors, in pieces of 2^k lanes and what remains of the last of them."""
        widths = [1 << bit for bit in reversed(range(lanes.bit_length())) if lanes >> bit & 1 and 1 << bit >= _WHOLE]
        widths += [lanes % _WHOLE] if lanes % _WHOLE else []
        if len(widths) == 1:
            return whole
        pieces: list[Stmt] = []
        low = loop.min
        for width in widths:
            value = {loop.loop_var: low} if width == 1 else {}
            body = Substituter(value, rename=bool(pieces)).stmt(loop.body)
            pieces.append(body if width == 1 else _Lanes(loop.loop_var, low, width, self.facts).run(body))
            low = add(low, width)
        return seq(*pieces)


class _Lanes(StmtMutator):
    """The body of one loop, for all its iterations at once.

    Args:
        var: The loop variable.
        first: Its first value.
        lanes: Number of iterations.
        facts: Ranges of all loops.
    """

    def __init__(self, var: Var, first: PrimExpr, lanes: int, facts: IndexFacts) -> None:
        self.var, self.first, self.lanes = var, first, lanes
        self.log = AccessLog(lanes, facts)
        self.exprs_ = LaneExprs(lanes, facts, self.log)
        self.exprs_.values[var] = Ramp(first, IntImm(first.dtype, 1), lanes)

    def run(self, body: Stmt) -> Stmt:
        """The statement on vectors.

        Raises:
            SerialOnly: there is none.
        """
        vectorized = self.stmt(body)
        self.log.check()
        return vectorized

    def expr(self, expr: PrimExpr) -> PrimExpr:
        return self.exprs_.expr(expr)

    def invariant(self, expr: PrimExpr) -> PrimExpr:
        """An expression that has one value for all lanes.

        Raises:
            SerialOnly: it has not.
        """
        value = self.expr(expr)
        if is_vector(value):
            raise SerialOnly
        return value

    # ---- statements without a body

    def visit_store(self, stmt: BufferStore) -> Stmt:
        value, index = self.expr(stmt.value), self.exprs_.index(stmt.buffer, stmt.indices)
        mask = self.exprs_.mask(None if stmt.predicate is None else self.expr(stmt.predicate))
        buffer = self.exprs_.buffers.get(stmt.buffer, stmt.buffer)
        if not is_vector(index):
            if is_vector(value) or mask is not None:
                raise SerialOnly
            self.log.store_once(buffer, index)
            return updated(stmt, value=value, indices=(index,), buffer=buffer)
        self.log.store(buffer, index)
        value = value if is_vector(value) else broadcast(value, self.lanes)
        return replace(stmt, buffer=buffer, value=value, indices=(index,), predicate=mask)

    def visit_evaluate(self, stmt: Evaluate) -> Stmt:
        if isinstance(stmt.value, IntImm):
            return stmt
        raise SerialOnly

    # ---- control

    def visit_for(self, stmt: For) -> Stmt:
        low, extent = self.invariant(stmt.min), self.invariant(stmt.extent)
        return updated(stmt, min=low, extent=extent, body=self.stmt(stmt.body))

    def visit_while(self, stmt: While) -> Stmt:
        raise SerialOnly

    def visit_if(self, stmt: IfThenElse) -> Stmt:
        condition = self.expr(stmt.condition)
        if not is_vector(condition):
            then_case = self.stmt(stmt.then_case)
            else_case = None if stmt.else_case is None else self.stmt(stmt.else_case)
            return updated(stmt, condition=condition, then_case=then_case, else_case=else_case)
        if not all(_is_plain(part) for part in (stmt.then_case, stmt.else_case) if part is not None):
            raise SerialOnly
        shared: PrimExpr | None = None
        held: Var | None = None
        if stmt.else_case is None:
            shared, condition = self.exprs_.parted(stmt.condition)
        if reads_memory(stmt.condition):  # a store below may change what it reads
            held = Var("holds", condition.dtype)
            value, condition = condition, held
        cases = [self.exprs_.guarded(condition, lambda: self.stmt(stmt.then_case))]
        if stmt.else_case is not None:
            other = stmt.else_case
            cases.append(self.exprs_.guarded(Not(condition), lambda: self.stmt(other)))
        rewritten = seq(*cases)
        rewritten = rewritten if held is None else LetStmt(held, value, rewritten)
        return rewritten if shared is None else IfThenElse(shared, rewritten)

    def visit_let(self, stmt: LetStmt) -> Stmt:
        value = self.expr(stmt.value)
        if not is_vector(value):
            return updated(stmt, value=value, body=self.stmt(stmt.body))
        var = Var(stmt.var.name, value.dtype)
        self.exprs_.values[stmt.var] = var
        return replace(stmt, var=var, value=value, body=self.stmt(stmt.body))

    def visit_attr(self, stmt: AttrStmt) -> Stmt:
        return updated(stmt, value=self.invariant(stmt.value), body=self.stmt(stmt.body))

    def visit_assert(self, stmt: AssertStmt) -> Stmt:
        return updated(stmt, condition=self.invariant(stmt.condition), body=self.stmt(stmt.body))

    # ---- memory of each iteration

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        """Lanes that work at the same time need memory each: neighbours of one element are the lanes' copies."""
        extents = tuple(self.invariant(extent) for extent in stmt.extents)
        condition = self.invariant(stmt.condition)
        if len(extents) != 1:
            raise SerialOnly
        self.exprs_.private.add(stmt.buffer_var)
        count = IntImm(extents[0].dtype, self.lanes)
        wide = (binary(Mul, extents[0], count),)
        return updated(stmt, extents=wide, condition=condition, body=self.stmt(stmt.body))

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        buffer = stmt.buffer
        if buffer.data not in self.exprs_.private:
            return updated(stmt, body=self.stmt(stmt.body))
        if len(buffer.shape) != 1 or buffer.elem_offset is not None or buffer.strides:
            raise SerialOnly
        size = binary(Mul, buffer.shape[0], IntImm(buffer.shape[0].dtype, self.lanes))
        wide = Buffer(buffer.name, (size,), buffer.dtype, buffer.data, data_alignment=buffer.data_alignment)
        self.exprs_.buffers[buffer] = wide
        return updated(stmt, buffer=wide, body=self.stmt(stmt.body))


@deep
def _is_plain(stmt: Stmt) -> bool:
    """Whether a statement has only stores, which can be masked."""
    match stmt:
        case BufferStore():
            return True
        case SeqStmt():
            return all(_is_plain(part) for part in stmt.seq)
        case IfThenElse():
            return _is_plain(stmt.then_case) and (stmt.else_case is None or _is_plain(stmt.else_case))
        case LetStmt():
            return _is_plain(stmt.body)
        case Evaluate():
            return isinstance(stmt.value, IntImm)
        case _:
            return False
