"""Attention in tiles of queries: the definition, and that its schedule keeps the scores of one tile only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors
from tests.topi.evaluate import evaluate

from eutectic import te, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.tir import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_by_rules, schedule_for_cpu
from eutectic.tir.stmt import parts_of

NATIVE = Target("llvm")
Sizes = tuple[int, int, int, int, int, int]  # batch, queries, heads, keys, features, features of values


def operands(sizes: Sizes, dtype: str = "float32") -> list[np.ndarray]:
    b, s, n, t, d, v = sizes
    rng = np.random.default_rng(s * t)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((b, s, n, d), (b, n, t, d), (b, n, t, v))]


def expected(
    arrays: list[np.ndarray], tile: int, bias: Any = 0.0, mask: str | None = None, window: int | None = None
) -> np.ndarray:
    """By the definition, in float64."""
    q, k, v = (x.astype("float64") for x in arrays)
    scores = q.transpose(0, 2, 1, 3) @ k.transpose(0, 1, 3, 2) * 0.3 + bias
    queries, keys = scores.shape[-2:]
    if mask is not None:
        last = np.arange(queries)[:, None] + (keys - queries if mask == "BottomRight" else 0)
        at = np.arange(keys)
        seen = (at <= last) & (at > last - (window or keys + queries))
        scores = np.where(seen, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    out = powers @ v / powers.sum(-1, keepdims=True)
    tiles = -(-queries // tile)
    filled = np.concatenate([out, np.repeat(out[:, :, -1:], tiles * tile - queries, axis=2)], axis=2)
    return filled.reshape(*out.shape[:2], tiles, tile, -1)


def program(sizes: Sizes, tile: int, dtype: str = "float32") -> PrimFunc:
    b, s, n, t, d, v = sizes
    inputs = [te.placeholder(shape, dtype) for shape in ((b, s, n, d), (b, n, t, d), (b, n, t, v))]
    return te.create_prim_func([*inputs, topi.nn.attention_in_tiles(*inputs, tile, 0.3)])


@pytest.mark.parametrize("queries", [8, 7, 9, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_definition(queries: int, dtype: str):
    arrays = operands((2, queries, 3, 5, 2, 3), dtype)
    got = evaluate(lambda *x: topi.nn.attention_in_tiles(*x, 4, 0.3), *arrays, text=True)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got, expected(arrays, 4), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("mask", "window", "queries", "keys"),
    [("TopLeft", None, 6, 6), ("BottomRight", None, 6, 9), ("BottomRight", 2, 5, 9), ("TopLeft", None, 7, 3)],
)
def test_masks(mask: str, window: int | None, queries: int, keys: int):
    arrays = operands((1, queries, 2, keys, 4, 3))
    got = evaluate(lambda *x: topi.nn.attention_in_tiles(*x, 4, 0.3, None, mask, window), *arrays)
    np.testing.assert_allclose(got, expected(arrays, 4, 0.0, mask, window), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 6), (2, 1, 1, 6), (2, 3, 1, 6), (2, 3, 1, 1), (2, 3, 5, 6), (1, 1, 5, 6), (1, 3, 5, 1)]
)
def test_bias(shape: tuple[int, ...]):
    arrays = operands((2, 5, 3, 6, 4, 3))
    bias = np.random.default_rng(1).standard_normal(shape).astype("float32")
    rows = bias if shape[2] == 1 else np.concatenate([bias, np.zeros((*shape[:2], 3, shape[3]), "float32")], 2)
    turned = rows.reshape(*shape[:2], -1, 1 if shape[2] == 1 else 4, shape[3]).swapaxes(3, 4)
    got = evaluate(lambda q, k, v, b: topi.nn.attention_in_tiles(q, k, v, 4, 0.3, b), *arrays, turned)
    got, want = (x.reshape(2, 3, 8, 3)[:, :, :5] for x in (got, expected(arrays, 4, bias)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "window", "queries", "keys"),
    [
        (None, None, 9, 5),
        ("TopLeft", None, 9, 9),
        ("TopLeft", None, 9, 12),
        ("BottomRight", None, 9, 12),
        ("BottomRight", 2, 9, 12),
    ],
)
@pytest.mark.parametrize("rows", [(0, 4), (4, 9), (5, 6)])
def test_some_queries(mask: str | None, window: int | None, queries: int, keys: int, rows: tuple[int, int]):
    arrays = operands((2, queries, 2, keys, 4, 3))
    whole = expected(arrays, queries, 0.0, mask, window)[:, :, 0, rows[0] : rows[1]]
    got = evaluate(lambda *x: topi.nn.attention_in_tiles(*x, 4, 0.3, None, mask, window, rows=rows), *arrays)
    got = got.reshape(2, 2, -1, 3)[:, :, : rows[1] - rows[0]]
    np.testing.assert_allclose(got, whole, rtol=1e-5, atol=1e-6)


def test_keys_that_no_query_sees_are_not_read():
    q, k, v = operands((1, 8, 2, 12, 4, 3))
    k[:, :, 6:], v[:, :, 6:] = np.nan, np.nan
    k[:, :, 0], v[:, :, 0] = np.nan, np.nan
    got = evaluate(
        lambda *x: topi.nn.attention_in_tiles(*x, 2, 0.3, None, "BottomRight", 4, rows=(0, 2)), q, k, v
    )  # keys 1 to 5
    assert np.isfinite(got).all()


def test_some_queries_of_an_unknown_number():
    s = te.var("s", "int64")
    q, k, v = (te.placeholder(shape) for shape in ((1, s, 2, 4), (1, 2, s, 4), (1, 2, s, 4)))
    with pytest.raises(ValueError, match="must be known"):
        topi.nn.attention_in_tiles(q, k, v, 4, 1.0, rows=(0, 2))


@pytest.mark.parametrize("hidden", [-np.inf, -1e4, 3.0])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_weights_of_a_softmax(hidden: float, dtype: str):
    """A query that sees nothing has NaN, or equal weights where hidden scores are numbers."""
    arrays = operands((2, 8, 3, 6, 4, 3))
    seen = np.random.default_rng(3).random((2, 3, 8, 6)) > 0.4
    seen[0, 1, 5] = False
    q, k, v = (x.astype("float64") for x in arrays)
    scores = np.where(seen, q.transpose(0, 2, 1, 3) @ k.transpose(0, 1, 3, 2) * 0.3, hidden)
    mask = seen if dtype == "bool" else np.where(seen, 0, -np.inf).astype(dtype)
    scores = scores if dtype == "bool" else np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
    want = powers @ v / powers.sum(-1, keepdims=True)
    turned = mask.reshape(2, 3, 2, 4, 6).swapaxes(3, 4)
    got = evaluate(lambda q, k, v, b: topi.nn.attention_in_tiles(q, k, v, 4, 0.3, b, hidden=hidden), *arrays, turned)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [8, 7, 9, 1])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_rows_in_tiles(rows: int, dtype: str):
    x = (np.random.default_rng(2).standard_normal((2, 3, rows, 5)) * 3).astype(dtype)
    whole = np.concatenate([x, np.repeat(x[:, :, -1:], -rows % 4, axis=2)], 2)
    got = evaluate(lambda x: topi.nn.rows_in_tiles(x, 4), x, text=True)
    np.testing.assert_array_equal(got, whole.reshape(2, 3, -1, 4, 5).swapaxes(3, 4))


def test_queries_that_see_nothing_are_nan_as_in_softmax():
    arrays = operands((1, 5, 1, 3, 2, 2))
    got = evaluate(lambda *x: topi.nn.attention_in_tiles(*x, 4, 0.3, None, "BottomRight"), *arrays)
    rows = got.reshape(8, 2)
    assert np.isnan(rows[:2]).all()
    assert not np.isnan(rows[2:]).any()


def test_sizes_that_do_not_go_together():
    q, k, v = (te.placeholder(shape) for shape in ((1, 8, 2, 4), (1, 2, 6, 4), (1, 2, 5, 4)))
    with pytest.raises(ValueError, match="do not go together"):
        topi.nn.attention_in_tiles(q, k, v, 4, 1.0)
    with pytest.raises(ValueError, match="do not go together"):
        topi.nn.attention_in_tiles(q, te.placeholder((1, 3, 6, 4)), v, 4, 1.0)


# ---- its default schedule


@pytest.mark.parametrize("sizes", [(1, 64, 4, 40, 16, 16), (2, 70, 2, 33, 8, 24), (1, 256, 1, 16, 64, 64)])
def test_one_nest_by_threads_with_the_scores_of_a_tile(sizes: Sizes):
    sch = schedule_by_rules(program(sizes, 32), Vectors())
    (nest,) = parts_of(sch.func.body.block.body)
    assert nest.kind == "parallel"
    tiles = sizes[0] * sizes[2] * -(-sizes[1] // 32)
    assert nest.extent.value == tiles
    assert {buffer.scope() for buffer in sch.func.body.block.alloc_buffers} == {"local"}


def test_few_tiles_are_left_to_threads_stage_by_stage():
    sch = schedule_by_rules(program((1, 64, 1, 40, 16, 16), 32), Vectors())
    assert len(parts_of(sch.func.body.block.body)) > 1


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.tuples(*(st.integers(1, high) for high in (2, 70, 5, 70, 20, 40))),
    st.sampled_from([8, 16, 32]),
    st.sampled_from(["float32", "float64"]),
)
def test_scheduled_programs_compute_the_same(sizes: Sizes, tile: int, dtype: str):
    arrays = operands(sizes, dtype)
    want = expected(arrays, tile)
    scheduled = schedule_for_cpu(program(sizes, tile, dtype), machine_of(NATIVE))
    out = np.full(want.shape, np.nan, dtype)
    NativePrimFunc(scheduled, NATIVE, 2)(*arrays, out)
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(out, want, rtol=tolerance, atol=tolerance)
