"""Values of tensor expressions that compare with `==` and `!=`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te, tir
from eutectic.tir.interpret import run

N = 6
ROWS, COLUMNS = np.indices((N, N))


def value_of(body, inputs=(), shape=(N, N), dtype=None):
    """What a stage computes."""
    out = te.compute(shape, body, "out")
    func = te.create_prim_func([*(tensor for tensor, _ in inputs), out])
    result = np.zeros(shape, out.dtype if dtype is None else dtype)
    run(func, *(array for _, array in inputs), result)
    return result


CASES = [
    (lambda i, j: i == j, ROWS == COLUMNS),
    (lambda i, j: i != j, ROWS != COLUMNS),
    (lambda i, j: i == 3, ROWS == 3),
    (lambda i, j: 0 == j, COLUMNS == 0),  # noqa: SIM300  # the reflected operator
    (lambda i, j: j % 3 == 0, COLUMNS % 3 == 0),
    (lambda i, j: (i == 0) & (j != 1), (ROWS == 0) & (COLUMNS != 1)),
    (lambda i, j: tir.all(i == 0, j == 1), (ROWS == 0) & (COLUMNS == 1)),
    (lambda i, j: tir.any(i == 0, j == 1), (ROWS == 0) | (COLUMNS == 1)),
    (lambda i, j: ~(i == j), ROWS != COLUMNS),
    (lambda i, j: tir.Select(i == j, i, j * 2), np.where(ROWS == COLUMNS, ROWS, COLUMNS * 2)),
    (lambda i, j: tir.if_then_else(j % 3 == 0, i, 7), np.where(COLUMNS % 3 == 0, ROWS, 7)),
    (lambda i, j: (i == j).astype("int32") + 1, (ROWS == COLUMNS) + 1),
]


@pytest.mark.parametrize(("body", "want"), CASES)
def test_values(body, want):
    np.testing.assert_array_equal(value_of(body), want)


def test_elements_are_compared():
    a, b = te.placeholder((N, N), "float32", "a"), te.placeholder((N, N), "float32", "b")
    x, y = np.float32(ROWS % 3), np.float32(COLUMNS % 2)
    got = value_of(lambda i, j: tir.if_then_else(a[i, j] == b[i, j], a[i, j], 9.0), [(a, x), (b, y)])
    np.testing.assert_array_equal(got, np.where(x == y, x, 9))


def test_reductions_leave_out_by_equality():
    a = te.placeholder((N, N), "float32", "a")
    x = np.float32(ROWS * N + COLUMNS)
    k = te.reduce_axis((0, N), "k")
    got = value_of(lambda i: te.sum(a[i, k], axis=k, where=k % 2 == 0), [(a, x)], (N,))
    np.testing.assert_array_equal(got, x[:, ::2].sum(1))
    k = te.reduce_axis((0, N), "k")
    got = value_of(lambda i: te.sum(tir.Select(k == i, a[i, k], 0.0), axis=k), [(a, x)], (N,))
    np.testing.assert_array_equal(got, np.diagonal(x))


def test_several_results():
    both = te.compute((N,), lambda i: (i == 2, i != 2), "both")
    outs = [np.zeros(N, "bool"), np.zeros(N, "bool")]
    run(te.create_prim_func(list(both)), *outs)
    np.testing.assert_array_equal(outs[0], np.arange(N) == 2)
    np.testing.assert_array_equal(outs[1], ~outs[0])


@st.composite
def conditions(draw, depth=2):
    """A condition of two values, of expressions or of arrays."""
    if depth and draw(st.booleans()):
        left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
        join = draw(st.sampled_from([lambda a, b: a & b, lambda a, b: a | b, lambda a, b: ~a & b, lambda a, b: a == b]))
        return lambda i, j: join(left(i, j), right(i, j))
    divisor, number = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    return draw(
        st.sampled_from(
            [
                lambda i, j: i == j,
                lambda i, j: i % divisor != j,
                lambda i, j: i % divisor == number,
                lambda i, j: number == j // divisor,
                lambda i, j: i + number != j * divisor,
                lambda i, j: i < j + number,
            ]
        )
    )


@settings(max_examples=40, deadline=None)
@given(conditions())
def test_conditions_are_those_of_numpy(condition):
    got = value_of(lambda i, j: tir.if_then_else(condition(i, j), i, j + 10))
    np.testing.assert_array_equal(got, np.where(condition(ROWS, COLUMNS), ROWS, COLUMNS + 10))
