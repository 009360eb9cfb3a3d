"""Parameters, buffers and constants of an exported program as graph constants, each content once."""

from __future__ import annotations

import numpy as np
import torch

from eutectic.relax.expr import Constant
from eutectic.relax.frontend.core import Constants
from eutectic.relax.frontend.torch.dtypes import dtype_name, to_array
from eutectic.support.errors import UnsupportedTypeError
from eutectic.support.plain_memory import plain


class Parameters:
    """Makes constants of torch tensors; one object per place in memory that is seen in one way."""

    def __init__(self) -> None:
        self._constants = Constants()
        self._alive: list[torch.Tensor] = []  # or their memory would be another tensor's

    def constant(self, tensor: torch.Tensor, name: str) -> Constant:
        """The constant of a tensor.

        Raises:
            UnsupportedTypeError: sparse, quantised or complex tensors, and other devices; names the tensor.
        """
        tensor = plain(tensor.detach(), name, UnsupportedTypeError)
        self._alive.append(tensor)
        view = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype_name(tensor.dtype, name))
        return self._constants.constant(view, lambda: np.array(to_array(tensor), order="C", copy=True))
