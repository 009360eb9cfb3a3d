"""Tensors and devices under TVM's names: `tvm.nd.array`, `tvm.runtime.tensor`, `tvm.cpu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy by name
import numpy as np

from eutectic.support.plain_memory import as_array, is_torch

__all__ = ["Device", "Tensor", "array", "cpu", "cuda", "device", "empty", "gpu", "tensor"]

_DLPACK = {"cpu": 1, "llvm": 1, "cuda": 2, "gpu": 2}


@dataclass(frozen=True)
class Device:
    """A place for tensors.

    Attributes:
        type: `cpu` or `cuda`.
        index: Number of the device of its type.
    """

    type: str
    index: int = 0

    @property
    def exist(self) -> bool:
        """Whether tensors can be placed there."""
        return self.type == "cpu"

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


def device(device_type: str, index: int = 0) -> Device:
    """A device by name, such as `cpu`, `llvm`, `cuda` or `cuda:1`.

    Raises:
        ValueError: there is no such kind of device.
    """
    kind, _, number = device_type.partition(":")
    if kind not in _DLPACK:
        raise ValueError(f"unknown device {device_type!r}; known are {', '.join(_DLPACK)}")
    return Device("cuda" if _DLPACK[kind] == 2 else "cpu", int(number or index))


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device("cpu", dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A CUDA device; it can be named, tensors cannot be placed there yet."""
    return Device("cuda", dev_id)


gpu = cuda


class Tensor:
    """An array with TVM's methods; shares memory through DLPack both ways.

    Args:
        data: The elements.
        device: Where they are.
    """

    def __init__(self, data: np.ndarray[Any, Any], device: Device) -> None:
        self._data, self.device = data, device

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self._data.shape)

    @property
    def dtype(self) -> str:
        """Its element type."""
        return str(self._data.dtype.name)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the elements."""
        return self._data.copy()

    def view(self) -> np.ndarray[Any, Any]:
        """The elements themselves, not a copy."""
        return self._data

    def copyfrom(self, source: Any) -> Tensor:
        """Overwrite the elements; shapes must agree.

        Raises:
            ValueError: they do not.
        """
        elements = tensor(source).view() if hasattr(source, "dtype") else np.asarray(source)
        if elements.shape != self._data.shape:
            raise ValueError(f"cannot copy shape {elements.shape} into shape {self._data.shape}")
        self._data[...] = elements
        return self

    def copyto(self, target: Tensor | Device) -> Tensor:
        """A copy on a device, or written into another tensor."""
        return tensor(self._data, target) if isinstance(target, Device) else target.copyfrom(self._data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._data, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, device={self.device})\n{self._data!r}"


def tensor(arr: Any, device: Device | None = None, mem_scope: str | None = None) -> Tensor:
    """A tensor with the elements of an array, copied.

    Args:
        arr: Array, tensor or nested sequence; Python floats become float32 as in TVM.
        device: Where to place it; the CPU when None.
        mem_scope: None or `global`.

    Raises:
        ValueError: the device or the scope is not available.
        CallError: `arr` is not plain dense memory: masked, sparse, on another device, of a class of its own.
    """
    place = device or cpu()
    if not place.exist:
        raise ValueError(f"tensors cannot be placed on {place} yet")
    if mem_scope not in (None, "global"):
        raise ValueError(f"unknown memory scope {mem_scope!r}")
    if isinstance(arr, np.ndarray) or is_torch(arr):
        elements: Any = as_array(arr.detach() if is_torch(arr) else arr, "the data")
    else:
        elements = arr.numpy() if hasattr(arr, "numpy") else arr
    array = np.array(elements) if hasattr(elements, "dtype") else np.array(elements, dtype="float32")
    return Tensor(array, place)


array = tensor


def empty(
    shape: Sequence[int], dtype: str = "float32", device: Device | None = None, mem_scope: str | None = None
) -> Tensor:
    """A tensor whose elements are zero until they are written."""
    return tensor(np.zeros(tuple(shape), np.dtype(dtype)), device, mem_scope)
