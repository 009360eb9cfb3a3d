"""Weights whose output channels are multiplied by factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic.relax.expr import Call
from eutectic.relax.op.registry import has_trait
from eutectic.support.aligned import aligned

Array = np.ndarray[Any, Any]


def scaled_weights(root: Call, weight: Array, scale: Array) -> Array:
    """Weights with which a convolution or matrix product gives each output channel times its factor.

    Args:
        root: The call, for its layouts and groups.
        weight: Its weights: in the kernel's layout, or `(*batch, k, n)` of a matrix product.
        scale: `(channels,)`, float64.

    Returns:
        As `weight`, each product rounded once to its dtype; not finite where that is too large.
    """
    with np.errstate(over="ignore", under="ignore"):
        if not has_trait(root, "convolution"):
            return _products(weight, scale)
        assert root.attrs is not None
        if has_trait(root, "transposed"):
            return _transposed(root.attrs, weight, scale)
        shape = [1] * weight.ndim
        shape[root.attrs["kernel_layout"].index("O")] = -1
        return _products(weight, scale.reshape(shape))


def _products(weight: Array, scale: Array) -> Array:
    """Computed in float64, without an array of it."""
    out = aligned(weight.nbytes).view(weight.dtype).reshape(weight.shape)
    np.multiply(weight, scale, out=out, dtype=np.float64, casting="unsafe")  # bfloat16 is no kind that numpy knows
    return out


def _transposed(attrs: Any, weight: Array, scale: Array) -> Array:
    """Of a transposed convolution, where groups divide the input channels of the weights."""
    in_axis, out_axis = attrs["kernel_layout"].index("I"), attrs["kernel_layout"].index("O")
    moved = np.moveaxis(weight, (in_axis, out_axis), (0, 1))
    per_group = moved.reshape(attrs["groups"], -1, *moved.shape[1:])
    factors = scale.reshape(attrs["groups"], 1, moved.shape[1], *[1] * (weight.ndim - 2))
    out = (per_group * factors).reshape(moved.shape)
    return np.ascontiguousarray(np.moveaxis(out, (0, 1), (in_axis, out_axis))).astype(weight.dtype)
