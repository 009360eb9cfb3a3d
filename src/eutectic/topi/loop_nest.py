"""Blocks under loops, for programs that tensor expressions cannot say: a later turn reads what an earlier one wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eutectic.ir.attrs import make_attrs
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import For, Stmt


def loops_beside(axis: int, shape: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """New loops over all axes but one, with their extents."""
    return {Var(f"ax{a}", size.dtype): size for a, size in enumerate(shape) if a != axis}


def block_under_loops(
    name: str,
    loops: Mapping[Var, PrimExpr],
    body: Callable[..., Stmt],
    init: Callable[..., Stmt] | None = None,
    *,
    around: Mapping[Var, PrimExpr] | None = None,
    kinds: Mapping[Var, str] | None = None,
    notes: Mapping[str, Any] | None = None,
    memory: Sequence[Buffer] = (),
) -> Stmt:
    """A block with an axis for each loop, under new loops; what it reads and writes is for `tir.complete` to say.

    Without loops it has an axis of one point, as a block without axes that is all of a function counts as its root.

    Args:
        name: Name of the block.
        loops: Variables of the new loops, outermost first, and their extents.
        body: Makes what is done at a point, given the variables of the axes: those of `around` first.
        init: Likewise what is done before the first term of a reduction.
        around: Loops that are there already, outermost first.
        kinds: Types of axes that are not `data_par`, by loop.
        notes: Annotations of the block.
        memory: Buffers that live inside the block.
    """
    every, kinds = {**(around or {}), **loops}, kinds or {}
    axes = [_axis(Var(f"v_{loop.name}", loop.dtype), size, kinds.get(loop, "data_par")) for loop, size in every.items()]
    at = [axis.var for axis in axes]
    made = body(*at), init(*at) if init else None
    values: tuple[PrimExpr, ...] = tuple(every)
    if not every:
        axes, values = [_axis(Var("vi", "int32"), as_prim(1, "int32"))], (as_prim(0, "int32"),)
    annotations = make_attrs({**(notes or {}), DETECT_ACCESS: 3})
    block = Block(tuple(axes), (), (), name, *made, alloc_buffers=tuple(memory), annotations=annotations)
    stmt: Stmt = BlockRealize(values, IntImm("bool", 1), block)
    for loop, size in reversed(list(loops.items())):
        stmt = For(loop, as_prim(0, loop.dtype), size, "serial", stmt)
    return stmt


def _axis(var: Var, size: PrimExpr, kind: str = "data_par") -> IterVar:
    return IterVar(Range(min=as_prim(0, var.dtype), extent=size), var, kind)
