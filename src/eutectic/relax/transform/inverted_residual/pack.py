"""The weights of an inverted residual in blocks of channels."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.relax.transform.inverted_residual.choice import ResidualOffer
from eutectic.support.aligned import aligned_array

Array: TypeAlias = npt.NDArray[Any]


def packed(
    first: tuple[Array, Array] | None, window: tuple[Array, Array], last: Array, offer: ResidualOffer
) -> list[Array]:
    """Operands of `nn.inverted_residual` behind the data.

    Args:
        first: `(e, c, 1, 1)` and `(e,)`: weights and bias of the first convolution; None when there is none.
        window: `(e, 1, kh, kw)` and `(e,)`.
        last: `(o, e, 1, 1)`.
        offer: Sizes of blocks; `lanes` divides `e`.
    """
    lanes, panel = offer.lanes, offer.panel
    taps, bias = window
    filters, expanded = last.shape[:2]
    panels = -(-filters // panel)
    rows = np.zeros((panels * panel, expanded), last.dtype)
    rows[:filters] = last[:, :, 0, 0]
    operands = [
        taps.reshape(-1, lanes, *taps.shape[2:]).transpose(0, 2, 3, 1),
        bias.reshape(-1, lanes),
        rows.reshape(panels, panel, -1, lanes).transpose(0, 2, 3, 1),
    ]
    if first is not None:
        wide, its_bias = first
        operands += [wide.reshape(-1, lanes, wide.shape[1]).transpose(0, 2, 1), its_bias.reshape(-1, lanes)]
    return [aligned_array(operand) for operand in operands]
