"""Program: a compiled function as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eutectic.runtime.instructions import Instruction
from eutectic.runtime.params import Param


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled function: instructions over numbered slots.

    Attributes:
        params: Its arguments, which take the first slots.
        instructions: What it does, in order.
        slot_count: Slots a call needs.
        constants: Values of slots that are the same in every call.
        results: Slots of the results, in order.
        copied: Results that are copied, because they may share memory with a constant.
        otherwise: What is run when a library would compute a call wrongly; None when no library is asked, or when
            nobody has compiled it.
    """

    params: tuple[Param, ...]
    instructions: tuple[Instruction, ...]
    slot_count: int
    constants: Mapping[int, Any]
    results: tuple[int, ...]
    copied: tuple[int, ...] = ()
    otherwise: Program | None = None
