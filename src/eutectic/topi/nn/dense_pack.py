"""Matrix products of few rows with weights in panels, which threads read from front to end."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.ir.prim_expr import PrimExpr
from eutectic.support.aligned import aligned_array
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.tir.block import DENSE_PACK
from eutectic.topi.shapes import same_size, sizes_text

Array: TypeAlias = npt.NDArray[Any]


def dense_pack(data: Tensor, weight: Tensor, units: int) -> Tensor:
    """Matrix product over the last axis of the data.

    Args:
        data: `(*batch, k)`, float.
        weight: `(panels, k, p)`: columns of the second matrix, `p` at a time; same dtype, or a narrower float, which is
            widened where it is read.
        units: Columns of the result, at most `panels * p`.

    Returns:
        `(*batch, units)`; stages `products` and `dense_pack`.

    Raises:
        ValueError: ranks or sizes do not go together.

    Reference: TVM topi.nn.dense_pack, whose data is a matrix.
    """
    if not data.shape or len(weight.shape) != 3 or not same_size(data.shape[-1], weight.shape[1]):
        raise ValueError(
            f"product of {sizes_text(data.shape)} with panels {sizes_text(weight.shape)}: sizes do not go together"
        )
    panels, depth, panel = weight.shape
    batch = data.shape[:-1]
    k = reduce_axis((0, depth), "k")

    def product(*at: PrimExpr) -> Any:
        *rows, number, lane = at
        return te_sum(data(*rows, k) * weight(number, k, lane).astype(data.dtype), k)

    def element(*at: PrimExpr) -> Any:
        *rows, column = at
        return products(*rows, column // panel, column % panel)

    names = [f"i{i}" for i in range(len(batch))]
    attrs = {DENSE_PACK: "products"}
    products = compute((*batch, panels, panel), product, "products", "", attrs, [*names, "panel", "lane"])
    result: Tensor = compute((*batch, units), element, "dense_pack", varargs_names=[*names, "column"])
    return result


def packed_panels(weight: Array, panel: int) -> Array:
    """The second matrix of a product, some columns at a time, as `panels_of` has it; contiguous."""
    return aligned_array(panels_of(weight, panel))


def panels_of(weight: Array, panel: int) -> Array:
    """The second matrix of a product, some columns at a time; the last panel is filled up with zeros.

    Args:
        weight: `(k, n)`.
        panel: Columns of a panel, `p`.

    Returns:
        `(ceil(n / p), k, p)`, a view of the matrix or of a copy that is filled up.
    """
    depth, columns = weight.shape
    panels, rest = -(-columns // panel), -columns % panel
    filled = np.pad(weight, [(0, 0), (0, rest)]) if rest else weight
    return filled.reshape(depth, panels, panel).transpose(1, 0, 2)


def unpacked_panels(weight: Array, columns: int) -> Array:
    """Inverse of `packed_panels`.

    Args:
        weight: `(panels, k, p)`.
        columns: Those of the matrix, `n`.

    Returns:
        `(k, n)`, contiguous.
    """
    return np.ascontiguousarray(np.moveaxis(weight, 1, 0).reshape(weight.shape[1], -1)[:, :columns])
