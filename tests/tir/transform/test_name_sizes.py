"""Sizes that are computed, as variables of the programs that need nothing else of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eutectic import te, topi
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, evaluate
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.function_attributes import EXAMPLE_SIZES, example_sizes
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.transform import NameSizes
from eutectic.tir.transform.name_sizes import with_named_sizes
from eutectic.tir.trusted import is_trusted, trust

H, W = Var("h", "int64"), Var("w", "int64")
SIXTEENTH = (H + 15) // 16


def window(size: PrimExpr, kernel: int, stride: int, padding: int) -> PrimFunc:
    """A pool along rows of some size, whose result has the size that the graph says."""
    x = te.placeholder((IntImm("int64", 3), size), "float32", "x")
    out = _pool(x, kernel, stride, padding)
    return te.create_prim_func([x, out, H])


def _pool(x: te.Tensor, kernel: int, stride: int, padding: int) -> te.Tensor:
    padded = topi.nn.pad(x, [0, padding], [0, padding], name="padded")
    k = te.reduce_axis((0, IntImm("int64", kernel)), "k")
    count = (x.shape[1] + 2 * padding - kernel) // stride + 1
    return te.compute((x.shape[0], count), lambda i, j: te.sum(padded[i, j * stride + k], axis=k), "sums")


def shapes(func: PrimFunc, sizes: dict[Var, int]) -> list[tuple[int, ...]]:
    return [tuple(evaluate(size, sizes) for size in buffer.shape) for buffer in func.buffer_map.values()]


def results(func: PrimFunc, like: PrimFunc, height: int) -> list[np.ndarray[Any, Any]]:
    """What a program writes into arrays of the shapes that another one has for some height."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes(like, {H: height})]
    run(func, *arrays, *[height for param in func.params if param not in func.buffer_map])
    return arrays


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(3, 1, 1), (1, 1, 0), (3, 2, 1), (1, 2, 0), (5, 2, 2), (4, 4, 0)]
)
def test_windows_of_late_layers(kernel: int, stride: int, padding: int):
    func = window(SIXTEENTH, kernel, stride, padding)
    named = with_named_sizes(func)
    assert H not in {var for buffer in named.buffer_map.values() for size in buffer.shape for var in variables(size)}
    check_round_trip(named)
    for height in (100, 161, 64):
        for got, want in zip(results(named, func, height), results(func, func, height), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_two_sizes_have_in_common_is_kept():
    """Of (h + 15) // 16 and h one cannot be named without the other."""
    x, y = te.placeholder((SIXTEENTH,), "float32", "x"), te.placeholder((H,), "float32", "y")
    func = te.create_prim_func([x, y, te.compute((SIXTEENTH,), lambda i: x[i] + y[i * 16])])
    assert with_named_sizes(func) is func
    value = te.compute((SIXTEENTH,), lambda i: x[i] + H.astype("float32"))
    func = te.create_prim_func([x, value, H])
    assert with_named_sizes(func) is func


def test_several_sizes_and_their_examples():
    x = te.placeholder((H * W, H * W + 1), "float32", "x")
    func = te.create_prim_func([x, topi.exp(x), H, W]).with_attr(EXAMPLE_SIZES, {"h": 3, "w": 5})
    named = with_named_sizes(func)

    rows, columns = named.buffer_map.values()[0].shape
    assert isinstance(rows, Var)
    assert example_sizes(named)[rows.name] == 15
    assert variables(columns) == {rows}


def test_only_programs_that_nobody_scheduled_or_sees():
    func = window(SIXTEENTH, 3, 1, 1).without_attr("global_symbol")
    mod = IRModule({"f": func, "seen": func.with_attr("global_symbol", "seen")})
    after = NameSizes()(mod)
    assert after["f"] is not func
    assert after["seen"].attr("global_symbol") == "seen"
    assert shapes(after["seen"], {H: 32}) == shapes(func, {H: 32})
    assert NameSizes()(after) is after
    sch = Schedule(func)
    sch.split(sch.get_loops("sums")[1], [None, 4])
    assert NameSizes()(IRModule({"f": sch.func}))["f"] is sch.func


def test_trust_goes_on():
    assert is_trusted(with_named_sizes(trust(window(SIXTEENTH, 3, 2, 1))))
    assert not is_trusted(with_named_sizes(window(SIXTEENTH, 3, 1, 1)))
