"""The native part of a program: object code and what it needs, as data; and the same, loaded.

One function runs everything: kernels of ours with the team of threads, kernels of libraries in between. Where the
sizes of the latter vary, they are made for the sizes of a call before it, and the function is handed the table of them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.runtime.library import LibraryKernel, NativeCall
from eutectic.runtime.native import NativeFunction, raise_address
from eutectic.runtime.object_code import ObjectCode
from eutectic.runtime.packed_array import PackedArray, plain
from eutectic.runtime.processor import check_features
from eutectic.runtime.recently_used import RecentlyUsed
from eutectic.runtime.team import RUN_SYMBOLS, SMALL, team, team_code
from eutectic.support.aligned import address, aligned_array
from eutectic.support.errors import CallError, LoadError

Array: TypeAlias = np.ndarray[Any, Any]
RAISE = "eutectic_raise"
STAMPS: Final = "stamps"  # variable of a function that takes times: nanoseconds of its beginning and of its steps' ends
KEPT_SIZES: Final = 8  # sets of sizes for which the kernels of libraries are kept


@dataclass(frozen=True, eq=False)
class NativeCode:
    """A native function, not loaded.

    It takes inputs, then outputs, then integers, with the calling convention of tvm-ffi. When libraries have sizes that
    vary, the last integers are the bytes that each of them is given, and the address of the table of libraries.

    Attributes:
        name: For messages.
        symbol: The function.
        objects: Object files: its own and those of the kernels.
        team: Object file of the thread pool.
        constants: Values that it reads, in the order of its table.
        libraries: Kernels of libraries that it calls, in the order of its table.
        workspaces: For each of these the bytes that the function sets aside for it; 0 when its sizes vary.
        threads: Threads of a call.
        is_small: Whether a call takes some tens of microseconds at most.
        features: What the processor must have, by LLVM's names.
    """

    name: str
    symbol: str
    objects: tuple[bytes, ...]
    team: bytes
    constants: tuple[Array | PackedArray, ...]
    libraries: tuple[LibraryKernel, ...]
    workspaces: tuple[int, ...]
    threads: int
    is_small: bool
    features: tuple[str, ...] = ()

    @property
    def varies(self) -> bool:
        """Whether a library is asked for sizes that vary."""
        return any(kernel.sizes for kernel in self.libraries)


@dataclass(frozen=True, eq=False)
class TimedCode(NativeCode):
    """A native function that takes the times of its steps, for profiles; never written to a file.

    Attributes:
        steps: Names of the steps, in order.
    """

    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Prepared:
    """The libraries of a function for some sizes; lives at least as long as calls that use it.

    Attributes:
        calls: They.
        table: Their addresses, as the function reads them.
        workspace_bytes: Memory that those need whose sizes vary.
    """

    calls: tuple[NativeCall, ...]
    table: ctypes.Array[ctypes.c_uint64]
    workspace_bytes: int


class LoadedCode:
    """A native function, loaded; may be called from several threads at once.

    Attributes:
        code: What was loaded.
        function: It.
    """

    def __init__(self, code: NativeCode, libraries: Sequence[Any] = ()) -> None:
        """Load a function.

        Args:
            code: What to load.
            libraries: The kernels of libraries that it calls, loaded; native code can call all of them.

        Raises:
            LoadError: the code is not for this machine, or a library needs more memory than was planned.
        """
        self.code, self._loaded = code, tuple(libraries)
        self._prepared: RecentlyUsed[tuple[int, ...], _Prepared] = RecentlyUsed(KEPT_SIZES)
        self._varying = sum(len(kernel.sizes) for kernel in code.libraries)
        self._fixed = None if code.varies else self._for_sizes(())
        check_features(code.features, code.name)
        runtime = team_code(code.team)
        imports = {symbol: runtime.address(symbol) for symbol in RUN_SYMBOLS}
        self._library = ObjectCode(code.objects, {**imports, RAISE: raise_address()})
        self._arrays = [aligned_array(plain(array)) for array in code.constants]
        self._fill("constants", list(map(address, self._arrays)))
        self._fill("libraries", list(self._fixed.table) if self._fixed is not None else [])
        self._fill("team", [team(code.team, code.threads)])
        self._fill("threads", [code.threads | (SMALL if code.is_small else 0)])
        release = ctypes.CFUNCTYPE(None)(self._library.address("release"))
        weakref.finalize(self._library, release)
        owners = (self._library, self._arrays, self._fixed)
        self.function = NativeFunction(self._library.address(code.symbol), owners)
        if code.is_small and not self._library.calls_registered:
            self.function.keep_lock()

    def _for_sizes(self, sizes: tuple[int, ...]) -> _Prepared:
        """The libraries for the sizes of a call, one after the other."""
        calls: list[NativeCall] = []
        workspace, at = 0, 0
        for kernel, loaded, planned in zip(self.code.libraries, self._loaded, self.code.workspaces, strict=True):
            own = sizes[at : at + len(kernel.sizes)]
            at += len(own)
            call = (loaded.at(own) if own else loaded).native
            assert call is not None  # or it would not have been planned
            if own:
                workspace = max(workspace, call.workspace_bytes)
            elif call.workspace_bytes > planned:
                raise _other_build(kernel, call, planned)
            calls.append(call)
        words = [word for call in calls for word in (call.run, call.self)]
        return _Prepared(tuple(calls), (ctypes.c_uint64 * len(words))(*words), workspace)

    def _fill(self, symbol: str, words: Sequence[int]) -> None:
        table = (ctypes.c_uint64 * max(len(words), 1)).from_address(self._library.address(symbol))
        for i, word in enumerate(words):
            table[i] = word

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill `outputs`; inputs are C-contiguous arrays or tensors, and tuples of integers.

        Raises:
            CallError: an argument does not fit, a check inside fails, or a library does.
            SpecialValues: a library would compute this call wrongly.
            OtherThread: a library cannot be called by this thread.
        """
        tensors = [value for value in inputs if not isinstance(value, tuple)]
        integers = [size for value in inputs if isinstance(value, tuple) for size in value]
        prepared = self._fixed or self.prepare(integers)
        try:
            self.function(*tensors, *outputs, *integers)
        except RuntimeError as error:
            raise self._failure(str(error), prepared.calls) from None

    def seconds_of_steps(self) -> list[float]:
        """Seconds of each step of a `TimedCode` in the last call; calls at the same time mix theirs."""
        assert isinstance(self.code, TimedCode)
        stamps = (ctypes.c_uint64 * (len(self.code.steps) + 1)).from_address(self._library.address(STAMPS))
        return [(end - begin) / 1e9 for begin, end in pairwise(stamps)]

    def prepare(self, integers: list[int]) -> _Prepared:
        """The libraries for the sizes that the integers of a call end with, which become what the function takes.

        Args:
            integers: Changed in place. They hold addresses then that are good as long as what is returned lives.
        """
        sizes = tuple(integers[-self._varying :])
        prepared = self._prepared.get(sizes, lambda: self._for_sizes(sizes))
        integers[-self._varying :] = (prepared.workspace_bytes, ctypes.addressof(prepared.table))
        return prepared

    def _failure(self, symbol: str, calls: Sequence[NativeCall]) -> CallError:
        """The error of a library's kernel that failed."""
        known = zip(self.code.libraries, calls, strict=True)
        said = [call.explain() for kernel, call in known if kernel.symbol == symbol]
        return CallError(f"{symbol}: {said[0] if said else 'failed'}")


def _other_build(kernel: LibraryKernel, call: NativeCall, planned: int) -> LoadError:
    return LoadError(
        f"{kernel.symbol} was compiled with another build of {kernel.library}: it needs "
        f"{call.workspace_bytes} bytes for itself here, and {planned} were planned",
        help="compile the model again with the library that is installed here",
    )
