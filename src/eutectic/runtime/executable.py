"""Executable: a program, loaded.

Knows nothing of the compiler. All state of a call is local to it, so any number of threads may call at once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from eutectic.runtime.instructions import Filling, Instruction, Literal, Run, RunLibrary, RunNative, Shape, Slots
from eutectic.runtime.library import LibraryKernel, LoadedKernel, VaryingKernel
from eutectic.runtime.native import OtherThread
from eutectic.runtime.native_code import TimedCode
from eutectic.runtime.packed_array import plain
from eutectic.runtime.params import Param, TensorParam
from eutectic.runtime.program import Program
from eutectic.runtime.sizes import Size, Sizes
from eutectic.runtime.worker import elsewhere
from eutectic.support.errors import OTHERWISE, CallError, EutecticAdvice, SpecialValues
from eutectic.support.plain_memory import copied

if TYPE_CHECKING:
    from eutectic.runtime.loading import Loading

Array: TypeAlias = np.ndarray[Any, Any]
_ADVICE: Final = (
    "an input holds NaN, infinity or numbers near the largest: such calls run without {}, which drops NaN or turns "
    'infinity into it, and take longer; compile with precision="strict" if this is frequent'
)


@dataclass(frozen=True)
class Direct:
    """A native function that checks its arguments itself.

    Attributes:
        function: Called with inputs, then results, then integers; raises when they do not fit.
        inputs: Which argument each input is.
        outputs: Shape and dtype of each result.
        slots: Where an executable keeps the results.
        integers: Sizes that it is given.
        sizes_of: Gives the symbolic sizes of a call for the shapes of all arguments; raises when they do not fit.
        prepare: Makes the integers those that it takes; what it returns must live as long as the call. None when they
            are that already.
    """

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[Shape, np.dtype[Any]], ...]
    slots: tuple[int, ...]
    integers: tuple[Size, ...]
    sizes_of: Callable[[Sequence[tuple[int, ...]]], Sizes]
    prepare: Callable[[list[int]], Any] | None

    @property
    def fixed_outputs(self) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...] | None:
        """Shape and dtype of each result; None when sizes vary."""
        are_fixed = all(isinstance(size, int) for shape, _ in self.outputs for size in shape)
        return self.outputs if are_fixed and not self.integers else None  # type: ignore[return-value]  # as was tested


@dataclass(frozen=True)
class KernelTime:
    """How long a part of a call took.

    Attributes:
        name: Of a kernel, or of an instruction.
        seconds: It.
        instruction: Number of the instruction; native code that takes times has one for each of its steps.
    """

    name: str
    seconds: float
    instruction: int = 0


class Executable:
    """A compiled function.

    Attributes:
        program: What it is made from.

    Args:
        program: The function as data.
        loading: Loads the parts of it.
        otherwise: Makes what computes calls that fast code would compute wrongly, when the program has none itself; it
            gives None, as it is itself, where all code computes all values.
    """

    def __init__(
        self, program: Program, loading: Loading, otherwise: Callable[[], Executable | None] | None = None
    ) -> None:
        self.program = program
        self._copied = frozenset(program.copied)
        self._derived = tuple(i for i, param in enumerate(program.params) if param.has_derived_sizes)
        self._tensors = tuple(param for param in program.params if isinstance(param, TensorParam))
        self._template: Slots = [None] * program.slot_count
        for slot, value in program.constants.items():
            self._template[slot] = plain(value)
        self._steps = tuple(instruction.bind(loading) for instruction in program.instructions)
        self._loading, self._make_other = loading, otherwise
        self._other: list[Executable] = []  # once a call needed it

    @property
    def params(self) -> tuple[Param, ...]:
        """Its arguments, in order."""
        return self.program.params

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """What it does, in order."""
        return self.program.instructions

    @property
    def direct(self) -> Direct | None:
        """The one native function that is all it does, called with arguments and then the results; else None."""
        only = self.instructions[0] if len(self.instructions) == 1 else None
        if not isinstance(only, RunNative) or self.program.results != only.slots or self._copied:
            return None
        shapes = [i.value for i in only.inputs if isinstance(i, Literal) and isinstance(i.value, tuple)]
        inputs = tuple(i for i in only.inputs if isinstance(i, int) and i < len(self.params))
        if len(inputs) + len(shapes) != len(only.inputs):
            return None
        native = self._loading.native(only.code)
        return Direct(
            native.function.raw,
            inputs,
            only.outputs,
            only.slots,
            tuple(size for shape in shapes for size in shape),
            self.sizes_of,
            native.prepare if only.code.varies else None,
        )

    def sizes_of(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """Symbolic sizes that shapes of the arguments define, all of which are tensors.

        Raises:
            CallError: a shape does not fit.
        """
        sizes: Sizes = {}
        for _ in range(2 if self._derived else 1):  # again, now that all symbols are known
            for param, shape in zip(self._tensors, shapes, strict=True):
                param.check_shape(shape, sizes)
        return sizes

    def libraries(self) -> list[LoadedKernel | VaryingKernel]:
        """The kernels of libraries that it calls, loaded, each once."""
        return [self._loading.library(kernel) for kernel in self._kernels()]

    def library_symbols(self) -> list[str]:
        """Names of the kernels of libraries, in the order of `libraries`."""
        return [kernel.symbol for kernel in self._kernels()]

    def _kernels(self) -> list[LibraryKernel]:
        called: list[LibraryKernel] = []
        for step in self.instructions:
            called += step.code.libraries if isinstance(step, RunNative) else ()
            called += (step.kernel,) if isinstance(step, RunLibrary) else ()
        return list({id(kernel): kernel for kernel in called}.values())

    def __call__(self, *args: Array) -> list[Array]:
        """Results for some arguments, each owned by the caller.

        Raises:
            CallError: wrong number of arguments, or one that does not fit.
        """
        return self.run(args)

    def run(self, args: Sequence[Array]) -> list[Array]:
        """The same for a sequence of arguments."""
        try:
            return self._here(args)
        except OtherThread:
            return elsewhere(self._here, args)

    def _here(self, args: Sequence[Array]) -> list[Array]:
        try:
            return self._run(args)
        except SpecialValues as refused:
            return self._otherwise(refused)._run(args)  # no library is asked there

    def _run(self, args: Sequence[Array]) -> list[Array]:
        slots, sizes = self._start(args)
        for step in self._steps:
            step(slots, sizes)
        return self._finish(slots)

    def complete(self) -> Program:
        """The program together with what computes the calls that fast code would compute wrongly."""
        other = None if self.program.otherwise is not None else self.make_other()
        return self.program if other is None else replace(self.program, otherwise=other.program)

    def make_other(self) -> Executable | None:
        """What computes calls that fast code would compute wrongly; None where there is none."""
        if self.program.otherwise is not None:
            return Executable(self.program.otherwise, self._loading)
        return None if self._make_other is None else self._make_other()

    def _otherwise(self, refused: SpecialValues) -> Executable:
        """What computes calls with values that fast code would lose."""
        if not self._other:
            warnings.warn(_ADVICE.format(" and ".join(self._fast_code(refused))), EutecticAdvice, stacklevel=5)
            other = self.make_other()
            if other is None:
                raise CallError(
                    "an input holds NaN or infinity, which fast code would lose, and the program has no other code",
                    help='compile with precision="strict", or give finite inputs',
                )
            self._other.append(other)
        return self._other[0]

    def _fast_code(self, refused: SpecialValues) -> list[str]:
        """What the other code does without."""
        names = list(dict.fromkeys(kernel.library for kernel in self._kernels()))
        own = refused.message.partition(OTHERWISE)[2]
        return [*names, *([own] if own else [])] or ["fast code"]

    def profile(self, args: Sequence[Array]) -> tuple[list[Array], list[KernelTime]]:
        """Results, and the seconds of each instruction of this one call; those of new memory do not count.

        Native code that takes times gives those of its steps, where other native code is one.
        """
        slots, sizes = self._start(args)
        times: list[KernelTime] = []
        for number, (instruction, step) in enumerate(zip(self.instructions, self._steps, strict=True)):
            spent = _seconds(step, slots, sizes)
            if isinstance(instruction, RunNative) and isinstance(instruction.code, TimedCode):
                steps = self._loading.native(instruction.code).seconds_of_steps()
                times += map(KernelTime, instruction.code.steps, steps, repeat(number))
            else:
                times.append(KernelTime(instruction.name, spent, number))
        return self._finish(slots), times

    def sizes(self, args: Sequence[Array]) -> dict[str, int]:
        """Symbolic sizes of one call, which is made: those of the arguments, and those that values decide."""
        try:
            return self._sizes(args)
        except OtherThread:
            return elsewhere(self._sizes, args)

    def _sizes(self, args: Sequence[Array]) -> dict[str, int]:
        slots, sizes = self._start(args)
        try:
            for step in self._steps:
                step(slots, sizes)
        except SpecialValues as refused:
            return self._otherwise(refused)._sizes(args)
        return {name: int(size) for name, size in sizes.items()}

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
        return [copied(slots[i]) if i in self._copied else slots[i] for i in self.program.results]


def _seconds(step: Run, slots: Slots, sizes: Sizes) -> float:
    """Run a step."""
    if isinstance(step, Filling):
        return step.timed(slots, sizes)
    start = time.perf_counter()
    step(slots, sizes)
    return time.perf_counter() - start


def _noun(params: Sequence[Param]) -> str:
    return "tensors" if all(isinstance(param, TensorParam) for param in params) else "arguments"
