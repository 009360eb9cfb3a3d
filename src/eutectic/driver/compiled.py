"""CompiledModel: what `eutectic.compile` gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eutectic.driver.report import CompileReport
from eutectic.ir.module import IRModule
from eutectic.relax.base import StructInfo
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.runtime.executable import Direct, Executable, KernelTime
from eutectic.support.deep import deep
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array
from eutectic.support.spelling import did_you_mean


class Signature(Protocol):
    """How a user's arguments become arrays, and arrays the user's results."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
        """Arguments as arrays, in the order of the executable's parameters."""

    def unflatten(self, results: list[np.ndarray[Any, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Results in the user's structure and kind of tensor."""

    def quick(self, direct: Direct) -> Callable[..., Any] | None:
        """A short way around both for simple signatures; it raises anything for arguments it does not take."""


class CompiledModel:
    """A compiled model; call it like the original.

    Safe to call from several threads at once. Results belong to the caller.

    Attributes:
        report: What was fused, what was not, and why.
        module: The graph with its regions, before code was generated, for `show()`.
        lowered: The graph of kernels that was linked.
        executable: What runs.
    """

    def __init__(
        self,
        executable: Executable,
        signature: Signature,
        report: CompileReport,
        module: IRModule,
        lowered: IRModule,
    ) -> None:
        self.executable, self.report, self.module, self.lowered = executable, report, module, lowered
        self._signature = signature
        direct = executable.direct
        self._quick = None if direct is None else signature.quick(direct)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Results for some inputs: torch tensors for torch tensors, arrays for arrays.

        Raises:
            CallError: an argument does not fit; names it, what was expected and what was given.
        """
        if self._quick is not None and not kwargs:
            try:
                return self._quick(*args)
            except Exception:  # the long way takes more kinds of arguments, and says what is wrong
                pass
        results = self.executable.run(self._signature.flatten(args, kwargs))
        return self._signature.unflatten(results, args, kwargs)

    def profile(self, *args: Any, **kwargs: Any) -> list[KernelTime]:
        """Seconds per instruction of one call."""
        return self.executable.profile(self._signature.flatten(args, kwargs))[1]

    def script(self) -> str:
        """The module as text."""
        return self.module.script()

    def show(self) -> None:
        """Print the module, with syntax colours on a terminal."""
        self.module.show()

    def __repr__(self) -> str:
        inputs = ", ".join(param.name for param in self.executable.params)
        regions = len(self.report.regions)
        return f"CompiledModel({inputs}; {regions} native region{'' if regions == 1 else 's'})"


class ArraySignature:
    """Arrays (or DLPack tensors) in, arrays out, in the structure of the function's result."""

    def __init__(self, names: Sequence[str], result: StructInfo) -> None:
        self._names, self._result = tuple(names), result

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
        """Positional arguments, then keyword arguments by parameter name.

        Raises:
            CallError: a keyword is unknown or given by position too, or an argument is missing.
        """
        takes = f"the function takes {', '.join(self._names)}"
        for name in kwargs:
            if name not in self._names:
                raise CallError(f"unexpected argument {name!r}; {takes}", help=did_you_mean(name, self._names))
            if name in self._names[: len(args)]:
                raise CallError(f"argument {name!r} is given twice, by position and by name")
        for name in self._names[len(args) :]:
            if name not in kwargs:
                raise CallError(f"argument {name!r} is missing; {takes}")
        values = [*args, *(kwargs[name] for name in self._names[len(args) :])]
        names = [*self._names, *map(str, range(len(self._names), len(values)))]
        return [_as_array(value, name) for value, name in zip(values, names, strict=True)]

    def unflatten(self, results: list[np.ndarray[Any, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result's tuples around the arrays."""
        return _nest(self._result, iter(results))

    def quick(self, direct: Direct) -> Callable[..., Any] | None:
        """For functions with one result."""
        if isinstance(self._result, TupleStructInfo) or len(direct.outputs) != 1:
            return None
        function, count, (shape, dtype) = direct.function, len(self._names), direct.outputs[0]

        def call(*args: Any) -> Any:
            if len(args) != count or not all(type(arg) is np.ndarray for arg in args):
                raise TypeError  # the long way makes it fit, or says why not
            out = np.empty(shape, dtype)
            function(*args, out)
            return out

        return call


def _as_array(value: Any, name: str) -> Any:
    is_tensor = isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")
    return as_array(value, f"argument {name}") if is_tensor else value


@deep
def _nest(info: StructInfo, results: Any) -> Any:
    if isinstance(info, TupleStructInfo):
        return tuple(_nest(part, results) for part in info.fields)
    return next(results)
