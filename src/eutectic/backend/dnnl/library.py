"""Finding and loading libdnnl, and the checked door to its functions.

Nothing is loaded on import. The library is opened with local symbol visibility;
its OpenMP runtime is found by SONAME, so whichever libgomp the process already
has (torch brings one) serves both.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from eutectic.backend.dnnl import abi
from eutectic.support import config
from eutectic.support.errors import CodegenError, EutecticError, LoadError

SONAME: Final = "libdnnl.so.3"
DISTRIBUTION: Final = "onednn-cpu-gomp"
_INSTALL: Final = f"pip install '{DISTRIBUTION}==2023.2.0', or set EUTECTIC_DNNL_LIBRARY to a CPU build of oneDNN 3"


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether oneDNN can be used here.

    Attributes:
        ok: The library is loaded and has a CPU engine.
        reason: Why not; empty when `ok`.
        version: Such as `3.2.0`; empty when nothing was loaded.
        isa: Instruction set the library will use, such as `avx2`; empty when nothing was loaded.
    """

    ok: bool
    reason: str
    version: str
    isa: str


class Library:
    """A loaded oneDNN with its CPU engine and one in-order stream.

    Every C function of `abi.PROTOTYPES` is an attribute-like entry of `call`.
    Engine and stream live as long as the process: both are stateless on the
    CPU, so all regions and threads share them.

    Args:
        path: File or SONAME to open.

    Raises:
        LoadError: it cannot be opened, is not version 3, or has no CPU engine.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._cdll = ctypes.CDLL(path)
            self._functions = {name: self._declare(name) for name in abi.PROTOTYPES}
        except (OSError, AttributeError) as error:
            raise LoadError(f"cannot use {path} as oneDNN: {error}", help=_INSTALL) from error
        version = self._functions["dnnl_version"]().contents
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        if version.major != 3:
            raise LoadError(f"{path} is oneDNN {self.version}, but version 3 is needed", help=_INSTALL)
        self.isa_bits = int(self._functions["dnnl_get_effective_cpu_isa"]())
        self.isa = abi.ISA.get(self.isa_bits, f"isa {self.isa_bits:#x}")
        self.engine = self._new("dnnl_engine_create", abi.ENGINE_CPU, 0)
        self.stream = self._new("dnnl_stream_create", self.engine, abi.STREAM_IN_ORDER)

    def function(self, name: str) -> Callable[..., Any]:
        """The C function `name` with its declared types, status unchecked."""
        return self._functions[name]

    def address(self, name: str) -> int:
        """Address of the C function `name`, for native code."""
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # a _FuncPtr

    @property
    def handle(self) -> int:
        """What the loader calls it."""
        return int(self._cdll._handle)

    def replace(self, addresses: Mapping[str, int]) -> None:
        """Take other functions under names that are known already."""
        for name in addresses.keys() & self._functions.keys():
            result, arguments = abi.PROTOTYPES[name]
            self._functions[name] = ctypes.CFUNCTYPE(result, *arguments)(addresses[name])

    def call(self, name: str, *args: Any, what: str = "") -> None:
        """Call a function that returns a status.

        Raises:
            CodegenError: the status is not success.
        """
        check(self._functions[name](*args), what or name)

    def create(self, name: str, *args: Any, what: str = "") -> int:
        """Call a `..._create` function whose first argument receives the new handle.

        Raises:
            CodegenError: the status is not success.
        """
        handle = ctypes.c_void_p()
        check(self._functions[name](ctypes.byref(handle), *args), what or name)
        return handle.value or 0

    def _new(self, name: str, *args: Any) -> int:
        try:
            return self.create(name, *args)
        except CodegenError as error:
            raise LoadError(f"{self.path} (oneDNN {self.version}) has no CPU engine: {error.message}") from error

    def _declare(self, name: str) -> Callable[..., Any]:
        result, arguments = abi.PROTOTYPES[name]
        function = getattr(self._cdll, name)
        function.restype, function.argtypes = result, arguments
        return function  # type: ignore[no-any-return]  # ctypes leaves attributes of a CDLL untyped


def check(status: int, what: str) -> None:
    """Do nothing on success, raise otherwise.

    Args:
        status: What the C function returned.
        what: What was tried, for the message.

    Raises:
        CodegenError: `status` is not success; the message has oneDNN's name of it.
    """
    if status:
        name = abi.STATUS.get(status, f"status {status}")
        code = "G0210" if status == abi.UNIMPLEMENTED else "G0211"
        raise CodegenError(f"oneDNN: {what}: {name}", code=code)


class Owner:
    """Handles to destroy together, in the reverse order of their making.

    Destroys them when closed or collected. Not at interpreter exit: another
    thread may still be inside a kernel, and the process gives all back anyway.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._handles: list[tuple[Callable[..., Any], int]] = []
        self._finalizer = weakref.finalize(self, _destroy, self._handles)
        self._finalizer.atexit = False

    def create(self, kind: str, *args: Any, what: str = "", suffix: str = "") -> int:
        """Make a `dnnl_<kind>` and keep it until `close`.

        Args:
            kind: Such as `primitive` or `memory_desc`.
            *args: Arguments after the handle.
            what: What is made, for the error message.
            suffix: Of the creating function, after `_create`.

        Raises:
            CodegenError: oneDNN refused.
        """
        handle = self.library.create(f"dnnl_{kind}_create{suffix}", *args, what=what)
        return self.keep(kind, handle)

    def keep(self, kind: str, handle: int) -> int:
        """Take over a handle made elsewhere; returns it."""
        self._handles.append((self.library.function(f"dnnl_{kind}_destroy"), handle))
        return handle

    def close(self) -> None:
        """Destroy everything; later calls do nothing."""
        self._finalizer()


