"""Loop variables replaced by expressions of others, with the axes of blocks in normal form again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, logical_and
from eutectic.ir.visit import rewrite
from eutectic.tir.block import BlockRealize
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.state import Site
from eutectic.tir.stmt import For, IfThenElse, SeqStmt, Stmt
from eutectic.tir.transform.conditions import conjuncts, variables
from eutectic.tir.transform.index_facts import loops_of, reads_memory
from eutectic.tir.transform.statement_mutator import rewrite_expr

TRUE = IntImm("bool", 1)


def analyzer_for(site: Site, *more: For) -> Analyzer:
    """An analyzer that knows the ranges of the loops and axes around a place, and of more loops."""
    found = Analyzer()
    for stmt in (*site.above, *more):
        if isinstance(stmt, For):
            found.bind(stmt.loop_var, Range(min=stmt.min, extent=stmt.extent))
        elif isinstance(stmt, BlockRealize):
            for axis in stmt.block.iter_vars:
                if axis.dom is not None:
                    found.bind(axis.var, axis.dom)
    return found


def reindexed(body: Stmt, values: Mapping[Var, PrimExpr], site: Site, loops: Sequence[For]) -> Stmt:
    """A statement with loop variables replaced.

    Args:
        body: The statement.
        values: What stands for variables.
        site: Where it will stand.
        loops: New loops around it, inside of `site`.

    Returns:
        The statement; axes of blocks that have changed are simplified, and what their predicates
        said but is known of the loops is left out.
    """
    analyzer = analyzer_for(site, *loops)
    for loop in loops_of(body):
        ends = (rewrite_expr(end, lambda item: _value(item, values)) for end in (loop.min, loop.extent))
        low, extent = ends
        analyzer.bind(loop.loop_var, Range(min=low, extent=extent))
    fresh = {loop.loop_var for loop in loops}

    def change(item: Node) -> Node | None:
        if isinstance(item, Var):
            return values.get(item)
        return _simplified(item, analyzer, fresh) if isinstance(item, BlockRealize) else None

    made = rewrite(body, change)
    assert isinstance(made, Stmt)
    return made


def _value(item: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr | None:
    return values.get(item) if isinstance(item, Var) else None


def _simplified(stmt: BlockRealize, analyzer: Analyzer, fresh: set[Var]) -> BlockRealize:
    predicate = stmt.predicate
    if variables(predicate) & fresh:
        parts = [part if reads_memory(part) else analyzer.simplify(part) for part in conjuncts(predicate)]
        predicate = TRUE
        for part in parts:
            if reads_memory(part) or not analyzer.can_prove(part):
                predicate = logical_and(predicate, part)
    with analyzer.constraint_scope(predicate):
        values = [
            analyzer.simplify(value) if variables(value) & fresh and not reads_memory(value) else value
            for value in stmt.iter_values
        ]
    return replace(stmt, iter_values=tuple(values), predicate=predicate)


def guarded(body: Stmt, condition: PrimExpr) -> Stmt:
    """`body`, of which nothing is done unless `condition`: predicates of its blocks, or a branch around it."""
    if isinstance(condition, IntImm):
        return body if condition.value else IfThenElse(condition, body)
    made = _with_predicates(body, condition, variables(condition))
    return IfThenElse(condition, body) if made is None else made


def _with_predicates(stmt: Stmt, condition: PrimExpr, used: set[Var]) -> Stmt | None:
    """`stmt` with the condition on its outermost blocks; None when something is done outside of these."""
    match stmt:
        case BlockRealize():
            if reads_memory(stmt.predicate):
                return None
            return replace(stmt, predicate=logical_and(condition, stmt.predicate))
        case For() if not (variables(stmt.min) | variables(stmt.extent)) & used:
            inner = _with_predicates(stmt.body, condition, used)
            return None if inner is None else replace(stmt, body=inner)
        case SeqStmt():
            parts = [_with_predicates(part, condition, used) for part in stmt.seq]
            return None if None in parts else replace(stmt, seq=tuple(parts))
        case _:
            return None
