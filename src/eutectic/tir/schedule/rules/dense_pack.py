"""Products with weights in panels: one panel after the other, each of them from front to end.

The stages are those of `topi.nn.dense_pack`. The sums of a panel, for all rows if they are few, else for a tile of them
at a time, stay in registers while its weights are read; then they are stored, with what is done to each of them.
Threads share the panels. Each panel is read from memory once, as in a network its weights come from far, and data that
does not stay near a processor is read again for each of them, of which there is time for many numbers of the sum: going
through all panels with one block of rows after the other was slower on processors of 512 bits. On those with few
registers, whose second caches are small (512 KB, Zen 1), it takes 0.78 to 0.97 of the time where data is far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import Cast, FloorMod, IntImm, PrimExpr
from eutectic.tir.block import DENSE_PACK
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.rules.choosing import distinct
from eutectic.tir.schedule.rules.nest import (
    block_name,
    has_no_remainder,
    in_registers_within,
    joined,
    loops_by_variable,
    number_of_read,
    pair_parts,
    reorder,
    run_by_threads,
    with_iterations,
)
from eutectic.tir.schedule.rules.partial_sums import in_blocks, sum_blocks, terms_decided, terms_of_block
from eutectic.tir.schedule.rules.processor import FEW_REGISTERS, Processor
from eutectic.tir.schedule.rules.roles import index_variable, roles_of
from eutectic.tir.schedule.rules.rule import Decisions, Whole
from eutectic.tir.schedule.rules.stage import Axis, Stage
from eutectic.tir.schedule.rules.tile_size import rows_kept
from eutectic.tir.schedule.schedule import Schedule

_SPARE: Final = 4  # registers that hold no sums: weights, and a number of the data
_FEWEST: Final = 4  # rows that must share what is read of a panel
_NEAR_BYTES: Final = 1 << 20  # of data that stays near a processor while it goes through panels
_LINES: Final = 10  # of the data in one place of a nearest cache that has 12 for each, beside those of weights
_BLOCK_BYTES: Final = 256 << 10  # of a block of it
_FAR_BYTES: Final = 2 << 20  # of data that is better read once, by blocks, where registers are few
_BLOCK_ROWS: Final = 48  # of a block that reads panels often enough
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
        data_bytes: Of a number of the data.
        terms: How many are summed; None when it is not known.
        block_of_terms: How many of them at a time; 0 for all.
        most: Rows of which the sums fit into registers.
    """

    products: str
    last: str
    rows: tuple[Axis, ...]
    columns: Axis
    panel: int
    weights: Buffer
    data_bytes: int
    terms: int | None
    block_of_terms: int
    most: int = 0

    @property
    def count(self) -> int | None:
        """Rows in all; None where that is not known."""
        sizes = [axis.size for axis in self.rows if axis.size is not None]
        return prod(sizes) if len(sizes) == len(self.rows) else None

    @property
    def are_few(self) -> bool:
        """Whether the sums of all rows fit into registers."""
        return self.count is not None and self.count <= self.most

    @property
    def term_bytes(self) -> int:
        """Of the weights of a panel for one term."""
        return self.panel * item_bytes(self.weights.dtype)

    @property
    def row_bytes(self) -> int:
        """Of the data in a row; those of one number where it is not known how many there are."""
        return self.data_bytes * (self.terms or 1)


