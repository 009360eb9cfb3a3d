"""Operators of torch as data, and how they are run: for what a compiled model leaves to torch.

A call is the operator's name and its arguments as JSON. Where the arguments have a tensor, a size or a value that JSON
has no form for, they have an object with one key:

| key | stands for |
|---|---|
| `tensor` | the operand with that number; beside it `order`, when its axes lie in memory in another order |
| `size` | the size with that number |
| `torch` | a dtype, layout or memory format by its name in torch |
| `device` | a device |
| `complex` | a complex number: real and imaginary part |
| `nan` | a NaN with the sign of that number |
| `graph` | a function, as control flow takes it: `inputs`, `calls` and `results` |
| `value` | in a graph: the input with that number, or behind the inputs the result of a call |

The calls of a graph are lists of an operator's name, its positional and its keyword arguments. They are run one after
the other; what they read of the surrounding program are operands and sizes of the outermost call.
"""

from __future__ import annotations

import builtins
import importlib
import json
import math
import operator as python_operators
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final

import numpy as np

from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.plain_memory import as_array, as_tensor, is_torch

ARRAY: Final = "array"  # a result that the program reads as an array
VALUE: Final = "value"  # a result that only calls like this one read: it is kept as torch makes it
SIZE: Final = "size"  # a number that becomes an array with one element, for the program to take a size from

_PYTHON: Final = {"operator": python_operators, "math": math, "builtins": builtins}
_BUILTINS: Final = ("round", "min", "max", "abs", "float", "int", "bool", "pow")
_CONTROL_FLOW: Final = ("cond", "while_loop", "map_impl", "scan")
_SYMBOLIC: Final = ("sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sqrt", "_sym_sqrt")


def eager_call(name: str, arguments: str, results: Sequence[str], operands: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Run an operator as torch does outside of compiled models.

    Args:
        name: An overload such as `aten.sort.default`, or a function of Python's `operator` or `math`.
        arguments: `[positional, keyword]` as JSON; see the module.
        results: What becomes of each result: `ARRAY`, `VALUE` or `SIZE`. One that stands alone is not in a tuple.
        operands: Arrays, and values of earlier calls.
        sizes: The sizes among the arguments.

    Returns:
        The result, or a tuple of results.

    Raises:
        LoadError: torch is not installed, or has no such operator.
    """
    torch = _torch()
    positional, keyword = _parsed(arguments)
    tensors = [as_tensor(operand) if isinstance(operand, np.ndarray) else operand for operand in operands]
    fill = _Filling(torch, tensors, sizes)
    with torch.no_grad():
        value = function_of(name)(*map(fill, positional), **{key: fill(item) for key, item in keyword.items()})
    if len(results) == 1 and not isinstance(value, (tuple, list)):
        return _kept(value, results[0])
    return tuple(_kept(part, kind) for part, kind in zip(value, results, strict=True))


@lru_cache(maxsize=1024)
def _parsed(arguments: str) -> Any:
    return json.loads(arguments)


@cache
def function_of(name: str) -> Callable[..., Any]:
    """The function of an operator by its name.

    Raises:
        LoadError: there is none.
    """
    namespace, *path = name.split(".")
    owner: Any = _PYTHON.get(namespace)
    if namespace == "builtins" and path[-1] not in _BUILTINS:
        owner = None
    elif owner is None:
        owner = _owner(namespace, path[-1])
    try:
        for part in path:
            owner = getattr(owner, part)
    except AttributeError:
        owner = None
    if not callable(owner):
        raise LoadError(
            f"torch has no operator {name}", help="import the package that defines it before the model is called"
        )
    function: Callable[..., Any] = owner
    return function


def _owner(namespace: str, name: str) -> Any:
    """What has the functions of a namespace of torch; None when there is nothing, or the name is not one of ours."""
    torch = _torch()
    if namespace == "torch":
        return torch if name in _SYMBOLIC else None
    if namespace == "higher_order":
        if name not in _CONTROL_FLOW:
            return None
        importlib.import_module("torch._higher_order_ops")  # which defines them
    return getattr(torch.ops, namespace, None)


class _Filling:
    """Puts operands and sizes where arguments name them, and in a graph its values."""

    def __init__(
        self, torch: Any, tensors: Sequence[Any], sizes: Sequence[int], values: Sequence[Any] | None = None
    ) -> None:
        self._torch, self._tensors, self._sizes, self._values = torch, tensors, sizes, values

    @deep
    def __call__(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self(item) for item in argument]
        return self._named(argument) if isinstance(argument, Mapping) else argument

    def _named(self, argument: Mapping[str, Any]) -> Any:
        (key, value), *_ = argument.items()
        match key:
            case "tensor":
                tensor, order = self._tensors[value], argument.get("order")
                return tensor if order is None else in_order(tensor, order)
            case "size":
                return int(self._sizes[value])
            case "torch":
                return getattr(self._torch, value)
            case "device":
                return self._torch.device(value)
            case "complex":
                return complex(*map(self, value))
            case "nan":
                return math.copysign(math.nan, value)
            case "graph":
                return partial(self._run, value)
            case "value" if self._values is not None:
                return self._values[value]
            case _:
                raise LoadError(f"an argument of an operator of torch is damaged: {key}")

    def _run(self, graph: Mapping[str, Any], *inputs: Any) -> Any:
        """The results of a graph: a tuple, or the one that stands alone."""
        values = list(inputs)
        if len(values) != graph["inputs"]:
            raise LoadError(f"a graph of {graph['inputs']} inputs is called with {len(values)}")
        fill = _Filling(self._torch, self._tensors, self._sizes, values)
        for name, positional, keyword in graph["calls"]:
            filled = {key: fill(item) for key, item in keyword.items()}
            values.append(function_of(name)(*map(fill, positional), **filled))
        results = fill(graph["results"])
        return tuple(results) if isinstance(results, list) else results


def order_of(strides: Sequence[int]) -> list[int]:
    """The order that `in_order` takes, of a tensor with such strides: equal ones as the axes are."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def in_order(tensor: Any, order: Sequence[int]) -> Any:
    """A tensor with its elements in memory of other strides.

    Args:
        tensor: A tensor of torch.
        order: Its axes, from the one with the largest stride on.
    """
    inverse = [order.index(axis) for axis in range(len(order))]
    return tensor.permute(*order).contiguous().permute(*inverse)


def _kept(value: Any, kind: str) -> Any:
    if kind == ARRAY:
        return np.array(as_array(value, "a result"), order="C", copy=True)
    if kind == SIZE:
        return np.array([value.item() if is_torch(value) else value], np.int64)
    return value


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise LoadError(
            "the model leaves operators to torch, which is not installed", help="pip install 'eutectic[torch]'"
        ) from None
