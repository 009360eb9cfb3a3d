"""Conditions on one loop variable: where they change, and what is left of them in between."""

from __future__ import annotations

from typing import Final

from eutectic.tir.schedule.rules.linear import linear
from eutectic.tir.schedule.rules.stage import Axis
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import GE, GT, LE, LT, And, Call, IntImm, Not, Or, PrimExpr, Select, Var
from eutectic.ir.visit import post_order, rewrite

_MOST_PARTS: Final = 4
_ORDER: Final = (GE, GT, LE, LT)


def split_points(expr: PrimExpr, axis: Axis) -> list[int]:
    """Where along an axis of constant extent a comparison of its variable with a constant changes, in order.

    Empty when there are none, or too many for a loop each.
    """
    size = axis.size
    if size is None or not any(_is_guard(part) for part in post_order(expr)):
        return []
    found: set[int] = set()
    for part in post_order(expr):
        point = _change(part, axis.var)
        if point is not None and 0 < point < size:
            found.add(point)
    return sorted(found) if len(found) < _MOST_PARTS else []


def _is_guard(node: Node) -> bool:
    if isinstance(node, Call):
        return str(getattr(node.op, "name", "")) == "tir.if_then_else"
    return isinstance(node, Select)


def _change(node: Node, var: Var) -> int | None:
    """The value of `var` from which on a comparison has another truth; None when it is not such a comparison."""
    if not isinstance(node, _ORDER):
        return None
    form = _difference(node, var)
    if form is None:
        return None
    step, rest = form  # step * var + rest, compared with 0
    if step == 1:
        return -rest + (0 if isinstance(node, (GE, LT)) else 1)
    return rest + (1 if isinstance(node, (GE, LT)) else 0)


def _difference(node: PrimExpr, var: Var) -> tuple[int, int] | None:
    a, b = linear(node.a, {var}), linear(node.b, {var})  # type: ignore[attr-defined]  # a comparison has both
    if a is None or b is None or not isinstance(a.rest, IntImm) or not isinstance(b.rest, IntImm):
        return None
    steps = (a.step(var), b.step(var))
    if not all(isinstance(step, int) for step in steps):
        return None
    step = steps[0] - steps[1]
    return (int(step), a.rest.value - b.rest.value) if step in (1, -1) else None


def under(expr: PrimExpr, var: Var, low: int, high: int) -> PrimExpr:
    """An expression for `low <= var < high`, between two split points: conditions on `var` are decided."""

    def change(node: Node) -> Node | None:
        if isinstance(node, _ORDER):
            return _decided(node, var, low)
        return _simpler(node)

    made = rewrite(expr, change)
    assert isinstance(made, PrimExpr)
    return made


def _decided(node: PrimExpr, var: Var, at: int) -> IntImm | None:
    form = _difference(node, var)
    if form is None:
        return None
    value = form[0] * at + form[1]
    truths: dict[type, bool] = {GE: value >= 0, GT: value > 0, LE: value <= 0, LT: value < 0}
    return IntImm("bool", int(truths[type(node)]))


def _simpler(node: Node) -> Node | None:
    match node:
        case And(a=IntImm(value=x), b=other) | And(a=other, b=IntImm(value=x)):
            return other if x else IntImm("bool", 0)
        case Or(a=IntImm(value=x), b=other) | Or(a=other, b=IntImm(value=x)):
            return IntImm("bool", 1) if x else other
        case Not(a=IntImm(value=x)):
            return IntImm("bool", int(not x))
        case Select(condition=IntImm(value=x)):
            return node.true_value if x else node.false_value
        case Call(args=(IntImm(value=x), yes, no)) if _is_guard(node):
            return yes if x else no
        case _:
            return None
