"""The next panel of weights is asked for while all rows are multiplied with the present one."""

from __future__ import annotations

import platform
import re
from itertools import pairwise
from itertools import product as tuples
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te
from eutectic.arith import simplify
from eutectic.backend.llvm.prefetch import _at, _part, _reads_on, _Turns, _turns
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.driver.inspect import kernel_source
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.target import Target
from eutectic.tir import PrimFunc, decl_buffer
from eutectic.tir.function_attributes import TRACE
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import Evaluate, For, ForKind

AVX2 = Vectors(256, 16)
WAITS = Vectors(waits=True)
NARROW = Target("llvm -mcpu=x86-64-v3")
WIDE = Target("llvm -mcpu=sapphirerapids")


def product(rows: int, terms: int, panels: int, width: int = 16) -> PrimFunc:
    """Rows times weights in panels."""
    x = te.placeholder((rows, terms), "float32", "x")
    w = te.placeholder((panels, terms, width), "float32", "w")
    k = te.reduce_axis((0, terms), "k")
    out = te.compute((panels, rows, width), lambda o, r, v: te.sum(x[r, k] * w[o, k, v], [k]), "out")
    return te.create_prim_func([x, w, out])


def convolution(size: int, blocks: int, panels: int, width: int = 32) -> PrimFunc:
    """Windows of 3x3 over an image with channels in blocks, whose weights are in panels."""
    x = te.placeholder((blocks, size + 2, size + 2, 16), "float32", "x")
    w = te.placeholder((panels, blocks, 3, 3, 16, width), "float32", "w")
    c, p, q, i = (te.reduce_axis((0, n), name) for n, name in ((blocks, "c"), (3, "p"), (3, "q"), (16, "i")))
    out = te.compute(
        (panels, size, size, width),
        lambda o, y, z, v: te.sum(x[c, y + p, z + q, i] * w[o, c, p, q, i, v], [c, p, q, i]),
        "out",
    )
    return te.create_prim_func([x, w, out])


def asked(func: PrimFunc, processor: Vectors) -> set[str]:
    return set(re.findall(r'"prefetch": \[\[(.*?)\]\]', schedule_for_cpu(func, processor).without_attr(TRACE).script()))


def test_tiles_of_rows_share_the_asking():
    assert asked(product(49, 512, 32), AVX2) == {'"w", 512, "spread"'}


def test_panels_of_a_tile_are_asked_for_together():
    (wanted,) = asked(product(28, 512, 64, width=8), AVX2)
    blocks = choice_points(product(28, 512, 64, width=8), AVX2)["register_tile@0"].chosen["blocks"]
    assert blocks > 1
    assert wanted == f'"w", {512 * blocks}, "spread"'


@pytest.mark.parametrize(
    ("func", "processor"),
    [
        (product(49, 512, 32), Vectors()),  # reads weights slowly enough
        (product(49, 512, 4), AVX2),  # all weights stay near
        (product(4, 512, 32), AVX2),  # no panel is read twice
    ],
)
def test_others_do_not_ask(func: PrimFunc, processor: Vectors):
    assert asked(func, processor) == set()


def test_so_they_do_where_registers_are_many_and_the_shared_cache_is_far():
    assert asked(product(49, 512, 32, width=32), WAITS) == {'"w", 512, "spread"'}
    assert asked(product(6, 512, 32, width=32), WAITS) == set()  # one tile


def test_rows_of_an_image_share_the_asking():
    assert asked(convolution(7, 7, 16), WAITS) == {'"w", 1008, "spread"'}  # 7 blocks, 3 x 3 windows, 16 channels
    assert asked(convolution(7, 7, 16), Vectors()) == set()


def test_rounds_ask_for_the_block_of_terms_of_the_next():
    block = '"w", 144, "spread"'  # 3 x 3 windows, 16 channels
    assert asked(convolution(7, 8, 16), WAITS) == {block}
    assert asked(convolution(7, 8, 16), Vectors()) == set()
    assert asked(convolution(7, 32, 16), Vectors()) == {block}, "9 MB come from memory"


def test_it_is_a_choice():
    own, *others = choice_points(product(49, 512, 32), AVX2)["register_tile@0"].alternatives()
    assert own["ahead"]
    assert {**own, "ahead": False} in others
    silent = with_decisions(product(49, 512, 32), {"register_tile@0": {**own, "ahead": False}})
    assert asked(silent, AVX2) == set()


