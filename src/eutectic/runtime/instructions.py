"""The kinds of instruction a program is made of: data, which `Loading` makes run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from eutectic.runtime.host_operators import HOST_OPERATORS, run_host_operator
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.native_code import NativeCode
from eutectic.runtime.params import Param
from eutectic.runtime.sizes import Size, Sizes, evaluate
from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.plain_memory import copied

if TYPE_CHECKING:
    from eutectic.runtime.loading import Loading
    from eutectic.runtime.program import Program

Operand: TypeAlias = "int | tuple[Operand, ...] | Literal"
Slots: TypeAlias = list[Any]
Shape: TypeAlias = tuple[Size, ...]
Run: TypeAlias = Callable[[Slots, Sizes], None]
Fill: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], None]


@dataclass(frozen=True)
class Literal:
    """An operand that is not in a slot: a number, a string, or a shape of sizes."""

    value: Any

    def get(self, sizes: Mapping[str, int]) -> Any:
        """The value under some symbolic sizes."""
        if isinstance(self.value, tuple):
            return tuple(evaluate(size, sizes) for size in self.value)
        return self.value


@deep
def fetch(operand: Operand, slots: Slots, sizes: Sizes) -> Any:
    """Value of an operand."""
    if isinstance(operand, int):
        return slots[operand]
    if isinstance(operand, Literal):
        return operand.get(sizes)
    return tuple(fetch(part, slots, sizes) for part in operand)


class Instruction(Protocol):
    """One step of a program."""

    @property
    def name(self) -> str:
        """What profiles and errors call it."""

    def bind(self, loading: Loading) -> Run:
        """What does it: reads operands from slots, writes results to slots."""


@dataclass(frozen=True)
class Filled:
    """What instructions share that fill fresh arrays.

    Attributes:
        name: What profiles and errors call it.
        inputs: Operands.
        outputs: Per result the shape and dtype.
        slots: Per result the slot it goes to.
    """

    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[tuple[Shape, np.dtype[Any]], ...]
    slots: tuple[int, ...]

    def filling(self, fill: Fill) -> Filling:
        """Allocate the outputs and have them filled."""
        return Filling(self, fill)


class Filling:
    """Runs an instruction that fills fresh arrays.

    Args:
        instruction: The instruction.
        fill: Fills the arrays.
    """

    __slots__ = ("_fill", "_inputs", "_outputs", "_places")

    def __init__(self, instruction: Filled, fill: Fill) -> None:
        self._inputs, self._outputs, self._places = instruction.inputs, instruction.outputs, instruction.slots
        self._fill = fill

    def __call__(self, slots: Slots, sizes: Sizes) -> None:
        """Run it."""
        inputs, arrays = self._arrays(slots, sizes)
        self._fill(inputs, arrays)
        self._put(arrays, slots)

    def timed(self, slots: Slots, sizes: Sizes) -> float:
        """Run it: seconds without those of new memory, which neighbours that are compiled together have already."""
        inputs, arrays = self._arrays(slots, sizes)
        for array in arrays:
            array.fill(0)  # the first write to a page takes longer than the arithmetic of many kernels
        start = time.perf_counter()
        self._fill(inputs, arrays)
        seconds = time.perf_counter() - start
        self._put(arrays, slots)
        return seconds

    def _arrays(self, slots: Slots, sizes: Sizes) -> tuple[list[Any], list[np.ndarray[Any, Any]]]:
        inputs = [_contiguous(fetch(operand, slots, sizes)) for operand in self._inputs]
        return inputs, [np.empty(_shape(shape, sizes), dtype) for shape, dtype in self._outputs]

    def _put(self, arrays: list[np.ndarray[Any, Any]], slots: Slots) -> None:
        for slot, array in zip(self._places, arrays, strict=True):
            slots[slot] = array


@dataclass(frozen=True)
class RunNative(Filled):
    """Run native code into fresh arrays.

    Attributes:
        code: What runs.
    """

    code: NativeCode

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""
        return self.filling(loading.native(self.code))


@dataclass(frozen=True)
class RunLibrary(Filled):
    """Run a kernel of a library into fresh arrays, from Python.

    Attributes:
        kernel: What runs.
    """

    kernel: LibraryKernel

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""
        return self.filling(loading.library(self.kernel))


@dataclass(frozen=True)
class RunProgram(Filled):
    """Run another program; its results become those of this one.

    Attributes:
        program: What runs.
    """

    program: Program

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""
        run = loading.program(self.program)

        def fill(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            for output, value in zip(outputs, run(inputs), strict=True):
                output[...] = value

        return self.filling(fill)


@dataclass(frozen=True)
class CallHost:
    """Run a function of the compiler, such as an operator's reference or an interpreter. Not data.

    Attributes:
        name: What it computes.
        function: Called with the operands.
        operands: Its arguments.
        slot: Where its result goes.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
    """

    name: str
    function: Callable[..., Any] = field(compare=False)
    operands: tuple[Operand, ...]
    slot: int
    module: str = ""
    source: str = ""

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""
        function, operands, slot = self.function, self.operands, self.slot

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[slot] = function(*(fetch(operand, slots, sizes) for operand in operands))

        return run


@dataclass(frozen=True)
class HostCall:
    """Run one of `HOST_OPERATORS`.

    Attributes:
        name: Which.
        attrs: Its attributes.
        operands: Its arguments.
        slot: Where its result goes.
        module: Path of the user's module it came from; empty when unknown.
        source: `file:line` of the user's code it came from; empty when unknown.
    """

    name: str
    attrs: Mapping[str, Any]
    operands: tuple[Operand, ...]
    slot: int
    module: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if self.name not in HOST_OPERATORS:
            raise LoadError(
                f"nothing here computes the operator {self.name!r}", help="compile the model with this build"
            )

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""
        name, attrs, operands, slot = self.name, self.attrs, self.operands, self.slot

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[slot] = run_host_operator(name, attrs, tuple(fetch(operand, slots, sizes) for operand in operands))

        return run


@dataclass(frozen=True)
class Check:
    """Check a value, and bind the symbolic sizes it defines.

    Attributes:
        name: What profiles call it.
        source: The value.
        slot: Where the value goes.
        want: What it must be.
    """

    name: str
    source: int
    slot: int
    want: Param

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[self.slot] = self.want.check(slots[self.source], sizes)

        return run


@dataclass(frozen=True)
class Evaluate:
    """Compute a size.

    Attributes:
        size: Which.
        slot: Where it goes.
    """

    size: Size
    slot: int
    name: str = "size"

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[self.slot] = evaluate(self.size, sizes)

        return run


@dataclass(frozen=True)
class Take:
    """Take a part of a tuple.

    Attributes:
        whole: The tuple.
        index: Which part.
        slot: Where it goes.
    """

    whole: Operand
    index: int
    slot: int
    name: str = "getitem"

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[self.slot] = fetch(self.whole, slots, sizes)[self.index]

        return run


@dataclass(frozen=True)
class Put:
    """Put a value into a slot: a literal, or a copy of an array or tensor.

    Attributes:
        source: The value.
        slot: Where it goes.
        copies: Whether it must be memory of its own.
    """

    source: Operand
    slot: int
    copies: bool = False
    name: str = "value"

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""

        def run(slots: Slots, sizes: Sizes) -> None:
            value = fetch(self.source, slots, sizes)
            slots[self.slot] = copied(value) if self.copies else value

        return run


@dataclass(frozen=True)
class Reshape:
    """Copy an array under another shape.

    Attributes:
        name: What profiles call it.
        source: The array.
        shape: The shape of the copy, with as many elements.
        slot: Where it goes.
    """

    name: str
    source: Operand
    shape: Shape
    slot: int

    def bind(self, loading: Loading) -> Run:
        """See `Instruction`."""

        def run(slots: Slots, sizes: Sizes) -> None:
            slots[self.slot] = np.array(fetch(self.source, slots, sizes), order="C").reshape(_shape(self.shape, sizes))

        return run


def _contiguous(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and not value.flags.c_contiguous else value


def _shape(shape: Shape, sizes: Sizes) -> tuple[int, ...]:
    """A shape in integers; without symbols, which is the common case, it is that already."""
    return tuple(evaluate(size, sizes) for size in shape) if sizes else shape  # type: ignore[return-value]
