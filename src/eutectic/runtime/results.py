"""The results of a model: arrays put into the user's structure, sharing the memory that eager's results share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.runtime.formulas import Amount, amount
from eutectic.runtime.sizes import Sizes
from eutectic.runtime.trees import Leaf, Tree, built
from eutectic.runtime.views import View
from eutectic.support.plain_memory import as_array, as_tensor, copied, is_torch, torch_array

Array: TypeAlias = npt.NDArray[Any]


@dataclass
class Made:
    """One call while its results are made.

    Attributes:
        results: What the program computed.
        leaves: The leaves of the arguments.
        is_array: Whether the caller works with NumPy.
        sizes: Symbolic sizes of this call.
        outputs: The results so far.
    """

    results: Sequence[Array]
    leaves: Sequence[Any]
    is_array: bool
    sizes: Sizes
    outputs: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Fresh:
    """A result of the program; copied when it might be the memory of something else."""

    index: int
    copies: bool

    def __call__(self, call: Made) -> Any:
        """The result as the caller's kind of tensor."""
        array = call.results[self.index]
        array = copied(array) if self.copies else array
        if not call.is_array:
            return as_tensor(array)
        return as_array(array, "a result") if is_torch(array) else array


@dataclass(frozen=True)
class Fixed:
    """A number, text or None that the compilation fixed."""

    value: Any

    def __call__(self, call: Made) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Counted:
    """A number that depends on the sizes of the arguments."""

    value: Amount

    def __call__(self, call: Made) -> Any:
        """The number."""
        return amount(self.value, call.sizes)


@dataclass(frozen=True)
class Number:
    """A result of the program with one element, as a number of Python."""

    index: int

    def __call__(self, call: Made) -> Any:
        """The number."""
        return call.results[self.index].item()


@dataclass(frozen=True)
class Shared:
    """An argument or an earlier result, with views repeated on it; what cannot be viewed is copied.

    Attributes:
        place: Which.
        of_input: Whether it is an argument.
        views: What is repeated, first to last.
    """

    place: int
    of_input: bool
    views: tuple[View, ...]

    def __call__(self, call: Made) -> Any:
        """The view."""
        value = call.leaves[self.place] if self.of_input else call.outputs[self.place]
        if not self.views:
            return value
        if isinstance(value, np.ndarray) and call.is_array:
            for view in self.views:
                value = view.of_array(value)
            return value
        value = as_tensor(value) if isinstance(value, np.ndarray) else value
        for view in self.views:
            value = view.of_tensor(value)
        return torch_array(value) if call.is_array else value


Recipe: TypeAlias = Fresh | Fixed | Counted | Number | Shared


@dataclass(frozen=True)
class Results:
    """How the results of a model are made.

    Attributes:
        tree: Their structure.
        recipes: One per leaf of it.
        changed: Places of the argument leaves that get the first results of the program as new values.
    """

    tree: Tree
    recipes: tuple[Recipe, ...]
    changed: tuple[int, ...]

    def build(self, results: Sequence[Array], leaves: Sequence[Any], sizes: Sizes, is_array: bool) -> Any:
        """The results in the structure that eager returns; new values of changed arguments are written back."""
        if self.changed:
            overwritten = [as_array(leaves[place], "an argument") for place in self.changed]
            results = [_apart(result, overwritten) for result in results]
        call = Made(results, leaves, is_array, sizes)
        for result, place in zip(results, self.changed, strict=False):
            _write(leaves[place], result)
        for recipe in self.recipes:
            call.outputs.append(recipe(call))
        return built(self.tree, iter(call.outputs))

    @property
    def needs_sizes(self) -> bool:
        """Whether a result is computed from sizes of the arguments."""
        return any(isinstance(recipe, Counted) for recipe in self.recipes)

    @property
    def is_lone(self) -> bool:
        """Whether there is nothing but one new tensor."""
        return self.recipes == (Fresh(0, copies=False),) and not self.changed and self.tree == Leaf()


def _apart(result: Array, overwritten: Sequence[Array]) -> Array:
    """A result that is not the memory of an argument that is about to be written to."""
    if not isinstance(result, np.ndarray):
        return copied(result)
    return result.copy() if any(np.may_share_memory(result, memory) for memory in overwritten) else result


def _write(target: Any, value: Array) -> None:
    if isinstance(target, np.ndarray):
        np.copyto(target, value)
        return
    with sys.modules["torch"].no_grad():
        target.copy_(as_tensor(value))