def loop(name: str, low: int, extent: int) -> For:
    body = Evaluate(IntImm("int64", 0))
    return For(Var(name, "int64"), IntImm("int64", low), IntImm("int64", extent), ForKind.SERIAL, body)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(0, 5),
    st.sampled_from([16, 32, 64, 96, 128, 512]),
)
def test_all_iterations_together_ask_for_everything_evenly(
    terms: list[tuple[int, int]], turns: int, first: int, step: int
):
    loops = tuple(loop(f"k{n}", low, extent) for n, (low, extent) in enumerate(terms))
    outer = loop("t", first, turns)
    asks, seen = -(-step // (64 * turns)), []
    part, total = _part(_Turns(outer, loops), step, asks), prod(extent for _, extent in terms)
    for t in range(first, first + turns):
        for places in tuples(*(range(low, low + extent) for low, extent in terms)):
            values = {item.loop_var: IntImm("int64", place) for item, place in zip(loops, places, strict=True)}
            line = simplify(with_values(part, {outer.loop_var: IntImm("int64", t), **values})).value
            seen.append(set(range(line, line + asks)))
    lines = -(-total * step // 64)
    assert set.union(*seen) >= set(range(lines - (lines * 64 > total * step)))  # all whole lines
    assert max(set.union(*seen)) <= lines + asks
    every = [min(asked) for asked in seen]
    assert every == sorted(every)
    assert max(after - before for before, after in pairwise([0, *every])) <= asks  # evenly


@pytest.mark.parametrize(
    ("begin", "step", "expected"),
    [
        ([0], 64, True),
        ([0], 32, True),
        ([0, 64], 128, True),
        ([64, 0, 32], 128, True),
        ([0], 128, False),  # a line is left out
        ([0, 128], 192, False),
        ([0, 64], 64, False),  # it reads what the next iteration reads
        ([-64, 0], 128, False),
        ([0, None], 128, False),
    ],
)
def test_iterations_read_on_where_no_line_is_left_out(begin: list[int | None], step: int, expected: bool):
    assert _reads_on(begin, step) is expected


def test_loops_that_read_other_elements_do_not_share():
    inner, rows, panels, unit = loop("k", 0, 8), loop("t", 0, 3), loop("o", 0, 4), loop("u", 2, 1)
    own = inner.loop_var * 16
    both = own + panels.loop_var * (9 * 16)  # something between the terms of two panels
    buffer = decl_buffer((1 << 20,), "float32", "w")

    def turns(around: list[For], index: PrimExpr) -> _Turns | None:
        return _turns(inner, around, buffer, index)

    assert turns([panels, rows], own) == _Turns(rows, (inner,))
    assert turns([panels, rows, unit], own) == _Turns(rows, (inner,))
    assert turns([panels], both) is None
    assert turns([rows, panels], both) is None
    assert turns([], own) is None
    assert turns([rows, panels, unit], own + panels.loop_var * (8 * 16)) == _Turns(rows, (panels, inner))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2), st.integers(0, 3))
def test_the_next_panel_is_asked_for_whatever_loops_its_terms_are(blocks: int, taps: int, turns: int, gap: int, o: int):
    rows, outer, inner = loop("t", 0, turns + 1), loop("c", 0, blocks + 1), loop("k", 0, taps + 1)
    panel, width = Var("o", "int64"), 16
    count = outer.static_extent * inner.static_extent
    step = inner.static_extent + gap  # terms that follow each other in memory, or with something between
    index = (panel * count + outer.loop_var * step + inner.loop_var) * width
    buffer = decl_buffer((1 << 20,), "float32", "w")
    found = _turns(inner, [rows, outer], buffer, index)
    if gap:
        assert found is None
        return
    start = _at(index, {item.loop_var: item.min for item in found.terms})
    asked = start + (_part(found, 64, 1) + count) * width
    places = set()
    for t, c, k in tuples(*(range(item.static_extent) for item in (rows, outer, inner))):
        values = {panel: o, rows.loop_var: t, outer.loop_var: c, inner.loop_var: k}
        values = {var: IntImm("int64", value) for var, value in values.items()}
        places.add(simplify(with_values(asked, values)).value)
    assert places == {((o + 1) * count + term) * width for term in range(count)}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
def test_it_is_kept_in_larger_caches_and_sums_stay_in_registers():
    assembly = kernel_source(IRModule({"main": product(49, 512, 32)}), NARROW, "asm")
    assert set(re.findall(r"prefetch\w+", assembly)) == {"prefetcht1"}
    blocks = [block for block in re.split(r"^\.L\w+:", assembly, flags=re.MULTILINE) if "prefetch" in block]
    assert blocks
    for block in blocks:
        inside = block[: re.search(r"\n\tj\w+\s+\.L", block).start()]
        assert not re.search(r"vmov[au]ps\s+%[xyz]mm\d+, [^%]", inside), inside


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of processors")
def test_terms_of_several_loops_are_gone_through_as_one():
    text = kernel_source(IRModule({"main": convolution(7, 7, 16)}), WIDE, "llvm")
    inside = text[text.index("@llvm.prefetch") - 400 : text.rindex("call void @llvm.prefetch")]
    assert re.search(r"udiv i64 %\S+, 7\b", inside)  # iterations of seven rows ask for a term together


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of processors")
def test_all_lines_of_a_term_are_asked_for():
    func = product(49, 512, 32, width=32)  # numbers of a term are two lines
    text = kernel_source(IRModule({"main": func}), WIDE, "llvm")
    shared, alone = 1, 2  # lines that a term of one of four tiles asks for, and one of the last tile
    assert len(re.findall(r"call void @llvm.prefetch", text)) == shared + alone


@pytest.mark.parametrize(("rows", "terms", "panels"), [(49, 512, 32), (17, 300, 40), (7, 1000, 20)])
def test_values(rows: int, terms: int, panels: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, terms), np.float32)
    w = rng.standard_normal((panels, terms, 16), np.float32)
    out = np.empty((panels, rows, 16), np.float32)
    NativePrimFunc(product(rows, terms, panels), NARROW)(x, w, out)
    np.testing.assert_allclose(out, np.einsum("rk,okv->orv", x.astype("f8"), w.astype("f8")), rtol=1e-4, atol=1e-4)
