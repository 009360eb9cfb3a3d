"""Convolutions by Winograd's method: transforms in registers, and the products between them.

The stages are those of `topi.nn.conv2d_winograd`, which says in an annotation of each block what it does. Where the
weights are small, all stages are done for one row of tiles after the other, so that what is between them stays near;
otherwise one stage after the other is done for all tiles, and weights are read once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import Cast, FloorDiv, IntImm, PrimExpr, Var
from eutectic.tir.block import WINOGRAD
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import (
    block_name,
    copies,
    has_no_remainder,
    in_registers,
    loops_by_variable,
    reorder,
    run_by_threads,
    with_iterations,
)
from eutectic.tir.schedule.rules.partial_sums import in_blocks, sum_blocks, terms_decided, terms_of_block
from eutectic.tir.schedule.rules.processor import FEW_REGISTERS, Processor
from eutectic.tir.schedule.rules.roles import index_variable, roles_of
from eutectic.tir.schedule.rules.rule import Decisions
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.tile_size import Iterations
from eutectic.tir.schedule.schedule import Schedule

_ROLES: Final = ("input_rows", "input_transform", "products", "output_rows")
_NEAR_BYTES: Final = 3 << 20  # of weights that are better read again for each row of tiles
_NEAR_BYTES_NARROW: Final = 1 << 20  # the same on processors with few vector registers
_MOST_ROW_BYTES: Final = 1 << 20  # of what each thread keeps for a row of tiles
_MOST_ROW_BYTES_OF_VOLUMES: Final = 4 << 20  # the same of rows through all slices: apart they would be computed again
_LARGEST_ROW_BYTES: Final = 4 << 20  # the same, of what is measured at all
_APART: Final = (1024, 576)  # bytes: from one value of tiles to the next, so that not all are in one set of a cache
_MANY_BLOCKS: Final = 8  # of terms: more are added up in groups
_BLOCKS: Final = (4, 3, 5, 2)  # of a group, the first that divides them
_AXES_OF_CHANNELS: Final = 2  # that products are summed over: of blocks, and in them; before these is that of slices
_FEWEST_ROWS: Final = 8  # of tiles, in all images, that threads share evenly enough


@dataclass(frozen=True)
class Axes:
    """The blocks of a convolution, and which axis of the last one does what.

    Attributes:
        pad: Name of the block that pads the data; empty when nothing is padded, or that is inlined.
        last: Name of the block that writes the result.
        tile: Outputs of a tile along an axis.
        lanes: Channels that are transformed together.
        slices: The axis over slices of a volume, where windows have several; None when slices are as images are.
        rank: Axes of a volume, 3, or of an image, 2.
        rows: The axis of the result that tiles follow each other along, from top to bottom.
        columns: The axis from left to right.
        channels: Axes over output channels: over blocks and lanes, or over both in one.
        across: Tiles from left to right; None when it is not known how many.
        weight_bytes: Size of the transformed weights.
        row_bytes: Size of what is between the stages, for a row of tiles; infinite when it is not known.
        row_count: Rows of tiles in all images; None when it is not known.
        terms: Channels that are summed.
        block_of_terms: How many of them at a time; 0 for all.
        item_bytes: Size of an element.
    """

    pad: str
    last: str
    tile: int
    lanes: int
    slices: Axis | None
    rank: int
    rows: Axis
    columns: Axis
    channels: tuple[Axis, ...]
    across: int | None
    weight_bytes: int
    row_bytes: float
    row_count: int | None
    terms: int
    block_of_terms: int
    item_bytes: int


class Winograd:
    """Tiles of several stages at a time."""

    name = "winograd"

    def matches(self, sch: Schedule, stages: Sequence[Stage], processor: Processor) -> Axes | None:
        """The stages of such a convolution, with what is done to each element of its result in the last one.

        Args:
            sch: The schedule.
            stages: Those that are left when all have been inlined that are better computed where they are read.
            processor: What it will run on.
        """
        roles = roles_of(sch, stages, WINOGRAD)
        if any(role not in roles for role in _ROLES):
            return None
        inner = [roles[role] for role in _ROLES]
        rest = [stage for stage in stages if stage not in inner]
        if not 1 <= len(rest) <= 2 or rest[-1] is not stages[-1] or (len(rest) == 2 and not _pads(rest[0], inner[0])):
            return None
        return _axes(rest[0].name if len(rest) == 2 else "", rest[-1], roles)

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """Whether all stages are done row by row, and how many tiles are multiplied at once."""
        most = 14 if processor.registers == 32 else 6
        near = _NEAR_BYTES_NARROW if processor.registers <= FEW_REGISTERS else _NEAR_BYTES
        most_bytes = _MOST_ROW_BYTES if axes.slices is None else _MOST_ROW_BYTES_OF_VOLUMES
        by_rows = axes.weight_bytes <= near and axes.row_bytes <= most_bytes
        by_rows = by_rows and (axes.row_count is None or axes.row_count >= _FEWEST_ROWS)
        tile = {"tiles": _even(axes.across, most), "lanes": min(axes.lanes, processor.lanes())}
        return {"by_rows": by_rows, **tile, **terms_decided(axes.block_of_terms)}

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Row by row and stage by stage, where a row is not too large; half as many tiles at once."""
        own = self.decide(axes, processor)
        orders = [own["by_rows"], *([not own["by_rows"]] if axes.row_bytes <= _LARGEST_ROW_BYTES else [])]
        fewer = _even(axes.across, -(-own["tiles"] // 2))
        counts = {True: (own["tiles"], fewer), False: (own["tiles"],)}  # stage by stage others tile the products
        return distinct(
            [{**own, "by_rows": by_rows, "tiles": tiles} for by_rows in orders for tiles in counts[by_rows]]
        )

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule what is not left to rules of single stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        around, inside = _tiles_of_result(sch, axes)
        sch.compute_at("output_rows", inside, preserve_unit_loops=True)
        by_rows = decisions["by_rows"]
        for name in ("products", "input_transform") if by_rows else ():
            sch.compute_at(name, around[-1], preserve_unit_loops=True)
            sch.set_scope(name, 0, "local")
            sch.storage_align(name, 0, 1, *(size // axes.item_bytes for size in _APART))
        _tiles_of_data(sch, axes)
        for name in ("input_rows", "output_rows"):
            sch.set_scope(name, 0, "local")
        if by_rows and axes.pad:
            sch.compute_at(axes.pad, around[-1], preserve_unit_loops=True)
            sch.set_scope(axes.pad, 0, "local")
            sch.vectorize(sch.split(sch.get_loops(axes.pad)[-1], [None, axes.lanes])[1])
        for name in ("input_rows", "input_transform", "output_rows", axes.last):
            in_registers(sch, name, 3)
        if by_rows:
            _multiply(sch, axes, decisions)
            rows = with_iterations(sch, around)
            sch.parallel(sch.fuse(*rows) if len(rows) > 1 else rows[0])  # last: later steps would prove it again
        else:
            run_by_threads(sch, with_iterations(sch, [*around, sch.get_loops(axes.last)[len(around)]]))
            run_by_threads(sch, with_iterations(sch, sch.get_loops("input_transform")[:3]))

    def kept(self, sch: Schedule, stages: Sequence[Stage]) -> Collection[Buffer]:
        """What is read several times between the transforms, and by the first of them, and is better computed once."""
        roles = roles_of(sch, stages, WINOGRAD)
        written = [stage.output for stage in stages]
        padded = [load.buffer for load in roles["input_rows"].reads()] if "input_rows" in roles else []
        between = [roles[role].output for role in _ROLES if role in roles]
        return [*between, *(buffer for buffer in padded if buffer in written)]

    def left_to_others(self, axes: Axes, decisions: Decisions) -> tuple[str, ...]:
        """Names of the stages that are scheduled by rules of their own."""
        return () if decisions["by_rows"] else tuple(filter(None, (axes.pad, "products")))


def _pads(stage: Stage, reader: Stage) -> bool:
    return stage.init is None and any(load.buffer is stage.output for load in reader.reads())


def _axes(pad: str, last: Stage, roles: dict[str, Stage]) -> Axes | None:
    rows, products = roles["output_rows"], roles["products"]
    reads = [load for load in last.reads() if load.buffer is rows.output]
    weights = [load.buffer for load in products.reads() if load.buffer is not roles["input_transform"].output]
    *counts, height, across, _, tile, _, lanes = [getattr(size, "value", None) for size in rows.output.shape]
    if not reads or None in (tile, lanes) or last.init is not None or len(weights) != 1:
        return None
    assert tile is not None and lanes is not None
    *places, y, x, block, _, _, lane = reads[0].indices
    by_var = {axis.var: axis for axis in last.spatial}
    images = [by_var.get(index_variable(place)) for place in places]
    down, right = _divided(y, tile, by_var), _divided(x, tile, by_var)
    whole = _divided(block, lanes, by_var)
    channels = (whole,) if whole is not None else (by_var.get(index_variable(block)), by_var.get(index_variable(lane)))
    known = [axis for axis in (*images, down, right, *channels) if axis is not None]
    if down is None or right is None or len(known) != len(last.spatial) or len(set(known)) != len(known):
        return None
    terms = prod(axis.size or 0 for axis in products.reduce)
    together = any(axis.size != 1 for axis in products.reduce[:-_AXES_OF_CHANNELS])
    return Axes(
        pad,
        last.name,
        tile,
        lanes,
        images[-1] if together else None,
        len(images) + 1,
        down,
        right,
        tuple(axis for axis in channels if axis is not None),
        across,
        _bytes(weights[0]),
        *_size_of_rows(
            (roles["input_transform"].output, products.output), [*(counts[:1] if together else counts), height], across
        ),
        terms,
        terms_of_block(products, [Iterations(terms)]),
        item_bytes(rows.output.dtype),
    )


def _size_of_rows(
    between: Sequence[Buffer], counts: Sequence[int | None], across: int | None
) -> tuple[float, int | None]:
    """Bytes of what is between the stages for a row of tiles, and how many rows there are.

    Args:
        between: The transformed tiles, and the products.
        counts: Sizes of the axes that rows follow each other along; None where not known.
        across: Tiles of a row.
    """
    known = prod(size or 1 for size in counts)
    row_bytes = inf if across is None else sum(_bytes(buffer) for buffer in between) // known
    return row_bytes, None if None in counts else known


def _divided(index: PrimExpr, by: int, axes: dict[Var, Axis]) -> Axis | None:
    """The axis of which an index is a part."""
    bare = index.value if isinstance(index, Cast) else index
    if isinstance(bare, FloorDiv) and isinstance(bare.b, IntImm) and bare.b.value == by:
        return axes.get(index_variable(bare.a))
    return None


def _bytes(buffer: Buffer) -> int:
    total = item_bytes(buffer.dtype)
    for size in buffer.shape:
        total *= size.value if isinstance(size, IntImm) else 1
    return total


def _even(count: int | None, most: int) -> int:
    """The size of parts that a number is cut into, as few as can be, of which the last is hardly smaller."""
    if count is None:
        return most
    parts = -(-count // most)
    return -(-count // parts)


def _tiles_of_result(sch: Schedule, axes: Axes) -> tuple[list[LoopRV], LoopRV]:
    """Tiles outside, and in each of them blocks of channels: the loops over rows of tiles, and that over blocks."""
    loops = loops_by_variable(sch, axes.last)
    spatial = [axis.loop for axis in (axes.rows, axes.columns, *axes.channels)]
    slices = [] if axes.slices is None else [loops[axes.slices.loop]]
    outside = [loop for var, loop in loops.items() if var not in spatial and loop not in slices]
    down, y = sch.split(loops[axes.rows.loop], [None, axes.tile])
    right, x = sch.split(loops[axes.columns.loop], [None, axes.tile])
    channels = [loops[axis.loop] for axis in axes.channels]
    block, lane = channels if len(channels) == 2 else sch.split(channels[0], [None, axes.lanes])
    several = with_iterations(sch, outside)
    around = [*(loop for loop in outside if loop not in several), *several, down]
    reorder(sch, [*around, *slices, right, block, y, x, lane])
    return around, block


def _tiles_of_data(sch: Schedule, axes: Axes) -> None:
    """Tiles outside, and in each of them blocks of channels, of which all values are transformed together."""
    p, q, *place, c, lane = sch.get_loops("input_transform")[-axes.rank - 5 :]
    reorder(sch, [*place, c, p, q, lane])
    sch.compute_at("input_rows", c, preserve_unit_loops=True)


def _multiply(sch: Schedule, axes: Axes, decisions: Decisions) -> None:
    """The products of a row of tiles: some tiles times a panel of channels in registers."""
    loops = sch.get_loops("products")[-2 * axes.rank - 5 :]
    (p, q, n, *place, x), (panel, channel, *terms) = loops[: axes.rank + 3], loops[axes.rank + 3 :]
    terms = [sch.fuse(*terms)]
    outer, inner = sch.split(x, [None, decisions["tiles"]])
    vectors, lane = sch.split(channel, [None, decisions["lanes"]])
    copy = block_name(sch, sch.cache_write("products", 0, "local"))
    reorder(sch, [p, q, n, panel, *place, outer, *terms, inner, vectors, lane])
    sch.reverse_compute_at(copy, outer)
    pairs: list[tuple[str, ...]] = [("products", copy)]
    if not has_no_remainder(sch, "products", outer):
        pairs = copies(sch, sch.loop_partition(outer, ["whole", None]), "products", copy)
    for products, stored in pairs:
        depth = len(sch.get_loops(products)) - 4  # loops around those over terms
        term = sch.get_loops(products)[depth]
        sch.split(sch.get_loops(stored)[-1], [None, decisions["lanes"]])
        in_registers(sch, stored, 3)
        for level, size in enumerate(_levels(decisions.get("terms", 0), axes.terms), depth + 1):
            partial, blocks = sum_blocks(sch, in_blocks(sch, term, size)[0])
            _sum(sch, products, blocks)
            products, term = partial, sch.get_loops(partial)[level]
        _sum(sch, products, term)


def _levels(block: int, terms: int) -> list[int]:
    """How many of so many terms are summed at a time, and how many of these: many blocks are blocks of blocks."""
    if not block:
        return []
    count = terms // block
    together = next((k for k in _BLOCKS if terms % (k * block) == 0), 1)
    return [together * block, block] if count > _MANY_BLOCKS and together > 1 else [block]


def _sum(sch: Schedule, block: str, term: LoopRV) -> None:
    """The sums from a loop over terms on, with all elements of a tile written out in it."""
    first = sch.decompose_reduction(block, term)
    for name in (block_name(sch, first), f"{block}_update"):
        in_registers(sch, name, 3)
