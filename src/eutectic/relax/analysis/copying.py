"""Copies of functions that share no variable with the original."""

from __future__ import annotations

from eutectic.ir.node import Node
from eutectic.ir.visit import rewrite
from eutectic.relax.analysis.uses import bound_vars
from eutectic.relax.expr import Function


def copy_with_new_vars(func: Function) -> Function:
    """An equal function whose parameters and bound variables are new objects of the same names."""
    fresh = {id(var): type(var)(var.name_hint, var.struct_info, var.span) for var in bound_vars(func)}

    def change(item: Node) -> Node | None:
        return fresh.get(id(item))

    copied = rewrite(func, change)
    assert isinstance(copied, Function)
    return copied
