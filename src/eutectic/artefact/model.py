"""LoadedModel: a compiled model that runs without the compiler; and `load`, which reads one from a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from eutectic.artefact.file import Artefact, write_artefact
from eutectic.artefact.state import State, buffers_of, check_state, named_state, overwrite
from eutectic.artefact.verify import check_program, check_signature, libraries_of
from eutectic.runtime.encoding import damaged, from_bytes, to_bytes
from eutectic.runtime.executable import Executable, KernelTime
from eutectic.runtime.library import Loader
from eutectic.runtime.loading import Loading
from eutectic.runtime.saved import SavedModel
from eutectic.runtime.signature import Signature
from eutectic.runtime.team import available_threads
from eutectic.support.errors import EutecticError, LoadError
from eutectic.support.registry import get_global_func

_COMPILER: Final = "pip install 'eutectic[compiler]'"


class LoadedModel:
    """A compiled model; call it like the original.

    Safe to call from several threads at once, except when it has state: `state_dict()` names the buffers that calls
    read and write, and each model that is read or copied has its own. Results belong to the caller. It can be copied,
    saved, and written as data and read again, which is also what deep copies and Python's own way of writing objects
    do.

    Attributes:
        executable: What runs.

    Args:
        saved: The model as data.
        executable: The same, loaded already; None loads it.

    Raises:
        LoadError: it is for another processor, or needs a library that is not there.
    """

    _state: Callable[[], Sequence[Any]] | None = None  # gives arrays, or tensors of torch, that calls read and write
    _before: Callable[[], bool] | None = None  # done before each call, until it returns False

    def __init__(self, saved: SavedModel, executable: Executable | None = None) -> None:
        self._model = saved
        self.executable = executable or loaded(saved)
        self.use_state(saved.state)
        self.use_signature(saved.signature)

    def use_signature(self, signature: Signature) -> None:
        """Let the model be called in another way; arguments and results of its program stay the same."""
        self._signature = signature
        direct = self.executable.direct
        self._quick = None if direct is None else signature.quick(direct)

    def use_state(self, values: Sequence[np.ndarray[Any, Any]]) -> None:
        """Let the model have state of its own, in the order of the signature; its values are copied."""
        self._state = State(values) if values else None

    def _saved(self) -> SavedModel:
        """The model as data.

        Raises:
            LoadError: a part of it belongs to the compiler.
        """
        return replace(self._model, state=self._state_now()) if self._state is not None else self._model

    def _state_now(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Copies of the state."""
        return tuple(array.copy() for array in self.state_dict().values())

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """The buffers that calls read and write, by their names in the torch module; empty when there are none.

        Returns:
            Arrays that share the memory of the buffers: what is written to them the next call reads. Of a model that
            was compiled in this process they are those of the torch module.

        Raises:
            LoadError: the torch module has lost one.
        """
        values = () if self._state is None else self._state()
        return named_state(buffers_of(self._signature), values) if values else {}

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Give the buffers that calls read and write new values, such as those of an earlier `state_dict`.

        Args:
            values: Arrays, or tensors of torch, by name: one for each buffer, of its dtype and shape.

        Raises:
            CallError: a name is missing or unknown, or a value does not fit; nothing is written then.
        """
        overwrite(self.state_dict(), values)

    @property
    def variant(self) -> str:
        """The target that it was compiled for, such as `llvm -mcpu=x86-64-v3`."""
        return self._model.target

    @property
    def signature(self) -> Signature:
        """How it is called, as data: names, dtypes, sizes and ranges of the arguments, structure of the results."""
        return self._signature

    @cached_property
    def report(self) -> Any:
        """What was fused, what was not, and why: a `CompileReport`.

        Raises:
            LoadError: the report is damaged.
        """
        read: Any = get_global_func("eutectic.report_from_json")
        return read(self._model.report)

    @property
    def module(self) -> Any:
        """Only of a model that was compiled in this process.

        Raises:
            LoadError: always.
        """
        raise _no_modules("module")

    @property
    def lowered(self) -> Any:
        """Only of a model that was compiled in this process.

        Raises:
            LoadError: always.
        """
        raise _no_modules("lowered")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Results for some inputs: torch tensors for torch tensors, arrays for arrays.

        Raises:
            CallError: an argument does not fit; names it, what was expected and what was given.
        """
        if self._before is not None and not self._before():
            self._before = None
        if self._quick is not None and not kwargs:
            try:
                return self._quick(*args)
            except Exception:  # the long way takes more kinds of arguments, and says what is wrong
                pass
        state = () if self._state is None else self._state()
        results = self.executable.run(self._signature.flatten(args, kwargs, state))
        return self._signature.unflatten(results, args, kwargs, state)

    def profile(self, *args: Any, **kwargs: Any) -> list[KernelTime]:
        """Seconds per kernel of one call; neighbours of a model that is loaded from data are one."""
        flat = self._signature.flatten(args, kwargs, () if self._state is None else self._state())
        executable = self._timed()
        executable.run(flat)
        return executable.profile(flat)[1]

    def explain(self, *args: Any, measure: bool = True, **kwargs: Any) -> Any:
        """What is executed, how long each part takes, and why it is not fewer kernels.

        Args:
            args: Arguments of a call, when measuring.
            measure: Whether to run the model, for times; the speed of the machine is then measured, too, once. Sizes
                that vary are those of these arguments; without measuring, those of the example when compiling.
            kwargs: Keyword arguments of a call, when measuring.

        Returns:
            An `eutectic.explain.Explanation`.

        Raises:
            CallError: an argument does not fit.
        """
        state = () if self._state is None else self._state()
        flat = self._signature.flatten(args, kwargs, state) if measure else []
        explained: Any = get_global_func("eutectic.explained")
        return explained(self.report, self.executable, self._timed, flat, self._threads_of_calls(), measure)

    def _threads_of_calls(self) -> int | None:
        return self._model.threads

    def _timed(self) -> Executable:
        """What `profile` runs."""
        return self.executable

    def script(self) -> str:
        """The module as text."""
        return self._model.text

    def show(self) -> None:
        """Print the module."""
        print(self.script())

    def save(self, path: str | Path, targets: Sequence[str] = ()) -> Path:
        """Write the model as a file that `eutectic.load` reads; the state is written as it is now.

        Args:
            path: The file, by custom with the extension `.eut`; what is there is replaced at once.
            targets: Processors to compile it for: targets such as `llvm -mcpu=x86-64-v3`, or names of processors
                alone, which mean code without libraries. The file has a variant for each, which share their weights.
                None takes the model as it is.

        Returns:
            The path.

        Raises:
            LoadError: a part of it belongs to the compiler, or the file cannot be written.
            CodegenError: a target is not known.
        """
        saved = self._saved()
        variants = [saved] if not targets else _compiler("eutectic.variants")(saved, targets)
        return write_artefact(path, variants, _version())

    def export(self, path: str | Path, header: str | Path | None = None) -> Path:
        """Write the model as a shared library for programs in C.

        For models that are one native function of fixed sizes without libraries. A call runs on the thread that makes
        it.

        Args:
            path: The library; `libnet.so` has the functions `net_run` and `net_error`.
            header: What declares them, with the sizes of inputs and results in bytes; None puts `net.h` beside it.

        Returns:
            The path.

        Raises:
            LoadError: the model is more than that.
            ToolchainError: there is no C compiler, or it fails.
        """
        from eutectic.artefact.export import export_library  # models that are loaded and run need none of it

        library = Path(path)
        stem = library.stem.removeprefix("lib")
        export_library(self.executable, library, library.with_name(f"{stem}.h") if header is None else Path(header))
        return library

    def to_bytes(self) -> bytes:
        """The model as data: the program with its native code, the signature, the report and the module's text.

        Raises:
            LoadError: a part of it belongs to the compiler: an operator that only the compiler can run; names it, its
                module and its line.
        """
        return to_bytes(self._saved())

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> LoadedModel:
        """Inverse of `to_bytes`.

        The model computes the same bits. Nothing is imported for the classes of its results: of one that torch does
        not know as a container in this process, a plain one with the same fields is returned.

        Raises:
            LoadError: the data is no model, is damaged, of another version, or for another processor.
        """
        return LoadedModel(from_bytes(data, SavedModel))

    def __reduce__(self) -> tuple[Callable[[bytes], LoadedModel], tuple[bytes]]:
        return LoadedModel.from_bytes, (self.to_bytes(),)

    def __copy__(self) -> LoadedModel:
        copy = LoadedModel(self._model, self.executable)
        copy._state = self._state
        copy.use_signature(self._signature)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedModel:
        """A model with native code and constants of its own."""
        copy = LoadedModel.from_bytes(self.to_bytes())
        copy.use_signature(self._signature)  # cannot change, and knows the classes of its results
        return copy

    def __repr__(self) -> str:
        inputs = ", ".join(param.name for param in self.executable.params)
        regions = len(self.report.regions)
        return f"{type(self).__name__}({inputs}; {regions} native region{'' if regions == 1 else 's'})"


