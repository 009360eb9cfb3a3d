"""Kernels of libraries: what a program says about one, and what one is when it is loaded.

A backend describes what it takes over as a `LibraryKernel`, which is data, and has a loader that makes it run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

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
        constants: Values that it is loaded with, by name.
        native_text: LLVM module with the function that native code calls; the same text for many kernels. Empty when
            only Python calls it.
        code: Its object code, once compiled.
        team: Object code of our team of threads, for libraries that can run on it.
        graph: The graph function, where the backend needs it again because sizes vary; such a kernel is not data yet.
    """

    library: str
    symbol: str
    description: Mapping[str, Any]
    constants: Mapping[str, Array]
    native_text: str = ""
    code: bytes = b""
    team: bytes = b""
    graph: Any = None


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


class LoadedKernel(Protocol):
    """A kernel of a library, ready to run; safe to call from several threads at once."""

    @property
    def native(self) -> NativeCall | None:
        """How native code calls it; None when only Python can."""

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        """Fill `outputs`, C-contiguous arrays; inputs are arrays, and tuples of sizes."""


Loader: TypeAlias = "Callable[[LibraryKernel, int | None], LoadedKernel]"
"""Makes a kernel run with so many threads; None takes what is available."""
