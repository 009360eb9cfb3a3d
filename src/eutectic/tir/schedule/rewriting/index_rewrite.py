"""Loop variables replaced by expressions of others, with the axes of blocks in normal form again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, logical_and
from eutectic.ir.visit import rewrite
from eutectic.support.deep import deep
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import TRUE
from eutectic.tir.analysis.first_points import conjunction_of, variables_by_kind
from eutectic.tir.analysis.index_facts import loops_of, reads_memory
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.state import Site
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, IfThenElse, SeqStmt, Stmt


def reindexed(
    body: Stmt, values: Mapping[Var, PrimExpr], site: Site, loops: Sequence[For], keep_units: bool = False
) -> Stmt:
    """A statement with loop variables replaced.

    Args:
        body: The statement.
        values: What stands for variables.
        site: Where it will stand.
        loops: New loops around it, inside of `site`.
        keep_units: Whether loops of one iteration stay in the values of axes.

    Returns:
        The statement; axes of blocks that have changed are simplified, and what their predicates
        said but is known of the loops is left out.
    """
    inner = [replace(x, min=with_values(x.min, values), extent=with_values(x.extent, values)) for x in loops_of(body)]
    analyzer = analyzer_for(site, *loops, *inner)
    units = keep_units and any(loop.static_extent == 1 for loop in (*site.loops, *loops, *inner))
    plain = analyzer_for(site, *loops, *inner, keep_units=True) if units else analyzer
    fresh = {loop.loop_var for loop in loops}
    begin = {loop.loop_var: loop.min for loop in (*site.loops, *loops, *inner)}

    def change(item: Node) -> Node | None:
        if isinstance(item, Var):
            return values.get(item)
        return _simplified(item, analyzer, plain, fresh, begin) if isinstance(item, BlockRealize) else None

    rewritten = rewrite(body, change)
    assert isinstance(rewritten, Stmt)
    return rewritten


def _simplified(
    stmt: BlockRealize, analyzer: Analyzer, plain: Analyzer, fresh: set[Var], begin: Mapping[Var, PrimExpr]
) -> BlockRealize:
    predicate = stmt.predicate
    if variables(predicate) & fresh:
        parts = [part if reads_memory(part) else analyzer.simplify(part) for part in conjuncts(predicate)]
        predicate = TRUE
        for part in parts:
            if reads_memory(part) or not analyzer.can_prove(part):
                predicate = logical_and(predicate, part)
    with plain.constraint_scope(_known_of_axes(stmt, predicate, begin, analyzer)):
        values = [
            plain.simplify(value) if variables(value) & fresh and not reads_memory(value) else value
            for value in stmt.iter_values
        ]
    return replace(stmt, iter_values=tuple(values), predicate=predicate)


def _known_of_axes(
    stmt: BlockRealize, predicate: PrimExpr, begin: Mapping[Var, PrimExpr], analyzer: Analyzer
) -> PrimExpr:
    """What of a predicate holds wherever axes of a block have values: also at first points that are without a term."""
    if stmt.block.init is None:
        return predicate
    spatial, used = variables_by_kind(stmt)
    first = {var: begin[var] for var in used - spatial if var in begin}
    parts = conjuncts(predicate)
    return conjunction_of(
        [part for part in parts if not variables(part) & first.keys() or analyzer.can_prove(with_values(part, first))]
    )


def guarded(body: Stmt, condition: PrimExpr, loops: Collection[Var]) -> Stmt:
    """`body`, of which nothing is done unless `condition`: predicates of its blocks, or a branch around it.

    Args:
        body: What is in some loops.
        condition: The condition.
        loops: Variables of the loops: bounds of loops inside that depend on them could be anything where it is not met.
    """
    if isinstance(condition, IntImm):
        return body if condition.value else IfThenElse(condition, body)
    predicated = _with_predicates(body, condition, set(loops) & variables(condition))
    return IfThenElse(condition, body) if predicated is None else predicated


@deep
def _with_predicates(stmt: Stmt, condition: PrimExpr, used: set[Var]) -> Stmt | None:
    """`stmt` with the condition on its outermost blocks; None when something is done outside of these."""
    match stmt:
        case BlockRealize():
            if reads_memory(stmt.predicate):
                return None
            return replace(stmt, predicate=logical_and(stmt.predicate, condition))
        case For() if not (variables(stmt.min) | variables(stmt.extent)) & used:
            inner = _with_predicates(stmt.body, condition, used)
            return None if inner is None else replace(stmt, body=inner)
        case SeqStmt():
            parts = [_with_predicates(part, condition, used) for part in stmt.seq]
            return None if None in parts else replace(stmt, seq=tuple(parts))
        case _:
            return None