def load(path: str | Path, *, recompile: bool | str = False, check: bool = True, copied: bool = False) -> LoadedModel:
    """A model from a file that `save` wrote.

    Whoever loads a file runs its machine code: load files from sources you trust. Of the variants in it the one that
    makes most of this processor is taken.

    Args:
        path: The file. It stays mapped: replace it by renaming another one to it, do not write into it.
        recompile: True compiles the model again from its text, for this processor, with the libraries of its first
            variant; a target takes what that says. Needs the compiler.
        check: Whether all weights are read to compare their digest. Without that they are read when they are first
            used; everything else is always compared.
        copied: Whether weights are in memory of their own, in pages as large as the system has them, which products
            of language models read faster, instead of in pages of the file, which processes share.

    Returns:
        The model; call it like the original.

    Raises:
        LoadError: the file is no model, is damaged, of another version, for other processors, or needs a library
            that is not there.
    """
    artefact = Artefact(path, check, copied)
    if recompile is not False:
        target = recompile if isinstance(recompile, str) else None
        model: LoadedModel = _compiler("eutectic.recompile")(artefact.saved(0), target)
        return model
    saved = artefact.saved(artefact.best())
    try:
        return LoadedModel(saved)
    except LoadError as error:
        raise artefact.named(error) from None
    except EutecticError as error:  # of a library that refuses what it is asked
        help = error.help or "save the model again with the library that is installed here"
        raise LoadError(f"{artefact.path}: {error.message}", notes=error.facts, help=help) from error


