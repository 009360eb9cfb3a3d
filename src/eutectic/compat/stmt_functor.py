"""`tvm.tir.stmt_functor`: walks over tensor programs, with functions for the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eutectic.ir.node import Node, fields_of, replace
from eutectic.ir.prim_base import expressed
from eutectic.ir.prim_expr import PrimExpr, Var, as_prim
from eutectic.support.deep import deep
from eutectic.tir.buffer import BufferRegion, MatchBufferRegion
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.specialize import renew_defs
from eutectic.tir.stmt import Stmt
from eutectic.tir.substitute import Substituter
from eutectic.tir.substitute import substitute as _substituted

__all__ = ["ir_transform", "map_parts", "parts", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]

_WITHIN = (Range, IterVar, BufferRegion, MatchBufferRegion)  # what holds expressions without being one


def parts(item: Node) -> list[Node]:
    """The statements and expressions directly below one, in the order of its fields; what it binds is none of them."""
    below: list[Node] = []

    def collect(part: Node) -> Node:
        below.append(part)
        return part

    map_parts(item, collect)
    return below


@deep
def map_parts(item: Node, change: Callable[[Node], Node]) -> Node:
    """`item` with each statement and expression directly below it changed; itself when none was."""

    @deep
    def changed(value: Any) -> Any:
        if isinstance(value, Stmt | PrimExpr):
            return change(value)
        if isinstance(value, _WITHIN):
            return map_parts(value, change)
        if isinstance(value, tuple):
            fresh = tuple(map(changed, value))
            return value if all(a is b for a, b in zip(fresh, value, strict=True)) else fresh
        return value

    fresh = {name: (value, changed(value)) for name, role, value in fields_of(item) if role == "use"}
    updates = {name: new for name, (old, new) in fresh.items() if new is not old}
    return replace(item, **updates) if updates else item


def post_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call a function with each statement and expression below one and with itself, parts before the whole.

    Args:
        stmt: A statement, an expression or a function; each object is visited once.
        fvisit: Called with it.
    """
    seen: set[int] = set()

    @deep
    def visit(item: Node) -> None:
        if id(item) in seen:
            return
        seen.add(id(item))
        for part in parts(item):
            visit(part)
        fvisit(item)

    visit(stmt.body if isinstance(stmt, PrimFunc) else expressed(stmt))


def pre_order_visit(stmt: Any, fvisit: Callable[[Any], bool]) -> None:
    """Call a function with a statement or expression, and, where it returns True, with the parts of it."""

    @deep
    def visit(item: Node) -> None:
        if fvisit(item):
            for part in parts(item):
                visit(part)

    visit(stmt.body if isinstance(stmt, PrimFunc) else expressed(stmt))


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """Rewrite a statement.

    Args:
        stmt: The statement.
        preorder: Called with a node before its parts; what it returns takes the place of the node, and nothing below
            is looked at; None goes on.
        postorder: Called with a node whose parts are done; returns what takes its place, or None to keep it.
        only_enable: Names of the nodes that the functions are called with, such as `tir.Call`; None for all.
    """
    enabled = None if only_enable is None else set(only_enable)

    @deep
    def visit(item: Node) -> Node:
        asked = enabled is None or item.type_key in enabled
        if asked and preorder is not None and (replacement := preorder(item)) is not None:
            return replacement  # type: ignore[no-any-return]  # what the script gives
        fresh = map_parts(item, visit)
        if asked and postorder is not None and (replacement := postorder(fresh)) is not None:
            return replacement  # type: ignore[no-any-return]  # what the script gives
        return fresh

    return visit(expressed(stmt))


def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """A statement or expression in which variables stand for other expressions.

    Args:
        node: It.
        vmap: What stands for each variable; numbers take its dtype.
    """
    values = {var: as_prim(value, var.dtype) for var, value in vmap.items()}
    return _substituted(node, values) if isinstance(node, Stmt) else Substituter(values).expr(expressed(node))
