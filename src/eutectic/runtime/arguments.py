"""The arguments of a model: how they are named, checked, and turned into arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.runtime.sizes import Line, Size, Sizes, evaluate, line_of
from eutectic.runtime.trees import Leaf, Tree, leaves_of, tree_of, tree_text
from eutectic.support.errors import CallError
from eutectic.support.plain_memory import as_array, is_torch
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean


@dataclass(frozen=True)
class FixedArgument:
    """An argument that the compilation fixed: a number, text or None.

    Attributes:
        name: What errors call it.
        value: The value of the example.
    """

    name: str
    value: Any

    def check(self, value: Any) -> None:
        """Refuse another value.

        Raises:
            CallError: names both values.
        """
        if type(value) is type(self.value):
            both_are_nan = value != value and self.value != self.value
            if value == self.value or both_are_nan:
                return
        raise CallError(
            f"argument {self.name} is {shown(value)}, but the model was compiled for {shown(self.value)}",
            notes=["numbers, text and None are part of the compiled program"],
            help=f"compile the model again with {self.name}={shown(value)}, or pass it as a tensor",
        )


@dataclass(frozen=True)
class TensorArgument:
    """A tensor argument; of complex numbers the program takes real and imaginary parts along an axis more.

    Attributes:
        name: What errors call it.
        dtype: Its dtype.
        shape: A size per axis.
        written: The sizes as errors write them.
        ranges: Least and largest value per symbol, as far as limited.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Size, ...]
    written: tuple[str, ...]
    ranges: Mapping[str, tuple[int | None, int | None]]

    def array(self, value: Any, sizes: Sizes) -> npt.NDArray[Any]:
        """The argument as the C-contiguous array of the program; shares its memory when it is contiguous.

        Args:
            value: What the caller gave.
            sizes: Symbolic sizes bound so far; extended.

        Raises:
            CallError: it does not fit; says what was expected and what was given.
        """
        if not isinstance(value, np.ndarray) and not is_torch(value):
            raise CallError(
                f"argument {self.name} must be a tensor or a NumPy array, got {type(value).__name__}",
                help=f"expected {self.dtype.name} of shape {self._text()}; make one with torch.as_tensor",
            )
        array = as_array(value, f"argument {self.name}")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.dtype != self.dtype:
            raise CallError(
                f"argument {self.name} must be {self.dtype.name}, got {array.dtype.name}",
                help=f"convert it to {self.dtype.name} first, or compile for {array.dtype.name}",
            )
        self.check_shape(array.shape, sizes)
        if not (array.flags.c_contiguous and array.flags.aligned):
            array = np.array(array, order="C", copy=True)
        return _parts(array) if self.is_complex else array

    def check_shape(self, shape: tuple[int, ...], sizes: Sizes) -> None:
        """Check the rank and sizes, and bind the symbols that are sizes, or that sizes are multiples of.

        Raises:
            CallError: they do not fit.
        """
        if len(shape) != len(self.shape):
            raise CallError(
                f"argument {self.name} must have {len(self.shape)} axes, got {len(shape)}: shape {shape}",
                help=f"expected shape {self._text()}; add or remove axes with unsqueeze, squeeze or reshape",
            )
        for axis, (wanted, size) in enumerate(zip(self.shape, shape, strict=True)):
            if isinstance(wanted, int):
                if wanted != size:
                    self._refuse_size(axis, str(wanted), shape)
            elif (line := line_of(wanted)) is not None and line.symbol not in sizes:
                self._check_range(axis, line, shape)
                sizes[line.symbol] = (size - line.rest) // line.factor

    def check_expressions(self, shape: tuple[int, ...], sizes: Sizes) -> None:
        """Check sizes that follow from others, once all symbols are bound."""
        for axis, (wanted, size) in enumerate(zip(self.shape, shape, strict=True)):
            if isinstance(wanted, int):
                continue
            try:
                value = evaluate(wanted, sizes)
            except KeyError:  # no argument gives the symbol by itself; the program derives it
                continue
            if value != size:
                self._refuse_size(axis, f"{value} (which is {self.written[axis]})", shape)

    def _check_range(self, axis: int, line: Line, shape: tuple[int, ...]) -> None:
        lowest, highest = self.ranges.get(line.symbol, (None, None))
        low, high = line.at(lowest or 0), None if highest is None else line.at(highest)
        is_inside = (lowest is None or shape[axis] >= low) and (high is None or shape[axis] <= high)
        if not is_inside or (shape[axis] - line.rest) % line.factor:
            limits = (f"at least {low}" if high is None else f"from {low} to {high}") + line.text
            raise CallError(
                f"argument {self.name} must have a size {limits} on axis {axis}, got {shape[axis]}: shape {shape}",
                help="export the model with a wider range for that size, or split the batch",
            )

    def _refuse_size(self, axis: int, wanted: str, shape: tuple[int, ...]) -> None:
        raise CallError(
            f"argument {self.name} must have size {wanted} on axis {axis}, got {shape[axis]}: shape {shape}",
            help=f"expected shape {self._text()}; sizes that vary must be given as dynamic_shapes when compiling",
        )

    def _text(self) -> str:
        return "(" + ", ".join(self.written) + ("," if len(self.written) == 1 else "") + ")"

    @property
    def is_complex(self) -> bool:
        """Whether it is of complex numbers."""
        return self.dtype.kind == "c"

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """Sizes when none of them varies."""
        sizes = tuple(size for size in self.shape if isinstance(size, int))
        return sizes if len(sizes) == len(self.shape) else None