def loaded(saved: SavedModel, otherwise: Callable[[], Executable | None] | None = None) -> Executable:
    """What runs.

    Args:
        saved: The model as data.
        otherwise: As for `Executable`.

    Raises:
        LoadError: it is for another processor, damaged, or needs a library that is not there.
    """
    check_program(saved.program)
    check_signature(saved.signature, saved.program)
    check_state(saved.signature, saved.state)
    try:
        return Executable(saved.program, Loading(_loader, available_threads(saved.threads)), otherwise)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        names = " and ".join(sorted(libraries_of(saved.program)))
        raise damaged(f"{names or 'native code'} cannot be loaded: {error!r}") from None


def _loader(name: str) -> Loader:
    """What loads the kernels of a library: by itself where it needs no compiler, else by the registry of backends."""
    own: Any = get_global_func(f"eutectic.loader.{name}", allow_missing=True)
    if own is not None:
        return own  # type: ignore[no-any-return]  # functions in the registry have any type
    loader: Loader = _compiler("eutectic.loader")(name)
    return loader


def _compiler(name: str) -> Callable[..., Any]:
    """A function of the compiler.

    Raises:
        LoadError: the compiler is not installed.
    """
    try:
        function = get_global_func(name)
    except ImportError as error:
        raise LoadError(f"the compiler is not installed: {error}", help=_COMPILER) from None
    assert function is not None  # or the look-up would have raised
    return function


def _no_modules(name: str) -> LoadError:
    return LoadError(
        f"this model was read from data, which has no modules: there is no {name}",
        help="read its text with script() or show(), or compile the model again",
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes as long as all the rest; loading needs none

    try:
        return version("eutectic")
    except PackageNotFoundError:
        return "unknown"
