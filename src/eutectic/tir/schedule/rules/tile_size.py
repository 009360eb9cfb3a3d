"""How large the tile of accumulators is that a reduction keeps in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Final, Protocol

from eutectic.tir.schedule.rules.processor import Processor

_LATENCY = 4  # cycles until a sum can be added to again
_PER_CYCLE = 2  # multiply-adds, and loads, that begin in a cycle
_MOST_VECTORS = 4  # that several rows share
_SET_BYTES: Final = 4096  # from one line that the nearest cache keeps in the same place to the next
_ROWS_OF_ANY: Final = 6  # of a tile at most where their number varies, as remainders are cut into halves
_FEW: Final = range(3, 2 * _ROWS_OF_ANY + 1)  # of which remainders are a good part; one or two are any number
_STEP = 0.5  # cycles that a step takes besides: counting, and waiting where there are hardly more sums than in flight


class Extent(Protocol):
    """An axis, or several that are one."""

    @property
    def size(self) -> int | None:
        """Number of iterations when it is a constant."""

    @property
    def likely(self) -> int | None:
        """The same, or that of an example where it varies; None when that is not known either."""


@dataclass(frozen=True)
class Iterations:
    """An extent that is no axis of a block.

    Attributes:
        size: How many; None when it is not known.
    """

    size: int | None

    @property
    def likely(self) -> int | None:
        """As of `Extent`."""
        return self.size


@dataclass(frozen=True)
class TileAxes:
    """What a tile may lie along.

    Attributes:
        vector: The axis that vectors lie along.
        rows: The axis of which several values are worked on at once.
        shares: Whether vectors that are loaded serve all rows.
        blocks: Another axis that vectors are loaded for, and rows are not; None unless they are shared.
        is_window: Whether neighbours load the same values, which stay in registers where the window is written out.
        widest: Elements of several blocks of which all that is loaded stays near; None where that does not matter.
        near_rows: Rows that stay near together; None where that does not matter.
        most_width: Elements of a tile along the vectors at most; None where that does not matter.
    """

    vector: Extent | None
    rows: Extent | None
    shares: bool
    blocks: Extent | None = None
    is_window: bool = False
    widest: int | None = None
    near_rows: int | None = None
    most_width: int | None = None


@dataclass(frozen=True)
class Tile:
    """Sizes of a tile.

    Attributes:
        rows: Iterations of the row axis.
        width: Iterations of the vector axis, a multiple of a vector's lanes.
        blocks: Iterations of the axis of blocks.
        cost: Estimated cycles for one step of the reduction over the whole domain.
    """

    rows: int
    width: int
    blocks: int = 1
    cost: float = field(default=0.0, compare=False)


def rows_kept(step: int, lines: int) -> int:
    """Rows so many bytes apart of which the nearest cache keeps a line each, if it has so many lines for each place.

    Lines with equal last bits of their addresses have one place.
    """
    return lines * (_SET_BYTES // gcd(_SET_BYTES, step))


def choose_tile(axes: TileAxes, machine: Processor, bits: int = 32) -> Tile:
    """The tile with the least estimated time.

    Args:
        axes: What it may lie along.
        machine: The processor.
        bits: Of an accumulator.
    """
    best: Tile | None = None
    for tile in _tiles(axes, machine, bits):
        if best is None or tile.cost < best.cost * 0.999:
            best = tile
    assert best is not None
    return best


def near_tiles(axes: TileAxes, machine: Processor, bits: int, most: int) -> list[Tile]:
    """The tiles with the least estimated times, of each form of vectors the best one first.

    Args:
        axes: What they may lie along.
        machine: The processor.
        bits: Of an accumulator.
        most: How many tiles.
    """
    ranked = sorted(_tiles(axes, machine, bits), key=lambda tile: tile.cost)
    best = {(tile.width, tile.blocks): tile for tile in reversed(ranked)}
    of_each_form = sorted(best.values(), key=ranked.index)
    rest = [tile for tile in ranked if tile not in of_each_form]
    half = -(-most // 2)
    return [*of_each_form[:half], *rest][:most]


def _tiles(axes: TileAxes, machine: Processor, bits: int) -> Iterator[Tile]:
    """All tiles that fit into the registers; those of one block first."""
    lanes, registers = machine.lanes(bits), machine.registers // 2 if axes.is_window else machine.registers
    most_rows = 1 if axes.rows is None else min(axes.rows.size or _ROWS_OF_ANY, 14 if machine.registers == 16 else 28)
    if axes.near_rows is not None:
        most_rows = min(most_rows, axes.near_rows)
    for blocks, count in _forms(axes, lanes):
        vectors = blocks * count
        for height in range(1, most_rows + 1):
            spare = registers - height * vectors - (vectors if axes.shares else 1)
            if spare < 1:
                continue
            tile = Tile(height, count * lanes, blocks)
            width = tile.width if axes.vector is not None else 1
            yield replace(tile, width=width, cost=_cost(axes, tile, lanes))


def _forms(axes: TileAxes, lanes: int) -> Iterator[tuple[int, int]]:
    """Blocks of a tile, and vectors of each."""
    most = 8 if axes.rows is None else _MOST_VECTORS
    if axes.most_width is not None:
        most = min(most, max(axes.most_width // lanes, 1))
    for count in range(1, 2 if axes.vector is None else most + 1):
        yield 1, count
    if axes.blocks is None or axes.vector is None or axes.vector.size is None:
        return
    whole = -(-axes.vector.size // lanes)  # parts of a block would read parts of the lines of memory
    near = most if axes.widest is None else axes.widest // (lanes * whole)
    for blocks in range(2, min(axes.blocks.size or 1, most // whole, near) + 1):
        yield blocks, whole


def _cost(axes: TileAxes, tile: Tile, lanes: int) -> float:
    """Cycles for one step of the reduction over the whole domain; for one iteration of axes of unknown size."""
    total = 0.0
    vector, shares = axes.vector, axes.shares
    is_known = vector is not None and vector.size is not None
    for height, many in _row_parts(axes.rows, tile.rows):
        for width, count in _parts(vector, tile.width):
            for blocks, often in _parts(axes.blocks, tile.blocks):
                vectors = blocks * (-(-width // lanes) if is_known else tile.width // lanes)
                ragged = 0.0 if not is_known else blocks * (width % lanes).bit_count()
                work = height * vectors
                fetched = (vectors + height if shares else work + vectors) + 2 * ragged  # odd vectors load in parts
                cycles = max(work / _PER_CYCLE, fetched / _PER_CYCLE, _LATENCY) + _STEP
                total += cycles * many * count * often
    return total


def _parts(axis: Extent | None, width: int) -> list[tuple[int, float]]:
    """The widths that an axis is cut into, and how often each occurs: for one iteration where its size is unknown."""
    if axis is None:
        return [(1, 1)]
    return [(width, 1 / width)] if axis.size is None else _pieces(axis.size, [width])


def _row_parts(rows: Extent | None, height: int) -> list[tuple[int, float]]:
    """The same of rows. Where few of a number that varies are in the example, these count as much as many others."""
    likely = None if rows is None or rows.size is not None else rows.likely
    if likely is None or likely not in _FEW:
        return _parts(rows, height)
    few = _pieces(likely, [height, *halves(height)])
    return [*_parts(rows, height), *((part, count / likely) for part, count in few)]


def _pieces(size: int, widths: Sequence[int]) -> list[tuple[int, float]]:
    """What a number is cut into: as many of each width as there are in what the ones before it left, and the rest."""
    pieces: list[tuple[int, float]] = []
    for width in widths:
        pieces += [(width, size // width)] if size >= width else []
        size %= width
    return [*pieces, (size, 1)] if size else pieces


def halves(width: int) -> list[int]:
    """Half of a tile, half of that, and so on down to one: what remains of a number that varies is cut into these."""
    found = [max(width // 2, 1)]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found
