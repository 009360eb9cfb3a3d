"""Operators that run in Python, as instructions: data where the runtime knows them, else calls of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from eutectic.relax.expr import Call
from eutectic.relax.interpret import apply_op
from eutectic.runtime.host_operators import HOST_OPERATORS
from eutectic.runtime.instructions import CallHost, HostCall, Operand
from eutectic.runtime.tensor import Tensor, cpu
from eutectic.support.deep import deep
from eutectic.support.errors import CallError
from eutectic.support.registry import get_global_func


def operator_call(call: Call, operands: tuple[Operand, ...], slot: int) -> HostCall | CallHost:
    """The instruction for a call of an operator.

    Args:
        call: The call.
        operands: Its arguments.
        slot: Where its result goes.
    """
    attrs = _attrs_as_data(call)
    if attrs is not None:
        return HostCall(call.op.name, attrs, operands, slot, *place_of(call))
    return CallHost(call.op.name, partial(_apply, call), operands, slot, *place_of(call))


def _attrs_as_data(call: Call) -> dict[str, Any] | None:
    """Attributes of an operator that the runtime knows by name; None for other operators, and attributes."""
    if call.op.name not in HOST_OPERATORS:
        return None
    attrs = dict(call.attrs.items()) if call.attrs is not None else {}
    return attrs if all(map(_is_plain, attrs.values())) else None


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, nothing, or a tuple of numbers and texts."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(part is None or isinstance(part, (bool, int, float, str)) for part in parts)


def place_of(call: Call) -> tuple[str, str]:
    """The user's module and `file:line` that a call came from, as far as they are known."""
    span = call.span
    if span is None:
        return "", ""
    return span.module or "", f"{span.file}:{span.line}" if span.file else ""


def _apply(call: Call, *args: Any) -> Any:
    return apply_op(call, args)


def packed_function(name: str) -> Callable[..., Any]:
    """A registered function as programs call it: with tensors of the runtime, and results as arrays again."""

    def run(*args: Any) -> Any:
        return _as_arrays(_registered(name)(*map(_as_tensors, args)))

    return run


def packed_results(name: str, sizes: tuple[tuple[tuple[int, ...], Any], ...], *args: Any) -> Any:
    """The results of a registered function that writes them into memory that is given after its arguments."""
    outputs = tuple(np.empty(shape, dtype) for shape, dtype in sizes)
    _registered(name)(*map(_as_tensors, args), *map(_as_tensors, outputs))
    return outputs


def _registered(name: str) -> Callable[..., Any]:
    function = get_global_func(name, allow_missing=True)
    if function is None:
        raise CallError(f"no global function is called {name!r}", help="register it with register_global_func")
    return function


@deep
def _as_tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_tensors, value))
    return Tensor(value, cpu()) if isinstance(value, np.ndarray) else value


@deep
def _as_arrays(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_as_arrays, value))
    return np.ascontiguousarray(value.view()) if isinstance(value, Tensor) else value
