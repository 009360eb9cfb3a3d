"""A short way around structures and checks, shortest for models whose arguments are plain tensors of fixed shapes.

What does not fit raises an error, whichever: the long way makes it fit, or says why not. What the native function
looks at itself is left to it, though its refusals are slow: shapes, dtypes, and whether there is memory. Tensors that
are often not as it wants them are refused before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from eutectic.runtime.arguments import Arguments, SizeArgument, TensorArgument
from eutectic.runtime.results import Results
from eutectic.runtime.sized_call import SizedCall, are_new, fits, is_more, torch_dtype
from eutectic.runtime.trees import Leaf, builder
from eutectic.support.plain_memory import as_tensor, is_torch

if TYPE_CHECKING:
    from eutectic.runtime.executable import Direct

Call: TypeAlias = Callable[..., Any]
Outputs: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
_NOT_LOADED: Final[tuple[Any, Any, Any, Any]] = (None, (), None, None)


def short_call(arguments: Arguments, results: Results, direct: Direct) -> Call | None:
    """What calls a native function with tensors of torch, or with arrays, that are given by position.

    Args:
        arguments: What the model takes.
        results: What it returns.
        direct: The function, called with the inputs and then the results.

    Returns:
        None when an argument or a result is something else, or shares memory with another.
    """
    leaves, outputs = arguments.tensors, direct.fixed_outputs
    are_given = arguments.positional == len(arguments.names)
    are_read = set(direct.inputs) == set(range(len(leaves)))  # or the function would not look at their dtypes
    if not (leaves and are_given and are_read and are_new(results, len(direct.outputs))):
        return None
    if any(leaf.is_complex for leaf in leaves):
        return None
    if results.needs_sizes and any(isinstance(leaf, SizeArgument) for leaf in leaves):
        return None  # shapes do not tell all sizes
    are_fixed = arguments.trees == (Leaf(),) * len(leaves) and all(leaf.static_shape is not None for leaf in leaves)
    if outputs is None or not are_fixed or len(results.recipes) != len(outputs):
        return SizedCall(arguments, results, direct)
    if len(leaves) == 1 and direct.inputs == (0,) and results.tree == Leaf():
        return _of_one(leaves[0], direct.function, *outputs[0])
    return _of_several(leaves, results, direct, outputs)


def _of_one(leaf: TensorArgument, function: Call, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Call:
    tensor, like, empty, wanted = _NOT_LOADED

    def call(x: Any) -> Any:
        nonlocal tensor, like, empty, wanted
        if type(x) is np.ndarray:
            if x.shape != leaf.shape or not fits(leaf, x):
                raise TypeError
            array = np.empty(shape, dtype)
            function(x, array)
            return array
        if tensor is None and is_torch(x):  # empty_like is the quickest of torch's ways to new memory
            torch = sys.modules["torch"]
            wanted = torch_dtype(leaf)
            tensor, like, empty = torch.Tensor, as_tensor(np.empty(shape, dtype)), torch.empty_like
        if type(x) is not tensor or x.dtype is not wanted or is_more(x):
            raise TypeError
        out = empty(like)
        function(x, out)
        return out

    return call


def _of_several(leaves: Sequence[TensorArgument], results: Results, direct: Direct, outputs: Outputs) -> Call:
    function, count = _in_order(direct), len(leaves)
    finish = builder(results.tree)
    tensor, likes, empty, wanted = _NOT_LOADED

    def of_arrays(args: tuple[Any, ...]) -> Any:
        if not all(fits(leaf, x) and x.shape == leaf.shape for leaf, x in zip(leaves, args, strict=True)):
            raise TypeError
        arrays = [np.empty(shape, dtype) for shape, dtype in outputs]
        function(args, arrays)
        return finish(iter(arrays))

    def call(*args: Any) -> Any:
        nonlocal tensor, likes, empty, wanted
        if len(args) != count:
            raise TypeError
        if type(args[0]) is np.ndarray:
            return of_arrays(args)
        if tensor is None and is_torch(args[0]):
            torch = sys.modules["torch"]
            likes = [as_tensor(np.empty(shape, dtype)) for shape, dtype in outputs]
            wanted = list(map(torch_dtype, leaves))
            tensor, empty = torch.Tensor, torch.empty_like
        for x, dtype in zip(args, wanted, strict=True):
            if type(x) is not tensor or x.dtype is not dtype or is_more(x):
                raise TypeError
        out = [empty(like) for like in likes]
        function(args, out)
        return finish(iter(out))

    return call


def _in_order(direct: Direct) -> Call:
    """The function, called with all arguments as a sequence and the results as another."""
    function, inputs = direct.function, direct.inputs
    if inputs == tuple(range(len(inputs))):
        count = len(inputs)
        return lambda args, results: function(*args[:count], *results)
    return lambda args, results: function(*[args[i] for i in inputs], *results)