class DensePack(Whole):
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
        most = (processor.registers - _SPARE) // -(-axes.panel // processor.lanes())
        sized = replace(axes, most=most)
        is_wide = axes.columns.size is None or axes.columns.size >= axes.panel
        return sized if axes.count != 0 and (sized.are_few or most >= _FEWEST) and is_wide else None

    def decide(self, axes: Axes, processor: Processor) -> Decisions:
        """Rows of a tile and of a block, and how many terms before weights are read they are asked for.

        Blocks of rows where registers are few, else none (0): see above. Beside tiles there is time to bring the next
        panel from memory: each term asks for that of the panel behind its own, and what several tiles ask for is there
        at the second time. On processors that wait for memory all tiles together ask for it once, so that it is asked
        evenly.
        Rows of a tile whose addresses end in the same bits are fewer than the nearest cache has places for, with two
        for weights.
        """
        if axes.are_few:
            ahead = max(1, _AHEAD // axes.term_bytes)
            return {"rows": axes.count, "block": 0, "ahead": ahead, **terms_decided(axes.block_of_terms)}
        most = min(axes.most, rows_kept(axes.row_bytes, _LINES))
        size = axes.rows[-1].size or most
        ahead = axes.terms or 0
        spread = {"spread": True} if processor.waits_for_memory and ahead else {}
        rows = -(-size // -(-size // most))
        return {
            "rows": rows,
            "block": _own_block(axes, rows, processor),
            "ahead": ahead,
            **spread,
            **terms_decided(axes.block_of_terms),
        }

    def candidates(self, axes: Axes, processor: Processor) -> Sequence[Decisions]:
        """Weights asked for half as early, and twice as early; other tiles; blocks of rows, where not all stay near."""
        own = self.decide(axes, processor)
        if axes.are_few:
            return distinct([own, {**own, "ahead": max(1, own["ahead"] // 2)}, {**own, "ahead": 2 * own["ahead"]}])
        tiles = [{**own, "rows": rows} for rows in range(axes.most, max(_FEWEST, axes.most // 2) - 1, -1)]
        is_far = (axes.count or 0) * axes.row_bytes > _NEAR_BYTES
        block = _block(axes, own["rows"]) if is_far else 0
        blocks = [{**own, "block": size} for size in (0, block, block // 2, 2 * block)]
        return distinct([own, {**own, "ahead": 0 if own["ahead"] else axes.terms or 0}, *tiles, *blocks])

    def apply(self, sch: Schedule, axes: Axes, decisions: Decisions) -> None:
        """Schedule both stages.

        Raises:
            ScheduleError: a primitive refuses.
        """
        loops = loops_by_variable(sch, axes.last)
        rows = [loops[axis.loop] for axis in axes.rows]
        units = [loop for var, loop in loops.items() if loop not in rows and var is not axes.columns.loop]
        panel, lane = sch.split(loops[axes.columns.loop], [None, axes.panel])
        order = _rows(sch, axes, rows, decisions)
        reorder(sch, [*units, *order.blocks, panel, *order.tiles, *order.together, lane])
        sch.compute_at(axes.products, [panel, *order.tiles][-1], preserve_unit_loops=True)
        sch.set_scope(axes.products, 0, "local")
        place = len(units) + len(order.blocks)
        shared = []
        for block in _cut(sch, (axes.products, axes.last), place - 1, order.has_last_block):
            panels = _cut(sch, block, place, axes.columns.size is None or axes.columns.size % axes.panel != 0)
            for part in panels:
                depth = place + len(order.tiles) + 1
                for tile, around in _tiles(sch, part, depth, decisions["rows"] if order.is_ragged else 0):
                    _in_registers(sch, tile, axes, around, decisions)
            shared.append([sch.get_loops(last)[place] for _, last in panels])
        for parts in shared:  # last: from then on every step is proved to keep threads apart
            run_by_threads(sch, with_iterations(sch, joined(sch, parts)))


def _block(axes: Axes, tile: int) -> int:
    """Rows of whole tiles that stay near."""
    return tile * max(1, _BLOCK_BYTES // (tile * axes.row_bytes))


def _own_block(axes: Axes, tile: int, processor: Processor) -> int:
    """Rows of a block, of which there are several; 0 for all rows."""
    block = _block(axes, tile)
    is_far = (axes.count or 0) * axes.row_bytes > _FAR_BYTES and (axes.rows[-1].size or 0) > block
    return block if is_far and block >= _BLOCK_ROWS and processor.registers <= FEW_REGISTERS else 0


@dataclass(frozen=True)
class _Order:
    """Loops over rows.

    Attributes:
        blocks: Over blocks of rows.
        tiles: Over the tiles of a block.
        together: Over the rows of a tile.
        has_last_block: Whether the last block is smaller than others.
        is_ragged: Whether it is not known how many rows the last tile has.
    """

    blocks: list[LoopRV]
    tiles: list[LoopRV]
    together: list[LoopRV]
    has_last_block: bool = False
    is_ragged: bool = False


def _rows(sch: Schedule, axes: Axes, rows: list[LoopRV], decisions: Decisions) -> _Order:
    """Cut rows into blocks and tiles."""
    tile, block = decisions["rows"], decisions["block"]
    if axes.count is not None and axes.count <= tile:
        return _Order([], [], rows)
    *others, last = rows
    size = axes.rows[-1].size
    if size is None:
        outer, inner = sch.split(last, [None, tile])
        return _Order([], [*others, outer], [inner], is_ragged=True)
    tiles = max(1, block // tile)
    if block and tiles * tile < size:
        first, outer, inner = sch.split(last, [None, tiles, tile])
        return _Order([*others, first], [outer], [inner], size % (tiles * tile) != 0)
    outer, inner = sch.split(last, [None, min(tile, size)])
    return _Order(others, [outer], [inner]) if block else _Order([], [*others, outer], [inner])


def _cut(sch: Schedule, pair: tuple[str, str], place: int, is_ragged: bool) -> list[tuple[str, str]]:
    """The two blocks, those of the last iteration apart where it is smaller, of the loop within so many others."""
    return pair_parts(sch, pair, place, ["whole", None]) if is_ragged else [pair]


def _tiles(sch: Schedule, pair: tuple[str, str], depth: int, tile: int) -> list[tuple[tuple[str, str], int]]:
    """The two blocks for each form of tile, with how many loops are around its rows.

    What remains of an unknown number of rows is tiles of half as many, and so on: single rows would read all weights
    each, and wait for their own sums.

    Args:
        sch: The schedule.
        pair: The blocks.
        depth: Loops around the rows of a tile.
        tile: Rows of one, if it is not known how many rows the last one has, else 0.
    """
    if has_no_remainder(sch, pair[1], sch.get_loops(pair[1])[depth - 1]):
        return [(pair, depth)]
    whole, rest = pair_parts(sch, pair, depth - 1, ["whole", None])
    done = [(whole, depth)]
    while tile > 2:
        tile = -(-tile // 2)
        _by_smaller(sch, rest, depth, tile)
        whole, rest = pair_parts(sch, rest, depth, ["whole", None])
        depth += 1
        done.append((whole, depth))
    if not tile:
        return [*done, (rest, depth)]
    _by_smaller(sch, rest, depth, 1)
    return [*done, *((single, depth + 1) for single in pair_parts(sch, rest, depth, ["whole"]))]


def _by_smaller(sch: Schedule, pair: tuple[str, str], depth: int, tile: int) -> None:
    """Cut the rows of a tile, within so many loops, into smaller tiles."""
    outer, _ = sch.split(sch.get_loops(pair[1])[depth], [None, tile])
    sch.compute_at(pair[0], outer, preserve_unit_loops=True)


def _in_registers(sch: Schedule, pair: tuple[str, str], axes: Axes, depth: int, decisions: Decisions) -> None:
    """A tile, within so many loops: its sums, and what is done to them."""
    products, last = pair
    products, around = _multiply(sch, products, depth, decisions.get("terms", 0))
    if decisions["ahead"]:
        _look_ahead(sch, f"{products}_update", axes.weights, around, decisions)
    in_registers_within(sch, last, depth)


def _multiply(sch: Schedule, products: str, depth: int, block_of_terms: int) -> tuple[str, int]:
    """The sums of a panel in registers, within so many loops.

    Returns:
        Name of the block that multiplies, and how many loops are around its terms.
    """
    *own, term = sch.get_loops(products)[depth:]
    reorder(sch, [term, *own])
    if not block_of_terms:
        _sum(sch, products, term, depth)
        return products, depth
    partial, blocks = sum_blocks(sch, in_blocks(sch, term, block_of_terms)[0])
    _sum(sch, products, blocks, depth)
    _sum(sch, partial, sch.get_loops(partial)[depth + 1], depth + 1)
    return partial, depth + 1


def _sum(sch: Schedule, block: str, term: LoopRV, depth: int) -> None:
    """One loop over terms, within so many others, with all elements written out in it."""
    first = block_name(sch, sch.decompose_reduction(block, term))
    for name, outside in ((first, depth), (f"{block}_update", depth + 1)):
        in_registers_within(sch, name, outside)


def _look_ahead(sch: Schedule, products: str, weights: Buffer, depth: int, decisions: Decisions) -> None:
    """Ask for weights some terms before they are read, in the loop within so many others."""
    number, spread = number_of_read(sch, products, weights), decisions.get("spread", False)
    sch.prefetch(products, number, sch.get_loops(products)[depth], decisions["ahead"], spread=spread)


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
    count = prod(axis.likely or 0 for axis in rows)
    sums = products.reduce[0].size, terms_of_block(products, products.reduce, count)
    each = item_bytes(products.output.dtype)
    return Axes(products.name, last.name, rows, column, panel.value, weights.pop(), each, *sums)


def _whole(index: PrimExpr, by: int) -> PrimExpr:
    """What an index is the remainder of."""
    bare = index.value if isinstance(index, Cast) else index
    if isinstance(bare, FloorMod) and isinstance(bare.b, IntImm) and bare.b.value == by:
        return bare.a
    return IntImm("int64", 0)
