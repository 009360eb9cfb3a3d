"""Images made smaller without aliasing, taken apart as torch's kernels compute them: sums of weighted elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any, Final, NamedTuple

import torch
from torch._prims_common import suggest_memory_format

_NARROW: Final = (torch.float16, torch.bfloat16)
_SHARPNESS: Final = -0.5  # of cubic weights; without antialiasing it is -0.75


def _linear(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    x, a = x.abs(), _SHARPNESS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


_WEIGHTS: Final[dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], int]]] = {
    "bilinear": (_linear, 2),
    "bicubic": (_cubic, 4),
}  # of the distance from a place, and how many elements it reaches where an image is not made smaller


def resample(
    name: str, image: torch.Tensor, sizes: Sequence[int], align_corners: bool, factors: Sequence[float | None]
) -> Any:
    """An image in another size, whose elements are weighted means of all those that they stand for.

    Args:
        name: `bilinear` or `bicubic`.
        image: `(n, c, h, w)`; dtypes that are no floats, and sizes that vary, are left to torch.
        sizes: The new height and width.
        align_corners: Whether the first and last elements stay where they are.
        factors: By how much an axis grows; None is the quotient of its sizes.

    Returns:
        `(n, c, *sizes)`; 16-bit floats are computed in float32.

    Reference: torch.nn.functional.interpolate with `antialias`.
    """
    old = image.shape[2:]
    if not image.is_floating_point() or not all(type(size) is int for size in (*old, *sizes)):
        return NotImplemented
    wide = image.float() if image.dtype in _NARROW else image
    taps = partial(_taps, name, align_corners, like=wide)
    rows, columns = map(taps, old, sizes, factors)
    wide = columns.mean(wide)
    wide = rows.mean(wide.transpose(-1, -2)).transpose(-1, -2)
    # In the order of memory that torch gives it, as a view of it may follow.
    return wide.to(image.dtype).contiguous(memory_format=suggest_memory_format(image))


class _Taps(NamedTuple):
    """For each new element of an axis the old ones that it is a mean of: all `(new, taps)`.

    Attributes:
        at: Their places.
        wanted: Whether they are in its window; the number of taps is that of the widest.
        weights: Their weights.
    """

    at: torch.Tensor
    wanted: torch.Tensor
    weights: torch.Tensor

    def mean(self, image: torch.Tensor) -> torch.Tensor:
        """New elements along the last axis; what is in no window may be infinite, and is not multiplied by zero."""
        old = torch.ops.aten._unsafe_index(image, [None, None, None, self.at])
        return (torch.where(self.wanted, old, 0.0) * self.weights).sum(-1)


def _taps(name: str, align_corners: bool, old: int, new: int, factor: float | None, like: torch.Tensor) -> _Taps:
    """What the elements of an axis are means of."""
    weigh, reach = _WEIGHTS[name]
    step = _step(align_corners, old, new, factor)
    wider = max(step, 1.0)
    support = reach / 2 * wider
    middle = ((torch.arange(new, device=like.device, dtype=torch.float64) + 0.5) * step).unsqueeze(1)
    first = (middle - support + 0.5).to(torch.int64).clamp(min=0)
    end = (middle + support + 0.5).to(torch.int64).clamp(max=old)
    at = first + torch.arange(2 * ceil(support) + 1, device=like.device)
    wanted = at < end
    weights = torch.where(wanted, weigh((at - middle + 0.5) / wider), 0.0)
    weights = weights / weights.sum(1, keepdim=True)
    return _Taps(torch.minimum(at, end - 1), wanted, weights.to(like.dtype))


def _step(align_corners: bool, old: int, new: int, factor: float | None) -> float:
    """From one new element to the next, in old ones."""
    if align_corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else old / new


def _rule(name: str) -> Callable[..., Any]:
    """By the operators' overloads `default`, whose factors come one by one."""

    def rule(image: torch.Tensor, sizes: Sequence[int], align_corners: bool, *factors: float | None) -> Any:
        return resample(name, image, sizes, align_corners, factors or (None, None))

    return rule


def _vec_rule(name: str) -> Callable[..., Any]:
    """By the overloads `vec`, which have sizes or factors."""

    def rule(image: torch.Tensor, sizes: Any, align_corners: bool, factors: Any) -> Any:
        given = factors or (None, None)
        if sizes is None:
            sizes = [
                int(old * factor) if type(old) is int else old
                for old, factor in zip(image.shape[2:], given, strict=True)
            ]
        return resample(name, image, sizes, align_corners, given)

    return rule


RULES: Final[dict[str, Callable[..., Any]]] = {
    **{f"aten._upsample_{name}2d_aa.default": _rule(name) for name in _WEIGHTS},
    **{f"aten._upsample_{name}2d_aa.vec": _vec_rule(name) for name in _WEIGHTS},
}
"""By the names of operators, the functions that take them apart."""
