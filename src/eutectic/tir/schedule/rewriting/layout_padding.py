"""Places of a buffer that no element is in, and the block that stores a value there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.dtype import integer_limits, is_float
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, Var, as_prim
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferRegion
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.rewriting.layout_rewrite import index_map_argument
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq

Value = Callable[[Sequence[Var]], PrimExpr]


@dataclass(frozen=True, slots=True)
class Padding:
    """Places without an element, and what they hold.

    Attributes:
        variables: Indices of a place.
        condition: Whether a place is one of them.
        value: What it holds, by its indices.
    """

    variables: tuple[Var, ...]
    condition: PrimExpr
    value: Value


def padding_value(edit: Edit, site: BlockSite, pad_value: Any, buffer: Buffer) -> tuple[Value, Any]:
    """A value for padding, and the form of it that traces keep.

    Args:
        edit: The call.
        site: The block, for refusals.
        pad_value: A number, or a function of the indices.
        buffer: The buffer in the new layout.

    Raises:
        ScheduleError: it is neither, or not of the dtype of the buffer.
    """
    if isinstance(pad_value, IntImm | FloatImm):
        pad_value = pad_value.value
    elif isinstance(pad_value, np.generic):
        pad_value = pad_value.item()
    if isinstance(pad_value, int | float):
        number = _constant(pad_value, buffer.dtype)
        if number is None:
            message = f"{edit.name}: {pad_value!r} is no value of buffer {buffer.name} of {buffer.dtype}"
            edit.refuse(site, message, help="give a number that the dtype has")
        return lambda _: number, pad_value
    kept = index_map_argument(edit, site, pad_value, len(buffer.shape), f"buffer {buffer.name} in the new layout")
    if len(kept.final_indices) != 1 or kept.inverse_index_map is not None:
        edit.refuse(site, f"{edit.name}: a value for padding is one value, not {len(kept.final_indices)}")
    value = kept.final_indices[0]
    if isinstance(value, IntImm | FloatImm):
        constant = _constant(value.value, buffer.dtype)
        value = value if constant is None else constant
    if value.dtype != buffer.dtype:
        message = f"{edit.name}: the value for padding is {value.dtype}, and buffer {buffer.name} is {buffer.dtype}"
        edit.refuse(site, message, help="convert it with .astype(...)")

    def value_at(indices: Sequence[Var]) -> PrimExpr:
        there = {v: i.astype(v.dtype) for v, i in zip(kept.initial_indices, indices, strict=True)}
        return Analyzer().simplify(with_values(value, there))

    return value_at, kept


def _constant(value: float, dtype: str) -> PrimExpr | None:
    """A number as a constant of a dtype; None when the dtype does not have it."""
    if is_float(dtype):
        return as_prim(float(value), dtype)
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        return None
    low, high = integer_limits(dtype)
    return IntImm(dtype, int(value)) if low <= value <= high else None


def padded(edit: Edit, site: BlockSite, home: Stmt, buffer: Buffer, padding: Padding) -> Stmt:
    """A statement with a block that stores padding before the part of it that uses the buffer first.

    Only padding is stored there, which nothing else accesses: it is in no element's place.

    Args:
        edit: The call.
        site: The block, for refusals.
        home: What the buffer exists in: a block without axes, or one that allocates the buffer.
        buffer: The buffer, in the new layout.
        padding: The padding.

    Raises:
        ScheduleError: there is no block around the program, or threads run through the buffer.
    """
    if isinstance(padding.condition, IntImm) and not padding.condition.value:
        return home
    if not isinstance(home, BlockRealize):
        edit.refuse(site, f"{edit.name}: there is no block around the program that padding could be stored in")
    accesses = accesses_of(home).of(buffer.data)
    if any(isinstance(item, For) and item.thread_binding is not None for access in accesses for item in access.above):
        message = f"{edit.name}: threads access {buffer.name}, and none of them would store the padding"
        edit.refuse(site, message, help="change the layout before binding loops")
    body = home.block.body
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    lines = [(*access.above, access.stmt) for access in accesses]
    first = min(
        (k for k, part in enumerate(parts) if any(part is item for line in lines for item in line)),
        default=0,
    )
    padded_body = seq(*parts[:first], _nest(edit, site, buffer, padding), *parts[first:])
    return replace(home, block=replace(home.block, body=padded_body))


def _nest(edit: Edit, site: BlockSite, buffer: Buffer, padding: Padding) -> Stmt:
    loops = [Var(f"ax{k}", size.dtype) for k, size in enumerate(buffer.shape)]
    axes = [
        IterVar(Range(min=0, extent=size), Var(f"v{k}", size.dtype), "data_par") for k, size in enumerate(buffer.shape)
    ]
    places = tuple(axis.var for axis in axes)
    name = edit.free_block_name(site.function, f"{buffer.name}_pad")
    store = BufferStore(buffer, padding.value(places), places)
    block = Block(tuple(axes), (), (BufferRegion.from_point(buffer, places),), name, store)
    condition = with_values(padding.condition, dict(zip(padding.variables, loops, strict=True)))
    stmt: Stmt = BlockRealize(tuple(loops), condition, block)
    for var, size in reversed(list(zip(loops, buffer.shape, strict=True))):
        stmt = For(var, IntImm(size.dtype, 0), size, "serial", stmt)
    return stmt
