"""The kinds of instruction an executable is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from eutectic.runtime.executable import Direct, Size, Sizes, Slots
from eutectic.support.deep import deep

Operand: TypeAlias = "int | tuple[Operand, ...] | Literal"


@dataclass(frozen=True)
class Literal:
    """An operand that is not in a slot: a number, a string, or a shape of sizes."""

    value: Any

    def get(self, sizes: Mapping[str, int]) -> Any:
        """The value under some symbolic sizes."""
        if isinstance(self.value, tuple):
            return tuple(resolve(size, sizes) for size in self.value)
        return self.value


def resolve(size: Size, sizes: Mapping[str, int]) -> int:
    """A size as an integer."""
    if isinstance(size, int):
        return size
    return sizes[size] if isinstance(size, str) else size(sizes)


@deep
def fetch(operand: Operand, slots: Slots, sizes: Sizes) -> Any:
    """Value of an operand."""
    if isinstance(operand, int):
        return slots[operand]
    if isinstance(operand, Literal):
        return operand.get(sizes)
    return tuple(fetch(part, slots, sizes) for part in operand)


def _shape(shape: tuple[Size, ...], sizes: Sizes) -> tuple[int, ...]:
    """A shape in integers; without symbols, which is the common case, it is that already."""
    return tuple(resolve(size, sizes) for size in shape) if sizes else shape  # type: ignore[return-value]


@dataclass(frozen=True)
class CallRegion:
    """Run a backend's region into fresh arrays.

    Attributes:
        name: The region's symbol.
        region: Fills its outputs from its inputs.
        inputs: Operands.
        outputs: Per result the shape and dtype.
        slots: Per result the slot it goes to.
    """

    name: str
    region: Callable[[Sequence[Any], Sequence[Any]], None]
    inputs: tuple[Operand, ...]
    outputs: tuple[tuple[tuple[Size, ...], np.dtype[Any]], ...]
    slots: tuple[int, ...]

    def direct(self, params: int) -> Direct | None:
        """The native function behind the region, when its inputs are the first `params` slots and sizes are known."""
        function = getattr(self.region, "direct", None)
        inputs = tuple(i for i in self.inputs if not (isinstance(i, Literal) and i.value == ()))
        known = [(shape, dtype) for shape, dtype in self.outputs if all(isinstance(size, int) for size in shape)]
        if function is None or inputs != tuple(range(params)) or len(known) != len(self.outputs):
            return None
        return Direct(function, tuple(known), self.slots)  # type: ignore[arg-type]  # all sizes are integers

    def __call__(self, slots: Slots, sizes: Sizes) -> None:
        """Allocate the outputs and run."""
        inputs = [fetch(operand, slots, sizes) for operand in self.inputs]
        inputs = [
            np.ascontiguousarray(x) if isinstance(x, np.ndarray) and not x.flags.c_contiguous else x for x in inputs
        ]
        made = [np.empty(_shape(shape, sizes), dtype) for shape, dtype in self.outputs]
        self.region(inputs, made)
        if len(self.slots) == 1:
            slots[self.slots[0]] = made[0]
            return
        for slot, array in zip(self.slots, made, strict=True):
            slots[slot] = array


@dataclass(frozen=True)
class CallFunction:
    """Run a Python function, such as an operator's NumPy reference.

    Attributes:
        name: What it computes.
        function: Called with the operands.
        operands: Its arguments.
        slot: Where its result goes.
    """

    name: str
    function: Callable[..., Any]
    operands: tuple[Operand, ...]
    slot: int

    def __call__(self, slots: Slots, sizes: Sizes) -> None:
        """Run it."""
        slots[self.slot] = self.function(*(fetch(operand, slots, sizes) for operand in self.operands))


@dataclass(frozen=True)
class Bind:
    """Check a value against a shape and bind the symbolic sizes it defines."""

    name: str
    source: int
    slot: int
    check: Callable[[Any, Sizes], Any]

    def __call__(self, slots: Slots, sizes: Sizes) -> None:
        """Check and pass on."""
        slots[self.slot] = self.check(slots[self.source], sizes)
