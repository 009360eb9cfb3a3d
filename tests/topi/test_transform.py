"""Operators that move and choose elements do what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.topi.evaluate import close, evaluate, reference

from eutectic import te, topi
from eutectic.relax.op.index import TakeAttrs

SIZES = st.sampled_from([0, 1, 2, 3, 5])


def counted(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="int32").reshape(shape)


@given(st.lists(SIZES, max_size=4).flatmap(lambda s: st.tuples(st.just(s), st.permutations(range(len(s))))))
@settings(max_examples=30)
def test_transpose(case: tuple[list[int], list[int]]):
    x = counted(*case[0])
    close(
        evaluate(lambda t: topi.transpose(t, case[1]), x, text=True),
        np.ascontiguousarray(x.transpose(case[1])).reshape(x.transpose(case[1]).shape),
    )


@given(
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=5),
    st.integers(0, 2**31),
    st.sampled_from(["int32", "int64"]),
)
@settings(max_examples=40)
def test_reshape(factors: list[int], seed: int, index: str):
    rng = np.random.default_rng(seed)

    def grouped() -> list[int]:
        order = rng.permutation(factors)
        cuts = sorted(rng.integers(0, len(order) + 1, rng.integers(0, 3)))
        return [int(np.prod(part)) for part in np.split(order, cuts)]

    x = counted(*grouped())
    target = grouped()
    close(evaluate(lambda t: topi.reshape(t, target), x, index=index, text=True), x.reshape(target))


def test_reshape_keeps_equal_axes(golden):
    n = te.var("n", "int64")
    x = te.placeholder((n, 4, 6, 5), name="x")
    golden(te.create_prim_func([x, topi.reshape(x, (n, 24, 5))]).script())


def test_reshape_of_nothing():
    close(evaluate(lambda t: topi.reshape(t, (0, 5)), counted(3, 0)), counted(0, 5))
    with pytest.raises(ValueError, match="another number"):
        topi.reshape(te.placeholder((3, 4)), (5, 2))


@given(st.lists(st.sampled_from([0, 1, 3]), min_size=1, max_size=3), st.integers(1, 3), st.data())
@settings(max_examples=30)
def test_new_and_lost_axes(shape: list[int], count: int, data: st.DataObject):
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    x = counted(*shape)
    at = axis % (len(shape) + 1)
    want = x.reshape(*shape[:at], *[1] * count, *shape[at:])
    close(evaluate(lambda t: topi.expand_dims(t, axis, count), x), want)
    close(evaluate(topi.squeeze, want), np.squeeze(want))
    close(evaluate(lambda t: topi.squeeze(t, at), want), np.squeeze(want, at))


@given(st.lists(SIZES, min_size=1, max_size=4), st.integers(0, 1))
@settings(max_examples=30)
def test_concatenate_and_split(lengths: list[int], axis: int):
    xs = [counted(n, 2) if axis == 0 else counted(2, n) for n in lengths]
    whole = np.concatenate(xs, axis)
    close(evaluate(lambda *t: topi.concatenate(t, axis), *xs, text=True), whole)
    cuts = np.cumsum(lengths)[:-1].tolist()
    got = evaluate(lambda t: topi.split(t, cuts, axis), whole)
    for piece, x in zip(got if cuts else [got], xs, strict=True):
        close(piece, x)


def test_other_moves():
    x = counted(2, 3, 4)
    close(evaluate(lambda t: topi.split(t, 3, -1), x)[2], np.ascontiguousarray(x[..., 4:]))
    close(evaluate(lambda t, u: topi.stack([t, u], 1), x, x + 7), np.stack([x, x + 7], 1))
    for axis in (-1, 0, 1):
        close(evaluate(lambda t, a=axis: topi.flip(t, a), x), np.flip(x, axis))
        close(evaluate(lambda t, a=axis: topi.repeat(t, 3, a), x), np.repeat(x, 3, axis))
    close(evaluate(lambda t: topi.repeat(t, 2), x), np.repeat(x, 2))
    for reps in (2, (2, 1), (1, 2, 3), (2, 1, 1, 3), 0):
        close(evaluate(lambda t, r=reps: topi.tile(t, r), x), np.tile(x, reps))


@given(st.integers(0, 7), st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2]))
@settings(max_examples=60)
def test_strided_slice(size: int, begin: int, end: int, step: int):
    x = counted(2, size)
    got = evaluate(lambda t: topi.strided_slice(t, [begin], [end], [step], [1]), x)
    close(got, x[:, begin:end:step])


@pytest.mark.parametrize("mode", ["fast", "clip", "wrap", "nan"])
@pytest.mark.parametrize("axis", [0, 1])
def test_take(mode: str, axis: int):
    x = np.asarray(np.random.default_rng(0).standard_normal((3, 4)), "float32")
    low, high = (0, 3) if mode == "fast" else (-5, 9)
    indices = np.random.default_rng(1).integers(low, high, (2, 3)).astype("int64")
    got = evaluate(lambda t, i: topi.take(t, i, axis, mode), x, indices, text=True)
    close(got, reference("take", TakeAttrs(axis, mode), x, indices))


def test_gather():
    x = counted(3, 4)
    indices = np.array([[0, 3], [1, 1], [2, 0]], "int64")
    close(evaluate(lambda t, i: topi.gather(t, 1, i), x, indices), np.take_along_axis(x, indices, 1))


def test_tensors_from_nothing():
    close(evaluate(lambda t: topi.full((2, 3), "float32", 1.5), counted(1)), np.full((2, 3), 1.5, "float32"))
    close(evaluate(lambda t: topi.full_like(t, 7), counted(2, 2)), np.full((2, 2), 7, "int32"))
    for args in ((5,), (2, 9, 3), (9, 2, -2), (3, 3)):
        close(evaluate(lambda t, a=args: topi.arange(*a, dtype="int64"), counted(1)), np.arange(*args, dtype="int64"))
