"""Layouts such as NCHW: which letter is which axis, and how to get to the canonical order."""

from __future__ import annotations

from typing import Final

from eutectic.relax.op.numerics import Array
from eutectic.relax.op.shapes import Dims, reject

SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def check_layout(layout: str, canonical: str, what: str) -> str:
    """`layout`, which must name every axis of `canonical` once.

    Raises:
        TypeInferenceError: a letter is missing, unknown or repeated.
    """
    if sorted(layout) != sorted(canonical):
        reject(f"{what} {layout!r} is not an order of the axes {', '.join(canonical)}", help=f"try {canonical!r}")
    return layout


def order(layout: str, wanted: str) -> tuple[int, ...]:
    """For each axis of `wanted`, its place in `layout`."""
    return tuple(layout.index(letter) for letter in wanted)


def arrange(x: Array, layout: str, wanted: str) -> Array:
    """`x` from one layout to another, as a view."""
    return x if layout == wanted else x.transpose(order(layout, wanted))


def arrange_dims(dims: Dims, layout: str, wanted: str) -> Dims:
    """Sizes from one layout to another."""
    return tuple(dims[place] for place in order(layout, wanted))
