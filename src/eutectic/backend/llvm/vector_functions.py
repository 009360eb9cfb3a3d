"""Which functions of float32 are vector code.

Largest errors found over all magnitudes, in units in the last place against double precision, with and without fused
multiply-add (`tests/backend/llvm/test_vector_math.py` checks them): exp 1.2, exp2 1.1, log 0.9, log1p 1.5, sin, cos and
cosh 1.6, tan 3.6, sinh 1.7, tanh 1.4, asin 2.4, acos 1.3, atan and atan2 2.0, asinh 1.9, acosh, atanh and sigmoid 2.3,
erf 4.0 (3.4 where they are fused), erfc 5.4 (65 near its end where they are not: the rounding of the square of 10
counts a hundredfold); pow, exp10, log2, log10 and hypot 0.51, as these are computed in double precision; fmod is exact.
NaN, infinities, signed zeros and denormals are treated as IEEE 754 and C's math library do.
Polynomials are Taylor series where these converge fast enough, else fits made for these modules, near the least largest
error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.backend.llvm import vector_math, vector_powers, vector_remainder, vector_trigonometry
from eutectic.backend.llvm.vector_float import VectorFloat

FUNCTIONS: Final[dict[str, Callable[..., VectorFloat]]] = {
    **{
        name: getattr(vector_math, name)
        for name in ("exp", "exp2", "log", "log1p", "sigmoid", "sinh", "cosh", "tanh", "erf", "erfc")
    },
    **{
        name: getattr(vector_trigonometry, name)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot")
    },
    **{name: getattr(vector_powers, name) for name in ("log2", "log10", "exp10", "asinh", "acosh", "atanh")},
    "pow": vector_powers.power,
    "fmod": vector_remainder.fmod,
}
