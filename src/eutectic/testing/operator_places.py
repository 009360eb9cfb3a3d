"""Places that operators on the order of elements give: torch leaves open which one, among equal elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from eutectic.testing.operator_samples import Sample

_AXES: Final[Mapping[str, int]] = {
    "argsort": 1,
    "sort": 1,
    "topk": 2,
    "kthvalue": 2,
    "median": 1,
    "nanmedian": 1,
    "mode": 1,
}
"""Operators, and where among their arguments the axis is."""
_DISTINCT: Final = ("argsort", "sort", "topk")


def are_open(operator: str, result: int) -> bool:
    """Whether a result of an operator, by its number, holds such places."""
    return operator in _AXES and result == (0 if operator == "argsort" else 1)


def of_equal_elements(sample: Sample, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """Where places are those of elements that are equal to the ones at eager's places; none of a row is there twice.

    Args:
        sample: The call of an operator whose places are open.
        ours: Its places, of eager's shape.
        theirs: Those of eager.
    """
    right = ours == theirs
    (x, *options), number = sample.args, _AXES[sample.operator]
    if not isinstance(x, torch.Tensor) or x.ndim == 0 or ours.dtype != torch.int64:
        return right
    given: Any = options[number - 1] if len(options) >= number else sample.kwargs.get("dim", -1)
    axis = int(given) % x.ndim
    kept = ours.ndim == x.ndim
    mine, other = (part if kept else part.unsqueeze(axis) for part in (ours, theirs))
    if mine.numel() == 0 or int(mine.min()) < 0 or int(mine.max()) >= x.shape[axis]:
        return right
    a, b = x.gather(axis, mine), x.gather(axis, other)
    equal = (a == b) | (torch.isnan(a) & torch.isnan(b))
    if sample.operator in _DISTINCT:
        equal &= mine.sort(axis).values.diff(dim=axis).ne(0).all(axis, keepdim=True)
    return right | (equal if kept else equal.squeeze(axis))
