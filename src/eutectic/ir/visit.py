"""Iterative, memoised walks over nodes: `post_order` to read, `rewrite` to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from eutectic.ir.node import Node, children, replace


def post_order(root: Node, *, enter: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """Every node below `root`, each object once, operands before users.

    Args:
        root: Where to start; comes last.
        enter: When given, children of a node are visited only if it returns True.
    """
    seen: set[int] = set()
    stack: list[Node | None] = [root]  # None: the children of what is under it are done
    while stack:
        item = stack.pop()
        if item is None:
            if (parent := stack.pop()) is not None:
                yield parent
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        if item.child_fields and (enter is None or enter(item)) and (below := children(item)):
            stack += (item, None)
            stack += below[::-1]
        else:  # half of all nodes are leaves
            yield item


def rewrite(root: Node, change: Callable[[Node], Node | None]) -> Node:
    """Rebuild `root` bottom-up.

    Args:
        root: The tree to change; shared parts are rewritten once and stay shared.
        change: Called with each node after its children were rewritten; returns
            the replacement, or None to keep it.

    Returns:
        The new root, or `root` itself when nothing changed.
    """
    memo: dict[int, Node] = {}  # what changed
    for item in list(post_order(root)):  # the list keeps the objects alive, without which ids are not valid
        fresh = item
        if memo and any(id(child) in memo for child in children(item)):
            fresh = map_fields(item, lambda child: memo.get(id(child), child))
        changed = change(fresh)
        fresh = fresh if changed is None else changed
        if fresh is not item:
            memo[id(item)] = fresh
    return memo.get(id(root), root)


def map_fields(item: Node, f: Callable[[Node], Node]) -> Node:
    """`item` with `f` applied to each direct child; `item` itself when no child changed."""
    changes: dict[str, Any] = {}
    for name in item.child_fields:
        value = getattr(item, name)
        fresh = _map_value(value, f)
        if fresh is not value:
            changes[name] = fresh
    return replace(item, **changes) if changes else item


def _map_value(value: Any, f: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return f(value)
    if isinstance(value, tuple):
        mapped = tuple(_map_value(item, f) for item in value)
        return value if all(a is b for a, b in zip(mapped, value, strict=True)) else mapped
    return value
