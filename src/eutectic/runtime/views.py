"""Views of tensors as data: operators by name, which are repeated on the tensor or the array of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy by name
import numpy as np
import numpy.typing as npt

from eutectic.support.errors import LoadError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TorchName:
    """A dtype, memory format, layout or device among the operands of a view.

    Attributes:
        kind: `dtype`, `memory_format`, `layout` or `device`.
        name: Its name, as an attribute of torch or as text of a device.
    """

    kind: str
    name: str

    def __post_init__(self) -> None:
        if self.kind not in ("dtype", "memory_format", "layout", "device"):
            raise LoadError(f"a view has an operand of kind {self.kind!r}")

    def value(self, torch: Any) -> Any:
        """What torch means by it.

        Raises:
            LoadError: this torch has nothing of that name.
        """
        if self.kind == "device":
            return torch.device(self.name)
        attribute = getattr(torch, self.name, None)
        if not isinstance(attribute, getattr(torch, self.kind)):
            raise LoadError(f"torch {torch.__version__} has no {self.kind} {self.name}")
        return attribute


@dataclass(frozen=True)
class View:
    """One view of a tensor.

    Attributes:
        family: A key of `VIEWS`.
        overload: Which operator of that name in torch.
        args: Its operands after the tensor.
        kwargs: Operands by name.
    """

    family: str
    overload: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.family not in VIEWS:
            raise LoadError(f"{self.family!r} is no view of a tensor")

    def of_array(self, array: Any) -> Any:
        """The view of an array; a copy where the elements are not where a view could say."""
        return VIEWS[self.family](array, *self.args, **self.kwargs)

    def of_tensor(self, tensor: Any) -> Any:
        """The view of a tensor."""
        torch = sys.modules["torch"]
        if self.family == "getitem":
            return tensor[self.args[0]]
        args = [_operand(arg, torch) for arg in self.args]
        kwargs = {name: _operand(arg, torch) for name, arg in self.kwargs.items()}
        packet = getattr(torch.ops.aten, self.family)
        return getattr(packet, self.overload)(tensor, *args, **kwargs)


def _operand(value: Any, torch: Any) -> Any:
    return value.value(torch) if isinstance(value, TorchName) else value


def _same(x: Array, *_: Any, **__: Any) -> Array:
    return x


def _contiguous(x: Array, memory_format: Any = None) -> Array:
    return x if x.flags.c_contiguous else x.copy(order="C")


def _flipped(x: Array) -> Array:
    return x.swapaxes(-1, -2) if x.ndim >= 2 else x


def _transposed(x: Array) -> Array:
    return x.T


def _swapped(x: Array, a: int, b: int) -> Array:
    return x.swapaxes(a, b) if x.ndim else x


def _permuted(x: Array, dims: Sequence[int]) -> Array:
    return x.transpose(tuple(dims))


def _moved(x: Array, source: Any, destination: Any) -> Array:
    return np.moveaxis(x, source, destination) if x.ndim else x


def _expanded(x: Array, size: Sequence[int], implicit: bool = False) -> Array:
    added = len(size) - x.ndim
    shape = tuple(n if n >= 0 else x.shape[axis - added] for axis, n in enumerate(size))
    # NumPy's own expansion is read-only, and may not be written to by way of the original either.
    strides = tuple(0 if axis < added or x.shape[axis - added] != n else x.strides[axis - added]
                    for axis, n in enumerate(shape))  # fmt: skip
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def _flattened(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if not x.ndim:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    size = int(np.prod(x.shape[start : end + 1]))
    return x.reshape(*x.shape[:start], size, *x.shape[end + 1 :])


def _unflattened(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    lengths = [int(size) for size in sizes]
    if -1 in lengths:
        rest = int(np.prod([size for size in lengths if size != -1]))
        lengths[lengths.index(-1)] = x.shape[dim] // rest if rest else 0
    return x.reshape(*x.shape[:dim], *lengths, *x.shape[dim + 1 :])


def _reshaped(x: Array, shape: Sequence[int]) -> Array:
    return x.reshape(tuple(shape))


def _viewed(x: Array, size: Any) -> Array:
    return x.view(size.name) if isinstance(size, TorchName) else x.reshape(tuple(size))


def _unsqueezed(x: Array, dim: int) -> Array:
    return np.expand_dims(x, dim)


def _squeezed(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = {axis % x.ndim for axis in dims} if x.ndim else set()
    return x.reshape(x.shape) if not axes else x.squeeze(tuple(axis for axis in axes if x.shape[axis] == 1))


def _along(x: Array, dim: int, part: Any) -> Array:
    place: list[Any] = [slice(None)] * x.ndim
    place[dim] = part
    return np.asarray(x[(*place, ...)])


def _selected(x: Array, dim: int, index: int) -> Array:
    return _along(x, dim, index)


def _sliced(x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    return _along(x, dim, slice(start, end, step))


def _narrowed(x: Array, dim: int, start: int, length: int) -> Array:
    start = start % x.shape[dim] if start < 0 else start
    return _along(x, dim, slice(start, start + length))


def _diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    diagonal = np.diagonal(x, offset, dim1, dim2)
    diagonal.flags.writeable = x.flags.writeable
    return diagonal


def _unfolded(x: Array, dimension: int, size: int, step: int) -> Array:
    if not x.ndim:
        return x.reshape(1)[:size]
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dimension, writeable=x.flags.writeable)
    return _along(windows, dimension % x.ndim, slice(None, None, step))


def _split(x: Array, split_size: Any, dim: int = 0) -> list[Array]:
    if not isinstance(split_size, int):
        return _cut(x, np.cumsum(split_size)[:-1].tolist(), dim)
    length = x.shape[dim]
    return _cut(x, list(range(split_size, length, split_size)) if split_size else [], dim)


def _chunks(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    length = x.shape[dim]
    return _split(x, -(-length // chunks), dim) if length else [x] * chunks


def _tensor_split(x: Array, sections: Any, dim: int = 0) -> list[Array]:
    if not isinstance(sections, int):
        return _cut(x, [index % x.shape[dim] if index < 0 else index for index in sections], dim)
    small, more = divmod(x.shape[dim], sections)
    return _cut(x, np.cumsum([small + (place < more) for place in range(sections)])[:-1].tolist(), dim)


def _cut(x: Array, places: Sequence[int], dim: int) -> list[Array]:
    bounds = [0, *places, x.shape[dim]]
    return [_along(x, dim, slice(start, end)) for start, end in pairwise(bounds)]


def _unbound(x: Array, dim: int = 0) -> list[Array]:
    return [_along(x, dim, index) for index in range(x.shape[dim])]


def _item(x: Sequence[Array], index: int) -> Array:
    return x[index]


VIEWS: Final[Mapping[str, Callable[..., Any]]] = {
    "alias": _same,
    "chunk": _chunks,
    "contiguous": _contiguous,
    "detach": _same,
    "diagonal": _diagonal,
    "expand": _expanded,
    "flatten": _flattened,
    "getitem": _item,
    "mT": _flipped,
    "moveaxis": _moved,
    "movedim": _moved,
    "narrow": _narrowed,
    "numpy_T": _transposed,
    "permute": _permuted,
    "reshape": _reshaped,
    "select": _selected,
    "slice": _sliced,
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _squeezed,
    "swapaxes": _swapped,
    "swapdims": _swapped,
    "t": _transposed,
    "tensor_split": _tensor_split,
    "to": _same,
    "transpose": _swapped,
    "unbind": _unbound,
    "unflatten": _unflattened,
    "unfold": _unfolded,
    "unsqueeze": _unsqueezed,
    "view": _viewed,
}
