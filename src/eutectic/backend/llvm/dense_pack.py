"""What our kernels gain from weights in panels.

Rows of a wide matrix are far apart: a kernel that sums some columns jumps from one to the next, and reads little of
each page before the next one. Where rows of the data are few, that takes longest; where they are many, the kernel makes
panels itself, at each call. Libraries put weights into panels of their own, but their kernels are made for many rows.
The estimates are fitted to products with matrices of language models, which come from a cache that processors share, on
a processor with vectors of 512 bits, and scaled to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from eutectic.backend.llvm.machine import Machine, lane_speed
from eutectic.relax.transform.dense_pack.choice import PanelOffer, ProductSizes


@dataclass(frozen=True)
class _Way:
    """How fast one thread is in some way.

    Attributes:
        stream: Bytes of weights that are read in a nanosecond.
        share: Of `lane_speed`, for what each row adds.
    """

    stream: float
    share: float

    def cost(self, sizes: ProductSizes, machine: Machine) -> float:
        """Nanoseconds."""
        count, rows = sizes.terms * sizes.columns, _ROWS_OF_CALLS if sizes.rows is None else sizes.rows
        rate = machine.lanes() * lane_speed(machine, None)
        return 4 * count / self.stream + 2.0 * rows * count / (rate * self.share)


_PANELS: Final = _Way(48.0, 1.6)
_ROWS: Final = _Way(28.0, 0.25)
_LIBRARY: Final = _Way(40.0, 1.35)
_TILES: Final = _Way(160.0, 1.15)
_COPIES: Final = _Way(24.0, 1.15)
_ROWS_OF_CALLS: Final = 64  # that estimates count with where each call brings as many as it likes
# Share of the time that weights of 16 bits take: of rows whose sums fit into registers, of more that wait for weights,
# too, and of others, which widen them for each tile.
_NARROW: Final = (0.6, 0.8, 1.05)
_WAITING_ROWS: Final = 16  # the most rows that wait for weights (Zen 3: 17 bytes in a nanosecond for two threads)
_GAIN: Final = 0.95  # share of the time without panels from which on they are worth a copy
_LEAST_BYTES: Final = 512 << 10  # of weights; smaller ones stay in the cache of one processor
_LEAST_OF_FEW: Final = 320 << 10  # the same for few rows, which wait for weights that are not in the nearest cache
_LEAST_OF_CALLS: Final = 64 << 10  # the same where rows are not known, of which other kernels do the last one by one
_FEWEST: Final = 16  # vectors of columns, for threads to share
_TWO_PANELS: Final = 8  # vectors of columns that are two panels for a few rows: one for each of two threads


def panel_offers(sizes: ProductSizes, machine: Machine, has_library: bool) -> Sequence[PanelOffer]:
    """The widest panels of which all rows fit into registers, if they are faster; narrower ones for tiles of rows.

    Args:
        sizes: Of the product.
        machine: What the code is for.
        has_library: Whether a library would compute it otherwise.
    """
    wide = _wide(sizes, machine, has_library)
    return wide if sizes.dtype == "float32" else _narrow(wide, sizes, machine)


def _wide(sizes: ProductSizes, machine: Machine, has_library: bool) -> Sequence[PanelOffer]:
    """Panels of float32."""
    lanes, width = machine.lanes(), _width_for_few(sizes, machine)
    least = _LEAST_OF_CALLS if sizes.rows is None else _LEAST_OF_FEW if width else _LEAST_BYTES
    if lanes == 1 or 4 * sizes.terms * sizes.columns < least:
        return ()
    if not width:
        return _tiles(sizes, machine)
    cost, direct = (way.cost(sizes, machine) for way in (_PANELS, _LIBRARY if has_library else _ROWS))
    return [PanelOffer(width, cost, direct)] if cost < _GAIN * direct else ()


def _tiles(sizes: ProductSizes, machine: Machine) -> Sequence[PanelOffer]:
    """Panels of two vectors, which tiles of some rows go through, a library or not.

    Tiles were measured to take 0.93 to 1.0 of the time of oneDNN's kernels with vectors of 512 bits (Zen 4, Zen 5), and
    0.6 to 1.0 of it with vectors of 256 bits (Zen 3).
    """
    cost, direct = (way.cost(sizes, machine) for way in (_TILES, _COPIES))
    return [PanelOffer(2 * machine.lanes(), cost, direct)] if _are_enough(sizes, machine) else ()


def _narrow(wide: Sequence[PanelOffer], sizes: ProductSizes, machine: Machine) -> Sequence[PanelOffer]:
    """Panels of 16 bits, whose numbers are widened where they are read."""
    if sizes.dtype not in narrow_weights(machine):
        return ()
    few, more, many = _NARROW
    share = few if _width_for_few(sizes, machine) else more if (sizes.rows or 1) <= _WAITING_ROWS else many
    return tuple(replace(offer, cost=share * offer.cost) for offer in wide)


def _width_for_few(sizes: ProductSizes, machine: Machine) -> int:
    """Columns of the widest panel of which all rows fit into registers; 0 where none is so wide."""
    if sizes.rows is None:
        return 0
    return next((machine.lanes() * n for n in (4, 2) if _fits(sizes.rows, sizes, machine, n)), 0)


def narrow_weights(machine: Machine) -> Sequence[str]:
    """Dtypes of 16 bits that vectors are widened from in an instruction or two."""
    if machine.lanes() < 8:
        return ()
    return ["bfloat16", *(["float16"] if machine.is_wide or "f16c" in machine.used_features else [])]


def _fits(rows: int, sizes: ProductSizes, machine: Machine, vectors: int) -> bool:
    """Whether the sums of a panel of some vectors fit into registers, and there are panels for all."""
    sums = rows * vectors
    most = machine.registers - 4 if vectors == 4 else machine.registers - 8
    are_two = vectors == 4 and sizes.columns == _TWO_PANELS * machine.lanes()
    return sums <= most and (are_two or _are_enough(sizes, machine))


def _are_enough(sizes: ProductSizes, machine: Machine) -> bool:
    """Whether there are panels for all threads."""
    return sizes.columns >= _FEWEST * machine.lanes()
