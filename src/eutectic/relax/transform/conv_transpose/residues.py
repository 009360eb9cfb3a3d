"""Which taps of a transposed convolution meet at a point: those of its residue modulo the stride.

Along an axis with stride `s`, dilation `d` and `b` elements cut off before, tap `t` puts element `x` of the data at
point `y = s * x + d * t - b`. With `y + b = s * q + r`, point `y` gets `data[q - o] * weight[t]` of all taps with
`d * t = s * o + r`. These depend on the residue `r` alone: for each residue the points are a convolution with stride 1.

Reference: W. Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016, arXiv:1609.07009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Options of a transposed convolution along one axis.

    Attributes:
        taps: Taps of a window; positive.
        stride: Step between the windows written.
        dilation: Step between the taps.
        before: Elements of the result cut off before.
        after: Elements cut off after.
        extra: Elements added at the end (`output_padding`).
    """

    taps: int
    stride: int
    dilation: int
    before: int
    after: int
    extra: int


@dataclass(frozen=True)
class Window:
    """The convolution with stride 1 that computes the points of one residue.

    Attributes:
        taps: Which taps, in the order in which they lie on the data; none where all points are zero.
        dilation: Step between them on the data.
        padding: Elements of the data that are not there, before and after.
    """

    taps: tuple[int, ...]
    dilation: int
    padding: tuple[int, int]

    @property
    def form(self) -> tuple[int, int, tuple[int, int]]:
        """What windows share that differ in their weights only."""
        return len(self.taps), self.dilation, self.padding


@dataclass(frozen=True)
class AxisPlan:
    """The points of one axis by residues.

    Attributes:
        windows: One for each residue.
        longer: By how many points the result of each is longer than the data.
        crops: Points that are too many when the results are interleaved, before and after.
    """

    windows: tuple[Window, ...]
    longer: int
    crops: tuple[int, int]


def plan_axis(axis: Axis) -> AxisPlan:
    """The windows of an axis, all over the same points of the data.

    Args:
        axis: Its options.
    """
    offsets = [_offsets(axis, residue) for residue in range(axis.stride)]
    first = min([axis.before // axis.stride, *(max(each.values()) for each in offsets if each)])
    reach = axis.dilation * (axis.taps - 1) + axis.extra - axis.after
    longer = max([reach // axis.stride, *(min(each.values()) for each in offsets if each)]) - first
    windows = tuple(_window(each, first, longer) for each in offsets)
    crop = axis.before - first * axis.stride
    return AxisPlan(windows, longer, (crop, (first + longer + 1) * axis.stride - reach - 1))


def plan_apart(axis: Axis) -> AxisPlan | None:
    """The windows of an axis, each over the points of the data that it needs: points of the result from the first on.

    Args:
        axis: Its options.

    Returns:
        A plan of as few points as there are; None where the windows of a residue do not reach the first or last one.
    """
    reach = axis.dilation * (axis.taps - 1) + axis.extra - axis.after
    length = 1 + reach - axis.before  # of the result, beyond `stride` times the data but one
    longer = -(-length // axis.stride) - 1
    windows = []
    for place in range(axis.before, axis.before + axis.stride):
        begun, residue = divmod(place, axis.stride)
        windows.append(_window(_offsets(axis, residue), begun, longer))
    if any(min(window.padding) < 0 for window in windows):
        return None
    return AxisPlan(tuple(windows), longer, (0, (longer + 1) * axis.stride - length))


def _offsets(axis: Axis, residue: int) -> dict[int, int]:
    """How far before a point the data lies that each tap of a residue takes, by tap."""
    places = {tap: tap * axis.dilation - residue for tap in range(axis.taps)}
    return {tap: place // axis.stride for tap, place in places.items() if place % axis.stride == 0}


def _window(offsets: dict[int, int], first: int, longer: int) -> Window:
    if not offsets:
        return Window((), 1, (0, 0))
    taps = sorted(offsets, key=lambda tap: -offsets[tap])
    farthest, nearest = offsets[taps[0]], offsets[taps[-1]]
    dilation = farthest - offsets[taps[1]] if len(taps) > 1 else 1
    return Window(tuple(taps), dilation, (farthest - first, first + longer - nearest))


def are_alike(plans: Sequence[AxisPlan]) -> bool:
    """Whether the windows of all residues differ in their weights only: one convolution computes all of them."""
    return all(len({window.form for window in plan.windows}) == 1 for plan in plans)
