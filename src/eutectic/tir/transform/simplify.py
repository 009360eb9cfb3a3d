"""Simplify: indices in normal form, conditions that are decided, loops that run once."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import And, Call, Comparison, IntImm, Not, Or, PrimExpr, Select, Var
from eutectic.ir.transform import PassContext
from eutectic.tir.analysis.index_facts import IndexFacts
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.statement_mutator import updated
from eutectic.tir.stmt import BufferStore, For, IfThenElse, Stmt, seq
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.unroll_loop import simplified_index


@dataclass(frozen=True)
class Simplify(PrimFuncPass):
    """Simplify indices and conditions under the ranges of the loops.

    Arithmetic on data is left alone: it may wrap around, which indices do not.

    before:                                  after:
        for i in range(8):                       for i in range(8):
            if i < 9:                                y[i] = x[i]
                y[i * 4 // 4] = x[i]

    Cost: one normal form per index and condition.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return simplify_func(func)


def simplify_func(func: PrimFunc) -> PrimFunc:
    """`Simplify` of one function."""
    return with_body(func, _Simplifying(IndexFacts(func.body)).stmt(func.body))


class _Simplifying(Substituter):
    def __init__(self, facts: IndexFacts) -> None:
        super().__init__({})
        self.facts = facts

    def leaf(self, expr: PrimExpr) -> PrimExpr | None:
        match expr:
            case Var():
                return self.values.get(expr)
            case BufferLoad():
                return updated(expr, indices=self.indices(expr.indices))
            case Select():
                return self.choice(expr, expr.condition, expr.true_value, expr.false_value)
            case Call() if is_if_then_else(expr):
                return self.choice(expr, *expr.args)
            case _:
                return None

    def choice(self, expr: PrimExpr, condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """A choice, decided where its condition is."""
        simplified = self.condition(condition)
        if isinstance(simplified, IntImm):
            return a if simplified.value else b
        if simplified is condition:
            return expr
        return (
            updated(expr, condition=simplified) if isinstance(expr, Select) else updated(expr, args=(simplified, a, b))
        )

    def condition(self, condition: PrimExpr) -> PrimExpr:
        """A condition on indices in normal form; others are kept."""
        if condition.dtype != "bool" or not isinstance(condition, (And, Or, Not, Comparison)):
            return condition
        return self.facts.condition(condition)

    def indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Indices in normal form."""
        simplified = tuple(simplified_index(self.facts, index) for index in indices)
        return indices if all(a is b for a, b in zip(simplified, indices, strict=True)) else simplified

    def visit_store(self, stmt: BufferStore) -> Stmt:
        store = super().visit_store(stmt)
        assert isinstance(store, BufferStore)
        return updated(store, indices=self.indices(store.indices))

    def visit_for(self, stmt: For) -> Stmt:
        if stmt.static_extent == 0:
            return seq()
        if stmt.static_extent == 1 and stmt.kind != "thread_binding":
            self.values[stmt.loop_var] = self.expr(stmt.min)
            return self.stmt(stmt.body)
        return super().visit_for(stmt)

    def visit_if(self, stmt: IfThenElse) -> Stmt:
        condition = self.condition(self.expr(stmt.condition))
        if isinstance(condition, IntImm):
            taken = stmt.then_case if condition.value else stmt.else_case
            return seq() if taken is None else self.stmt(taken)
        then_case = self.stmt(stmt.then_case)
        else_case = None if stmt.else_case is None else self.stmt(stmt.else_case)
        return updated(stmt, condition=condition, then_case=then_case, else_case=else_case)
