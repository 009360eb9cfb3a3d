"""Arithmetic shared by the NumPy references: working precision, the error function, checked indices."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from eutectic.ir.dtype import NARROW_INTEGERS, from_numpy, is_float, is_integer, to_numpy
from eutectic.support.errors import CallError

Array: TypeAlias = npt.NDArray[Any]

_STEP: Final = 16  # nodes of the error function's table per unit
_END: Final = 6.0  # beyond it erf is 1 in double precision
_TERMS: Final = 10
_BLOCK: Final = 1 << 14  # elements per round, so that temporaries stay in the cache


def dtype_of(x: Array) -> str:
    """Our name of an array's dtype."""
    return from_numpy(x.dtype)


def is_narrow(dtype: str) -> bool:
    """Whether it is a float of 16 bits or fewer, computed in float32."""
    return is_float(dtype) and dtype not in ("float32", "float64")


def widen(x: Array) -> Array:
    """Floats of 16 bits or fewer as float32, everything else unchanged."""
    return x.astype(np.float32) if is_narrow(dtype_of(x)) else x


def exact(x: Array) -> Array:
    """What sums are computed in: floats as float64, integers unchanged."""
    return x.astype(np.float64) if is_float(dtype_of(x)) else x


def cast(x: Any, dtype: str) -> Array:
    """`x` in `dtype`; integers wrap around, floats round to nearest, and towards zero for integers.

    What does not fit into an integer of 8 or 16 bits wraps around, as in torch; NumPy does as the processor does.
    """
    source, target = np.asarray(x), to_numpy(dtype)
    if dtype in NARROW_INTEGERS and is_float(dtype_of(source)):
        whole = np.clip(np.nan_to_num(source.astype(np.float64)), *integer_bounds("int32"))
        return whole.astype(np.int32).astype(target)
    return source.astype(target, copy=False)


def integer_bounds(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype or bool."""
    if not is_integer(dtype):
        return 0, 1
    info = np.iinfo(to_numpy(dtype))
    return int(info.min), int(info.max)


def lowest(dtype: str) -> Any:
    """The identity of a maximum: minus infinity, or the smallest integer."""
    return -math.inf if is_float(dtype) else integer_bounds(dtype)[0]


def check_indices(indices: Array, size: int, what: str, *, least: int = 0) -> None:
    """Refuse indices outside `[least, size)`.

    Raises:
        CallError: names the first one that is outside.
    """
    bad = (indices < least) | (indices >= size)
    if bad.any():
        first = indices[bad].flat[0]
        raise CallError(
            f"{what}: index {int(first)} is out of range for an axis of size {size}",
            notes=[f"{int(bad.sum())} of {indices.size} indices are outside [{least}, {size})"],
            help="clip or wrap the indices first, or choose such a mode",
        )


def _erf_table() -> Array:
    """Taylor coefficients of erf at the nodes, from the recurrence of the Hermite polynomials."""
    nodes = np.arange(int(_END * _STEP) + 1) / _STEP
    table = np.empty((_TERMS, nodes.size))
    table[0] = [math.erf(node) for node in nodes]
    scale = 2 / math.sqrt(math.pi) * np.exp(-nodes * nodes)
    previous, current = np.zeros_like(nodes), np.ones_like(nodes)
    for n in range(_TERMS - 1):
        table[n + 1] = scale * current * (-1) ** n / math.factorial(n + 1)
        previous, current = current, 2 * nodes * current - 2 * n * previous
    return table


_ERF: Final = _erf_table()


def erf(x: Array) -> Array:
    """The error function in float64.

    Accuracy: 4e-16 absolute; relative near zero. Reference: Abramowitz and Stegun 7.1.19.
    """
    flat = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
    out = np.empty_like(flat)
    for begin in range(0, flat.size, _BLOCK):
        part = flat[begin : begin + _BLOCK]
        size = np.fmin(np.abs(part), _END)  # NaN becomes an index, and is put back below
        node = np.rint(size * _STEP).astype(np.intp)
        step = size - node / _STEP
        total = _ERF[-1].take(node)
        for row in _ERF[-2::-1]:
            total *= step
            total += row.take(node)
        out[begin : begin + _BLOCK] = np.where(np.isnan(part), part, np.copysign(total, part))
    return out.reshape(x.shape)


_ERFC: Final = np.frompyfunc(math.erfc, 1, 1)


def erfc(x: Array) -> Array:
    """One minus the error function, in float64, as exact as C's."""
    return np.asarray(_ERFC(np.asarray(x, np.float64)), np.float64)
