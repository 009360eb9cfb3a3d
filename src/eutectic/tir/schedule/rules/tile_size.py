"""How large the tile of accumulators is that a reduction keeps in registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from eutectic.tir.schedule.rules.processor import Processor

_LATENCY = 4  # cycles until a sum can be added to again
_PER_CYCLE = 2  # multiply-adds, and loads, that begin in a cycle
_STEP = 0.5  # cycles that a step takes besides: counting, and waiting where there are hardly more sums than in flight


class Extent(Protocol):
    """An axis, or several that are one."""

    @property
    def size(self) -> int | None:
        """Number of iterations when it is a constant."""


@dataclass(frozen=True)
class Tile:
    """Sizes of a tile.

    Attributes:
        rows: Iterations of the row axis.
        width: Iterations of the vector axis, a multiple of a vector's lanes.
    """

    rows: int
    width: int


def choose_tile(
    vector: Extent | None,
    rows: Extent | None,
    shares: bool,
    machine: Processor,
    bits: int = 32,
    *,
    is_window: bool = False,
) -> Tile:
    """The tile with the least estimated time.

    Args:
        vector: The axis that vectors lie along.
        rows: The axis of which several values are worked on at once.
        shares: Whether vectors that are loaded serve all rows.
        machine: The processor.
        bits: Of an accumulator.
        is_window: Whether neighbours load the same values, which stay in registers where the window is written out.
    """
    best: tuple[float, Tile] | None = None
    for cost, tile in _costs(vector, rows, shares, machine, bits, is_window):
        if best is None or cost < best[0] * 0.999:
            best = (cost, tile)
    assert best is not None
    return best[1]


def near_tiles(
    vector: Extent | None,
    rows: Extent | None,
    shares: bool,
    machine: Processor,
    bits: int,
    most: int,
    *,
    is_window: bool = False,
) -> list[Tile]:
    """The tiles with the least estimated times, of each width the best one first; arguments as for `choose_tile`."""
    ranked = [
        tile for _, tile in sorted(_costs(vector, rows, shares, machine, bits, is_window), key=lambda item: item[0])
    ]
    best = {tile.width: tile for tile in reversed(ranked)}
    of_each_width = sorted(best.values(), key=ranked.index)
    rest = [tile for tile in ranked if tile not in of_each_width]
    half = -(-most // 2)
    return [*of_each_width[:half], *rest][:most]


def _costs(
    vector: Extent | None, rows: Extent | None, shares: bool, machine: Processor, bits: int, is_window: bool
) -> Iterator[tuple[float, Tile]]:
    """All tiles that fit into the registers, each with its estimated time."""
    lanes, registers = machine.lanes(bits), machine.registers // 2 if is_window else machine.registers
    most_rows = 1 if rows is None else min(rows.size or 6, 14 if machine.registers == 16 else 28)
    for count in range(1, 9 if rows is None else 5):
        if vector is None and count > 1:
            break
        for height in range(1, most_rows + 1):
            spare = registers - height * count - (count if shares else 1)
            if spare < 1:
                continue
            cost = _cost(vector, rows, Tile(height, count * lanes), lanes, shares)
            yield cost, Tile(height, count * lanes if vector is not None else 1)


def _cost(vector: Extent | None, rows: Extent | None, tile: Tile, lanes: int, shares: bool) -> float:
    """Cycles for one step of the reduction over the whole domain."""
    total = 0.0
    is_known = vector is not None and vector.size is not None
    for height, many in _parts(None if rows is None else rows.size, tile.rows, rows is None):
        for width, count in _parts(None if vector is None else vector.size, tile.width, vector is None):
            vectors = -(-width // lanes) if is_known else tile.width // lanes
            ragged = 0.0 if not is_known else (width % lanes).bit_count()
            work = height * vectors
            fetched = (vectors + height if shares else work + vectors) + 2 * ragged  # odd vectors are loaded in parts
            cycles = max(work / _PER_CYCLE, fetched / _PER_CYCLE, _LATENCY) + _STEP
            total += cycles * many * count * (1.0 if is_known else 1.0 / (vectors * height))
    return total


def _parts(size: int | None, width: int, is_one: bool) -> list[tuple[int, int]]:
    """The widths that an axis is cut into, and how often each occurs; that of a tile when nothing is known."""
    if is_one or size is None:
        return [(1 if is_one else width, 1)]
    whole = [(width, size // width)] if size >= width else []
    return [*whole, (size % width, 1)] if size % width else whole
