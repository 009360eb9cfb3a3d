"""How many iterations of a loop meet all conditions of the blocks inside."""

from __future__ import annotations

from collections.abc import Iterator

from eutectic.ir.prim_expr import LT, IntImm, PrimExpr, add, floordiv, mul, sub
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.index_facts import expressions, loops_of, statements
from eutectic.tir.analysis.linear import linear
from eutectic.tir.block import BlockRealize
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.state import LoopSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, Stmt


def whole_iterations(site: LoopSite) -> PrimExpr | None:
    """The number of iterations, from the first on, in which conditions hold at every point of the loops inside.

    Of the outer loop of `split(n, [None, 4])` that is `n // 4`. None when no block has a condition on the loop, or one
    that is not of the form `var * c + inner < bound`.
    """
    loop = site.stmt
    if not isinstance(loop.min, IntImm) or loop.min.value != 0:
        return None
    counts = [_count(site, condition) for condition in _conditions(loop)]
    known = [count for count in counts if count is not None]
    if not known or len(known) != len(counts):
        return None
    return known[0] if all(_same(site, known[0], other) for other in known[1:]) else None


def _conditions(loop: For) -> Iterator[PrimExpr]:
    """Conditions on a loop, of blocks and of values that they choose between."""
    for stmt in statements(loop.body):
        if isinstance(stmt, BlockRealize):
            bound = {axis.var: value for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True)}
            chosen = [with_values(part, bound) for part in _choices(stmt.block.body)]
            conditions = (*conjuncts(stmt.predicate), *(part for item in chosen for part in conjuncts(item)))
            yield from (part for part in conditions if loop.loop_var in variables(part))


def _choices(body: Stmt) -> list[PrimExpr]:
    """Conditions of `if_then_else` in a block."""
    return [item.args[0] for item in expressions(body) if is_if_then_else(item)]


def _same(site: LoopSite, a: PrimExpr, b: PrimExpr) -> bool:
    return analyzer_for(site).can_prove_equal(a, b)


def _count(site: LoopSite, condition: PrimExpr) -> PrimExpr | None:
    loop = site.stmt
    if not isinstance(condition, LT):
        return None
    inner = {item.loop_var for item in loops_of(loop.body)}
    form = linear(condition.a, {loop.loop_var, *inner})
    step = 0 if form is None else form.step(loop.loop_var)
    if form is None or not isinstance(step, int) or step < 1 or variables(condition.b) & (inner | {loop.loop_var}):
        return None
    rest = sub(condition.a, mul(loop.loop_var, step))
    analyzer = analyzer_for(site, *loops_of(loop.body))
    most = analyzer.const_int_bound(analyzer.simplify(rest)).hi
    if not isinstance(most, int):
        return None
    return analyzer_for(site).simplify(floordiv(add(condition.b, step - 1 - most), step))
