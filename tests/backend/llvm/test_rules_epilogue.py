"""The default schedules fuse epilogues with the primitive, and leave apart what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from eutectic.backend.llvm.rules.epilogue import with_epilogues

from eutectic import te, topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.prim_expr import Var
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule.primitive import PRIMITIVES
from eutectic.tir.schedule.rules.producers import inline
from eutectic.tir.schedule.rules.stage import Stage, stages_of


def of(definition: Callable[..., te.Tensor], *inputs: te.Tensor) -> PrimFunc:
    return te.create_prim_func([*inputs, definition(*inputs)])


def a(*shape: int | Var, dtype: str = "float32", name: str = "a") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def stages(func: PrimFunc) -> list[Stage]:
    found = stages_of(func)
    assert found is not None
    return with_epilogues(func, inline(*found), found[1])


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


def test_sum_of_integers_begins_with_the_bias():
    func = of(lambda x, b: topi.add(topi.sum(x, 1), b), a(5, 6, dtype="int32"), a(5, dtype="int32", name="b"))
    (stage,) = stages(func)
    assert stage.epilogue is None
    x, b = np.arange(30, dtype=np.int32).reshape(5, 6), np.arange(5, dtype=np.int32)
    out = np.empty(5, np.int32)
    build(func)(x, b, out)
    np.testing.assert_array_equal(out, x.sum(1) + b)


def test_what_the_primitive_refuses_stays_apart(monkeypatch: pytest.MonkeyPatch):
    """A reader of other elements is no epilogue; and no other code decides that something is one."""
    shifted = of(lambda x: te.compute((5,), lambda i: topi_sum(x)[(i + 1) % 5]), a(5, 6))
    assert [stage.epilogue for stage in stages(shifted)] == [None, None]

    def refuse(edit, *args, **kwargs):
        edit.refuse(None, "no")

    monkeypatch.setattr(PRIMITIVES["fuse_reduction_epilogue"], "function", refuse)
    assert [stage.epilogue for stage in stages(FUSED["bias and relu"])] == [None, None]


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
