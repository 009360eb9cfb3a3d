"""Linear interpolation of signals and volumes, taken apart as torch's kernels compute it.

Torch's own rules for these operators agree with its kernels on finite data alone: they take differences of neighbours
that may be infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_NARROW: Final = (torch.float16, torch.bfloat16)

Size = Any  # an int, or `torch.SymInt`, which torch's own types do not take everywhere


def linear(image: torch.Tensor, sizes: Sequence[Size], align_corners: bool, factors: Sequence[float | None]) -> Any:
    """Linear interpolation along all axes but two: weighted sums of elements, also where a weight is 0.

    Args:
        image: `(n, c, *old)`; a dtype that is not a float is left to torch.
        sizes: The new sizes.
        align_corners: Whether the first and last elements stay where they are.
        factors: By how much an axis grows; None is the quotient of its sizes.

    Returns:
        `(n, c, *sizes)`; 16-bit floats are computed in float32.

    Reference: torch.nn.functional.interpolate with mode linear or trilinear.
    """
    if not image.is_floating_point():
        return NotImplemented
    wide = image.float() if image.dtype in _NARROW else image
    axes = zip(image.shape[2:], sizes, factors, strict=True)
    ends = [_ends(old, new, align_corners, factor, wide) for old, new, factor in axes]

    def along(axis: int, place: torch.Tensor) -> torch.Tensor:
        return place.view(-1, *[1] * (len(ends) - 1 - axis))

    def corner(high: tuple[int, ...]) -> Any:
        places = [along(axis, ends[axis][which]) for axis, which in enumerate(high)]
        return torch.ops.aten._unsafe_index(wide, [None, None, *places])

    values = [corner(high) for high in product((0, 1), repeat=len(ends))]
    for axis in reversed(range(len(ends))):
        weight = along(axis, ends[axis][2])
        values = [low * (1 - weight) + high * weight for low, high in zip(values[::2], values[1::2], strict=True)]
    return values[0].to(image.dtype)


def _ends(
    old: Size, new: Size, align_corners: bool, factor: float | None, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Between which old elements each new one lies, and the weight of the second."""
    index = torch.arange(new, device=like.device)
    if statically_known_true(old == new):
        return index, index, torch.zeros_like(index, dtype=like.dtype)
    ratio = 1 / factor if factor is not None and factor > 0 else old / new
    if align_corners:
        ratio = (old - 1) / (new - 1) if not statically_known_true(new == 1) else 0.0
    place = index.to(like.dtype)
    place = place * ratio if align_corners else ((place + 0.5) * ratio - 0.5).clamp(min=0)
    low = place.to(torch.int64).clamp(max=old - 1)
    # None where sizes that vary are the same.
    step: Size = torch.sym_min(1, torch.sym_max(old - new, new - old))  # type: ignore[no-untyped-call]  # as torch has it
    return low, (low + step).clamp(max=old - 1), (place - low).clamp(0, 1)


def _linear_rule(image: torch.Tensor, sizes: Sequence[Size], align_corners: bool, *factors: float | None) -> Any:
    """By the operators' overloads `default`, whose factors come one by one."""
    return linear(image, sizes, align_corners, factors or [None] * len(sizes))


def _linear_vec_rule(image: torch.Tensor, sizes: Any, align_corners: bool, factors: Any) -> Any:
    """By the overloads `vec`, which have sizes or factors."""
    if sizes is not None:
        return linear(image, sizes, align_corners, [None] * len(sizes))
    return linear(image, [*map(_times, image.shape[2:], factors)], align_corners, factors)


def _times(size: Size, factor: float) -> Size:
    """A size that grows; without floats where it varies, as far as possible."""
    if factor == int(factor):
        return size * int(factor)
    return torch.sym_int(size * factor)  # type: ignore[no-untyped-call]  # as torch has it


RULES: Final[dict[str, Callable[..., Any]]] = {
    **{f"aten.upsample_{name}.default": _linear_rule for name in ("linear1d", "trilinear3d")},
    **{f"aten.upsample_{name}.vec": _linear_vec_rule for name in ("linear1d", "trilinear3d")},
}
"""By the names of operators, the functions that take them apart."""
