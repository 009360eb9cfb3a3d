"""Vector code of functions goes through several registers in step, and stores that have the same go together."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic import tir
from eutectic.backend.llvm.vector_functions import FUNCTIONS
from eutectic.driver.inspect import kernel_source
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Broadcast, PrimExpr, Ramp, Var
from eutectic.testing.native import run_native
from eutectic.tir import Buffer, BufferLoad, BufferStore, PrimFunc
from eutectic.tir.expr import Let
from eutectic.tir.interpret import run
from eutectic.tir.stmt import seq

NAMES = tuple(
    name for name in FUNCTIONS if name not in ("pow", "atan2", "hypot", "fmod", "acosh", "asin", "acos", "atanh")
)
OF_TWO = ("pow", "atan2", "hypot", "fmod")
SIZE = 256
FENCE = re.compile(r'asm "", "([^"]*)"')


def at(start: int, lanes: int) -> PrimExpr | int:
    return start if lanes == 1 else Ramp(start, 1, lanes)


def splat(value: float, lanes: int) -> PrimExpr:
    number = tir.const(value, "float32")
    return number if lanes == 1 else Broadcast(number, lanes)


def function(name: str, value: PrimExpr) -> PrimExpr:
    return getattr(tir, name)(value, value) if name in OF_TWO else getattr(tir, name)(value)


def program(stores: list[tuple[str, int, int, bool, bool]], lanes: int) -> PrimFunc:
    """Stores into `y`: name of a function, where it reads and writes, whether of `y`, whether through a variable."""
    x, y = Buffer("x", (SIZE,), "float32"), Buffer("y", (SIZE,), "float32")
    body = []
    for name, source, destination, in_place, bound in stores:
        value: PrimExpr = BufferLoad(y if in_place else x, (at(source, lanes),))
        if bound:
            var = Var("v", "float32" if lanes == 1 else f"float32x{lanes}")
            value = Let(var, function(name, value) * splat(0.5, lanes), function(name, var) + var)
        else:
            value = function(name, value)
        body.append(BufferStore(y, value, (at(destination, lanes),)))
    return PrimFunc((x, y), seq(*body)).with_attr("tir.noalias", True)


def text(func: PrimFunc, cpu: str = "x86-64-v3") -> str:
    scheduled = func.with_attr("tir.is_scheduled", True)
    return kernel_source(IRModule({"main": scheduled}), f"llvm -mcpu={cpu}", "llvm")


def registers(source: str) -> set[int]:
    """How many registers each fence of a program has."""
    return {found.count("=") for found in FENCE.findall(source)}


PLACES = st.integers(0, 3).map(lambda n: 32 * n)


@given(
    st.sampled_from([*NAMES, *OF_TWO]),
    st.lists(st.tuples(PLACES, PLACES, st.booleans(), st.booleans()), min_size=2, max_size=6),
    st.sampled_from([1, 2, 3, 4, 7, 8, 12, 16, 24, 32]),
)
def test_values_are_those_of_one_after_the_other(name: str, stores: list[tuple[int, int, bool, bool]], lanes: int):
    func = program([(name, *store) for store in stores], lanes)
    x = np.random.default_rng(0).uniform(0.1, 2, SIZE).astype("float32")
    mine, theirs = np.full(SIZE, 0.5, "float32"), np.full(SIZE, 0.5, "float32")
    run_native(func, x, mine, schedule=False)
    run(func, x, theirs)
    np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(("lanes", "count", "at_a_time"), [(8, 4, 4), (8, 6, 4), (16, 2, 4), (32, 1, 4), (8, 2, 2)])
def test_stores_that_follow_each_other_go_together(lanes: int, count: int, at_a_time: int):
    func = program([("erf", 32 * i, 32 * i, False, False) for i in range(count)], lanes)
    assert max(registers(text(func))) == at_a_time


@pytest.mark.parametrize(
    "stores",
    [
        [("erf", 0, 0, False, False), ("exp", 32, 32, False, False)],  # not the same
        [("erf", 0, 0, False, False), ("erf", 0, 32, True, False)],  # the second reads what the first writes
        [("erf", 0, 0, False, False), ("erf", 0, 32, False, True)],  # of one value, and of two
    ],
)
def test_others_do_not(stores: list[tuple[str, int, int, bool, bool]]):
    assert registers(text(program(stores, 8))) == set()


@pytest.mark.parametrize("bound", [False, True])
def test_values_bound_to_variables_go_together_too(bound: bool):
    func = program([("tanh", 32 * i, 32 * i, False, bound) for i in range(4)], 8)
    assert registers(text(func)) == {4}


def test_what_may_not_be_read_is_not_read_before_its_condition():
    """Stores with a branch stay where they are: one side of it reads behind the end of its buffer."""
    x, y = Buffer("x", (8,), "float32"), Buffer("y", (16,), "float32")
    n = Var("n", "int32")

    def value(start: int) -> PrimExpr:
        return tir.if_then_else(n > start, function("exp", BufferLoad(x, (start,))), tir.const(0.0, "float32"))

    func = PrimFunc((x, y, n), seq(*[BufferStore(y, value(i), (i,)) for i in range(4)])).with_attr("tir.noalias", True)
    assert registers(text(func)) == set()


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 12, 16, 24, 32, 64])
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4", "skylake-avx512", "znver4", "sapphirerapids"])
def test_code_for_all_processors(cpu: str, lanes: int):
    """LLVM ends the process where a fence has a kind of register that a processor lacks."""
    func = program([(name, 64 * i, 64 * i, False, False) for name in NAMES for i in range(4)], lanes)
    assert kernel_source(IRModule({"main": func.with_attr("tir.is_scheduled", True)}), f"llvm -mcpu={cpu}", "asm")


def test_no_assembly_where_it_is_unknown():
    func = program([("erf", 32 * i, 32 * i, False, False) for i in range(4)], 8).with_attr("tir.is_scheduled", True)
    source = kernel_source(IRModule({"main": func}), "llvm -mtriple=aarch64-linux-gnu -mattr=+neon", "llvm")
    assert not FENCE.search(source)
