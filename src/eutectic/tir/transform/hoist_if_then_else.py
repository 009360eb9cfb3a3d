"""HoistIfThenElse: a condition that a loop does not change is asked before the loop, once for what follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeGuard

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import Add, And, Comparison, IntImm, Mul, Not, Or, PrimExpr, Sub, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, updated
from eutectic.tir.stmt import Allocate, DeclBuffer, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from eutectic.tir.transform.infra import PrimFuncPass, with_body

_WITHOUT_EFFECT: Final = (Add, And, Comparison, IntImm, Mul, Not, Or, Sub, Var)


@dataclass(frozen=True)
class HoistIfThenElse(PrimFuncPass):
    """Ask a condition as rarely as it changes.

    Statements that follow each other under one condition come under it together; then it goes before memory that is
    allocated for them, and before serial loops over all of them that it does not depend on. Only conditions on
    numbers move, whose value nothing in between can change and which never fail.

    before:                                  after:
        for i in range(n):                       for i in range(n):
            for k in range(8):                       if i < 5:
                if i < 5:                                for k in range(8):
                    y[i] = y[i] + x[k]                       y[i] = y[i] + x[k]

    Cost: linear in the size of the function.

    Reference: TVM `tir.transform.HoistIfThenElse`, for the name.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return hoist_if_then_else(func)


def hoist_if_then_else(func: PrimFunc) -> PrimFunc:
    """`HoistIfThenElse` of one function."""
    return with_body(func, _Hoisting().stmt(func.body))


class _Hoisting(StmtMutator):
    def visit_seq(self, stmt: SeqStmt) -> Stmt:
        rewritten = [self.stmt(part) for part in stmt.seq]
        joined: list[Stmt] = []
        for part in rewritten:
            last = joined[-1] if joined else None
            if _is_movable(last) and _is_movable(part) and structural_equal(last.condition, part.condition):
                joined[-1] = replace(last, then_case=seq(last.then_case, part.then_case))
            else:
                joined.append(part)
        unchanged = len(joined) == len(stmt.seq) and all(a is b for a, b in zip(joined, stmt.seq, strict=True))
        return stmt if unchanged else seq(*joined)

    def visit_for(self, stmt: For) -> Stmt:
        body = self.stmt(stmt.body)
        if stmt.kind == ForKind.SERIAL and _is_movable(body) and stmt.loop_var not in variables(body.condition):
            return replace(body, then_case=updated(stmt, body=body.then_case))
        return updated(stmt, body=body)

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        return _behind(self.stmt(stmt.body), stmt)

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        return _behind(self.stmt(stmt.body), stmt)


def _behind(body: Stmt, stmt: Allocate | DeclBuffer) -> Stmt:
    """What allocates or names memory, with another body, whose condition goes before it."""
    if _is_movable(body):
        return replace(body, then_case=updated(stmt, body=body.then_case))
    return updated(stmt, body=body)


def _is_movable(stmt: Stmt | None) -> TypeGuard[IfThenElse]:
    """Whether a statement is a condition on numbers, without another case."""
    if not isinstance(stmt, IfThenElse) or stmt.else_case is not None:
        return False
    return all(isinstance(item, _WITHOUT_EFFECT) for item in _parts(stmt.condition))


def _parts(condition: PrimExpr) -> list[PrimExpr]:
    return [item for item in post_order(condition) if isinstance(item, PrimExpr)]
