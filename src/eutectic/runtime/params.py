"""What a function takes besides single tensors: numbers, shapes, and tuples of all of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.runtime.executable import Param, Size, Sizes, check_sizes, refuse_size
from eutectic.support.errors import CallError


@dataclass(frozen=True)
class ScalarParam:
    """A number.

    Attributes:
        name: The parameter's name.
        dtype: NumPy dtype.
        size: The number it must be, as the sizes of tensors are given; None for any.
        ranges: Least and largest value of symbolic sizes, by name.
    """

    name: str
    dtype: np.dtype[Any]
    size: Size | None
    ranges: Mapping[str, tuple[int, int | None]]

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
            raise CallError(f"argument {self.name} must be a number of dtype {self.dtype.name}, got {_kind(value)}")
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
                refuse_size(f"argument {self.name} is {value}", wanted, value, self.ranges)
                sizes[wanted] = value
                return
            wanted = sizes[wanted]
        elif callable(wanted):
            try:
                wanted = wanted(sizes)
            except KeyError:
                return
        if wanted is not None and wanted != value:
            raise CallError(f"argument {self.name} must be {wanted}, got {value}")

    @property
    def has_derived_sizes(self) -> bool:
        """Whether its value is computed from symbols, which another argument may define."""
        return callable(self.size)


@dataclass(frozen=True)
class ShapeParam:
    """A shape: a tuple of integers.

    Attributes:
        name: The parameter's name.
        sizes: Per axis, as the sizes of tensors are given; None when they are not known.
        rank: Number of sizes; -1 when unknown.
        ranges: Least and largest value of symbolic sizes, by name.
    """

    name: str
    sizes: tuple[Size, ...] | None
    rank: int
    ranges: Mapping[str, tuple[int, int | None]]

    def check(self, value: Any, sizes: Sizes) -> tuple[int, ...]:
        """The argument as a tuple of integers.

        Raises:
            CallError: it does not fit.
        """
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu":
            value = value.tolist()
        if not isinstance(value, (tuple, list)) or not all(isinstance(size, (int, np.integer)) for size in value):
            raise CallError(f"argument {self.name} must be a shape, got {_kind(value)}")
        given = tuple(map(int, value))
        if self.rank >= 0 and len(given) != self.rank:
            raise CallError(f"argument {self.name} must have {self.rank} sizes, got {len(given)}: shape {given}")
        if any(size < 0 for size in given):
            raise CallError(f"argument {self.name} has a negative size: shape {given}")
        self.settle(given, sizes)
        return given

    def settle(self, value: tuple[int, ...], sizes: Sizes) -> None:
        """Check the sizes against those that are known.

        Raises:
            CallError: one differs.
        """
        check_sizes(self.name, self.sizes, value, sizes, self.ranges)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether sizes are computed from symbols, which another argument may define."""
        return any(callable(size) for size in self.sizes or ())


@dataclass(frozen=True)
class TupleParam:
    """A tuple; its parts are named `name[0]`, `name[1]` and so on.

    Attributes:
        name: The parameter's name.
        fields: The parts.
    """

    name: str
    fields: tuple[Param, ...]

    def check(self, value: Any, sizes: Sizes) -> tuple[Any, ...]:
        """The argument as a tuple of what its parts give.

        Raises:
            CallError: it does not fit.
        """
        if not isinstance(value, (tuple, list)):
            raise CallError(f"argument {self.name} must be a tuple of {len(self.fields)}, got {_kind(value)}")
        if len(value) != len(self.fields):
            raise CallError(f"argument {self.name} must be a tuple of {len(self.fields)}, got one of {len(value)}")
        return tuple(field.check(part, sizes) for field, part in zip(self.fields, value, strict=True))

    def settle(self, value: Sequence[Any], sizes: Sizes) -> None:
        """Check the parts against sizes that are known."""
        for field, part in zip(self.fields, value, strict=True):
            field.settle(part, sizes)

    @property
    def has_derived_sizes(self) -> bool:
        """Whether a part has sizes that are computed from symbols."""
        return any(field.has_derived_sizes for field in self.fields)


def _kind(value: Any) -> str:
    return "an array" if isinstance(value, np.ndarray) else type(value).__name__
