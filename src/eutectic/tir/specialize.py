"""Functions remade: for some of their arguments, or with variables and buffers of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var, as_prim
from eutectic.ir.structural import structural_equal
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, MatchBufferRegion
from eutectic.tir.function import PrimFunc, set_specializer
from eutectic.tir.iter_var import IterVar
from eutectic.tir.statement_mutator import updated
from eutectic.tir.substitute import Substituter


class _Remaker(Substituter):
    """Replaces variables also in the buffers and axes of blocks."""

    def block(self, block: Block) -> Block:
        """A block."""
        bound = [self.bind(axis.var) for axis in block.iter_vars]
        allocated = tuple(map(self.remade, block.alloc_buffers))
        matched = tuple(
            MatchBufferRegion(self.remade(match.buffer), self._region(match.source)) for match in block.match_buffers
        )
        axes = tuple(self._axis(axis, var) for axis, var in zip(block.iter_vars, bound, strict=True))
        return replace(super().block(block), iter_vars=axes, alloc_buffers=allocated, match_buffers=matched)

    def _axis(self, axis: IterVar, var: Var) -> IterVar:
        dom = axis.dom and updated(axis.dom, min=self.expr(axis.dom.min), extent=self.expr(axis.dom.extent))
        return replace(axis, var=var, dom=dom)

    def remade(self, buffer: Buffer) -> Buffer:
        """A buffer in the place of one; variables that its sizes bring are bound anew where the walk renames."""
        if self.rename:
            for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if isinstance(size, Var) and size not in self.values:
                    self.bind(size)
            self.bind(buffer.data)
        return self.declared(buffer)


def specialize(func: PrimFunc, param_map: Mapping[Var, Any]) -> PrimFunc:
    """A function for some of its arguments.

    Args:
        func: The function.
        param_map: For a scalar parameter its value, a number or an expression, after which the function does not take
            it any more; for the handle of a buffer a buffer, whose sizes take the place of variables.

    Returns:
        A function that computes the same.

    Raises:
        ValueError: a key is no parameter, or a buffer does not fit the one of its parameter.
    """
    values: dict[Var, PrimExpr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for param, value in param_map.items():
        if param not in func.params:
            raise ValueError(f"{param.name} is no parameter of the function")
        if isinstance(value, Buffer):
            buffers[func.buffer_map[param]] = value
            _unify(func.buffer_map[param], value, values)
        else:
            values[param] = as_prim(value, param.dtype)
    remaker = _Remaker(values)
    for old, new in buffers.items():
        remaker.buffers[old], remaker.values[old.data] = new, new.data
    kept = tuple(param for param in func.params if param not in values)
    described = {param: buffers.get(buffer) or remaker.remade(buffer) for param, buffer in func.buffer_map.items()}
    return PrimFunc(kept, remaker.stmt(func.body), func.ret_type, described, func.attrs)  # type: ignore[arg-type]  # the node converts what it is given


set_specializer(specialize)


def _unify(old: Buffer, new: Buffer, values: dict[Var, PrimExpr]) -> None:
    """What the variables of a buffer's sizes are in a buffer that takes its place."""
    if len(old.shape) != len(new.shape) or old.dtype != new.dtype:
        raise ValueError(f"buffer {old.name} of {len(old.shape)} axes of {old.dtype} does not become {new.name}")
    for a, b in zip((*old.shape, *old.strides), (*new.shape, *new.strides), strict=False):
        if isinstance(a, Var):
            if not structural_equal(values.setdefault(a, b), b):
                raise ValueError(f"{a.name} of buffer {old.name} is both {values[a]} and {b}")
        elif not structural_equal(a, b):
            raise ValueError(f"buffer {old.name} has the size {a} where {new.name} has {b}")


def renew_defs(func: PrimFunc) -> PrimFunc:
    """A copy of a function in which all variables and buffers are new ones."""
    remaker = _Remaker({}, rename=True)
    params = tuple(map(remaker.bind, func.params))
    buffers = {
        new: remaker.remade(func.buffer_map[old])
        for old, new in zip(func.params, params, strict=True)
        if old in func.buffer_map
    }
    return PrimFunc(params, remaker.stmt(func.body), func.ret_type, buffers, func.attrs)  # type: ignore[arg-type]  # the node converts what it is given
