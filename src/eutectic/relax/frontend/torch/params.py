"""Parameters, buffers and constants of an exported program as graph constants, each content once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from eutectic.relax.base import ShapeExpr
from eutectic.relax.expr import Constant
from eutectic.relax.frontend.torch.dtypes import dtype_name, to_array
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import UnsupportedTypeError
from eutectic.support.plain_memory import plain

SMALL_BYTES: Final = 1 << 16  # contents up to this size are compared with each other


class Parameters:
    """Makes constants of torch tensors; one object per distinct tensor, or per content of small ones.

    The data is copied once, so that a compiled model does not change when its source is trained on.
    """

    def __init__(self) -> None:
        self._by_storage: dict[tuple[Any, ...], Constant] = {}
        self._by_content: dict[tuple[Any, ...], Constant] = {}
        self._alive: list[torch.Tensor] = []

    def constant(self, tensor: torch.Tensor, name: str) -> Constant:
        """The constant of a tensor.

        Raises:
            UnsupportedTypeError: sparse, quantised or complex tensors, and other devices; names the tensor.
        """
        tensor = plain(tensor.detach(), name, UnsupportedTypeError)
        dtype = dtype_name(tensor.dtype, name)
        where = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype)
        if tensor.numel() and where in self._by_storage:
            return self._by_storage[where]
        array = np.array(to_array(tensor), order="C", copy=True)
        array.flags.writeable = False
        content = (dtype, array.shape, array.tobytes()) if array.nbytes <= SMALL_BYTES else None
        found = self._by_content.get(content) if content is not None else None
        if found is None:
            found = Constant(array, struct_info=TensorStructInfo(ShapeExpr(array.shape), dtype))
            if content is not None:
                self._by_content[content] = found
        self._by_storage[where] = found
        self._alive.append(tensor)
        return found
