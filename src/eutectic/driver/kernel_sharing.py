"""Kernels of many programs: other processes make some of them while this one makes the others.

To schedule and to lower a program is Python, which runs in one thread of a process at a time. So there are helpers,
processes with `kernel_process.main`, each with a thread here that hands it one program after the other. They are
started with the path of modules of this process and without its main module, as no script is prepared for that. What
they make comes back through the cache of kernels; what is not there in the end is made here.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from multiprocessing.spawn import get_executable
from typing import Final, TypeAlias

from eutectic.backend.kernel import Built
from eutectic.backend.registry import code_generator
from eutectic.driver.kernel_process import make_kernel, request_of
from eutectic.runtime.team import available_threads
from eutectic.support.cache import usable_folder
from eutectic.support.config import wanted_helpers
from eutectic.support.errors import EutecticAdvice
from eutectic.target import Target
from eutectic.tir.function import PrimFunc

_Process: TypeAlias = "subprocess.Popen[str]"
KERNELS_EACH: Final = 4  # that a process must have to do: a helper takes most of a second to begin
_OPERATORS_EACH: Final = 6  # of a model, to a kernel: several are fused, and layers that are alike have one kernel
_READY: Final[ContextVar[list[_Process] | None]] = ContextVar("eutectic_ready_helpers", default=None)
# Programs are many small objects without cycles, which Python would look for again and again (support/heap.py).
_COMMAND: Final = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from eutectic.driver.kernel_process import main; main()"
)
_CHOICE: Final = "if_then_else"  # of zeros around an image: loops are parted by it, which is most of the work
_ADVICE: Final = (
    "a process that was to help compiling kernels ended early ({error}); this one compiles them alone, which takes "
    "longer; EUTECTIC_HELPERS=0 starts none"
)


def helpers_worth(kernels: int) -> int:
    """How many helpers that many kernels are worth; 0 where there is no cache, or what runs here is not Python alone.

    Raises:
        ArgumentError: `EUTECTIC_HELPERS` is no number.
    """
    wanted = wanted_helpers()
    most = available_threads(None) - 1 if wanted is None else wanted
    worth = min(most, kernels // KERNELS_EACH - 1)
    is_python = not getattr(sys, "frozen", False) and bool(get_executable())
    return worth if worth > 0 and is_python and usable_folder() is not None else 0


@contextmanager
def helpers_begin(operators: int) -> Iterator[None]:
    """Let the helpers begin that a model will want when its kernels are made, within the context: passes come before.

    Helpers that were not asked for anything, as the kernels of a model that resembles another one are in the cache, end
    with the context.

    Args:
        operators: How many the model has.

    Raises:
        ArgumentError: `EUTECTIC_HELPERS` is no number.
    """
    ready: list[_Process] = []
    with suppress(OSError):  # it is tried again when there is something to do, and said then
        for _ in range(helpers_worth(operators // _OPERATORS_EACH)):
            ready.append(_begun())  # one by one: those before the one that does not begin end with the context, too
    token = _READY.set(ready)
    try:
        yield
    finally:
        _READY.reset(token)
        for process in ready:
            _end(process)


def made_by_several(funcs: Mapping[str, PrimFunc], target: Target, helpers: int) -> dict[str, Built]:
    """Kernels of programs by name, made by this process and some helpers; an `EutecticAdvice` if one ends early.

    Args:
        funcs: The programs, checked.
        target: What for.
        helpers: How many there are.

    Raises:
        CodegenError: a program cannot be compiled.
    """
    share = _Share(funcs, target)
    with ExitStack() as started:
        threads = [started.enter_context(_Helper(share)) for _ in range(helpers)]
        made = {name: make_kernel(funcs[name], target, name) for name in iter(share.take, None)}
        for thread in threads:
            thread.join()
    if share.ended:
        warnings.warn(_ADVICE.format(error=share.ended[0]), EutecticAdvice, stacklevel=2)
    return {name: made.get(name) or _from_helper(func, target, name) for name, func in funcs.items()}


def _from_helper(func: PrimFunc, target: Target, name: str) -> Built:
    """A kernel that the cache has since a moment ago, or else is made now."""
    found = code_generator(target).cached(func, target)
    return make_kernel(func, target, name) if found is None else replace(found, cached=False)


def _begun() -> _Process:
    """A helper, which takes a while to be ready."""
    command = [get_executable(), "-c", _COMMAND.format(path=list(map(str, sys.path)))]  # some put paths there
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, encoding="utf-8")


def _end(process: _Process) -> None:
    process.kill()
    with suppress(OSError):  # what was written to it and not read goes with it
        process.communicate()


@dataclass
class _Share:
    """What is still to be made.

    Attributes:
        funcs: All programs, by name.
        target: What for.
        ended: Why helpers ended early.
    """

    funcs: Mapping[str, PrimFunc]
    target: Target
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._requests = {name: self._request(name) for name in self.funcs}
        self._left = sorted(self.funcs, key=lambda name: (_CHOICE in self._requests[name], len(self._requests[name])))
        self._lock = threading.Lock()

    def take(self) -> str | None:
        """The name of a program that nobody has begun, that with most work first; None when there is none."""
        with self._lock:
            return self._left.pop() if self._left else None

    def take_request(self) -> str:
        """The request for a program that nobody has begun and a helper can make; empty when there is none."""
        with self._lock:
            found = next((name for name in reversed(self._left) if self._requests[name]), None)
            if found is None:
                return ""
            self._left.remove(found)
            return self._requests[found]

    def close(self) -> None:
        """Nothing more is begun."""
        with self._lock:
            self._left.clear()

    def _request(self, name: str) -> str:
        """Empty for a program that has no form as data."""
        try:
            return request_of(self.funcs[name], self.target, name)
        except (TypeError, RecursionError):
            return ""


class _Helper(threading.Thread):
    """A process and the thread that hands it requests; the process is gone when the context ends."""

    def __init__(self, share: _Share) -> None:
        super().__init__(name="eutectic-helper", daemon=True)
        self._share = share
        self._process: _Process | None = None

    def __enter__(self) -> _Helper:
        ready = _READY.get()
        try:
            self._process = ready.pop() if ready else _begun()
        except OSError as error:
            self._share.ended.append(str(error))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._share.close()
        if self._process is not None:
            self._process.kill()
            self.join()
            _end(self._process)

    def run(self) -> None:
        """Hand over programs until there are no more, or the process ends."""
        if self._process is None:
            return
        try:
            while request := self._share.take_request():
                self._ask(self._process, request)
        except (OSError, EOFError) as error:
            self._share.ended.append(str(error))

    def _ask(self, process: _Process, request: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        if not process.stdout.readline():
            raise EOFError(f"with status {process.wait()}")
