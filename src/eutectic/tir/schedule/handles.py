"""Handles: names for blocks, loops and numbers of a schedule that outlive the statements they stand for.

A handle is an object without contents. What it stands for is kept by the schedule, by keys that primitives
keep: a loop is its variable, a block its first axis, or its name when it has no axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from eutectic.ir.prim_expr import Var
from eutectic.tir.block import Block


class BlockRV:
    """A block of a schedule; `schedule.get(rv)` is the block as it is now."""


class LoopRV:
    """A loop of a schedule; `schedule.get(rv)` is the loop as it is now."""


class ExprRV:
    """A number that a schedule has chosen; `schedule.get(rv)` is the number."""


BlockLike: TypeAlias = BlockRV | str  # a block's name stands for the only block of that name
Handle: TypeAlias = BlockRV | LoopRV | ExprRV
BlockKey: TypeAlias = Var | str
Key: TypeAlias = "tuple[str, BlockKey] | int"  # a function's name and what is in it, or a number


def block_key(block: Block) -> BlockKey:
    """What a block is known by: the variable of its first axis, or its name when it has none."""
    return block.iter_vars[0].var if block.iter_vars else block.name_hint


def handles_in(value: Any) -> list[Handle]:
    """All handles in an argument or a result, in order."""
    if isinstance(value, BlockRV | LoopRV | ExprRV):
        return [value]
    if isinstance(value, Mapping):
        return handles_in(list(value.values()))
    if isinstance(value, list | tuple):
        return [rv for item in value for rv in handles_in(item)]
    return []
