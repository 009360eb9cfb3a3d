"""Programs with one axis in place of several of varying sizes, and the graph that calls them with other shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import eutectic
from eutectic import te, topi
from eutectic.driver.compiled import CompiledModel
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.relax import TensorStructInfo, call_tir
from eutectic.relax.analysis import problems_of
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Tuple
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.relax.transform import JoinVaryingAxes
from eutectic.testing.graphs import evaluate, graph
from eutectic.tir import PrimFunc, Var

H, W = Var("h", "int64"), Var("w", "int64")
SHAPE = (2, H, W)


def exponential() -> PrimFunc:
    x = te.placeholder(SHAPE, "float32", "x")
    return private(te.create_prim_func([x, topi.exp(x)]))


def private(func: PrimFunc) -> PrimFunc:
    kept: PrimFunc = func.without_attr("global_symbol")
    return kept


def twice(func: PrimFunc | None = None) -> IRModule:
    """A graph that calls a program two times."""
    info = TensorStructInfo(SHAPE, "float32")
    f = GlobalVar("f")

    def body(bb, x):
        return bb.emit(call_tir(f, (bb.emit(call_tir(f, (x,), info)),), info))

    mod = graph({"x": SHAPE}, body)
    main = next(func for _, func in mod.functions_items())
    return IRModule({f: func or exponential(), "main": main})


def names(mod: IRModule) -> list[str]:
    return [call.op.name.removeprefix("relax.") for call in walk_calls(mod["main"]) if isinstance(call.op, Op)]


def test_shapes_around_calls():
    mod = twice()
    after = JoinVaryingAxes()(mod)
    assert problems_of(after) == []
    assert names(after) == ["reshape", "call_tir", "reshape"] * 2
    assert [buffer.ndim for buffer in after["f"].buffer_map.values()] == [2, 2]
    x = np.random.default_rng(0).standard_normal((2, 3, 5)).astype("float32")
    np.testing.assert_array_equal(evaluate(after, x), evaluate(mod, x))
    assert JoinVaryingAxes()(after) is after


def test_several_results():
    x = te.placeholder(SHAPE, "float32", "x")
    func = private(te.create_prim_func([x, topi.exp(x), topi.sum(x, 2)]))
    info = TupleStructInfo((TensorStructInfo(SHAPE, "float32"), TensorStructInfo((2, H), "float32")))
    mod = _single(func, info)
    assert JoinVaryingAxes()(mod) is mod  # the sum is along one of both
    func = private(te.create_prim_func([x, topi.exp(x), topi.tanh(x)]))
    both = TupleStructInfo((TensorStructInfo(SHAPE, "float32"), TensorStructInfo(SHAPE, "float32")))
    mod = _single(func, both)
    after = JoinVaryingAxes()(mod)
    assert problems_of(after) == []
    assert names(after) == ["reshape", "call_tir", "reshape", "reshape"]
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32")
    for got, want in zip(evaluate(after, x), evaluate(mod, x), strict=True):
        np.testing.assert_array_equal(got, want)


def _single(func: PrimFunc, info: TupleStructInfo) -> IRModule:
    """A graph of one call of a program."""
    f = GlobalVar("f")
    mod = graph({"x": SHAPE}, lambda bb, x: bb.emit(call_tir(f, Tuple((x,)), info)))
    return IRModule({f: func, "main": next(func for _, func in mod.functions_items())})


def test_programs_that_others_see_stay():
    mod = twice(exponential().with_attr("global_symbol", "f"))
    assert JoinVaryingAxes()(mod) is mod


def ranks_of(fast: CompiledModel) -> set[int]:
    """Of what the tensor programs of a model read and write."""
    programs = [func for _, func in fast.lowered.functions_items() if isinstance(func, PrimFunc)]
    return {buffer.ndim for func in programs for buffer in func.buffer_map.values()}


class Points(nn.Module):
    """Products at each point, with what is done to them, and a window in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 8, 1)
        self.window = nn.Conv2d(16, 16, 3, padding=1, groups=16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.window(nn.functional.relu6(self.first(x)))
        return torch.softmax(self.last(y) + x, 1).flatten(2)


def test_what_is_said_of_a_model_does_not_change():
    torch.manual_seed(0)
    model, x = Points().eval(), torch.randn(1, 8, 12, 9)
    varying = ({2: Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)},)
    fast, plain = eutectic.compile(model, (x,), dynamic_shapes=varying), eutectic.compile(model, (x,))
    said, known = (f.report.plan.groups for f in (fast, plain))
    assert [(group.kind, group.name) for group in said if group.kind != "view"] == [
        (group.kind, group.name) for group in known if group.kind != "view"
    ]
    assert len([group for group in said if group.kind == "view"]) <= 1
    assert {row.name for row in fast.profile(x)} == {group.name for group in said if group.kind == "kernel"}
    assert 3 in ranks_of(fast)
    for shape in ((12, 9), (2, 2), (7, 31), (64, 2)):
        other = torch.randn(1, 8, *shape)
        torch.testing.assert_close(fast(other), model(other), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_any_number_of_sequences_of_any_length(batch: int):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8)).eval()
    varying = ({0: Dim("b", min=1, max=8), 1: Dim("n", min=2, max=64)},)
    fast = eutectic.compile(model, (torch.randn(2, 10, 16),), dynamic_shapes=varying)
    assert max(ranks_of(fast)) <= 2
    for length in (2, 5, 33):
        x = torch.randn(batch, length, 16)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
