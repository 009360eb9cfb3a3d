"""Kernels of libraries: what a program says about one, and what one is when it is loaded.

A backend describes what it takes over as a `LibraryKernel`, which is data, and has a loader that makes it run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from eutectic.runtime.constants import Constants

Array: TypeAlias = np.ndarray[Any, Any]
SPECIAL_VALUES: Final = 1  # status of a native call whose inputs have values that the library would compute wrongly
OTHER_THREAD: Final = 2  # status of a native call that this thread cannot make, since a fork took its helpers away


@dataclass(frozen=True, eq=False)
class LibraryKernel:
    """A piece of graph that a library computes.

    Attributes:
        library: Name of the backend that loads it.
        symbol: Name by which the program calls it.
        description: What the library is asked, as JSON data; only the backend reads it.
        constants: Values that it is loaded with, by name; given as any mapping.
        sizes: For each size that varies from call to call where it is found: the number of an operand, and an axis of
            that tensor, or a place in it when the operand is a tuple of sizes. Nothing for a kernel of fixed sizes.
        native_text: LLVM module with the function that native code calls; the same text for many kernels. Empty when
            only Python calls it.
        code: Its object code, once compiled.
        team: Object code of our team of threads, for libraries that can run on it.
    """

    library: str
    symbol: str
    description: Mapping[str, Any]
    constants: Constants
    sizes: tuple[tuple[int, int], ...] = ()
    native_text: str = ""
    code: bytes = b""
    team: bytes = b""

    def __post_init__(self) -> None:
        if not isinstance(self.constants, Constants):
            object.__setattr__(self, "constants", Constants(self.constants))

    def sizes_of(self, operands: Sequence[Any]) -> tuple[int, ...]:
        """The sizes that vary, for some operands: arrays, and tuples of sizes."""
        return tuple(_lengths(operands[number])[axis] for number, axis in self.sizes)


@dataclass(frozen=True)
class NativeCall:
    """A loaded kernel as native code calls it.

    Attributes:
        run: Address of `int32 run(void* self, void** tensors, void* workspace)`. Tensors are row-major, inputs before
            outputs. It returns 0, or `SPECIAL_VALUES` when the call must be made another way, or `OTHER_THREAD`, or
            another number after which `explain` has words.
        self: The first argument.
        inputs: For each tensor read, the number of the operand it is.
        workspace_bytes: Memory that a call needs for itself, at a multiple of 64.
        explain: What went wrong in the last call that failed.
        owner: What must stay as long as calls are made.
    """

    run: int
    self: int
    inputs: tuple[int, ...]
    workspace_bytes: int
    explain: Callable[[], str]
    owner: Any


@dataclass(frozen=True)
class NativeInterface:
    """What native code is planned with that calls a kernel.

    Attributes:
        inputs: For each tensor read, the number of the operand it is.
        workspace_bytes: Memory that a call needs for itself; None when that depends on the sizes.
        sizes: As in `LibraryKernel`.
    """

    inputs: tuple[int, ...]
    workspace_bytes: int | None
    sizes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KernelPart:
    """What one part of a kernel costs.

    Attributes:
        seconds: Time of one run.
        how: What the library calls its implementation.
    """

    seconds: float
    how: str = ""


@runtime_checkable
class DivisibleKernel(Protocol):
    """A loaded kernel that computes several operators one after another, and can time each."""

    def parts(self) -> Sequence[KernelPart]:
        """One run on inputs of its own; a part for each composite of the region, in order."""


class LoadedKernel(Protocol):
    """A kernel of a library, ready to run; safe to call from several threads at once."""

    @property
    def native(self) -> NativeCall | None:
        """How native code calls it; None when only Python can."""

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`, C-contiguous arrays; inputs are arrays, and tuples of sizes."""


class VaryingKernel(Protocol):
    """A kernel of a library whose sizes vary; safe to call from several threads at once."""

    @property
    def inputs(self) -> tuple[int, ...] | None:
        """For each tensor read by native code, the number of the operand it is; None when only Python can call it."""

    def at(self, sizes: tuple[int, ...]) -> LoadedKernel:
        """The kernel for some sizes; native code can call it when `inputs` are known.

        Raises:
            EutecticError: the library refuses these sizes.
        """

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """As for `LoadedKernel`, for any sizes."""


Loader: TypeAlias = "Callable[[LibraryKernel, int | None], LoadedKernel | VaryingKernel]"
"""Makes a kernel run with so many threads; None takes what is available. One with `sizes` becomes a `VaryingKernel`."""


def _lengths(operand: Any) -> tuple[int, ...]:
    return operand if isinstance(operand, tuple) else tuple(operand.shape)
