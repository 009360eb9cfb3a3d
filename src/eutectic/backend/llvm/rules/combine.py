"""Reductions whose order may change: how two partial results become one."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.backend.llvm.rules.flat import Flat
from eutectic.tir.schedule.rules.stage import substitute
from eutectic.ir.dtype import is_float
from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import Add, And, FloatImm, IntImm, Max, Min, Mul, Or, PrimExpr, Select, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order, rewrite


@dataclass(frozen=True)
class Combiner:
    """An associative and commutative combination.

    Attributes:
        acc: The accumulator in `update`.
        update: `combine(acc, term)`.
        term: What is combined with the accumulator.
        neutral: Where partial results start.
        starts: Whether the reduction's own start must still be combined in the end.
    """

    acc: Var
    update: PrimExpr
    term: PrimExpr
    neutral: PrimExpr
    starts: bool

    def __call__(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Two partial results as one."""

        def change(node: Node) -> Node | None:
            if node is self.acc:
                return a
            return b if isinstance(node, PrimExpr) and structural_equal(node, self.term) else None

        made = rewrite(self.update, change)
        assert isinstance(made, PrimExpr)
        return made


def combiner_of(flat: Flat) -> Combiner | None:
    """The combination of a reduction; None when its order must stay.

    Sums and products of floats are rounded differently in another order; such a
    schedule keeps several partial sums, which is more exact than one.
    """
    acc, update = flat.acc, flat.update
    if acc is None or update is None or flat.init is None:
        return None
    term = _term(update, acc)
    if term is None or term.dtype != acc.dtype:
        return None
    zero, one = (_constant(acc.dtype, value) for value in (0, 1))
    if isinstance(update, (Add, Mul)):
        neutral = zero if isinstance(update, Add) else one
        same = isinstance(flat.init, (IntImm, FloatImm)) and flat.init.value == neutral.value
        return Combiner(acc, update, term, neutral, not same)
    if isinstance(update, (Max, Min, And, Or)) or _chooses(update, acc, term):
        return Combiner(acc, update, term, flat.init, False)  # what is combined with itself stays itself
    return None


def _constant(dtype: str, value: int) -> FloatImm | IntImm:
    return FloatImm(dtype, float(value)) if is_float(dtype) else IntImm(dtype, value)


def _term(update: PrimExpr, acc: Var) -> PrimExpr | None:
    """The one largest subexpression without the accumulator; None when there are several."""
    found: list[PrimExpr] = []
    todo: list[Node] = [update]
    while todo:
        node = todo.pop()
        if node is acc:
            continue
        if any(part is acc for part in post_order(node)):
            todo.extend(children(node))
        elif isinstance(node, PrimExpr):
            found.append(node)
    if not found or not all(structural_equal(found[0], other) for other in found[1:]):
        return None
    return found[0]


def _chooses(update: PrimExpr, acc: Var, term: PrimExpr) -> bool:
    """Whether the larger, or smaller, of both is chosen; NaN first, as torch does."""
    if not isinstance(update, Select):
        return False
    chosen = (update.true_value, update.false_value)
    return any(value is acc for value in chosen) and any(structural_equal(value, term) for value in chosen)


def start_of(flat: Flat, env: dict[Var, PrimExpr]) -> PrimExpr:
    """First value of the accumulator."""
    assert flat.init is not None
    return substitute(flat.init, env)
