"""Recurrent layers: within each step, tiles of units with all their gates and states in registers.

The blocks are those of `topi.nn.recurrent`, which says in an annotation of each what it does. Steps follow each other;
threads share the units of a step, whose weights stay in the caches of the thread that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.prim_expr import IntImm
from eutectic.tir.block import RECURRENT
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.borders import vectors_along
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import block_name, copies, in_registers, reorder
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.roles import blocks_of, extent_of
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Stage
from eutectic.tir.schedule.schedule import Schedule

_IN_TILES: Final = ("before", "new", "cell", "hidden")  # what is computed from sums, and what that reads, in order
_PRIVATE: Final = ("sums", "before", "new")
_AFTER: Final = ("last", "last_cell")
_WEIGHT_AXES: Final = 4
_FEWEST_CHAINS: Final = 8  # of sums that do not wait for each other
_OTHER_REGISTERS: Final = 4  # besides sums: factors
_SHARED_WORK: Final = 1 << 15  # multiplications of a step from which on threads gain more than they wait


@dataclass(frozen=True)
class Axes:
    """The blocks of a recurrent layer, and their sizes.

    Attributes:
        blocks: Names of those that there are, by what they do.
        batch: Sequences; None when it is not known how many.
        gates: Sums of a unit.
        units: Units of the hidden state.
        lanes: Units whose weights lie beside each other.
    """

    blocks: dict[str, str]
    batch: int | None
    gates: int
    units: int
    lanes: int

    @property
    def work(self) -> int:
        """Multiplications of a step, of one sequence when it is not known how many there are."""
        return (self.batch or 1) * self.units * self.units * self.gates


class Recurrent(Whole):
    """Tiles of units of some sequences, step by step."""

    name = "recurrent"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """The blocks of such a layer, which are no stages: what is computed in a step is read in the next one.

        Args:
            sch: The schedule.
            stages: None are found in such a program.
            processor: What it will run on.
        """
        return None if stages else _axes(sch)

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """How many units of how many sequences are in registers, and whether threads share a step."""
        return _decisions(axes, processor, _is_single(axes))

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """One sequence at a time or several; with threads and without."""
        own = self.decide(axes, processor)
        other = own if axes.batch in (0, 1) else _decisions(axes, processor, not _is_single(axes))
        return distinct(
            [{**tile, "shared": shared} for tile in (own, other) for shared in (own["shared"], not own["shared"])]
        )

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule all blocks.

        Raises:
            ScheduleError: a primitive refuses.
        """
        inside = [axes.blocks[role] for role in _IN_TILES if role in axes.blocks]
        outer = _in_tiles(sch, axes, inside, decisions)
        for blocks in _parts(sch, axes, outer, [axes.blocks["sums"], *inside], decisions):
            _in_registers(sch, *blocks)
        for role in ("previous", *_AFTER):
            if role in axes.blocks:
                vectors_along(sch, axes.blocks[role], decisions["units"])


def _is_single(axes: Axes) -> bool:
    return axes.batch is None or axes.batch <= 1


def _decisions(axes: Axes, processor: Processor, single: bool) -> Decisions:
    lanes, room = processor.lanes(), processor.registers - _OTHER_REGISTERS
    vectors = max(1, min(_FEWEST_CHAINS // axes.gates, axes.lanes // lanes)) if single else 1
    most = max(1, room // axes.gates)
    rows = 1 if single else most if axes.batch is None else -(-axes.batch // -(-axes.batch // most))
    units = min(lanes * vectors, axes.lanes, axes.units)
    return {"units": units, "rows": rows, "shared": axes.work >= _SHARED_WORK}


def _axes(sch: Schedule) -> Axes | None:
    roles = blocks_of(sch, RECURRENT)
    if not {"sums", "hidden"} <= set(roles):
        return None
    sums = roles["sums"]
    (weight,) = (region.buffer for region in sums.reads if region.buffer.ndim == _WEIGHT_AXES)
    batch, gates, units, lanes = *(extent_of(axis) for axis in sums.iter_vars[1:4]), weight.shape[-1]
    if not isinstance(gates, IntImm) or not isinstance(units, IntImm) or not isinstance(lanes, IntImm):
        return None
    names = {role: block.name_hint for role, block in roles.items()}
    return Axes(names, batch.value if isinstance(batch, IntImm) else None, gates.value, units.value, lanes.value)


def _in_tiles(sch: Schedule, axes: Axes, inside: Sequence[str], decisions: Decisions) -> LoopRV:
    """Everything of a step under loops over tiles: over units, and within them over sequences.

    Returns:
        The loop over units.
    """
    sums = axes.blocks["sums"]
    row, gate, unit, term = sch.get_loops(sums)[1:]
    units, lane = sch.split(unit, [None, decisions["units"]])
    rows, each = sch.split(row, [None, decisions["rows"]])
    reorder(sch, [units, rows, term, each, gate, lane])
    before = axes.blocks.get("before")
    for name in inside:
        if name != before:
            sch.reverse_compute_at(name, rows, preserve_unit_loops=True)
    if before is not None:
        sch.compute_at(before, rows, preserve_unit_loops=True)
    for role in _PRIVATE:
        if role in axes.blocks:
            sch.set_scope(axes.blocks[role], 0, "local")
    return units


def _parts(
    sch: Schedule, axes: Axes, units: LoopRV, blocks: Sequence[str], decisions: Decisions
) -> list[tuple[str, ...]]:
    """The blocks in each part of the loops over tiles: whole tiles, and what is left of units and of sequences."""
    outer = [units] if axes.units % decisions["units"] == 0 else sch.loop_partition(units, ["whole"])
    found: list[tuple[str, ...]] = []
    for part in copies(sch, outer, *blocks):
        rows = sch.get_loops(part[0])[2]
        is_whole = axes.batch is not None and axes.batch % decisions["rows"] == 0
        found += copies(
            sch, [rows] if is_whole or decisions["rows"] == 1 else sch.loop_partition(rows, ["whole"]), *part
        )
    if decisions["shared"]:
        sch.parallel(outer[0])
    return found


def _in_registers(sch: Schedule, sums: str, *others: str) -> None:
    """A tile, written out."""
    update = sch.get_block(sums)
    begin = sch.decompose_reduction(update, sch.get_loops(update)[3])
    for part in (begin, update):
        in_registers(sch, block_name(sch, part), 3)
    for block in others:
        in_registers(sch, block, 2)