def _destroy(handles: list[tuple[Callable[..., Any], int]]) -> None:
    while handles:
        destroy, handle = handles.pop()
        destroy(handle)


def candidates() -> Iterator[str]:
    """Paths where libdnnl may be, most specific first; the environment variable excludes all others."""
    if (configured := config.dnnl_library()) is not None:
        yield configured
        return
    paths = [Path(sys.prefix) / "lib" / SONAME]
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        pass
    else:
        # The wheel's files are recorded relative to site-packages (../../libdnnl.so.3), wherever that is.
        paths += [Path(str(distribution.locate_file(f))) for f in distribution.files or () if f.name == SONAME]
    yield from dict.fromkeys(str(path.resolve()) for path in paths if path.exists())
    yield SONAME


_lock = threading.Lock()
_loaded: list[Library | LoadError] = []


def load() -> Library:
    """The library of this process, loaded at the first call.

    Raises:
        LoadError: none of the candidates can be used; remembered for later calls.
    """
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_load())
    if isinstance(_loaded[0], LoadError):
        raise LoadError(_loaded[0].message, code=_loaded[0].code, notes=_loaded[0].facts, help=_loaded[0].help)
    return _loaded[0]


def _load() -> Library | LoadError:
    failures: list[str] = []
    for path in candidates():
        try:
            return Library(path)
        except LoadError as error:
            failures.append(error.message)
    return LoadError("oneDNN 3 cannot be loaded", code="X0110", notes=failures, help=_INSTALL)


def lacks(dtype: str) -> str:
    """Why oneDNN is not used for a dtype on this processor; empty when it is.

    Without the instructions it has slow kernels, or none.
    """
    if dtype not in abi.DATA_TYPES:
        return f"oneDNN has no kernels of {dtype} here"
    state = availability()
    if not state.ok:
        return state.reason
    feature, bits = abi.INSTRUCTIONS.get(dtype, ("", 0))
    if load().isa_bits & bits != bits:
        return f"oneDNN multiplies {dtype} with {feature}, and uses {state.isa} on this processor"
    return ""


def availability() -> Availability:
    """Whether oneDNN can be used, and which one; never raises, loads the library at the first call."""
    try:
        library = load()
    except EutecticError as error:
        reason = "; ".join((error.message, *error.facts))
        return Availability(ok=False, reason=reason, version="", isa="")
    return Availability(ok=True, reason="", version=library.version, isa=library.isa)
