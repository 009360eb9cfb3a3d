"""Signatures: how a user's arguments become arrays, and arrays the user's results; all of it data.

torch is looked at only when a tensor of it comes in, so that a program that was read works without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.runtime.arguments import Arguments, FixedArgument, TensorArgument
from eutectic.runtime.executable import Direct
from eutectic.runtime.results import Results
from eutectic.runtime.short_call import short_call
from eutectic.runtime.sized_call import is_more
from eutectic.runtime.trees import Leaf, Tree, built
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array, as_tensor, torch_array
from eutectic.support.spelling import did_you_mean

Array: TypeAlias = npt.NDArray[Any]
_OVERLAP_WORK: Final = 1000  # solutions that NumPy tries for a pair of strided arrays: microseconds


class Signature(Protocol):
    """How a user's arguments become arrays, and arrays the user's results."""

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any], state: Sequence[Any] = ()) -> list[Array]:
        """Arguments as arrays, in the order of the executable's parameters; tensors of the model's state go last."""

    def unflatten(
        self, results: Sequence[Array], args: Sequence[Any], kwargs: Mapping[str, Any], state: Sequence[Any] = ()
    ) -> Any:
        """Results in the user's structure and kind of tensor; the state gets its new values."""

    def quick(self, direct: Direct) -> Callable[..., Any] | None:
        """A short way around both for simple signatures; it raises anything for arguments it does not take."""


@dataclass(frozen=True)
class ModelSignature:
    """How a compiled function is called like the module it was exported from.

    Tensors or NumPy arrays go in, in any way that the module's forward accepts; what comes out has the
    structure that eager returns, with tensors for tensors and arrays when there was no tensor.
    Contiguous inputs are not copied. Results are new memory, except that, as in eager, an argument that
    is returned is the same object, and a view of an argument or of another output shares its memory.
    Outputs that are views of one hidden tensor do not share memory here.

    Attributes:
        arguments: What it takes.
        results: What it returns.
        state: Tensors of the model that it reads and writes, after the arguments; called by their names in the model.
    """

    arguments: Arguments
    results: Results
    state: tuple[TensorArgument, ...] = ()

    @cached_property
    def _lone(self) -> TensorArgument | None:
        return None if self.state else self.arguments.lone_tensor()

    @cached_property
    def _returns_lone(self) -> bool:
        return self._lone is not None and self.results.is_lone

    def flatten(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, state: Sequence[Any] = ()
    ) -> list[Array]:
        """The tensor arguments and the state as arrays, in the order of the parameters of `main`.

        Raises:
            CallError: an argument does not fit; names it, what was expected and what to do.
        """
        if self._lone is not None and not kwargs and len(args) == 1 and _is_plain_tensor(args[0]):
            try:
                array: Array | None = args[0].numpy() if args[0].data_ptr() and not is_more(args[0]) else None
            except (RuntimeError, TypeError):
                array = None  # the checks below say why
            if array is not None and _fits(self._lone, array):
                return [array]
        values = self.arguments.flatten(args, kwargs or {})
        arrays, sizes = self.arguments.arrays(values)
        arrays += [leaf.array(tensor, sizes) for leaf, tensor in zip(self.state, state, strict=True)]
        if self.results.changed:
            self._check_overlap(values, state, arrays)
        return arrays

    def _check_overlap(self, values: Sequence[Any], state: Sequence[Any], arrays: Sequence[Array]) -> None:
        """Refuse tensors that share memory with one that the model writes to: they would change too."""
        leaves = enumerate(zip((*self.arguments.leaves, *self.state), (*values, *state), strict=True))
        tensors = [(place, leaf.name, value) for place, (leaf, value) in leaves if not isinstance(leaf, FixedArgument)]
        memory = [(*item[:2], _memory(item[2], array)) for item, array in zip(tensors, arrays, strict=True)]
        changed = frozenset(self.results.changed)
        for (one, name, a), (other, another, b) in combinations(memory, 2):
            if (one in changed or other in changed) and _overlap(a, b):
                written = name if one in changed else another
                raise CallError(
                    f"arguments {name} and {another} share memory, and the model changes {written} in place",
                    help="pass a clone of one of them",
                )

    def unflatten(
        self,
        results: Sequence[Array],
        args: Sequence[Any],
        kwargs: Mapping[str, Any] | None = None,
        state: Sequence[Any] = (),
    ) -> Any:
        """The results of `main`, in order, as what eager returns for these arguments.

        Arguments and state that the model changes in place get their new values here.
        """
        if self._returns_lone and len(args) == 1 and _is_plain_tensor(args[0]):
            return as_tensor(results[0])
        values = self.arguments.flatten(args, kwargs or {})
        sizes = self.arguments.arrays(values)[1] if self.results.needs_sizes else {}
        return self.results.build(results, [*values, *state], sizes, self._is_array(values))

    def _is_array(self, values: Sequence[Any]) -> bool:
        """Whether the caller works with NumPy: arrays among the arguments and no tensor, or no torch at all."""
        tensors = self._tensors(values)
        return all(isinstance(value, np.ndarray) for value in tensors) if tensors else "torch" not in sys.modules

    def _tensors(self, values: Sequence[Any]) -> list[Any]:
        """The tensors and arrays among the arguments."""
        leaves = zip(self.arguments.leaves, values, strict=True)
        return [value for leaf, value in leaves if not isinstance(leaf, FixedArgument)]

    def quick(self, direct: Direct) -> Callable[..., Any] | None:
        """A short way for models that take plain tensors and return new ones.

        Args:
            direct: A native function, called with the inputs and the results, and `outputs`, shape and dtype of each.
        """
        return None if self.state else short_call(self.arguments, self.results, direct)


