"""HoistQuotients: what an iteration divides by a size that varies, it divides once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import FloorDiv, FloorMod, IntImm, PrimExpr, Var, lanes_of
from eutectic.ir.structural import StructuralKey
from eutectic.ir.transform import PassContext
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.index_facts import expressions, reads_memory, statements
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated
from eutectic.tir.stmt import Allocate, For, IfThenElse, LetStmt, Stmt, While
from eutectic.tir.transform.infra import PrimFuncPass, with_body


@dataclass(frozen=True)
class HoistQuotients(PrimFuncPass):
    """Compute quotients and remainders by sizes that vary where a loop begins an iteration.

    Loops over such sizes that were put together leave `f // n` and `f % n` in what was inside of them. Where that is in
    further loops, or under a condition, a compiler does not move the division, which may fail, and takes 20 to 40
    cycles: here division by zero is defined.

    before:                                  after:
        for f in T.parallel(8 * n):              for f in T.parallel(8 * n):
            for i in range(m):                       quotient = f // n
                y[f * m + i] = x[f // n]             for i in range(m):
                                                         y[f * m + i] = x[quotient]

    Cost: linear in the size of the function, once for each level of loops with something to divide.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return hoist_quotients(func)


def hoist_quotients(func: PrimFunc) -> PrimFunc:
    """`HoistQuotients` of one function."""
    return with_body(func, _Hoisting().stmt(func.body)) if any(map(_divides, expressions(func.body))) else func


def _divides(expr: PrimExpr) -> bool:
    """Whether a scalar is divided by what is not a constant."""
    return isinstance(expr, (FloorDiv, FloorMod)) and not isinstance(expr.b, IntImm) and lanes_of(expr.dtype) == 1


class _Hoisting(StmtMutator):
    def visit_for(self, stmt: For) -> Stmt:
        """A loop; inner ones first, which take what depends on their variables."""
        whole = self.stmt(stmt.body)
        named, body = _beginning(whole)
        if _is_flat(body):
            return updated(stmt, body=whole)
        naming = _Naming({stmt.loop_var, *named}, body)
        body = naming.stmt(body)
        if not naming.values:
            return updated(stmt, body=whole)
        for name, value in reversed({**named, **naming.values}.items()):
            body = LetStmt(name, value, body)
        return updated(stmt, body=body)


def _beginning(body: Stmt) -> tuple[dict[Var, PrimExpr], Stmt]:
    """The values that an iteration names before all else, and what follows."""
    named: dict[Var, PrimExpr] = {}
    while isinstance(body, LetStmt):
        named[body.var] = body.value
        body = body.body
    return named, body


def _is_flat(body: Stmt) -> bool:
    """Whether all in an iteration is done once, and in any case."""
    parts = statements(body)
    return not any(isinstance(part, (For, While, IfThenElse)) for part in parts) and not any(
        is_if_then_else(expr) for expr in expressions(body)
    )


class _Naming(StmtMutator):
    """Gives names to quotients that have one value in an iteration.

    Args:
        own: What it has of its own: the variable of the loop, and names.
        body: What is in it.

    Attributes:
        values: What each name stands for, in the order in which they are needed.
    """

    def __init__(self, own: Iterable[Var], body: Stmt) -> None:
        self.values: dict[Var, PrimExpr] = {}
        self._own, self._inside = set(own), set(_bound(body))
        self._names: dict[StructuralKey, Var] = {}

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """An expression with names."""
        return rewrite_expr(expr, self._named)

    def _named(self, expr: PrimExpr) -> PrimExpr | None:
        if not _divides(expr) or reads_memory(expr):
            return None
        used = variables(expr)
        if not used & self._own or used & self._inside:
            return None
        key = StructuralKey(expr)
        if key not in self._names:
            self._names[key] = name = Var("quotient" if isinstance(expr, FloorDiv) else "remainder", expr.dtype)
            self.values[name] = expr
            self._own.add(name)
        return self._names[key]


def _bound(body: Stmt) -> Iterator[Var]:
    """Variables that statements and expressions bind."""
    for stmt in statements(body):
        match stmt:
            case For():
                yield stmt.loop_var
            case LetStmt():
                yield stmt.var
            case Allocate():
                yield stmt.buffer_var
    yield from (item.var for item in expressions(body) if isinstance(item, Let))
