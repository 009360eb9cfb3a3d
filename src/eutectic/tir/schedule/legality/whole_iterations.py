"""How many iterations of a loop meet all conditions of the blocks inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eutectic.arith.sets import Region, is_empty
from eutectic.ir.prim_expr import GT, LT, IntImm, PrimExpr, add, compare, floordiv, logical_and, mul, sub
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import context_of
from eutectic.tir.analysis.index_facts import expressions, loops_of, statements
from eutectic.tir.analysis.linear import linear
from eutectic.tir.block import BlockRealize
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.state import LoopSite, Site
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For


def whole_iterations(site: LoopSite) -> PrimExpr | None:
    """The number of iterations, from the first on, in which conditions hold at every point of the loops inside.

    Of the outer loop of `split(n, [None, 4])` that is `n // 4`. Where blocks run everywhere, those conditions count
    that their values choose by; where they do not, values may choose by whatever they like.

    None when there is no condition on the loop, or one that is not of the form `var * c + inner < bound`, or it is not
    proved which of several holds for the fewest iterations.
    """
    loop = site.stmt
    if not isinstance(loop.min, IntImm) or loop.min.value != 0:
        return None
    conditions = list(_predicates(loop)) or list(_choices(loop))
    counts = [_count(site, condition) for condition in conditions]
    known = [count for count in counts if count is not None]
    if not known or len(known) != len(counts):
        return None
    return next((count for count in known if _is_least(site, count, known)), None)


def _predicates(loop: For) -> Iterator[PrimExpr]:
    """Conditions on a loop under which blocks run."""
    for realize in _realizes(loop):
        yield from _on(loop, realize.predicate)


def _choices(loop: For) -> Iterator[PrimExpr]:
    """Conditions on a loop of `if_then_else` in blocks."""
    for realize in _realizes(loop):
        bound = {axis.var: value for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
        for item in expressions(realize.block.body):
            if is_if_then_else(item):
                yield from _on(loop, with_values(item.args[0], bound))


def _realizes(loop: For) -> list[BlockRealize]:
    return [stmt for stmt in statements(loop.body) if isinstance(stmt, BlockRealize)]


def _on(loop: For, condition: PrimExpr) -> list[PrimExpr]:
    """The parts of a condition that depend on a loop."""
    return [part for part in conjuncts(condition) if loop.loop_var in variables(part)]


def _is_least(site: LoopSite, count: PrimExpr, others: Sequence[PrimExpr]) -> bool:
    """Whether it is proved that no other condition holds for fewer iterations."""
    analyzer = analyzer_for(site)
    return all(analyzer.can_prove_equal(count, other) or _is_no_more(site, count, other) for other in others)


def _is_no_more(site: LoopSite, count: PrimExpr, other: PrimExpr) -> bool:
    more = compare(GT, count, other)
    return is_empty(Region((count,)), more) or is_empty(Region((count,)), logical_and(context_of(site.above), more))


def _count(site: LoopSite, condition: PrimExpr) -> PrimExpr | None:
    return iterations_with(site, (), site.stmt, condition, at_all_points=True)


def iterations_with(
    site: Site, inside: Sequence[For], loop: For, condition: PrimExpr, *, at_all_points: bool
) -> PrimExpr | None:
    """From which iteration of a loop on a condition does not hold any more.

    None where it is not of the form `var * c + inner < bound`.

    Args:
        site: A place around the loop.
        inside: Loops between both.
        loop: The loop.
        condition: The condition.
        at_all_points: Whether it has to hold at every point of the loops inside, instead of at some.
    """
    inner = loops_of(loop.body)
    changing = {item.loop_var for item in (loop, *inner)}
    form = linear(condition.a, changing) if isinstance(condition, LT) else None
    step = 0 if form is None else form.step(loop.loop_var)
    if not isinstance(condition, LT) or form is None or not isinstance(step, int) or step < 1:
        return None
    if variables(condition.b) & changing:
        return None
    analyzer = analyzer_for(site, *inside, *inner)
    within = sub(sub(condition.a, mul(loop.loop_var, step)), form.rest)  # the rest is the same for all iterations
    bound = analyzer.const_int_bound(analyzer.simplify(within))
    extreme = bound.hi if at_all_points else bound.lo
    if not isinstance(extreme, int):
        return None
    count = floordiv(add(sub(condition.b, form.rest), step - 1 - extreme), step)
    return analyzer_for(site, *inside).simplify(count)
