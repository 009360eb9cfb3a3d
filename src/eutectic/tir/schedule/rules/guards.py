"""Conditions: whether there are any, and where along a loop they change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import GE, GT, LE, LT, IntImm, PrimExpr, Select, Var
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.linear import linear
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.rules.walk import Span

_MOST_PARTS: Final = 4
_ORDER: Final = (GE, GT, LE, LT)


def is_guarded(expr: PrimExpr) -> bool:
    """Whether conditions say which parts of an expression are computed."""
    return any(map(is_if_then_else, post_order(expr)))


def guards_of(expr: PrimExpr) -> list[PrimExpr]:
    """The conditions that say which parts of an expression are computed."""
    return [part.args[0] for part in post_order(expr) if is_if_then_else(part)]


def change_points(expr: PrimExpr, span: Span) -> tuple[int, ...]:
    """Where along an axis of constant extent a comparison of its variable with a constant changes, in order.

    Empty when there are none, or too many for a loop each.
    """
    if len(span.axes) > 1 or not any(_is_guard(part) for part in post_order(expr)):
        return ()
    points = sorted(changes_of(expr, span))
    return tuple(points) if len(points) < _MOST_PARTS else ()


def changes_of(expr: PrimExpr, span: Span) -> set[int]:
    """Where along an axis a comparison of its variable with a constant changes; nowhere without a constant extent."""
    changes = {_change(part, span.var) for part in post_order(expr)}
    return {point for point in changes if point is not None and 0 < point < (span.size or 0)}


def part_sizes(changes: Sequence[int], size: int) -> list[int]:
    """How long the parts of an axis are that is cut where something changes."""
    return [high - low for low, high in pairwise([0, *changes, size])]


def _is_guard(node: Node) -> bool:
    return is_if_then_else(node) or isinstance(node, Select)


def _change(node: Node, var: Var) -> int | None:
    """The value of `var` from which on a comparison has another truth; None when it is not such a comparison."""
    if not isinstance(node, _ORDER):
        return None
    a, b = linear(node.a, {var}), linear(node.b, {var})
    if a is None or b is None or not isinstance(a.rest, IntImm) or not isinstance(b.rest, IntImm):
        return None
    left, right = a.step(var), b.step(var)
    if not isinstance(left, int) or not isinstance(right, int) or left == right:
        return None
    step, rest = left - right, a.rest.value - b.rest.value  # step * var + rest, compared with 0
    changes_at_zero = isinstance(node, (GE, LT)) == (step > 0)  # where both are equal, or one after
    return -(rest // step) if changes_at_zero else -rest // step + 1
