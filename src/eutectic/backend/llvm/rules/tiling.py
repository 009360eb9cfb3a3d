"""How large the tile of accumulators is that a reduction keeps in registers."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.rules.loops import pieces
from eutectic.tir.schedule.rules.stage import Axis

_LATENCY = 4  # cycles until a sum can be added to again
_PER_CYCLE = 2  # multiply-adds, and loads, that begin in a cycle


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
    vector: Axis | None, rows: Axis | None, shares: bool, machine: Machine, bits: int = 32, whole: bool = False
) -> Tile:
    """The tile with the least estimated time.

    Args:
        vector: The axis that vectors lie along.
        rows: The axis of which several values are worked on at once.
        shares: Whether vectors that are loaded serve all rows.
        machine: The processor.
        bits: Of an accumulator.
        whole: Whether vectors may be computed beyond the end of the axis.
    """
    lanes = machine.lanes(bits)
    best: tuple[float, Tile] | None = None
    most_rows = 1 if rows is None else min(rows.size or 6, 14 if machine.registers == 16 else 28)
    for count in range(1, 9 if rows is None else 5):
        if vector is None and count > 1:
            break
        for height in range(1, most_rows + 1):
            spare = machine.registers - height * count - (count if shares else 1)
            if spare < 1:
                continue
            cost = _cost(vector, rows, Tile(height, count * lanes), lanes, shares, whole)
            if best is None or cost < best[0] * 0.999:
                best = (cost, Tile(height, count * lanes if vector is not None else 1))
    assert best is not None
    return best[1]


def _cost(vector: Axis | None, rows: Axis | None, tile: Tile, lanes: int, shares: bool, whole: bool) -> float:
    """Cycles for one step of the reduction over the whole domain."""
    total = 0.0
    for low in pieces(rows if rows is None or rows.size else None, tile.rows):
        for wide in pieces(vector if vector is None or vector.size else None, tile.width):
            vectors = -(-wide.width // lanes) if vector is not None and vector.size else tile.width // lanes
            ragged = 0.0 if whole or vector is None or not vector.size else (wide.width % lanes).bit_count()
            height = low.width if rows is not None and rows.size else tile.rows
            work = height * vectors
            fetched = (vectors + height if shares else work + vectors) + 2 * ragged  # odd vectors are loaded in parts
            cycles = max(work / _PER_CYCLE, fetched / _PER_CYCLE, _LATENCY)
            per = 1.0 if vector is not None and vector.size else 1.0 / (vectors * height)
            total += cycles * per * _number(low.count) * _number(wide.count)
    return total


def _number(count: object) -> int:
    return count if isinstance(count, int) else 1
