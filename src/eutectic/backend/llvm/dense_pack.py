"""What our kernels gain from weights in panels, in products of so few rows that reading weights takes longest.

Rows of a wide matrix are far apart: a kernel that sums some columns jumps from one to the next, and only a part of each
page is read before the next one. The estimates are fitted to products with matrices of language models, which come from
a shared cache, on a processor with vectors of 512 bits. A library that has few rows is no faster than our kernels on
weights as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.backend.llvm.machine import SPEED, Machine
from eutectic.relax.transform.dense_pack.choice import PanelOffer, ProductSizes

_STREAM: Final = 48.0  # bytes of weights in panels that are read in a nanosecond
_STRIDED: Final = 28.0  # the same of weights that lie in rows
_SHARE: Final = 0.3  # of `SPEED`, that products of a few rows with such weights reach
_GAIN: Final = 0.9  # share of the time without panels from which on they are worth a copy
_LEAST_BYTES: Final = 512 << 10  # of weights; smaller ones stay in the cache of one processor
_PANELS: Final = 8  # as many as there should be, for threads to share
_VECTORS: Final = (4, 2, 1)  # of a panel


def panel_offers(sizes: ProductSizes, machine: Machine) -> Sequence[PanelOffer]:
    """The widest panels of which all rows fit into registers, if they are faster.

    Args:
        sizes: Of the product.
        machine: What the code is for.
    """
    lanes = machine.lanes()
    count = 4 * sizes.terms * sizes.columns
    if lanes == 1 or count < _LEAST_BYTES:
        return ()
    fit = [vectors for vectors in _VECTORS if sizes.rows * vectors <= machine.registers - 4]
    several = [vectors for vectors in fit if sizes.columns >= _PANELS * vectors * lanes]
    products = 2.0 * sizes.rows * sizes.terms * sizes.columns / (lanes * SPEED)
    cost = max(count / _STREAM, products)
    direct = count / _STRIDED + products / _SHARE
    offers = [PanelOffer(vectors * lanes, cost, direct) for vectors in several[:1]]
    return [offer for offer in offers if offer.cost < _GAIN * offer.direct]
