"""Executable: a compiled function as a list of instructions over numbered slots.

Knows nothing of the compiler: instructions are callables that somebody linked.
All state of a call is local to it, so any number of threads may call at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from eutectic.support.deep import deep
from eutectic.support.errors import CallError

Array: TypeAlias = np.ndarray[Any, Any]
Sizes: TypeAlias = dict[str, int]
Size: TypeAlias = int | str | Callable[[Mapping[str, int]], int]
Slots: TypeAlias = list[Any]


class Instruction(Protocol):
    """One step of an executable."""

    @property
    def name(self) -> str:
        """What profiles and errors call it."""

    def __call__(self, slots: Slots, sizes: Sizes) -> None:
        """Read operands from `slots`, write results to `slots`."""


class Param(Protocol):
    """What a function takes in one place."""

    @property
    def name(self) -> str:
        """The parameter's name."""

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""

    def check(self, value: Any, sizes: Sizes) -> Any:
        """The argument as instructions want it; binds the symbolic sizes that it defines."""

    def settle(self, value: Any, sizes: Sizes) -> None:
        """Check sizes again, now that all symbols are known."""


@dataclass(frozen=True)
class TensorParam:
    """A tensor argument.

    Attributes:
        name: The parameter's name.
        dtype: NumPy dtype expected.
        shape: Per axis a size, or the name of a symbolic size that the argument defines or must repeat,
            or a function of those sizes. None when only the rank is known.
        rank: Number of axes; -1 when unknown.
        ranges: Least and largest value of symbolic sizes, by name.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Size, ...] | None
    rank: int
    ranges: Mapping[str, tuple[int, int | None]]

    @deep
    def check(self, value: Any, sizes: Sizes) -> Array:
        """The argument as a C-contiguous array.

        Raises:
            CallError: it does not fit.
        """
        if type(value) is np.ndarray and value.shape == self.shape and value.dtype == self.dtype:
            flags = value.flags
            if flags.c_contiguous and flags.aligned:
                return value  # nothing symbolic, nothing to convert: what most calls give
        if not isinstance(value, np.ndarray):
            raise CallError(f"argument {self.name} must be an array, got {type(value).__name__}")
        if value.dtype != self.dtype and value.dtype.newbyteorder("=") == self.dtype:
            return self.check(value.astype(self.dtype), sizes)
        if value.dtype != self.dtype:
            raise CallError(
                f"argument {self.name} must be {self.dtype.name}, got {value.dtype.name}",
                help=f"convert it to {self.dtype.name} first",
            )
        if self.rank >= 0 and value.ndim != self.rank:
            raise CallError(f"argument {self.name} must have {self.rank} axes, got {value.ndim}: shape {value.shape}")
        self.check_shape(value.shape, sizes)
        if value.flags.c_contiguous and value.flags.aligned:
            return value
        return np.array(value, order="C", copy=True)

    def settle(self, value: Array, sizes: Sizes) -> None:
        """Check sizes again, now that all symbols are known.

        Raises:
            CallError: one does not fit.
        """
        self.check_shape(value.shape, sizes)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""
        return any(callable(size) for size in self.shape or ())

    def check_shape(self, given: tuple[int, ...], sizes: Sizes) -> None:
        """Check sizes and bind those defined here; ones whose symbols are not known yet pass.

        Raises:
            CallError: one does not fit.
        """
        check_sizes(self.name, self.shape, given, sizes, self.ranges)


def check_sizes(
    name: str,
    wanted: Sequence[Size] | None,
    given: Sequence[int],
    sizes: Sizes,
    ranges: Mapping[str, tuple[int, int | None]],
) -> None:
    """Check the sizes of an argument and bind those it defines; ones whose symbols are not known yet pass.

    Raises:
        CallError: one does not fit.
    """
    if wanted is None:
        return
    for axis, (want, size) in enumerate(zip(wanted, given, strict=True)):
        if isinstance(want, str):
            if want not in sizes:
                refuse_size(f"argument {name} has size {size} on axis {axis}", want, size, ranges)
                sizes[want] = size
                continue
            want = sizes[want]
        elif callable(want):
            try:
                want = want(sizes)
            except KeyError:
                continue
        if want != size:
            raise CallError(
                f"argument {name} must have size {want} on axis {axis}, got {size}",
                notes=[f"its shape is {tuple(given)}"],
                help="compile again for this shape, or with a dynamic size there",
            )


def refuse_size(what: str, symbol: str, size: int, ranges: Mapping[str, tuple[int, int | None]]) -> None:
    """Refuse a size outside of the range of its symbol.

    Raises:
        CallError: it is outside.
    """
    low, high = ranges.get(symbol, (0, None))
    if size < low or (high is not None and size > high):
        top = "more" if high is None else str(high)
        raise CallError(f"{what}; the model was exported for {symbol} from {low} to {top}")


@dataclass(frozen=True)
class Direct:
    """A native function that checks its arguments itself.

    Attributes:
        function: Called with inputs, then results; raises when they do not fit.
        outputs: Shape and dtype of each result.
        slots: Where an executable keeps the results.
    """

    function: Callable[..., Any]
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    slots: tuple[int, ...]


@dataclass(frozen=True)
class KernelTime:
    """Seconds that one instruction took."""

    name: str
    seconds: float


class Executable:
    """A compiled function.

    Args:
        params: Its arguments, in order.
        instructions: What it does, in order.
        slot_count: Slots a call needs; arguments take the first ones.
        constants: Values of slots that are the same in every call.
        results: Slots of the results, in order.
        copied: Results that are copied, because they may share memory with a constant.
    """

    def __init__(
        self,
        params: Sequence[Param],
        instructions: Sequence[Instruction],
        slot_count: int,
        constants: Mapping[int, Any],
        results: Sequence[int],
        copied: Sequence[int] = (),
    ) -> None:
        self.params = tuple(params)
        self.instructions = tuple(instructions)
        self.results = tuple(results)
        self._copied = frozenset(copied)
        self._derived = tuple(i for i, param in enumerate(self.params) if param.has_derived_sizes)
        self._template: Slots = [None] * slot_count
        for slot, value in constants.items():
            self._template[slot] = value

    @property
    def direct(self) -> Direct | None:
        """The one native function that is all it does, called with the arguments and then the results; else None."""
        if len(self.instructions) != 1:
            return None
        find = getattr(self.instructions[0], "direct", None)
        found: Direct | None = None if find is None else find(len(self.params))
        return found if found is not None and self.results == found.slots and not self._copied else None

    def __call__(self, *args: Array) -> list[Array]:
        """Results for some arguments, each owned by the caller.

        Raises:
            CallError: wrong number of arguments, or one that does not fit.
        """
        return self.run(args)

    def run(self, args: Sequence[Array]) -> list[Array]:
        """The same for a sequence of arguments."""
        slots, sizes = self._start(args)
        for instruction in self.instructions:
            instruction(slots, sizes)
        return self._finish(slots)

    def profile(self, args: Sequence[Array]) -> tuple[list[Array], list[KernelTime]]:
        """Results, and the seconds of each instruction of this one call."""
        slots, sizes = self._start(args)
        times = []
        for instruction in self.instructions:
            start = time.perf_counter()
            instruction(slots, sizes)
            times.append(KernelTime(instruction.name, time.perf_counter() - start))
        return self._finish(slots), times

    def _start(self, args: Sequence[Array]) -> tuple[Slots, Sizes]:
        if len(args) != len(self.params):
            names = ", ".join(param.name for param in self.params)
            raise CallError(f"expected {len(self.params)} {_noun(self.params)} ({names}), got {len(args)}")
        slots = self._template.copy()
        sizes: Sizes = {}
        for i, (param, arg) in enumerate(zip(self.params, args, strict=True)):
            slots[i] = param.check(arg, sizes)
        for i in self._derived:  # again, now that all symbols are known
            self.params[i].settle(slots[i], sizes)
        return slots, sizes

    def _finish(self, slots: Slots) -> list[Array]:
        return [slots[i].copy() if i in self._copied else slots[i] for i in self.results]


def _noun(params: Sequence[Param]) -> str:
    return "tensors" if all(isinstance(param, TensorParam) for param in params) else "arguments"
