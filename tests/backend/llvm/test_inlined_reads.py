"""A value that is computed where it is read is computed at each of the places it is read at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te
from eutectic.testing.native import native

N = 6
# Where in a square an element of the result reads; the last ones are read twice with the same indices.
PLACES: list[Callable[[Any, Any], tuple[Any, Any]]] = [
    lambda i, j: (i, j),
    lambda i, j: (j, i),
    lambda i, j: (i, i),
    lambda i, j: (j, j),
    lambda i, j: (N - 1 - i, j),
    lambda i, j: (i, N - 1 - j),
    lambda i, j: (0, j),
    lambda i, j: (i, 0),
]
# Cheap enough to be computed again at each place, or not.
VALUES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: x * 2.0, lambda x: x * 2),
    (lambda x: x * x + 1.0, lambda x: x * x + 1),
    (lambda x: te.exp(x), np.exp),
]


@given(st.lists(st.sampled_from(PLACES), min_size=2, max_size=4), st.sampled_from(VALUES))
@settings(max_examples=30)
def test_reads_at_several_places(places: Sequence[Any], value: tuple[Any, Any]):
    ours, theirs = value
    x = te.placeholder((N, N), "float32", "x")
    y = te.compute((N, N), lambda i, j: ours(x[i, j]), "y")

    def combined(i: Any, j: Any) -> Any:
        out = y[places[0](i, j)]
        for number, place in enumerate(places[1:], 2):
            out = out + y[place(i, j)] * float(number)
        return out

    func = te.create_prim_func([x, te.compute((N, N), combined, "z")])
    array = np.random.default_rng(0).standard_normal((N, N)).astype("float32")
    got = np.empty_like(array)
    native(func)(array, got)
    wide = theirs(array.astype("float64"))
    rows, columns = np.indices((N, N))
    want = sum(number * wide[place(rows, columns)] for number, place in enumerate(places, 1))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
