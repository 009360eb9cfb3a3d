"""A short way around structures and checks for models whose sizes vary, and for tensors in containers.

What follows from the shapes of a call - that they fit, the shapes of results, the integers of native code - is derived
once for them, by the checks of the long way, and kept. The tensors are looked at in each call. What does not fit
raises an error, whichever: the long way makes it fit, or says why not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from eutectic.runtime.arguments import Arguments, FixedArgument, TensorArgument
from eutectic.runtime.formulas import amount
from eutectic.runtime.recently_used import RecentlyUsed
from eutectic.runtime.results import Counted, Fixed, Fresh, Results
from eutectic.runtime.sizes import Sizes, evaluate
from eutectic.runtime.trees import Node, builder, taker
from eutectic.support.plain_memory import as_tensor

if TYPE_CHECKING:
    from eutectic.runtime.executable import Direct

Finish: TypeAlias = Callable[[Iterator[Any]], Any]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
KEPT_SHAPES: Final = 16  # sets of shapes of which is kept what follows from them


def are_new(results: Results, count: int) -> bool:
    """Whether all results of a model are its program's results, each once, and numbers that are known before a call.

    Args:
        results: What the model returns.
        count: How many results the program has; native code writes each into memory of its own, so that none has to be
            copied.
    """
    order = [recipe.index for recipe in results.recipes if isinstance(recipe, Fresh)]
    are_known = all(isinstance(recipe, (Fresh, Fixed, Counted)) for recipe in results.recipes)
    return order == list(range(count)) and are_known and not results.changed


def fits(wanted: TensorArgument, array: Any) -> bool:
    """Whether a value is an array of the dtype that is wanted, in memory that may be handed over."""
    return type(array) is np.ndarray and array.dtype == wanted.dtype and array.flags.carray


def torch_dtype(wanted: TensorArgument) -> Any:
    """The dtype of a tensor of torch; native code would take integers for bfloat16."""
    return as_tensor(np.empty(0, wanted.dtype)).dtype


def is_more(x: Any) -> bool:
    """Whether a tensor of torch is not just its elements, one after another, in memory that has all of them."""
    if not x.is_contiguous() or x.requires_grad or x.is_neg():
        return True
    offset = x.storage_offset()
    return bool(x.nbytes + (offset and offset * x.itemsize) > x.untyped_storage().nbytes())


class _Derived(NamedTuple):
    """What follows from the shapes of the arguments.

    Attributes:
        shapes: Of the results.
        strides: Of the results, in elements.
        integers: What native code is given.
        numbers: Results that are no tensors, with their places among all.
    """

    shapes: Shapes
    strides: Shapes
    integers: tuple[int, ...]
    numbers: tuple[tuple[int, Any], ...]


class SizedCall:
    """Calls a native function with tensors of torch, or with arrays; may be called from several threads at once.

    Args:
        arguments: What the model takes.
        results: What it returns; all of it is new.
        direct: The function; it reads all tensors.
    """

    def __init__(self, arguments: Arguments, results: Results, direct: Direct) -> None:
        self._arguments, self._direct = arguments, direct
        self._wanted = arguments.tensors
        self._take = taker(Node("tuple", "", None, arguments.trees))
        self._finish: Finish = builder(results.tree)
        self._places = [i for i, leaf in enumerate(arguments.leaves) if isinstance(leaf, TensorArgument)]
        self._fixed = [(i, leaf) for i, leaf in enumerate(arguments.leaves) if isinstance(leaf, FixedArgument)]
        self._others = [(i, recipe) for i, recipe in enumerate(results.recipes) if isinstance(recipe, (Counted, Fixed))]
        self._order = None if direct.inputs == tuple(range(len(self._wanted))) else direct.inputs
        self._dtypes = tuple(dtype for _, dtype in direct.outputs)
        self._derived: RecentlyUsed[Shapes, _Derived] = RecentlyUsed(KEPT_SHAPES)

    def __call__(self, *args: Any) -> Any:
        """The results in the structure that eager returns; raises anything for arguments that it does not take."""
        tensors = self._tensors(args)
        is_array = type(tensors[0]) is np.ndarray
        if is_array:
            self._check_arrays(tensors)
        else:
            self._check_tensors(tensors)
        shapes = tuple([tensor.shape for tensor in tensors])
        derived = self._derived.get(shapes, lambda: self._derive(shapes))
        made = self._new_arrays(derived) if is_array else self._new_tensors(derived)
        self._run(tensors, made, derived.integers)
        for place, number in derived.numbers:
            made.insert(place, number)
        return self._finish(iter(made))

    def _tensors(self, args: tuple[Any, ...]) -> list[Any]:
        """The tensor arguments, after the others were checked."""
        leaves: list[Any] = []
        self._take(args, leaves)
        if not self._fixed:
            return leaves
        for place, argument in self._fixed:
            argument.check(leaves[place])
        return [leaves[place] for place in self._places]

    def _check_arrays(self, arrays: Sequence[Any]) -> None:
        if not all(map(fits, self._wanted, arrays)):
            raise TypeError

    def _check_tensors(self, tensors: Sequence[Any]) -> None:
        """Refuse what is no tensor of torch, has another dtype, or is more than its memory."""
        kind = sys.modules["torch"].Tensor
        for x, dtype in zip(tensors, self._torch_dtypes, strict=True):
            if type(x) is not kind or x.dtype is not dtype or is_more(x):
                raise TypeError

    @cached_property
    def _torch_dtypes(self) -> tuple[Any, ...]:
        return tuple(map(torch_dtype, self._wanted))

    @cached_property
    def _makers(self) -> tuple[Callable[..., Any], ...]:
        """What makes tensors for the results; with strides it is the quickest of torch's ways to new memory."""
        return tuple(as_tensor(np.empty(0, dtype)).new_empty_strided for dtype in self._dtypes)

    def _derive(self, shapes: Shapes) -> _Derived:
        """What follows from shapes, which are checked as on the long way."""
        shapes = tuple([tuple(map(int, shape)) for shape in shapes])  # torch traces sizes as tensors
        own, sizes = self._arguments.sizes(shapes), self._direct.sizes_of(shapes)
        made = tuple([tuple([evaluate(size, sizes) for size in shape]) for shape, _ in self._direct.outputs])
        integers = tuple(evaluate(size, sizes) for size in self._direct.integers)
        return _Derived(made, tuple(map(_strides, made)), integers, self._numbers(own))

    def _numbers(self, sizes: Sizes) -> tuple[tuple[int, Any], ...]:
        """The results that are no tensors, with their places."""
        return tuple(
            [
                (place, amount(recipe.value, sizes) if isinstance(recipe, Counted) else recipe.value)
                for place, recipe in self._others
            ]
        )

    def _new_arrays(self, derived: _Derived) -> list[Any]:
        return [np.empty(shape, dtype) for shape, dtype in zip(derived.shapes, self._dtypes, strict=True)]

    def _new_tensors(self, derived: _Derived) -> list[Any]:
        return [make(*sizes) for make, *sizes in zip(self._makers, derived.shapes, derived.strides, strict=True)]

    def _run(self, tensors: list[Any], made: list[Any], integers: tuple[int, ...]) -> None:
        direct = self._direct
        if self._order is not None:
            tensors = [tensors[place] for place in self._order]
        if direct.prepare is None:
            direct.function(*tensors, *made, *integers)
        else:
            words = list(integers)
            prepared = direct.prepare(words)
            direct.function(*tensors, *made, *words)
            del prepared  # the words are addresses of what it has


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements between neighbours on each axis of a contiguous tensor, as torch counts them."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))
