"""What is known of the indices of a program: ranges of all its loops, and sums of loop variables in normal form.

Most indices are sums of loop variables, and of their products with sizes, times constants; these are written in
the normal form of `arith.Analyzer` without asking it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.polynomial import written
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import Add, Call, IntImm, Mul, PrimExpr, Sub, Var
from eutectic.ir.structural import structural_equal
from eutectic.support.deep import deep
from eutectic.support.errors import InternalError
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.iter_var import Range
from eutectic.tir.statement_mutator import operands_of
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
)

Linear: TypeAlias = dict[Var | None, int]  # coefficients of variables; that of None is the constant
# Coefficients of products, whose factors are sorted by name; that of none is the constant.
Products: TypeAlias = dict[tuple[Var, ...], int]
_LARGEST: Final = {"int32": 1 << 31, "int64": 1 << 63}
MAX_STEPS: Final = 256
MAX_DEGREE: Final = 4


class IndexFacts:
    """Simplifies and proves under the ranges of all loops of a statement.

    A loop variable stands for values of its loop wherever it appears, so that all
    loops are made known at once.

    Args:
        root: The statement; loops in it define each variable once.
    """

    def __init__(self, root: Stmt) -> None:
        self.analyzer = Analyzer()
        for loop in loops_of(root):
            self.analyzer.bind(loop.loop_var, Range(min=loop.min, extent=loop.extent))
        self._done: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    def simplify(self, expr: PrimExpr) -> PrimExpr:
        """An index in normal form."""
        if isinstance(expr, (Var, IntImm)):
            return expr
        known = self._done.get(id(expr))
        if known is None:
            sums = products(expr)
            if sums is not None:
                simplified = normal(sums, expr.dtype)
            else:
                simplified = expr if looks_at_indices(expr) else self.analyzer.simplify(expr)
            simplified = expr if alike(expr, simplified) else simplified
            known = self._done[id(expr)] = (expr, simplified)
        return known[1]

    def condition(self, condition: PrimExpr) -> PrimExpr:
        """A condition on indices in normal form; a condition on data is kept as it is."""
        if reads_memory(condition) or looks_at_indices(condition):
            return condition
        simplified = self.analyzer.simplify(condition)
        return condition if alike(condition, simplified) else simplified


@deep
def alike(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are written alike."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype != b.dtype:
        return False
    if isinstance(a, (Add, Sub, Mul)) and isinstance(b, (Add, Sub, Mul)):
        return alike(a.b, b.b) and alike(a.a, b.a)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return not isinstance(a, Var) and structural_equal(a, b)


def linear(expr: PrimExpr) -> Linear | None:
    """`expr` as a sum of variables times constants; None when it is something else."""
    sums = products(expr)
    if sums is None or any(len(factors) > 1 for factors in sums):
        return None
    return {factors[0] if factors else None: c for factors, c in sums.items()}


def products(expr: PrimExpr) -> Products | None:
    """`expr` as a sum of products of variables times constants; None when it is something else."""
    out: Products = {}
    todo: list[tuple[PrimExpr, int, tuple[Var, ...]]] = [(expr, 1, ())]
    if expr.dtype not in _LARGEST:
        return None
    steps = 0
    while todo:
        steps += 1
        item, factor, factors = todo.pop()
        match item:
            case _ if steps > MAX_STEPS:  # shared parts are met again and again
                return None
            case IntImm():
                out[factors] = out.get(factors, 0) + item.value * factor
            case Var():
                factors = _with_factor(factors, item)
                out[factors] = out.get(factors, 0) + factor
            case Add():
                todo += [(item.b, factor, factors), (item.a, factor, factors)]
            case Sub():
                todo += [(item.b, -factor, factors), (item.a, factor, factors)]
            case Mul(a=other, b=IntImm(value=times)) | Mul(a=IntImm(value=times), b=other):
                todo.append((other, factor * times, factors))
            case Mul(a=other, b=Var() as var) | Mul(a=Var() as var, b=other) if len(factors) < MAX_DEGREE:
                todo.append((other, factor, _with_factor(factors, var)))
            case _:
                return None
    limit = _LARGEST[expr.dtype]
    return out if all(-limit < c < limit for c in out.values()) else None


def _with_factor(factors: tuple[Var, ...], var: Var) -> tuple[Var, ...]:
    return tuple(sorted((*factors, var), key=_name)) if factors else (var,)


def _name(var: Var) -> tuple[str, int]:
    return var.name, id(var)


def normal(sums: Products, dtype: str) -> PrimExpr:
    """A sum as an expression: products of many and large coefficients first, the constant last."""
    terms = [(factors, c) for factors, c in sums.items() if factors and c]
    terms.sort(key=lambda term: (term[1] < 0, -len(term[0]), -abs(term[1]), [var.name for var in term[0]]))
    return written(terms, sums.get((), 0), dtype)


def reads_memory(root: PrimExpr) -> bool:
    """Whether an expression depends on memory, or on data that is not an index."""
    return any(
        isinstance(item, BufferLoad) or not (is_integer(item.dtype) or item.dtype == "bool") for item in _parts(root)
    )


def looks_at_indices(root: PrimExpr) -> bool:
    """Whether an index is checked when an expression is computed, so that no part of it may be left out."""
    return any(isinstance(item, Call) and getattr(item.op, "name", "") == "tir.checked_index" for item in _parts(root))


def _parts(root: PrimExpr) -> Iterator[PrimExpr]:
    """An expression and all below it, each object once."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            stack.extend(operands_of(item))


