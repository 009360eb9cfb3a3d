"""Operands of several dtypes, rounded to the dtype of a 16-bit result before an operator is taken apart.

Torch's kernels do that. Its own rules go from each operand straight to float32, where 70000 is no infinity and 2049 has
not become 2048.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

_NARROW: Final = (torch.float16, torch.bfloat16)

Rule = Callable[..., Any]


def rounding_operands(target: Any, rule: Rule) -> Rule:
    """A rule that takes an operator apart after its operands were rounded.

    Args:
        target: The operator; only those that compute element by element promote their operands.
        rule: Torch's own rule for it.
    """
    if torch.Tag.pointwise not in target.tags:
        return rule

    @wraps(rule)
    def applied(*args: Any, **kwargs: Any) -> Any:
        dtype = _common([*args, *kwargs.values()])
        if dtype not in _NARROW:
            return rule(*args, **kwargs)
        return rule(*(_rounded(arg, dtype) for arg in args), **{k: _rounded(v, dtype) for k, v in kwargs.items()})

    return applied


def _common(arguments: list[Any]) -> torch.dtype | None:
    """The dtype that tensors of several dtypes promote to; None where all are of one."""
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    if len({tensor.dtype for tensor in tensors}) < 2:
        return None
    common: torch.dtype = elementwise_dtypes(*tensors, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]
    return common


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype in (dtype, torch.bool):
        return value
    return value.to(dtype)
