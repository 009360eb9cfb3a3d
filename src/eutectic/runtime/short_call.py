"""A short way around structures and checks, for models whose arguments and results are plain tensors of fixed shapes.

What does not fit raises an error, whichever: the long way makes it fit, or says why not. What the native function
looks at itself is left to it, though its refusals are slow: shapes, dtypes, and whether there is memory. Tensors that
are often not as it wants them are refused before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from eutectic.runtime.arguments import Arguments, TensorArgument
from eutectic.runtime.results import Fresh, Results
from eutectic.runtime.trees import Leaf, Node, built
from eutectic.support.plain_memory import as_tensor, is_torch

if TYPE_CHECKING:
    from eutectic.runtime.executable import Direct

Call: TypeAlias = Callable[..., Any]
_NOT_LOADED: Final[tuple[Any, Any, Any]] = (None, (), None)


def short_call(arguments: Arguments, results: Results, direct: Direct) -> Call | None:
    """What calls a native function with tensors of torch, or with arrays, that are given by position.

    Args:
        arguments: What the model takes.
        results: What it returns.
        direct: The function, called with the inputs and then the results.

    Returns:
        None when an argument or a result is something else, or shares memory with another.
    """
    leaves = [leaf for leaf in arguments.leaves if isinstance(leaf, TensorArgument) and leaf.static_shape is not None]
    are_plain = arguments.positional == len(leaves) and arguments.trees == (Leaf(),) * len(leaves)
    order = [recipe.index for recipe in results.recipes if isinstance(recipe, Fresh) and not recipe.copies]
    are_fresh = order == list(range(len(direct.outputs))) and len(order) == len(results.recipes)
    are_read = set(direct.inputs) == set(range(len(leaves)))  # or the function would not look at their dtypes
    if not leaves or not (are_plain and are_fresh and are_read) or results.changed:
        return None
    if len(leaves) == 1 and direct.inputs == (0,) and results.is_lone:
        return _of_one(leaves[0], direct)
    return _of_several(leaves, results, direct)


def _of_one(leaf: TensorArgument, direct: Direct) -> Call:
    function, (shape, dtype) = direct.function, direct.outputs[0]
    tensor, like, empty = _NOT_LOADED

    def call(x: Any) -> Any:
        nonlocal tensor, like, empty
        if type(x) is np.ndarray:
            if not _fits(leaf, x):
                raise TypeError
            array = np.empty(shape, dtype)
            function(x, array)
            return array
        if tensor is None and is_torch(x):  # empty_like is the quickest of torch's ways to new memory
            torch = sys.modules["torch"]
            tensor, like, empty = torch.Tensor, as_tensor(np.empty(shape, dtype)), torch.empty_like
        if type(x) is not tensor or not x.is_contiguous() or x.requires_grad or x.is_neg():
            raise TypeError
        out = empty(like)
        function(x, out)
        return out

    return call


def _of_several(leaves: Sequence[TensorArgument], results: Results, direct: Direct) -> Call:
    function, count = _in_order(direct), len(leaves)
    finish = _structure(results)
    tensor, likes, empty = _NOT_LOADED

    def of_arrays(args: tuple[Any, ...]) -> Any:
        if not all(type(x) is np.ndarray and _fits(leaf, x) for leaf, x in zip(leaves, args, strict=True)):
            raise TypeError
        arrays = [np.empty(shape, dtype) for shape, dtype in direct.outputs]
        function(args, arrays)
        return finish(arrays)

    def call(*args: Any) -> Any:
        nonlocal tensor, likes, empty
        if len(args) != count:
            raise TypeError
        if type(args[0]) is np.ndarray:
            return of_arrays(args)
        if tensor is None and is_torch(args[0]):
            torch = sys.modules["torch"]
            likes = [as_tensor(np.empty(shape, dtype)) for shape, dtype in direct.outputs]
            tensor, empty = torch.Tensor, torch.empty_like
        for x in args:
            if type(x) is not tensor or not x.is_contiguous() or x.requires_grad or x.is_neg():
                raise TypeError
        out = [empty(like) for like in likes]
        function(args, out)
        return finish(out)

    return call


def _in_order(direct: Direct) -> Call:
    """The function, called with all arguments as a sequence and the results as another."""
    function, inputs = direct.function, direct.inputs
    if inputs == tuple(range(len(inputs))):
        count = len(inputs)
        return lambda args, results: function(*args[:count], *results)
    return lambda args, results: function(*[args[i] for i in inputs], *results)


def _structure(results: Results) -> Callable[[list[Any]], Any]:
    """What puts new tensors into the structure of the results."""
    tree = results.tree
    if tree == Leaf():
        return lambda values: values[0]
    if isinstance(tree, Node) and tree.kind == "tuple" and all(child == Leaf() for child in tree.children):
        return tuple
    return lambda values: built(tree, iter(values))


def _fits(leaf: TensorArgument, array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is what is wanted, in memory that may be handed over."""
    flags = array.flags
    return array.shape == leaf.shape and array.dtype == leaf.dtype and flags.c_contiguous and flags.writeable
