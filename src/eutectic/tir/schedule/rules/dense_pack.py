"""Products of few rows with weights in panels: one panel after the other, each of them in one go.

The stages are those of `topi.nn.dense_pack`. The sums of a panel, for all rows, stay in registers while its weights are
read from front to end; then they are stored, with what is done to each of them. Threads share the panels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import Cast, FloorMod, IntImm, PrimExpr
from eutectic.tir.block import DENSE_PACK
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import (
    block_name,
    copies,
    has_no_remainder,
    in_registers,
    joined,
    loops_by_variable,
    realize_of,
    reorder,
    run_by_threads,
    with_iterations,
)
from eutectic.tir.schedule.rules.processor import Processor
from eutectic.tir.schedule.rules.roles import index_variable, roles_of
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.schedule import Schedule

_SPARE: Final = 2  # registers that hold no sums
_AHEAD: Final = 4096  # bytes of weights between what is read and what is asked for: processors do not look over pages


@dataclass(frozen=True)
class Axes:
    """The blocks of a product, and which axis of the last one does what.

    Attributes:
        products: Name of the block that multiplies.
        last: Name of the block that writes the result.
        rows: Axes over rows, of more than one each.
        columns: The axis over columns of the result.
        panel: Columns of a panel.
        weights: What is in panels.
    """

    products: str
    last: str
    rows: tuple[Axis, ...]
    columns: Axis
    panel: int
    weights: Buffer


class DensePack:
    """Panels of weights, from front to end."""

    name = "dense_pack"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """Such a product, with what is done to each element of its result in the last stage.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        products = roles_of(sch, stages, DENSE_PACK).get("products")
        if products is None or len(stages) != 2 or stages[0] is not products:
            return None
        last = stages[1]
        axes = None if last.init is not None else _axes(products, last)
        if axes is None:
            return None
        count = -(-axes.panel // processor.lanes())
        for axis in axes.rows:
            count *= axis.size or processor.registers
        return axes if count <= processor.registers - _SPARE else None

    def kept(self, sch: Schedule, stages: Sequence[Stage]) -> Collection[Buffer]:
        """What is read several times, and is better computed once: the products are no candidates."""
        return ()

    def left_to_others(self, axes: Axes, decisions: Decisions) -> tuple[str, ...]:
        """Names of the stages that are scheduled by rules of their own: none."""
        return ()

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """How many terms before weights are read they are asked for."""
        return {"ahead": max(1, _AHEAD // (axes.panel * item_bytes(axes.weights.dtype)))}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Weights asked for half as early, and twice as early."""
        own = self.decide(axes, processor)
        return distinct([own, {"ahead": max(1, own["ahead"] // 2)}, {"ahead": 2 * own["ahead"]}])

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        loops = loops_by_variable(sch, axes.last)
        rows = [loops[axis.loop] for axis in axes.rows]
        units = [loop for var, loop in loops.items() if loop not in rows and var is not axes.columns.loop]
        outer, lane = sch.split(loops[axes.columns.loop], [None, axes.panel])
        reorder(sch, [*units, outer, *rows, lane])
        sch.compute_at(axes.products, outer, preserve_unit_loops=True)
        sch.set_scope(axes.products, 0, "local")
        parts: Sequence[LoopRV] = [outer]
        pairs: list[tuple[str, ...]] = [(axes.products, axes.last)]
        if not has_no_remainder(sch, axes.last):
            parts = sch.loop_partition(outer, ["whole", None])
            pairs = copies(sch, parts, axes.products, axes.last)
        for products, last in pairs:
            _multiply(sch, products, len(units) + 1)
            _look_ahead(sch, f"{products}_update", axes.weights, len(units) + 1, decisions["ahead"])
            in_registers(sch, last, len(rows) + 1)
        run_by_threads(sch, with_iterations(sch, joined(sch, parts)))


def _multiply(sch: Schedule, products: str, depth: int) -> None:
    """The sums of a panel in registers, within so many loops."""
    *own, term = sch.get_loops(products)[depth:]
    reorder(sch, [term, *own])
    first = block_name(sch, sch.decompose_reduction(products, term))
    for name in (first, f"{products}_update"):
        in_registers(sch, name, len(own))


def _look_ahead(sch: Schedule, products: str, weights: Buffer, depth: int, terms: int) -> None:
    """Ask for weights some terms before they are read, in the loop within so many others."""
    number = next(k for k, region in enumerate(realize_of(sch, products).block.reads) if region.buffer is weights)
    sch.prefetch(products, number, sch.get_loops(products)[depth], terms)


def _axes(products: Stage, last: Stage) -> Axes | None:
    reads = [load for load in last.reads() if load.buffer is products.output]
    panel = products.output.shape[-1]
    if not reads or not isinstance(panel, IntImm):
        return None
    by_var = {axis.var: axis for axis in last.spatial}
    columns = {by_var.get(index_variable(_whole(load.indices[-1], panel.value))) for load in reads}
    column = columns.pop()
    weights = {load.buffer for load in products.reads() if load.indices[-1] is products.indices[-1]}
    if columns or column is None or len(weights) != 1 or len(products.reduce) != 1:
        return None
    rows = tuple(axis for axis in last.spatial if axis is not column)
    return Axes(products.name, last.name, rows, column, panel.value, weights.pop())


def _whole(index: PrimExpr, by: int) -> PrimExpr:
    """What an index is the remainder of."""
    bare = index.value if isinstance(index, Cast) else index
    if isinstance(bare, FloorMod) and isinstance(bare.b, IntImm) and bare.b.value == by:
        return bare.a
    return IntImm("int64", 0)
