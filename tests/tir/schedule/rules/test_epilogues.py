"""What is done to finished elements is a part of the stage of a reduction, and what is not stays apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.prim_expr import Var
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules.epilogues import with_epilogues
from eutectic.tir.schedule.rules.producers import inlining_of
from eutectic.tir.schedule.rules.stage import Stage, stages_of


def of(definition: Callable[..., te.Tensor], *inputs: te.Tensor) -> PrimFunc:
    return te.create_prim_func([*inputs, definition(*inputs)])


def a(*shape: int | Var, dtype: str = "float32", name: str = "a") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def stages(func: PrimFunc) -> list[Stage]:
    found = stages_of(func)
    assert found is not None
    sch = tir.Schedule(func)
    for name in inlining_of(*found).names:
        sch.compute_inline(name, name_values=True)
    left = stages_of(sch.func)
    assert left is not None
    return with_epilogues(*left)


n = Var("n", "int64")
FUSED: dict[str, PrimFunc] = {
    "bias and relu": of(lambda x, y, b: topi.nn.relu(topi.add(topi.matmul(x, y), b)), a(5, 6), a(6, 7), a(7)),
    "another dtype": of(lambda x, y: topi.matmul(x, y).astype("float64"), a(5, 6), a(6, 7)),
    "transposed": of(lambda x, y: topi.transpose(topi.exp(topi.matmul(x, y))), a(5, 6), a(6, 7)),
    "several reads": of(lambda x: topi.multiply(topi.sigmoid(topi.sum(x, 1)), topi.sum(x, 1)), a(5, 6)),
    "any size": of(lambda x, y: topi.nn.relu(topi.matmul(x, y)), a(n, 6), a(6, 7)),
    "unit axes": of(lambda x: topi.tanh(topi.sum(x, 1, True)), a(1, 6)),
    "largest": of(lambda x: topi.negative(topi.max(x, (1, 2))), a(5, 6, 2)),
}


@pytest.mark.parametrize("name", [name for name in FUSED if name != "several reads"])
def test_one_stage(name: str):
    (stage,) = stages(FUSED[name])
    assert stage.epilogue is not None


def test_readers_of_other_elements_stay_apart():
    shifted = of(lambda x: te.compute((5,), lambda i: topi_sum(x)[(i + 1) % 5]), a(5, 6))
    assert [stage.epilogue for stage in stages(shifted)] == [None, None]


def test_readers_that_do_not_follow_stay_apart():
    """What is between both may be what the reader needs."""

    def between(x: te.Tensor) -> te.Tensor:
        return topi.add(topi.sum(x, 1), topi.max(x, 1))

    assert [stage.epilogue is None for stage in stages(of(between, a(5, 6)))] == [True, False]


def topi_sum(x: te.Tensor) -> te.Tensor:
    return topi.sum(x, 1)


@pytest.mark.parametrize("name", [name for name in FUSED if name != "any size"])
def test_numbers(name: str):
    func = FUSED[name]
    rng = np.random.default_rng(3)
    buffers = list(func.buffer_map.values())
    given = [rng.standard_normal([int(size) for size in buffer.shape]).astype(buffer.dtype) for buffer in buffers]
    native, reference = [array.copy() for array in given], [array.copy() for array in given]
    build(func)(*native)
    run(func, *reference)
    np.testing.assert_allclose(native[-1], reference[-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [4, 12])
def test_values_that_are_read_twice_do_not_double_again_and_again(count: int):
    """Slices that are assigned to one after another: each reads what was there before and behind itself."""
    x, y = a(30, 30), a(5, 30, name="y")

    def assigned(value: te.Tensor) -> te.Tensor:
        for k in range(count):
            rest = topi.strided_slice(value, [k + 5, 0], [30, 30], [1, 1])
            value = topi.concatenate([topi.strided_slice(value, [0, 0], [k, 30], [1, 1]), y, rest] if k else [y, rest])
        return value

    func = te.create_prim_func([x, y, assigned(x)])
    text = func.script()
    found = stages_of(func)
    assert found is not None
    sch = tir.Schedule(func)
    for name in inlining_of(*found).names:
        sch.compute_inline(name, name_values=True)
    assert len(sch.func.script()) < 12 * len(text)
    given, part = np.random.default_rng(0).standard_normal((30, 30)).astype("float32"), np.ones((5, 30), "float32")
    out, want = np.empty((30, 30), "float32"), given.copy()
    for k in range(count):
        want[k : k + 5] = part
    run(sch.func, given, part, out)
    np.testing.assert_array_equal(out, want)
