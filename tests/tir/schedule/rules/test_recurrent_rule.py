"""Recurrent layers in default schedules: tiles of units in each step, whatever the sizes are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import CHOSEN, TRACE
from eutectic.tir.interpret import run
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.stmt import For, ForKind
from eutectic.topi.nn.recurrent import GATES

LANES = 16
# Steps, sequences, units; whole tiles, tiles with a rest, and fewer units than a vector has lanes.
SIZES = [(3, 1, 32), (2, 5, 20), (1, 3, 5), (2, 1, 1)]


def program(kind: str, sizes: tuple[int, int, int], reverse: bool = False, *, varies: bool = False) -> tir.PrimFunc:
    steps, batch, units = sizes
    known = IntImm("int64", steps), IntImm("int64", batch)
    given = (Var("steps", "int64"), Var("batch", "int64")) if varies else known
    return topi.nn.recurrent(kind, *given, units, min(LANES, units), "float32", reverse=reverse)


def arrays(func: tir.PrimFunc, sizes: tuple[int, int, int]) -> list[np.ndarray]:
    """Random arguments, and memory for the results."""
    rng = np.random.default_rng(sum(sizes))
    shapes = [[size.value for size in func.buffer_map[param].shape] for param in func.params]
    return [rng.uniform(-0.3, 0.3, shape).astype("float32") for shape in shapes]


def results(kind: str, values: list[np.ndarray]) -> list[np.ndarray]:
    return values[-3:] if kind == "lstm" else values[-2:]


def by_hand(kind: str, values: list[np.ndarray], units: int, reverse: bool) -> np.ndarray:
    """Hidden states in float64."""
    gates, state = values[0].astype(np.float64), values[1].astype(np.float64)
    blocks = values[3 if kind == "lstm" else 2].astype(np.float64)
    weight = blocks.transpose(1, 2, 0, 3).reshape(units, GATES[kind], -1)[:, :, :units].reshape(units, -1)
    cell, out = values[2].astype(np.float64), np.zeros((*gates.shape[:2], units))
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        given, product = (np.split(x, GATES[kind], axis=1) for x in (gates[step], state @ weight))
        sums = [a + b for a, b in zip(given, product, strict=True)]
        one, two = (1 / (1 + np.exp(-x)) for x in (sums[0], sums[-1 if kind != "gru" else 1]))
        if kind == "lstm":
            cell = cell / (1 + np.exp(-sums[1])) + one * np.tanh(sums[2])
            state = two * np.tanh(cell)
        elif kind == "gru":
            new = np.tanh(given[2] + one * (product[2] + values[3]))
            state = (1 - two) * new + two * state
        else:
            state = np.tanh(sums[0]) if kind == "rnn_tanh" else np.maximum(sums[0], 0)
        out[step] = state
    return out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", GATES)
def test_schedules_compute_what_the_layer_says(kind: str, sizes: tuple[int, int, int], reverse: bool):
    func = program(kind, sizes, reverse)
    values = arrays(func, sizes)
    scheduled = schedule_for_cpu(func, Vectors(256))
    assert scheduled.attr(CHOSEN)[0].startswith("recurrent@0: ")
    for made in (func, scheduled):
        got = [value.copy() for value in values]
        run(made, *got)
        np.testing.assert_allclose(
            got[-3 if kind == "lstm" else -2], by_hand(kind, values, sizes[2], reverse), atol=2e-6
        )
        last = got[-3 if kind == "lstm" else -2][0 if reverse else -1]
        np.testing.assert_array_equal(got[-2 if kind == "lstm" else -1], last)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("kind", GATES)
def test_native_code_does_the_same(kind: str, bits: int):
    sizes = (3, 4, 40)
    func = program(kind, sizes)
    scheduled = schedule_for_cpu(func, Vectors(bits))
    check_round_trip(scheduled)
    wanted = arrays(func, sizes)
    got = [value.copy() for value in wanted]
    run(func, *wanted)
    NativePrimFunc(scheduled, Target("llvm"))(*got)
    for a, b in zip(results(kind, got), results(kind, wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("sizes", [(1, 1, 24), (5, 4, 24)])
def test_sizes_need_not_be_known(kind: str, sizes: tuple[int, int, int]):
    func = program(kind, sizes, varies=True)
    scheduled = schedule_for_cpu(func, Vectors(256))
    assert scheduled.attr(CHOSEN)[0].startswith("recurrent@0: ")
    wanted = arrays(program(kind, sizes), sizes)
    got = [value.copy() for value in wanted]
    run(program(kind, sizes), *wanted)
    NativePrimFunc(scheduled, Target("llvm"))(*got)
    for a, b in zip(results(kind, got), results(kind, wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@settings(max_examples=15)
@given(st.sampled_from(list(GATES)), st.integers(1, 3), st.integers(1, 7), st.integers(1, 37), st.booleans())
def test_any_sizes(kind: str, steps: int, batch: int, units: int, reverse: bool):
    sizes = steps, batch, units
    func = program(kind, sizes, reverse)
    values = arrays(func, sizes)
    want = by_hand(kind, values, units, reverse)
    run(schedule_for_cpu(func, Vectors(256)), *values)
    np.testing.assert_allclose(values[-3 if kind == "lstm" else -2], want, atol=2e-6)


def test_every_choice_gives_the_same():
    sizes = (2, 5, 24)
    func = program("lstm", sizes)
    (point,) = choice_points(func, Vectors(256)).values()
    choices = point.alternatives()
    assert len(choices) == 4  # one sequence at a time or several, with threads or without
    start = arrays(func, sizes)
    want = by_hand("lstm", start, sizes[2], reverse=False)
    for choice in choices:
        got = [value.copy() for value in start]
        run(schedule_for_cpu(with_decisions(func, {point.name: choice}), Vectors(256)), *got)
        np.testing.assert_allclose(got[-3], want, atol=2e-6)


def test_traces_are_replayed():
    func = program("gru", (2, 5, 24))
    scheduled = schedule_for_cpu(func, Vectors(256))
    replayed = tir.Schedule(func)
    trace_from_python(list(scheduled.attr(TRACE))).apply_to_schedule(replayed, remove_postproc=False)
    assert structural_equal(replayed.func.body, scheduled.body)


def parallel_loops(func: tir.PrimFunc) -> int:
    return sum(isinstance(part, For) and part.kind == ForKind.PARALLEL for part in post_order(func.body))


def test_threads_share_steps_that_are_long_enough():
    assert parallel_loops(schedule_for_cpu(program("lstm", (9, 1, 64)), Vectors(256))) == 0
    assert parallel_loops(schedule_for_cpu(program("lstm", (9, 1, 128)), Vectors(256))) == 1
