"""Operands that a reduction reads with steps, or along its terms only, are copied together first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.ir.visit import post_order
from eutectic.testing.native import run_native
from eutectic.tir.block import Block
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu

WIDE = Vectors(256, 16)


def of_rows(rows: int, columns: int, terms: int) -> tir.PrimFunc:
    """`y[i, j] = sum(a[i, k] * b[j, k])`."""
    a, b = te.placeholder((rows, terms), "float32", "a"), te.placeholder((columns, terms), "float32", "b")
    return te.create_prim_func([a, b, topi.einsum("ik,jk->ij", a, b)])


def copies(func: tir.PrimFunc) -> list[list[int]]:
    """Shapes of what the scheduled program copies by itself."""
    scheduled = schedule_for_cpu(func, WIDE)
    buffers = {
        buffer
        for part in post_order(scheduled.body)
        if isinstance(part, Block)
        for buffer in part.alloc_buffers
        if "reindex" in buffer.name
    }
    return sorted([int(size) for size in buffer.shape] for buffer in buffers)


def test_an_operand_is_turned_for_a_product_of_rows():
    assert copies(of_rows(33, 20, 12)) == [[12, 20]]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1, 64), (8, 64), (64, 8)],  # a few rows read each weight a few times; a few columns are no vector
)
def test_of_a_few_rows_or_columns_none_is(rows: int, columns: int):
    assert copies(of_rows(rows, columns, 12)) == []


def test_what_has_vectors_is_not_turned():
    a, b = te.placeholder((33, 12), "float32"), te.placeholder((12, 20), "float32")
    assert copies(te.create_prim_func([a, b, topi.einsum("ik,kj->ij", a, b)])) == []


def test_distances_are_turned_too():
    """Not products alone: whatever is summed over the rows of two matrices."""
    a, b = te.placeholder((40, 12), "float32", "a"), te.placeholder((50, 12), "float32", "b")
    k = te.reduce_axis((0, 12), "k")
    distance = te.compute((40, 50), lambda i, j: te.sum(tir.abs(a[i, k] - b[j, k]), k), "distance")
    func = te.create_prim_func([a, b, distance])
    assert copies(func) == [[12, 50]]
    rng = np.random.default_rng(0)
    x, y, got = rng.standard_normal((40, 12), "f4"), rng.standard_normal((50, 12), "f4"), np.zeros((40, 50), "f4")
    run_native(func, x, y, got)
    np.testing.assert_allclose(got, np.abs(x[:, None].astype("f8") - y[None]).sum(-1), rtol=1e-5)


@st.composite
def contractions(draw: Any) -> tuple[str, dict[str, int]]:
    """Two operands with letters in any order, and a result with most of them."""
    sizes = dict(zip("bijkl", (draw(st.sampled_from([1, 3, 16, 17, 24])) for _ in range(5)), strict=True))
    groups = [draw(st.permutations(["b", "k", own])) for own in "ij"]
    if draw(st.booleans()):
        groups = [draw(st.permutations([*group, "l"])) for group in groups]
    result = draw(st.permutations(["b", "i", "j"]))
    return f"{''.join(groups[0])},{''.join(groups[1])}->{''.join(result)}", sizes


@given(contractions())
def test_any_order_of_axes(contraction: tuple[str, dict[str, int]]):
    text, sizes = contraction
    rng = np.random.default_rng(0)
    groups, result = text.split("->")[0].split(","), text.split("->")[1]
    arrays = [rng.standard_normal([sizes[c] for c in group], "f4") for group in groups]
    operands = [te.placeholder(x.shape, "float32") for x in arrays]
    got = np.zeros([sizes[c] for c in result], "f4")
    run_native(te.create_prim_func([*operands, topi.einsum(text, *operands)]), *arrays, got)
    want = np.einsum(text, *(x.astype("f8") for x in arrays))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