def _is_plain_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(value) is torch.Tensor


def _fits(wanted: TensorArgument, array: Array) -> bool:
    return array.shape == wanted.shape and array.dtype == wanted.dtype and array.flags.c_contiguous


def _memory(value: Any, array: Array) -> Array:
    """The memory of an argument, of which `array` may be a contiguous copy."""
    if isinstance(value, np.ndarray):
        return value
    if value.is_neg():
        value = sys.modules["torch"]._neg_view(value)  # its memory as it is; the array is a copy
    elif value.is_complex():
        value = value.conj() if value.is_conj() else value  # the same; the array is a view of its own
    elif not array.flags.owndata:  # it belongs to torch: it was not copied
        return array
    return torch_array(value)


def _overlap(a: Array, b: Array) -> bool:
    """Whether arrays have an element in common, or may have one where it would take long to find out.

    Strided ones may lie between each other.
    """
    work: Any = _OVERLAP_WORK  # NumPy's annotations know only its two special values
    return np.may_share_memory(a, b, work)


@dataclass(frozen=True)
class ArraySignature:
    """Arrays (or DLPack tensors) in, arrays out, in the structure of the function's result.

    Attributes:
        names: Names of the parameters.
        result: Tuples of tuples of arrays.
    """

    names: tuple[str, ...]
    result: Tree

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any], state: Sequence[Any] = ()) -> list[Any]:
        """Positional arguments, then keyword arguments by parameter name.

        Raises:
            CallError: a keyword is unknown or given by position too, or an argument is missing.
        """
        takes = f"the function takes {', '.join(self.names)}"
        for name in kwargs:
            if name not in self.names:
                raise CallError(f"unexpected argument {name!r}; {takes}", help=did_you_mean(name, self.names))
            if name in self.names[: len(args)]:
                raise CallError(f"argument {name!r} is given twice, by position and by name")
        for name in self.names[len(args) :]:
            if name not in kwargs:
                raise CallError(f"argument {name!r} is missing; {takes}")
        values = [*args, *(kwargs[name] for name in self.names[len(args) :])]
        names = [*self.names, *map(str, range(len(self.names), len(values)))]
        return [_as_array(value, name) for value, name in zip(values, names, strict=True)]

    def unflatten(
        self, results: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any], state: Sequence[Any] = ()
    ) -> Any:
        """The result's tuples around the arrays."""
        return built(self.result, iter(results))

    def quick(self, direct: Direct) -> Callable[..., Any] | None:
        """For functions with one result."""
        outputs = direct.fixed_outputs
        if self.result != Leaf() or outputs is None or len(outputs) != 1:
            return None
        if direct.inputs != tuple(range(len(self.names))):
            return None
        function, count, (shape, dtype) = direct.function, len(self.names), outputs[0]

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
