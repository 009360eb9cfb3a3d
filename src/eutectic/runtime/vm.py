"""VirtualMachine: calls the functions of an executable by name, as `tvm.relax.VirtualMachine` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eutectic.runtime.tensor import Device, Tensor, cpu
from eutectic.support.errors import CallError
from eutectic.support.spelling import did_you_mean


class VMExecutable(Protocol):
    """What a virtual machine runs: named functions on arrays."""

    def function_names(self) -> Sequence[str]:
        """Names of the functions."""

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

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function: takes tensors, arrays, tuples of them and integers; gives tensors.

        Raises:
            CallError: there is no function of that name.
        """
        names = list(self.executable.function_names())
        if name not in names:
            raise CallError(
                f"there is no function {name!r}", help=did_you_mean(name, names) or f"have {', '.join(names)}"
            )
        return lambda *args: self._wrap(self.executable.invoke(name, [_plain(arg) for arg in args]))

    def set_input(self, name: str, *args: Any) -> None:
        """Keep arguments for `invoke_stateful`."""
        self[name]
        self._inputs[name] = args

    def invoke_stateful(self, name: str) -> None:
        """Call with the arguments that are kept, and keep the results.

        Raises:
            CallError: no arguments were set.
        """
        if name not in self._inputs:
            raise CallError(f"{name} has no arguments yet", help="call set_input first")
        self._outputs[name] = self[name](*self._inputs[name])

    def get_outputs(self, name: str) -> Any:
        """Results of the last `invoke_stateful`.

        Raises:
            CallError: it was not called.
        """
        if name not in self._outputs:
            raise CallError(f"{name} has no results yet", help="call invoke_stateful first")
        return self._outputs[name]

    def save_function(self, name: str, saved_name: str, *args: Any, include_return: bool = True) -> None:
        """Keep a call with its arguments as an attribute `saved_name` of this object, which takes none."""
        function = self[name]

        def call() -> Any:
            result = function(*args)
            return result if include_return else None

        setattr(self, saved_name, call)

    def profile(self, name: str, *args: Any) -> Any:
        """One call, kernel by kernel: a table with seconds, bytes, FLOPs and rates that prints itself."""
        self[name]
        return self.executable.profile(name, [_plain(arg) for arg in args])

    def _wrap(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(self._wrap(part) for part in result)
        return Tensor(result, self.device) if isinstance(result, np.ndarray) else result


def _plain(value: Any) -> Any:
    """An argument as an array, an integer, or a tuple of those."""
    if isinstance(value, Tensor):
        return value.view()
    if isinstance(value, (np.ndarray, int)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_plain(part) for part in value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)
