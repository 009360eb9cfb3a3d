"""Which products are worth weights in panels, and who says so for a kind of target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.relax.transform.offers_by_kind import OffersByKind


@dataclass(frozen=True)
class ProductSizes:
    """Sizes of a product with a constant matrix.

    Attributes:
        rows: Rows of the data, and of the result; None where there are as many as a call brings.
        terms: Columns of the data, which are summed over.
        columns: Columns of the matrix, and of the result.
        dtype: Of the matrix in memory. Whatever it is, products and sums are of float32.
    """

    rows: int | None
    terms: int
    columns: int
    dtype: str = "float32"


@dataclass(frozen=True)
class PanelOffer:
    """A way to compute a product from weights in panels.

    Attributes:
        panel: Columns of a panel.
        cost: Estimated nanoseconds of one thread.
        direct: The same of the weights as they are.
    """

    panel: int
    cost: float
    direct: float


PANEL_OFFERS: Final = OffersByKind[ProductSizes, PanelOffer]("panel offers")
"""The ways to compute a product from weights in panels that are faster, the best one first."""
