"""Small numbers for which an epilogue at every step, or an unchecked assumption, gives another result.

Each row is one program on one input: what it computes, also when the epilogue is in the reduction, and
what it would compute with the epilogue at every step or with additions reordered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest
from tests.tir.schedule.programs import refused

from eutectic.ir.dtype import to_numpy
from eutectic.script import from_source
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule

TEXT: Final = """
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer(({m}, {k}), "{dtype}"), B: T.Buffer(({n}, {k}), "{dtype}"), C: T.Buffer(({n},), "{dtype}"),
         D: T.Buffer(({m}, {n}), "{out}"), E: T.Buffer(({m}, {n}), "{dtype}")):
    temp = T.alloc_buffer(({m}, {n}), "{dtype}")
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                temp[vi, vj] = {init}
            temp[vi, vj] = {update}
{between}
    for i, j in T.grid({m}, {n}):
        with T.block("epilogue"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[{store}] = {value}
{after}
"""
SECOND: Final = """
    for i, j in T.grid({m}, {n}):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = temp[vi, vj] + C[vj]
"""
LATE: Final = """
    for j in T.serial({n}):
        with T.block("late"):
            vj = T.axis.spatial({n}, j)
            C[vj] = C[vj] * {zero} + T.{dtype}(100)
"""


@dataclass(frozen=True)
class Row:
    """A program on an input.

    Attributes:
        value: The epilogue; `s` is the sum, `z` zero.
        a: Rows of A.
        c: C.
        want: D.
        steps: D in mode `per_iteration`; None where that is refused.
        b: Rows of B; all ones, if not given.
        dtype: Dtype of all but D.
        slots: Other parts of the program.
    """

    value: str
    a: list[list[float]]
    c: list[float]
    want: list[list[float]]
    steps: list[list[float]] | None = None
    b: list[list[float]] = field(default_factory=list)
    dtype: str = "float32"
    slots: dict[str, str] = field(default_factory=dict)

    def program(self) -> PrimFunc:
        """The program."""
        zero = f"T.{self.dtype}(0)"
        given = {"m": len(self.a), "n": len(self.c), "k": len(self.a[0]), "dtype": self.dtype, "out": self.dtype}
        given |= {"init": zero, "update": "temp[vi, vj] + A[vi, vk] * B[vj, vk]", "store": "vi, vj"}
        given |= {"between": "", "after": "", "value": self.value.replace("s_", "temp[vi, vj]").replace("z_", zero)}
        given |= {key: text.format(**given, zero=zero) for key, text in self.slots.items()}
        made = from_source(TEXT.format(**given))
        assert isinstance(made, PrimFunc)
        return made

    def results(self, func: PrimFunc) -> list[Any]:
        """D and E."""
        ones = [[1.0] * len(self.a[0])] * len(self.c)
        a, b, c = (np.asarray(x, to_numpy(self.dtype)) for x in (self.a, self.b or ones, self.c))
        d, e = (np.zeros((len(self.a), len(self.c)), to_numpy(func.buffers[k].dtype)) for k in (3, 4))
        run(func, a, b, np.copy(c), d, e)
        return [d.tolist(), e.tolist()]


RELU, BIAS = "T.max(s_ + C[vj], z_)", "s_ + C[vj]"
SQUARE: Final = {"a": [[1, 2], [19, 18]], "b": [[1, 0], [0, 1]], "c": [10, 20]}
INT: Final = {"dtype": "int32"}
WALK: Final = [[1, -3, 4, -1]]
ROWS: Final[dict[str, Row]] = {
    "relu": Row(RELU, WALK, [0.5], [[1.5]], [[3.0]]),
    "relu of a negative sum": Row(RELU, [[5, -9, 2, 1]], [0.5], [[0.0]], [[3.0]]),
    "relu of two terms": Row("T.max(s_, z_)", [[-1, 1]], [0], [[0.0]], [[1.0]]),
    "relu6": Row("T.min(T.max(s_, z_), T.float32(6))", [[5, 4, -2, -1]], [0], [[6.0]], [[3.0]]),
    "clip": Row("T.min(T.max(s_, T.float32(-5)), T.float32(5))", [[6, -2]], [0], [[4.0]], [[3.0]]),
    "narrow clip": Row("T.min(T.max(s_, T.float32(-1)), T.float32(1))", [[3, -2.5]], [0], [[0.5]], [[-1.0]]),
    "clip of integers": Row(
        "T.min(T.max(s_, -2), 2)",
        [[1, -3, 4, -1], [5, -9, 2, 1]],
        [0, 0],
        [[1, 2], [-1, -2]],
        [[1, 0], [1, 2]],
        b=[[1, 1, 1, 1], [2, 2, 2, 2]],
        **INT,
    ),
    "small terms and a large bias": Row(BIAS, [[2, 2, 2, 2]], [1e8], [[100000008.0]], [[100000000.0]]),
    "terms that cancel": Row(BIAS, [[1e8, 1, -1e8, 1]], [0.5], [[1.5]], [[1.0]]),
    "sum from 100": Row(BIAS, WALK, [10], [[111]], slots={"init": "100"}, **INT),
    "maximum": Row(
        BIAS,
        WALK,
        [10],
        [[14]],
        slots={"init": "T.min_value('int32')", "update": "T.max(temp[vi, vj], A[vi, vk])"},
        **INT,
    ),
    "product": Row(
        BIAS, [[1, 2, 2, 3]], [10], [[22]], slots={"init": "1", "update": "temp[vi, vj] * A[vi, vk]"}, **INT
    ),
    "transposed store": Row(
        BIAS, want=[[11, 29], [22, 38]], steps=[[11, 29], [22, 38]], slots={"store": "vj, vi"}, **SQUARE, **INT
    ),
    "transposed read": Row(
        "temp[vj, vi] + C[vj]", want=[[11, 39], [12, 38]], steps=[[11, 39], [12, 38]], **SQUARE, **INT
    ),
    "bounds that cross": Row("T.max(T.min(s_, T.float32(-1)), T.float32(1))", WALK, [0], [[1.0]], [[1.0]]),
    "difference": Row("s_ - C[vj]", WALK, [10], [[-9]], **INT),
    "division": Row("s_ // 2", [[3, 3, 3]], [0], [[4]], **INT),
    "shift": Row("T.shift_left(s_, 2)", [[1, 2, 3]], [0], [[24]], **INT),
    "root": Row("T.sqrt(s_)", [[9, 7]], [0], [[4.0]]),
    "exponential": Row("T.exp(s_)", [[300, -300]], [0], [[1.0]]),
    "sigmoid": Row("T.sigmoid(s_)", [[5, -5]], [0], [[0.5]]),
    "relu and bias": Row("T.max(s_, z_) + C[vj]", [[-4, 3]], [2], [[2.0]]),
    "two biases": Row("(s_ + C[vj]) + T.float32(7)", WALK, [10], [[18.0]]),
    "cast": Row("T.Cast('float64', s_)", [[1, 2, 3]], [0], [[6.0]], slots={"out": "float64"}),
}


@pytest.mark.parametrize("name", ROWS)
def test_exact(name: str):
    row = ROWS[name]
    before = row.program()
    assert row.results(before)[0] == row.want
    sch = Schedule(before, debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert row.results(sch.func) == row.results(before)


@pytest.mark.parametrize("name", ROWS)
def test_at_every_step(name: str):
    row = ROWS[name]
    sch = Schedule(row.program(), debug_mask="all")
    if row.steps is None:
        with pytest.raises(ScheduleError, match="has no form at every step"):
            sch.fuse_reduction_epilogue("sum", "epilogue", mode="per_iteration")
        return
    sch.fuse_reduction_epilogue("sum", "epilogue", mode="per_iteration")
    assert row.results(sch.func)[0] == row.steps


@pytest.mark.parametrize("name", ["small terms and a large bias", "terms that cancel"])
def test_reordered_additions(name: str):
    row = ROWS[name]
    sch = Schedule(row.program(), debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue", reassociate=True)
    assert row.results(sch.func)[0] == row.steps != row.want


def test_a_second_reader_has_its_sum():
    row = Row(BIAS, want=[[11, 22], [29, 38]], slots={"after": SECOND}, **SQUARE, **INT)
    sch = Schedule(row.program(), debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert row.results(sch.func) == [row.want, row.want]


@pytest.mark.parametrize("mode", ["exact", "per_iteration"])
def test_a_bias_that_is_computed_too_late(mode: str):
    row = Row(BIAS, WALK, [10], [[101.0]], slots={"between": LATE})
    before = row.program()
    assert row.results(before)[0] == row.want
    sch = Schedule(before)
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue", mode=mode))
    assert "C, which block epilogue reads, is written from block sum on" in text


def test_infinities_and_nan():
    """A sum that is NaN on the way stays NaN; a relu at every step would hide an overflow."""
    row = Row("T.max(s_, z_)", [[-3e38, -3e38, 3e38, 3e38]], [0], [[0.0]])
    sch = Schedule(row.program(), debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert row.results(sch.func)[0] == row.results(row.program())[0] == [[0.0]]
    nan = Row("T.max(s_, z_)", [[np.inf, -np.inf, 1]], [0], [[np.nan]])
    sch = Schedule(nan.program(), debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert np.isnan(nan.results(sch.func)[0][0][0])
