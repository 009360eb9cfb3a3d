"""DecomposeOpsForInference, DecomposeOpsForTraining: norms as arithmetic compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.relax.transform.test_legalize_ops import agree, built, tensor, values

from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.visit import post_order
from eutectic.relax.base import ShapeExpr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Call, TupleGetItem, Var
from eutectic.relax.interpret import Interpreter
from eutectic.relax.op import nn
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform import DecomposeOpsForInference, DecomposeOpsForTraining, LegalizeOps


def norm(shape: tuple[Any, ...], axis: int, dtype: str = "float32", **options: Any) -> Any:
    channels = shape[axis]
    params = [tensor("x", *shape, dtype=dtype), *(tensor(name, channels, dtype=dtype) for name in "gbmv")]
    options.setdefault("training", False)
    return built(params, lambda bb, *p: nn.batch_norm(*p, axis=axis, **options))


def feeds(shape: tuple[int, ...], axis: int, dtype: str = "float32") -> list[np.ndarray]:
    channels = shape[axis]
    statistics = [values(channels, dtype=dtype) for _ in range(3)]
    return [values(*shape, dtype=dtype), *statistics, np.abs(values(channels, dtype=dtype)) + np.asarray(0.5, dtype)]


def operators(mod: Any) -> set[str]:
    return {part.op.name for part in post_order(mod["main"]) if isinstance(part, Call) and isinstance(part.op, Op)}


def test_text_before_and_after(golden):
    mod = norm((2, 3, 4, 4), 1)
    golden(DecomposeOpsForInference()(mod).script())


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.25}])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), 1), ((2, 3), -1), ((3,), 0)])
def test_computes_the_same(shape: tuple[int, ...], axis: int, options: dict[str, Any]):
    before = norm(shape, axis, **options)
    after = DecomposeOpsForInference()(before)
    assert "relax.nn.batch_norm" not in operators(after)
    agree(before, after, *feeds(shape, axis), slack=2)
    lowered = LegalizeOps()(after)
    assert operators(lowered) == {"relax.call_tir"}
    agree(before, lowered, *feeds(shape, axis), slack=2)


def test_computes_what_torch_computes():
    x, gamma, beta, mean, variance = arrays = feeds((2, 3, 5), 1)
    after = DecomposeOpsForInference()(norm((2, 3, 5), 1))
    out, *statistics = Interpreter(after).run("main", *arrays)
    t = [torch.from_numpy(a) for a in (x, mean, variance, gamma, beta)]
    want = torch.nn.functional.batch_norm(*t, training=False).numpy()
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
    assert [id(s) for s in statistics] == [id(mean), id(variance)]


def test_symbolic_batch():
    n = ScalarVar("n", "int64")
    before = norm((n, 3, 2), 1)
    agree(before, DecomposeOpsForInference()(before), *feeds((4, 3, 2), 1), slack=2)


def test_training_and_everything_else_stay():
    for mod in (norm((2, 3), 1, training=True), built([tensor("x", 3)], lambda bb, x: nn.relu(x))):
        assert DecomposeOpsForInference()(mod) is mod
    unknown = [Var("x", TensorStructInfo(None, "float32")), *(tensor(name, 3) for name in "gbmv")]
    mod = built(unknown, lambda bb, *p: nn.batch_norm(*p, axis=1, training=False))
    assert DecomposeOpsForInference()(mod) is mod


def test_one_function_by_name():
    bb = BlockBuilder()
    for name in ("main", "other"):
        params = [Var("x", TensorStructInfo(ShapeExpr((2, 3)))), *(tensor(p, 3) for p in "gbmv")]
        with bb.function(name, params):
            with bb.dataflow():
                out = bb.emit_output(TupleGetItem(bb.emit(nn.batch_norm(*params, axis=1, training=False)), 0))
            bb.emit_func_output(out)
    before = bb.finalize()
    after = DecomposeOpsForInference("other")(before)
    assert after["main"] is before["main"]
    assert "relax.nn.batch_norm" in operators(after)
    assert after["other"] is not before["other"]
    assert DecomposeOpsForInference("nobody")(before) is before


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}, {"momentum": 0.25}, {"training": False}])
@pytest.mark.parametrize(("shape", "axis"), [((4, 3, 5), 1), ((6, 3), -1)])
def test_a_batch_norm_in_training_computes_the_same(shape: tuple[int, ...], axis: int, options: dict[str, Any]):
    before = norm(shape, axis, **{"training": True, **options})
    after = DecomposeOpsForTraining()(before)
    assert "relax.nn.batch_norm" not in operators(after)
    assert ("relax.variance" in operators(after)) == options.get("training", True)
    agree(before, after, *feeds(shape, axis), slack=4)
    agree(before, LegalizeOps()(after), *feeds(shape, axis), slack=4)


@pytest.mark.parametrize("axes", [(-1,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("options", [{}, {"scale": False}, {"center": False}])
def test_a_layer_norm_in_training_computes_the_same(axes: tuple[int, ...], options: dict[str, Any]):
    shape = (4, 3, 5)
    sizes = [shape[axis] for axis in axes]
    params = [tensor("x", *shape), tensor("g", *sizes), tensor("b", *sizes)]
    before = built(params, lambda bb, *p: nn.layer_norm(*p, axes=axes, **options))
    after = DecomposeOpsForTraining()(before)
    assert "relax.nn.layer_norm" not in operators(after)
    assert DecomposeOpsForInference()(before) is before
    agree(before, after, values(*shape), values(*sizes), values(*sizes), slack=4)


def test_only_the_function_that_is_named():
    before = norm((4, 3), 1, training=True)
    assert DecomposeOpsForTraining("other")(before) is before
    assert "relax.nn.batch_norm" not in operators(DecomposeOpsForTraining("main")(before))
