"""Losses of operands of two dtypes, taken apart as torch's kernels compute them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._decomp import decomposition_table

_NONE, _MEAN = 0, 1  # reductions
_OF_ONE_DTYPE: Final = decomposition_table[torch.ops.aten.huber_loss.default]


def huber_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = _MEAN, delta: float = 1.0) -> Any:
    """The Huber loss; its kernel rounds it to the dtype of `x`, which torch's own rule for it does not.

    Args:
        x: Any shape; a float dtype.
        target: A shape that broadcasts; any float dtype.
        reduction: 0 none, 1 the mean, 2 the sum.
        delta: From which distance on it is straight.

    Returns:
        The shapes broadcast, or `()`; the dtype of `x`.
    """
    if x.dtype == target.dtype:
        return _OF_ONE_DTYPE(x, target, reduction, delta)
    loss = _OF_ONE_DTYPE(x, target, _NONE, delta).to(x.dtype)
    return loss if reduction == _NONE else loss.mean() if reduction == _MEAN else loss.sum()


RULES: Final = {"aten.huber_loss.default": huber_loss}
