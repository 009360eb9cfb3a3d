"""Whether results of other kernels are those of the first: they differ by the rounding of sums in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
# Largest relative L2 difference of sums in another order, through all layers of a usual network.
_TOLERANCES: Final = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}
_ROUNDINGS: Final = 4.0  # times what a change of the arguments by their last digit does
_MOST: Final = 10.0  # times the tolerance of a usual network, whatever this one does with its arguments
_SEED: Final = 7


def tolerances(run: Callable[[Sequence[Array]], Sequence[Array]], args: Sequence[Array]) -> list[float]:
    """How much each result of a network may differ, relative to its size in the L2 norm; zero where it must not.

    Networks amplify roundings, each by another factor: with random weights a ResNet-50 makes 2e-5 of them, whoever
    computes it, a MobileNetV2 1e-6. That factor shows when each number of the arguments is replaced by one of its two
    neighbours, which is as much as a backward stable way to compute may be taken to do (N. J. Higham, Accuracy and
    Stability of Numerical Algorithms, section 1.5).

    Args:
        run: Computes the network.
        args: Arguments of a call, which stay as they are.
    """
    first = [np.array(result) for result in run(args)]
    rng = np.random.default_rng(_SEED)
    changed = run([_neighbours(array, rng) for array in args])
    return [_tolerance(a, np.asarray(b)) for a, b in zip(first, changed, strict=True)]


def _tolerance(first: Array, changed: Array) -> float:
    usual = _TOLERANCES.get(first.dtype.name, 0.0)
    if first.shape != changed.shape:  # as of results whose size depends on values
        return usual
    effect = _ROUNDINGS * _relative(first.astype(np.float64), changed.astype(np.float64)) if usual else 0.0
    return max(usual, min(effect, _MOST * usual)) if np.isfinite(effect) else usual


def _neighbours(array: Array, rng: np.random.Generator) -> Array:
    """Each number replaced by the next one above or below it, integers and special values excepted."""
    if array.dtype.name not in _TOLERANCES:
        return array
    towards = np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    with np.errstate(all="ignore"):
        near: Array = np.nextafter(array, towards)
    return np.where(np.isfinite(array) & np.isfinite(near), near, array)


def difference(expected: Sequence[Array], received: Sequence[Array], allowed: Sequence[float]) -> str:
    """How results differ by more than sums in another order explain; empty when they do not.

    Args:
        expected: Results of the default choices.
        received: Results of others.
        allowed: Relative difference that each of them may have.
    """
    if len(expected) != len(received):
        return f"there are {len(received)} results, expected {len(expected)}"
    for number, (want, have) in enumerate(zip(expected, received, strict=True)):
        tolerance = allowed[number]
        if want.shape != have.shape or want.dtype != have.dtype:
            return f"result {number} is {have.dtype}{list(have.shape)}, expected {want.dtype}{list(want.shape)}"
        if not tolerance:
            if not np.array_equal(want, have):
                return f"result {number} has other values of {want.dtype}"
            continue
        error = _relative(want.astype(np.float64), have.astype(np.float64))
        if not error <= tolerance:
            return f"result {number} differs by {error:.1e} of its size, expected at most {tolerance:.0e}"
    return ""


def _relative(want: Array, have: Array) -> float:
    """The L2 norm of the difference, relative to that of what is expected; infinite when other elements are special."""
    usual = np.isfinite(want)
    if not np.array_equal(want[~usual], have[~usual], equal_nan=True) or not np.isfinite(have[usual]).all():
        return float("inf")
    size = float(np.linalg.norm(want[usual]))
    return float(np.linalg.norm(want[usual] - have[usual])) / (size or 1.0)
