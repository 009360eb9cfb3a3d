"""Nodes that have no surface syntax, written like the call that would make them."""

from __future__ import annotations

from eutectic.ir.node import Node, fields_of
from eutectic.support.deep import deep


@deep
def plain(item: object) -> str:
    """Constructor-like text of a node, and of what its fields hold."""
    if isinstance(item, Node):
        inner = ", ".join(f"{name}={plain(value)}" for name, role, value in fields_of(item) if role != "ignore")
        return f"{type(item).__name__}({inner})"
    if isinstance(item, tuple):
        return "(" + ", ".join(plain(part) for part in item) + ")"
    return repr(item)
