"""Blocks that compute one element at each point, and which axis each of their indices is."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import is_opaque
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.stmt import BufferStore


def elementwise(edit: Edit, site: BlockSite) -> BufferStore:
    """The store of a block that computes one element at each point, from nothing that it writes itself.

    Raises:
        ScheduleError: the block is not of this kind.
    """
    block, body = site.block, site.block.body
    why = None
    if block.init is not None or any(axis.iter_type != "data_par" for axis in block.iter_vars):
        why = "it is a reduction, or has axes that are not spatial"
    elif not isinstance(body, BufferStore) or block.alloc_buffers or block.match_buffers:
        why = "its body is more than one store"
    elif body.predicate is not None or any(isinstance(i, BufferLoad) for n in body.indices for i in post_order(n)):
        why = "its store has a predicate, or indices from memory"
    elif any(isinstance(i, BufferLoad) and i.buffer.data is body.buffer.data for i in post_order(body.value)):
        why = f"it reads {body.buffer.name}, which it writes"
    elif any(is_opaque(i) for i in post_order(body.value, enter=lambda n: not isinstance(n, Buffer))):
        why = "its value has effects"
    if why is not None or not isinstance(body, BufferStore):
        message = f"{edit.name}: block {block.name_hint} does not compute one element per point: {why}"
        edit.refuse(site, message, help="choose a block of the form B[i, j] = f(i, j)")
    return body


def axes_from_indices(edit: Edit, site: BlockSite, indices: Sequence[PrimExpr], what: str) -> list[Var | None]:
    """The axis that each index is; None for a constant.

    Raises:
        ScheduleError: an index is something else, or an axis of more than one point is missing or occurs twice.
    """
    block = site.block
    axes = {axis.var: axis for axis in block.iter_vars}
    by_index = [index if isinstance(index, Var) and index in axes else None for index in indices]
    used = [var for var in by_index if var is not None]
    constant = all(var is not None or not list(_variables(index)) for var, index in zip(by_index, indices, strict=True))
    missing = [
        axis.var.name
        for axis in block.iter_vars
        if axis.var not in used and not (axis.dom is not None and axis.dom.is_point)
    ]
    if not constant or len(set(used)) != len(used) or missing:
        listed = ", ".join(shown(index) for index in indices)
        message = f"{edit.name}: the indices [{listed}] {what} block {block.name_hint} are not its axes, each once"
        edit.refuse(site, message, help="each index must be an axis of the block, and each axis an index")
    return by_index


def _variables(expr: PrimExpr) -> list[Var]:
    return [item for item in post_order(expr) if isinstance(item, Var)]
