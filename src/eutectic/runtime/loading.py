"""Loading: from a program as data to something that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eutectic.runtime.executable import Executable
from eutectic.runtime.library import LibraryKernel, LoadedKernel, Loader, NativeInterface, VaryingKernel
from eutectic.runtime.native_code import LoadedCode, NativeCode
from eutectic.runtime.program import Program
from eutectic.support.errors import LoadError


class Loading:
    """Loads the parts of a program, each once.

    Args:
        loader_of: The loader of a backend, by name.
        threads: Threads of calls that Python makes of libraries; None takes what is available. Native code has its own
            number, for which it was planned.
    """

    def __init__(self, loader_of: Callable[[str], Loader] | None = None, threads: int | None = None) -> None:
        self._loader_of, self._threads = loader_of, threads
        self._libraries: dict[
            int, tuple[LibraryKernel, LoadedKernel | VaryingKernel]
        ] = {}  # by identity, which the kernel keeps
        self._natives: dict[int, LoadedCode] = {}

    def library(self, kernel: LibraryKernel, threads: int | None = None) -> LoadedKernel | VaryingKernel:
        """A kernel of a library.

        Args:
            kernel: Which.
            threads: Threads of a call, where it is not loaded yet.

        Raises:
            LoadError: its library is not there.
        """
        if id(kernel) not in self._libraries:
            if self._loader_of is None:
                raise LoadError(f"{kernel.symbol} needs {kernel.library}, and nothing is known that loads it")
            loaded = self._loader_of(kernel.library)(kernel, threads or self._threads)
            self._libraries[id(kernel)] = (kernel, loaded)
        return self._libraries[id(kernel)][1]

    def native(self, code: NativeCode) -> LoadedCode:
        """Native code.

        Raises:
            LoadError: it is not for this machine, or a library that it calls cannot be called here.
        """
        if id(code) not in self._natives:
            self._natives[id(code)] = LoadedCode(
                code, [self._callable(kernel, code.threads) for kernel in code.libraries]
            )
        return self._natives[id(code)]

    def interface(self, kernel: LibraryKernel) -> NativeInterface | None:
        """What native code is planned with that calls a kernel of a library; None when only Python can call it."""
        loaded: Any = self.library(kernel)
        if kernel.sizes:
            return None if loaded.inputs is None else NativeInterface(loaded.inputs, None, kernel.sizes)
        call = loaded.native
        return None if call is None else NativeInterface(call.inputs, call.workspace_bytes)

    def _callable(self, kernel: LibraryKernel, threads: int) -> LoadedKernel | VaryingKernel:
        loaded = self.library(kernel, threads)
        if self.interface(kernel) is None:
            raise LoadError(f"{kernel.symbol} can only be called from Python with the {kernel.library} of this machine")
        return loaded

    def program(self, program: Program) -> Callable[[Sequence[Any]], list[Any]]:
        """Another program."""
        return Executable(program, self).run