@dataclass(frozen=True)
class SizeArgument(TensorArgument):
    """A size that no axis of a tensor has by itself, as an int64 tensor of one element; `torch.compile` gives those.

    Attributes:
        size: What the element is, in symbols.
    """

    size: Size = 0

    def array(self, value: Any, sizes: Sizes) -> npt.NDArray[Any]:
        """The argument as an array; binds the symbol that the element is, or is a multiple of."""
        array = TensorArgument.array(self, value, sizes)
        if (line := line_of(self.size)) is not None and line.symbol not in sizes:
            sizes[line.symbol] = (int(array[0]) - line.rest) // line.factor
        return array


def _parts(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Real and imaginary parts of complex numbers, along a last axis."""
    return (
        np.stack((array.real, array.imag), -1)
        if array.ndim == 0
        else array.view(array.real.dtype).reshape(*array.shape, 2)
    )


Argument: TypeAlias = FixedArgument | TensorArgument


@dataclass(frozen=True)
class Arguments:
    """All arguments of a model.

    Attributes:
        names: Names of those that may be given by position, then of those given by name.
        trees: The form of each.
        positional: How many may be given by position.
        leaves: What each leaf of the trees must be, in order.
    """

    names: tuple[str, ...]
    trees: tuple[Tree, ...]
    positional: int
    leaves: tuple[Argument, ...]

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of the arguments, whichever way they were passed.

        Raises:
            CallError: an argument is missing, unknown, given twice or of another structure.
        """
        flattened: list[Any] = []
        for name, tree, value in zip(self.names, self.trees, self._bound(args, kwargs), strict=True):
            leaves = leaves_of(tree, value)
            if leaves is None:
                raise CallError(
                    f"argument {name} has another structure than the example: expected {tree_text(tree)}, "
                    f"got {tree_text(tree_of(value))}",
                    help="pass the same containers with the same keys and lengths as when compiling",
                )
            flattened += leaves
        return flattened

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        if not kwargs and len(args) == len(self.names):
            return list(args)  # what most calls give
        takes, listed = self.names, ", ".join(self.names)
        unknown = [name for name in kwargs if name not in takes]
        if unknown:
            near = did_you_mean(unknown[0], takes)
            raise CallError(
                f"argument {unknown[0]} is unknown: the model takes {listed or 'none'}",
                help=near or f"it was compiled for {listed or 'no arguments'}; other names of forward were not given",
            )
        if len(args) > len(takes):
            raise CallError(
                f"the model takes {len(takes)} argument{'' if len(takes) == 1 else 's'}, got {len(args)}",
                help=f"they are {listed or 'none'}, as when compiling",
            )
        twice = next((name for name in takes[: len(args)] if name in kwargs), None)
        if twice is not None:
            raise CallError(f"argument {twice} is given twice", help=f"the model takes {listed}")
        missing = next((name for name in takes[len(args) :] if name not in kwargs), None)
        if missing is not None:
            raise CallError(f"argument {missing} is missing", help=f"the model takes {listed}")
        return [*args, *(kwargs[name] for name in takes[len(args) :])]

    def arrays(self, values: Sequence[Any]) -> tuple[list[npt.NDArray[Any]], Sizes]:
        """Arrays of the tensor arguments, and the symbolic sizes that they define.

        Raises:
            CallError: an argument does not fit.
        """
        sizes: Sizes = {}
        arrays = []
        for leaf, value in zip(self.leaves, values, strict=True):
            if isinstance(leaf, FixedArgument):
                leaf.check(value)
            else:
                arrays.append(leaf.array(value, sizes))
        if sizes:
            ranks = [len(leaf.shape) for leaf in self.tensors]
            self._check_expressions([array.shape[:rank] for array, rank in zip(arrays, ranks, strict=True)], sizes)
        return arrays, sizes

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> Sizes:
        """The symbolic sizes that shapes of the tensor arguments define.

        Raises:
            CallError: a shape does not fit.
        """
        sizes: Sizes = {}
        for leaf, shape in zip(self.tensors, shapes, strict=True):
            leaf.check_shape(shape, sizes)
        self._check_expressions(shapes, sizes)
        return sizes

    def _check_expressions(self, shapes: Sequence[tuple[int, ...]], sizes: Sizes) -> None:
        for leaf, shape in zip(self.tensors, shapes, strict=True):
            leaf.check_expressions(shape, sizes)

    @cached_property
    def tensors(self) -> tuple[TensorArgument, ...]:
        """The leaves that are tensors."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, TensorArgument))

    def lone_tensor(self) -> TensorArgument | None:
        """The only argument, when it is a plain positional tensor of fixed shape."""
        if self.positional != 1 or self.trees != (Leaf(),):
            return None
        leaf = self.leaves[0]
        if not isinstance(leaf, TensorArgument) or leaf.is_complex:
            return None
        return leaf if leaf.static_shape is not None else None
