"""VirtualMachine: calls the functions of an executable by name, as `tvm.relax.VirtualMachine` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from eutectic.runtime.benchmark import BenchmarkResult, measure
from eutectic.runtime.tensor import Device, Tensor, cpu
from eutectic.support.deep import deep
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array
from eutectic.support.spelling import did_you_mean


class VMExecutable(Protocol):
    """What a virtual machine runs: named functions on arrays."""

    def function_names(self) -> Sequence[str]:
        """Names of the functions."""

    def parameters(self, name: str) -> Sequence[str]:
        """Names of the parameters of a function."""

    def invoke(self, name: str, args: Sequence[Any]) -> Any:
        """Results of a function, tuples nested."""

    def profile(self, name: str, args: Sequence[Any]) -> Any:
        """A table of what the parts of a call cost."""


class VirtualMachine:
    """Runs an executable.

    Args:
        executable: What `relax.build` gave.
        device: The CPU, or a sequence with it.
        memory_cfg: Accepted for the sake of scripts; memory is planned at compile time.
        profile: Accepted for the sake of scripts; `profile` always works.

    Raises:
        CallError: the device is not the CPU.
    """

    def __init__(
        self,
        executable: VMExecutable,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: Any = None,
        profile: bool = False,
    ) -> None:
        devices = [device or cpu()] if device is None or isinstance(device, Device) else list(device)
        for item in devices:
            if not getattr(item, "exist", False):
                raise CallError(f"nothing can run on {item} yet", help="use the device of the CPU, cpu()")
        self.executable, self.device = executable, devices[0]
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}
        self._saved: dict[str, Callable[[], Any]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function: takes tensors, arrays, tuples of them, shapes and numbers; gives tensors.

        Arguments may be given by the names of parameters. What `save_function` kept takes none.

        Raises:
            CallError: there is no function of that name.
        """
        if name in self._saved:
            return self._saved[name]
        self._check(name)
        return partial(self._call, name)

    def _check(self, name: str) -> None:
        names = list(self.executable.function_names())
        if name not in names:
            known = [*names, *self._saved]
            raise CallError(
                f"there is no function {name!r}", help=did_you_mean(name, known) or f"have {', '.join(known)}"
            )

    def _call(self, name: str, *args: Any, **named: Any) -> Any:
        arguments = self._in_order(name, args, named) if named else args
        return self._wrap(self.executable.invoke(name, [_plain(arg) for arg in arguments]))

    def _in_order(self, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments in the order of the parameters.

        Raises:
            CallError: too many or too few, or a name that is not one of them.
        """
        known = list(self.executable.parameters(name))
        takes = f"{name} takes {', '.join(known) or 'no arguments'}"
        for key in named:
            if key not in known:
                raise CallError(f"unexpected argument {key!r}; {takes}", help=did_you_mean(key, known))
            if key in known[: len(args)]:
                raise CallError(f"argument {key!r} is given twice, by position and by name")
        missing = [key for key in known[len(args) :] if key not in named]
        if missing:
            raise CallError(f"argument {missing[0]!r} is missing; {takes}")
        if len(args) > len(known):
            raise CallError(f"{takes}, got {len(args)} arguments")
        return (*args, *(named[key] for key in known[len(args) :]))

    def set_input(self, name: str, *args: Any, **named: Any) -> None:
        """Keep arguments for `invoke_stateful`; they are checked when it is called, their number now.

        Raises:
            CallError: there is no such function, or it takes other arguments.
        """
        self._check(name)
        self._inputs[name] = self._in_order(name, args, named)

    def invoke_stateful(self, name: str) -> None:
        """Call with the arguments that are kept, and keep the results.

        Raises:
            CallError: no arguments were set, or one does not fit.
        """
        self._check(name)
        if name not in self._inputs and self.executable.parameters(name):
            raise CallError(f"{name} has no arguments yet", help="call set_input first")
        self._outputs[name] = self._call(name, *self._inputs.get(name, ()))

    def get_outputs(self, name: str) -> Any:
        """Results of the last `invoke_stateful`.

        Raises:
            CallError: it was not called.
        """
        self._check(name)
        if name not in self._outputs:
            raise CallError(f"{name} has no results yet", help="call invoke_stateful first")
        return self._outputs[name]

    def save_function(self, name: str, saved_name: str, *args: Any, include_return: bool = True, **named: Any) -> None:
        """Keep a call with its arguments as a function `saved_name` that takes none.

        Args:
            name: The function.
            saved_name: What to call it; a saved function of that name is replaced.
            args: Its arguments.
            include_return: Whether the saved function gives the result, or None.
            named: Arguments by name.

        Raises:
            CallError: there is no such function, it takes other arguments, or it has the name itself.
        """
        self._check(name)
        if saved_name in self.executable.function_names():
            raise CallError(f"{saved_name!r} is a function of the module", help="save the call under another name")
        arguments = [_plain(arg) for arg in self._in_order(name, args, named)]

        def call() -> Any:
            result = self.executable.invoke(name, arguments)
            return self._wrap(result) if include_return else None

        self._saved[saved_name] = call

    def time_evaluator(
        self,
        name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that takes the arguments of `name` and times calls with them.

        Args:
            name: The function, a saved one, or `invoke_stateful`, which is timed for a function with set inputs.
            dev: Accepted for the sake of scripts.
            number: Calls in a repetition.
            repeat: Repetitions.
            min_repeat_ms: The least time of a repetition; `number` grows until it takes that long.
            cooldown_interval_ms: Rest after so many repetitions.
            repeats_to_cooldown: After how many.
            f_preproc: Only the empty string.

        Raises:
            CallError: there is no such function, or an option that is not known.
        """
        if f_preproc:
            raise CallError(f"f_preproc={f_preproc!r} is not known", help="leave it out")
        timed: Callable[..., Any] = self.invoke_stateful if name == "invoke_stateful" else self[name]

        def evaluate(*args: Any, **named: Any) -> BenchmarkResult:
            return measure(
                partial(timed, *args, **named),
                number=number,
                repeat=repeat,
                min_repeat_ms=min_repeat_ms,
                cooldown_interval_ms=cooldown_interval_ms,
                repeats_to_cooldown=repeats_to_cooldown,
            )

        return evaluate

    def profile(self, name: str, *args: Any, **named: Any) -> Any:
        """One call, kernel by kernel: a table with seconds, bytes, FLOPs and rates that prints itself.

        Raises:
            CallError: there is no such function, or an argument does not fit.
        """
        self._check(name)
        return self.executable.profile(name, [_plain(arg) for arg in self._in_order(name, args, named)])

    @deep
    def _wrap(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(self._wrap(part) for part in result)
        return Tensor(result, self.device) if isinstance(result, np.ndarray) else result


@deep
def _plain(value: Any) -> Any:
    """An argument as an array, a number, or a tuple of those."""
    if isinstance(value, Tensor):
        return value.view()
    if isinstance(value, (np.generic, bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_plain(part) for part in value)
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return as_array(value, "an argument")
    return np.asarray(value)
