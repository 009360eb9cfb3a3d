"""What a function takes: tensors, numbers, shapes, and tuples of all of these; how each is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from eutectic.runtime.sizes import Size, SizeExpr, Sizes, evaluate
from eutectic.support.deep import deep
from eutectic.support.errors import CallError

Array: TypeAlias = np.ndarray[Any, Any]
Ranges: TypeAlias = Mapping[str, tuple[int, int | None]]


class Param(Protocol):
    """What a function takes in one place; also what a value inside of it must be."""

    @property
    def name(self) -> str:
        """The parameter's name."""

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""

    def check(self, value: Any, sizes: Sizes) -> Any:
        """The argument as instructions want it; binds the symbolic sizes that it defines."""

    def settle(self, value: Any, sizes: Sizes) -> None:
        """Check sizes again, now that all symbols are known."""


@dataclass(frozen=True)
class TensorParam:
    """A tensor argument.

    Attributes:
        name: The parameter's name.
        dtype: NumPy dtype expected; None takes any.
        shape: Per axis a size, or the name of a symbolic size that the argument defines or must repeat,
            or a function of those sizes. None when only the rank is known.
        rank: Number of axes; -1 when unknown.
        ranges: Least and largest value of symbolic sizes, by name.
        place: What it is, for messages: an `argument`, or a `value` of the program.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[Size, ...] | None
    rank: int
    ranges: Mapping[str, tuple[int, int | None]]
    place: str = "argument"

    @property
    def what(self) -> str:
        """How messages call it."""
        return f"{self.place} {self.name}"

    @deep
    def check(self, value: Any, sizes: Sizes) -> Array:
        """The argument as a C-contiguous array.

        Raises:
            CallError: it does not fit.
        """
        if type(value) is np.ndarray and value.shape == self.shape and value.dtype == self.dtype:
            flags = value.flags
            if flags.c_contiguous and flags.aligned:
                return value  # nothing symbolic, nothing to convert: what most calls give
        if not isinstance(value, np.ndarray):
            raise CallError(f"{self.what} must be an array, got {type(value).__name__}")
        if self.dtype is not None and value.dtype != self.dtype:
            if value.dtype.newbyteorder("=") == self.dtype:
                return self.check(value.astype(self.dtype), sizes)
            raise CallError(
                f"{self.what} must be {self.dtype.name}, got {value.dtype.name}",
                help=f"convert it to {self.dtype.name} first",
            )
        if self.rank >= 0 and value.ndim != self.rank:
            raise CallError(f"{self.what} must have {self.rank} axes, got {value.ndim}: shape {value.shape}")
        self.check_shape(value.shape, sizes)
        if value.flags.c_contiguous and value.flags.aligned:
            return value
        return np.array(value, order="C", copy=True)

    def settle(self, value: Array, sizes: Sizes) -> None:
        """Check sizes again, now that all symbols are known.

        Raises:
            CallError: one does not fit.
        """
        self.check_shape(value.shape, sizes)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""
        return any(isinstance(size, SizeExpr) for size in self.shape or ())

    def check_shape(self, shape: tuple[int, ...], sizes: Sizes) -> None:
        """Check sizes and bind those defined here; ones whose symbols are not known yet pass.

        Raises:
            CallError: one does not fit.
        """
        check_sizes(self.what, self.shape, shape, sizes, self.ranges)


def check_sizes(
    what: str,
    wanted: Sequence[Size] | None,
    actual: Sequence[int],
    sizes: Sizes,
    ranges: Mapping[str, tuple[int, int | None]],
) -> None:
    """Check the sizes of an argument and bind those it defines; ones whose symbols are not known yet pass.

    Raises:
        CallError: one does not fit.
    """
    if wanted is None:
        return
    for axis, (want, size) in enumerate(zip(wanted, actual, strict=True)):
        if isinstance(want, str):
            if want not in sizes:
                refuse_size(f"{what} has size {size} on axis {axis}", want, size, ranges)
                sizes[want] = size
                continue
            want = sizes[want]
        elif isinstance(want, SizeExpr):
            try:
                want = evaluate(want, sizes)
            except KeyError:
                continue
        if want != size:
            raise CallError(
                f"{what} must have size {want} on axis {axis}, got {size}",
                notes=[f"its shape is {tuple(actual)}"],
                help="compile again for this shape, or with a dynamic size there",
            )


def refuse_size(what: str, symbol: str, size: int, ranges: Mapping[str, tuple[int, int | None]]) -> None:
    """Refuse a size outside of the range of its symbol.

    Raises:
        CallError: it is outside.
    """
    low, high = ranges.get(symbol, (0, None))
    if size < low or (high is not None and size > high):
        top = "more" if high is None else str(high)
        raise CallError(f"{what}; the model was exported for {symbol} from {low} to {top}")


@dataclass(frozen=True)
class ScalarParam:
    """A number.

    Attributes:
        name: The parameter's name.
        dtype: NumPy dtype.
        size: The number it must be, as the sizes of tensors are given; None for any.
        ranges: Least and largest value of symbolic sizes, by name.
        place: What it is, for messages: an `argument`, or a `value` of the program.
    """

    name: str
    dtype: np.dtype[Any]
    size: Size | None
    ranges: Mapping[str, tuple[int, int | None]]
    place: str = "argument"

    @property
    def what(self) -> str:
        """How messages call it."""
        return f"{self.place} {self.name}"

    def check(self, value: Any, sizes: Sizes) -> Any:
        """The argument as a number of Python.

        Raises:
            CallError: it does not fit.
        """
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        kinds: tuple[type, ...] = {"b": (bool, np.bool_), "f": (float, int, np.floating, np.integer)}.get(
            self.dtype.kind, (int, np.integer)
        )
        if not isinstance(value, kinds) or (isinstance(value, (bool, np.bool_)) and self.dtype.kind != "b"):
            raise CallError(f"{self.what} must be a number of dtype {self.dtype.name}, got {_kind(value)}")
        plain: Any = value.item() if isinstance(value, np.generic) else value
        self.settle(plain, sizes)
        return float(plain) if self.dtype.kind == "f" else plain

    def settle(self, value: Any, sizes: Sizes) -> None:
        """Check the value against sizes that are known.

        Raises:
            CallError: it is another one.
        """
        wanted = self.size
        if isinstance(wanted, str):
            if wanted not in sizes:
                refuse_size(f"{self.what} is {value}", wanted, value, self.ranges)
                sizes[wanted] = value
                return
            wanted = sizes[wanted]
        elif isinstance(wanted, SizeExpr):
            try:
                wanted = evaluate(wanted, sizes)
            except KeyError:
                return
        if wanted is not None and wanted != value:
            raise CallError(f"{self.what} must be {wanted}, got {value}")

    @property
    def has_derived_sizes(self) -> bool:
        """Whether its value is computed from symbols, which another argument may define."""
        return isinstance(self.size, SizeExpr)


@dataclass(frozen=True)
class ShapeParam:
    """A shape: a tuple of integers.

    Attributes:
        name: The parameter's name.
        sizes: Per axis, as the sizes of tensors are given; None when they are not known.
        rank: Number of sizes; -1 when unknown.
        ranges: Least and largest value of symbolic sizes, by name.
        place: What it is, for messages: an `argument`, or a `value` of the program.
    """

    name: str
    sizes: tuple[Size, ...] | None
    rank: int
    ranges: Mapping[str, tuple[int, int | None]]
    place: str = "argument"

    @property
    def what(self) -> str:
        """How messages call it."""
        return f"{self.place} {self.name}"

    def check(self, value: Any, sizes: Sizes) -> tuple[int, ...]:
        """The argument as a tuple of integers.

        Raises:
            CallError: it does not fit.
        """
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
            value = value.tolist()
        if not isinstance(value, (tuple, list)) or not all(isinstance(size, (int, np.integer)) for size in value):
            raise CallError(f"{self.what} must be a shape, got {_kind(value)}")
        shape = tuple(map(int, value))
        if self.rank >= 0 and len(shape) != self.rank:
            raise CallError(f"{self.what} must have {self.rank} sizes, got {len(shape)}: shape {shape}")
        if any(size < 0 for size in shape):
            raise CallError(f"{self.what} has a negative size: shape {shape}")
        self.settle(shape, sizes)
        return shape

    def settle(self, value: tuple[int, ...], sizes: Sizes) -> None:
        """Check the sizes against those that are known.

        Raises:
            CallError: one differs.
        """
        check_sizes(self.what, self.sizes, value, sizes, self.ranges)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""
        return any(isinstance(size, SizeExpr) for size in self.sizes or ())


@dataclass(frozen=True)
class TupleParam:
    """A tuple; its parts are named `name[0]`, `name[1]` and so on.

    Attributes:
        name: The parameter's name.
        fields: The parts.
        place: What it is, for messages: an `argument`, or a `value` of the program.
    """

    name: str
    fields: tuple[Param, ...]
    place: str = "argument"

    @property
    def what(self) -> str:
        """How messages call it."""
        return f"{self.place} {self.name}"

    def check(self, value: Any, sizes: Sizes) -> tuple[Any, ...]:
        """The argument as a tuple of what its parts give.

        Raises:
            CallError: it does not fit.
        """
        if not isinstance(value, (tuple, list)):
            raise CallError(f"{self.what} must be a tuple of {len(self.fields)}, got {_kind(value)}")
        if len(value) != len(self.fields):
            raise CallError(f"{self.what} must be a tuple of {len(self.fields)}, got one of {len(value)}")
        return tuple(field.check(part, sizes) for field, part in zip(self.fields, value, strict=True))

    def settle(self, value: Sequence[Any], sizes: Sizes) -> None:
        """Check the parts against sizes that are known."""
        for field, part in zip(self.fields, value, strict=True):
            field.settle(part, sizes)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether a part has sizes that are computed from symbols."""
        return any(field.has_derived_sizes for field in self.fields)


@dataclass(frozen=True)
class AnyParam:
    """Something that is not looked at.

    Attributes:
        name: The parameter's name.
    """

    name: str
    has_derived_sizes: ClassVar[bool] = False

    def check(self, value: Any, sizes: Sizes) -> Any:
        """The value itself."""
        return value

    def settle(self, value: Any, sizes: Sizes) -> None:
        """Nothing to check."""


def _kind(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else type(value).__name__
