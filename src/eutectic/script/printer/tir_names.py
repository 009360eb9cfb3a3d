"""Which variables and buffers of a tensor program nothing inside it binds; their names are declared at the top."""

from __future__ import annotations

from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import Var
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, MatchBufferRegion
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar
from eutectic.tir.stmt import Allocate, AttrStmt, DeclBuffer, For, LetStmt


def free_variables(root: Node) -> tuple[list[Var], list[Buffer]]:
    """Variables and buffers without a statement that binds them, in order of appearance.

    Variables of `Let` expressions count as free: the text form has no place to
    declare them inside an expression.
    """
    order = _in_order(root)
    variables: set[Var] = set()
    buffers: set[Buffer] = set()
    pointers = {item.data for item in order if isinstance(item, Buffer)}
    for item in order:
        match item:
            case PrimFunc():
                variables.update(item.params)
                buffers.update(item.buffer_map.values())
            case For():
                variables.add(item.loop_var)
                if item.thread_binding is not None and item.thread_binding.dom is None:
                    variables.add(item.thread_binding.var)
            case LetStmt():
                variables.add(item.var)
            case Allocate():
                variables.add(item.buffer_var)
            case AttrStmt(node=IterVar(dom=dom, var=var), attr_key="thread_extent") if dom is not None:
                variables.add(var)
            case Block():
                variables.update(axis.var for axis in item.iter_vars)
                buffers.update(item.alloc_buffers)
            case MatchBufferRegion() | DeclBuffer():
                buffers.add(item.buffer)
            case _:
                pass
    free = [item for item in order if isinstance(item, Var) and item not in variables and item not in pointers]
    return free, [item for item in order if isinstance(item, Buffer) and item not in buffers]


def _in_order(root: Node) -> list[Node]:
    """Nodes in pre-order, each object once."""
    seen: set[int] = set()
    out: list[Node] = []
    stack = [root]
    while stack:
        item = stack.pop()
        if id(item) not in seen:
            seen.add(id(item))
            out.append(item)
            stack.extend(reversed(children(item)))
    return out
