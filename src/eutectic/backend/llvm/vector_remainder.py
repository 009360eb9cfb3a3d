"""The remainder of a division of float32, as vector code."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

from eutectic.backend.llvm.vector_float import VectorFloat

_MOST: Final = 2.0**29  # from where on a quotient times a float32 is not exact in double precision


def fmod(x: VectorFloat, y: VectorFloat) -> VectorFloat:
    """`x - n * y` with the sign of `x` and less than `y`, which is exact; C's library's where `n` is large."""
    above, below = (part.under("fabs").convert("fpext", "double") for part in (x, y))
    quotient = (above / below).under("trunc")
    is_usual = quotient.test("olt", _MOST)
    return x.where_all(is_usual, partial(_rest, x, above, below, quotient), partial(x.by_library, "fmodf", y))


def _rest(x: VectorFloat, above: VectorFloat, below: VectorFloat, quotient: VectorFloat) -> VectorFloat:
    rest = (-quotient).fma(below, above)
    rest = (rest + below).where(rest.test("olt", 0.0), rest)  # the quotient was rounded up
    rest = above.where(below.test("oeq", math.inf), rest)
    return rest.convert("fptrunc", "float").with_sign_of(x)
