"""Copies of operands by the axes of the block that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer
from eutectic.tir.index_map import IndexMap
from eutectic.tir.schedule.handles import BlockRV
from eutectic.tir.schedule.rules.nest import number_of_read, realize_of
from eutectic.tir.schedule.rules.stage import loads
from eutectic.tir.schedule.schedule import Schedule


@dataclass(frozen=True)
class OperandCopy:
    """A copy of an operand, with an index for each axis of the reader that its places depend on.

    Attributes:
        block: The block that copies.
        loops: For each index the loop of the reader that it comes from; None for what is not a loop.
    """

    block: BlockRV
    loops: list[Var | None]


def operand_copy(sch: Schedule, reader: str, operand: Buffer) -> OperandCopy:
    """Let a block read a copy of an operand.

    Args:
        sch: The schedule.
        reader: Name of the block.
        operand: What it reads.
    """
    copy = sch.reindex(reader, ("read", number_of_read(sch, reader, operand)))
    block = sch.get(copy)
    assert isinstance(block, Block)
    after = realize_of(sch, reader)
    load = next(load for load in loads(after.block.body) if load.buffer is block.writes[0].buffer)
    bound = {axis.var: value for axis, value in zip(after.block.iter_vars, after.iter_values, strict=True)}
    values = [bound.get(index) if isinstance(index, Var) else None for index in load.indices]
    return OperandCopy(copy, [value if isinstance(value, Var) else None for value in values])


def turned(order: Sequence[int], rank: int) -> IndexMap:
    """The map that puts indices into an order; those that are not in it go away."""

    def function(*indices: PrimExpr) -> list[PrimExpr]:
        return [indices[k] for k in order]

    return IndexMap.from_func(function, rank)
