"""Along which axes a window moves over images, and where it reads them."""

from __future__ import annotations

from typing import NamedTuple

from eutectic.tir.analysis.conditions import variables
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.rules.register_axes import contiguous_result
from eutectic.tir.schedule.rules.walk import Access, Span, Walk


class MovingAxes(NamedTuple):
    """Axes of the result: those that a window moves along, and that which vectors lie along."""

    rows: Span
    points: Span
    channels: Span


def moving_axes(walk: Walk, image: Buffer) -> MovingAxes | None:
    """What a window does along the axes; None when it does not move along two others, or channels share one."""
    channels = contiguous_result(walk)
    moved = [span for span in walk.spatial if _is_moved(walk, image, span)]
    if len(moved) < 2 or channels is None or any(not _goes_along(access, channels) for access in walk.reads):
        return None
    found = MovingAxes(moved[-2], moved[-1], channels)
    if channels in found[:2]:  # vectors would lie along rows, as in a pool of a row-major image
        return None
    return None if any(len(span.axes) > 1 for span in found) else found


def _is_moved(walk: Walk, image: Buffer, span: Span) -> bool:
    """Whether the window moves over the image along an axis, and all else that is added up stays.

    Where nothing else is read, as by a pool, all axes select a part of the image: a window moves along those that are
    added to its own.
    """
    if all(access.buffer is image for access in walk.reads):
        own, taps = ({axis.var for axis in axes} for axes in (span.axes, walk.stage.reduce))
        indices = [variables(index) for load in walk.stage.reads() if load.buffer is image for index in load.indices]
        return any(index & own and index & taps for index in indices)
    return all(_goes_along(access, span) == (access.buffer is image) for access in walk.reads)


def _goes_along(access: Access, span: Span) -> bool:
    """Whether neighbours along an axis are at other places of a buffer, as far as that is known."""
    step = access.coefficient(span)
    return step is not None and not (isinstance(step, int) and step == 0)


def seen_once(walk: Walk, image: Buffer) -> BufferLoad | None:
    """Where sums read the padded image; None when they read it at several places."""
    found = [access.load for access in walk.reads if access.buffer is image]
    return found[0] if len(found) == 1 else None
