"""Terms of sums that are written out together."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.term_groups import term_group, vector_sums
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.driver.inspect import kernel_source
from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu
from eutectic.tir.stmt import For
from eutectic.tir.transform.lower_tir import lowered

TARGET = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3")
LANES = 8


def product(rows: int, terms: int, columns: int = 64, dtype: str = "float32") -> PrimFunc:
    """A product with weights in panels."""
    x = te.placeholder((rows, terms), dtype, "x")
    w = te.placeholder((columns // 16, terms, 16), dtype, "w")
    return te.create_prim_func([x, w, topi.nn.dense_pack(x, w, units=columns)])


def loops_over_terms(func: PrimFunc) -> list[For]:
    """The loops of a scheduled program that add to vectors."""
    body = lowered(schedule_for_cpu(func, machine_of(TARGET))).body
    return [part for part in post_order(body) if isinstance(part, For) and vector_sums(part)]


@pytest.mark.parametrize(
    ("terms", "size"),
    [(200, 8), (24, 8), (16, 4), (8, 8), (12, 4), (10, 2), (6, 2), (4, 4), (9, 1), (7, 1), (3, 1)],
)
def test_groups_divide_a_loop_and_are_not_half_of_it(terms: int, size: int):
    loops = [loop for loop in loops_over_terms(product(24, terms)) if loop.static_extent == terms]
    assert loops
    assert {term_group(loop, LANES).size for loop in loops} == {size}


def test_tiles_that_need_most_registers_are_no_groups():
    """28 of 32: LLVM would read ahead for more terms than it has registers for."""
    wide = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4"))
    x, w = te.placeholder((28, 256), "float32", "x"), te.placeholder((2, 256, 32), "float32", "w")
    func = te.create_prim_func([x, w, topi.nn.dense_pack(x, w, units=64)])
    body = lowered(schedule_for_cpu(func, wide)).body
    tiles = [part for part in post_order(body) if isinstance(part, For) and sum(vector_sums(part)) >= 28 * 64]
    assert tiles
    assert {term_group(part, 16).size for part in tiles} == {1}


def test_what_is_written_out_already_is_no_group():
    data = te.placeholder((1, 12, 14, 14, 8), "float32", "d")
    weight = te.placeholder((12, 12, 1, 1, 8, 8), "float32", "w")
    func = te.create_prim_func([data, weight, topi.nn.conv2d_nchwc(data, weight)])
    large = [loop for loop in loops_over_terms(func) if len(vector_sums(loop)) > 56]
    assert large
    assert {term_group(loop, LANES).size for loop in large} == {1}


def inner_loops(assembly: str) -> list[tuple[str, list[str]]]:
    """The line before each loop without jumps inside, and its instructions."""
    lines = assembly.split("\n")
    found = []
    for end, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\.L\w+)$", line)
        begin = next((at for at in range(end) if jump and lines[at] == f"{jump[1]}:"), None)
        if begin is None:
            continue
        body = [item for item in lines[begin + 1 : end + 1] if item.startswith("\t") and not item.startswith("\t.")]
        if not any(re.match(r"\s+j", item) for item in body[:-1]):
            found.append((lines[begin - 1], body))
    return found


@pytest.mark.parametrize(("rows", "terms"), [(24, 768), (128, 3072)])
def test_hardly_anything_stands_beside_the_multiplications(rows: int, terms: int):
    """Of twelve products, which read two vectors and six numbers: 25 to 34 instructions if each term is apart."""
    text = kernel_source(IRModule({"main": product(rows, terms)}), TARGET, "asm")
    loops = inner_loops(text)
    sums = [(before, body) for before, body in loops if sum("vfmadd" in item for item in body) >= 48]  # of whole tiles
    assert sums
    for before, body in sums:
        products = sum("vfmadd" in item for item in body)
        assert ".p2align\t6" in before
        assert len(body) < 24 * products / 12
        assert sum("prefetch" in item for item in body) <= 2  # a group of eight is two turns of four tiles


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=25)
@given(rows=st.integers(1, 20), terms=st.integers(1, 70))
def test_every_number_of_terms_is_summed(dtype: str, rows: int, terms: int):
    """Whole numbers, so that every order of summation gives the same."""
    rng = np.random.default_rng(rows + 100 * terms)
    x = rng.integers(-9, 9, (rows, terms)).astype(to_numpy(dtype))
    w = rng.integers(-9, 9, (2, terms, 16)).astype(to_numpy(dtype))
    out = np.empty((rows, 32), to_numpy(dtype))
    NativePrimFunc(product(rows, terms, 32, dtype), Target("llvm"), threads=1)(x, w, out)
    expected = np.einsum("rt,ptl->rpl", x, w).reshape(rows, 32)
    np.testing.assert_array_equal(out, expected)