# ---- walks over statements


def bodies_of(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below a statement."""
    match stmt:
        case For() | While() | LetStmt() | AttrStmt() | AssertStmt() | Allocate() | DeclBuffer():
            return (stmt.body,)
        case SeqStmt():
            return stmt.seq
        case IfThenElse():
            return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
        case BlockRealize():
            block = stmt.block
            return (block.body,) if block.init is None else (block.init, block.body)
        case _:
            return ()


def exprs_of(stmt: Stmt) -> tuple[PrimExpr, ...]:
    """The expressions directly in a statement."""
    match stmt:
        case BufferStore():
            exprs = (stmt.value, *stmt.indices)
            return exprs if stmt.predicate is None else (*exprs, stmt.predicate)
        case Evaluate() | LetStmt():
            return (stmt.value,)
        case AttrStmt():
            return (stmt.value, stmt.node) if isinstance(stmt.node, PrimExpr) else (stmt.value,)
        case For():
            return (stmt.min, stmt.extent)
        case While() | IfThenElse() | AssertStmt():
            return (stmt.condition,)
        case Allocate():
            return (*stmt.extents, stmt.condition)
        case BlockRealize():
            return (*stmt.iter_values, stmt.predicate)
        case DeclBuffer() | SeqStmt():
            return ()
        case _:
            raise InternalError(f"{type(stmt).__name__} is not a statement of tensor programs")


def statements(root: Stmt) -> Iterable[Stmt]:
    """All statements from `root` on, outer ones first, in the order of the program."""
    stack = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        stack.extend(reversed(bodies_of(stmt)))


def loops_of(root: Stmt) -> list[For]:
    """All loops from `root` on, outer ones first."""
    return [stmt for stmt in statements(root) if isinstance(stmt, For)]


def has_checks(root: Stmt) -> bool:
    """Whether indices are checked in or below a statement."""
    return any(
        isinstance(item, Call) and getattr(item.op, "name", "") == "tir.checked_index" for item in expressions(root)
    )


def expressions(root: Stmt) -> Iterable[PrimExpr]:
    """All expressions in and below a statement, each object once."""
    seen: set[int] = set()
    for stmt in statements(root):
        stack = list(exprs_of(stmt))
        while stack:
            item = stack.pop()
            if id(item) not in seen:
                seen.add(id(item))
                yield item
                stack.extend(operands_of(item))
