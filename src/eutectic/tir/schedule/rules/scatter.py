"""Elements written where data says: slices as vectors, one update after the other, threads side by side in slices.

The blocks are those of `topi.scatter`, which says in an annotation of each what it does. Two updates may go to one
place, so that their order stays; elements of one slice never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from eutectic.ir.prim_expr import IntImm
from eutectic.tir.block import SCATTER, Block
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.nest import copies, has_constant_extent, reorder
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.roles import blocks_of, extent_of
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import For

_SHARED_ELEMENTS: Final = 1 << 15  # from which on threads gain more than they wait


@dataclass(frozen=True)
class Axes:
    """The blocks of a scatter.

    Attributes:
        copy: Name of the block that copies the data.
        write: Name of the block that writes the updates.
        row: Elements of a slice along its last axis; None when slices are single elements, 0 when it is not known.
        elements: All that are written, as far as they are known.
    """

    copy: str
    write: str
    row: int | None
    elements: int


class Scatter(Whole):
    """Updates in their order, with vectors along slices."""

    name = "scatter"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """The blocks of such a program, which are no stages: the second one writes again what the first one wrote.

        Args:
            sch: The schedule.
            stages: None are found in such a program.
            processor: What it will run on.
        """
        return None if stages else _axes(blocks_of(sch, SCATTER))

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """Lanes of a vector, and whether threads share slices."""
        lanes = processor.lanes()
        return {"lanes": lanes, "shared": _can_share(axes, lanes) and axes.elements >= _SHARED_ELEMENTS}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """With threads and without, where slices are wide enough."""
        own = self.decide(axes, processor)
        return (own, {**own, "shared": not own["shared"]}) if _can_share(axes, own["lanes"]) else (own,)

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both blocks.

        Raises:
            ScheduleError: a primitive refuses.
        """
        outermost, *others = sch.get_loops(axes.copy)
        if others:
            sch.parallel(outermost)
        _by_vectors(sch, axes.copy, decisions["lanes"])
        if axes.row is None:
            return
        if decisions["shared"]:
            *turns, last = sch.get_loops(axes.write)
            vectors, lanes = sch.split(last, [None, decisions["lanes"]])
            reorder(sch, [vectors, *turns])
            sch.parallel(vectors)
            sch.vectorize(lanes)
        else:
            _by_vectors(sch, axes.write, decisions["lanes"])


def _can_share(axes: Axes, lanes: int) -> bool:
    return axes.row is not None and axes.row >= 2 * lanes and axes.row % lanes == 0


def _axes(blocks: dict[str, Block]) -> Axes | None:
    if set(blocks) != {"copy", "write"}:
        return None
    axes = blocks["write"].iter_vars
    sizes = [extent_of(axis) for axis in axes]
    known = [size.value if isinstance(size, IntImm) else 0 for size in sizes]
    elements = prod(size or 1 for size in known)
    row = None if axes[-1].iter_type == "opaque" else known[-1]
    return Axes(blocks["copy"].name_hint, blocks["write"].name_hint, row, elements)


def _by_vectors(sch: Schedule, block: str, lanes: int) -> None:
    """Vectors along the innermost loop, and one for what is left of it."""
    innermost = sch.get_loops(block)[-1]
    loop = sch.get(innermost)
    assert isinstance(loop, For)
    if loop.static_extent == 1:
        return
    if loop.static_extent is not None and loop.static_extent < lanes:
        sch.vectorize(innermost)
        return
    outer, _ = sch.split(innermost, [None, lanes])
    parts: list[LoopRV] = [outer]
    if loop.static_extent is None or loop.static_extent % lanes:
        parts = sch.loop_partition(outer, ["whole"])
    for (part,) in copies(sch, parts, block):
        _vectorize_if_known(sch, part)


def _vectorize_if_known(sch: Schedule, block: str) -> None:
    innermost = sch.get_loops(block)[-1]
    if has_constant_extent(sch, innermost):
        sch.vectorize(innermost)
