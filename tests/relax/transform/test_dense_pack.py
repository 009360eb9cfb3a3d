"""ConvertMatmulToDensePack: what is converted, what is not, and what that is estimated to gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eutectic
from eutectic.backend.llvm.dense_pack import panel_offers
from eutectic.backend.llvm.machine import Machine, machine_of
from eutectic.backend.registry import available, backend
from eutectic.driver.recompile import variants
from eutectic.ir.module import IRModule
from eutectic.relax import op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call
from eutectic.relax.transform import ConvertDensePackToMatmul, ConvertMatmulToDensePack
from eutectic.relax.transform.dense_pack.choice import PANEL_OFFERS, PanelOffer, ProductSizes
from eutectic.runtime.packed_array import plain
from eutectic.target import Target
from eutectic.testing.graphs import assert_same_results, graph, weights
from eutectic.testing.models import MODELS
from eutectic.tir import Var as SizeSymbol

WIDE, MIDDLE = machine_of(Target("llvm -mcpu=x86-64-v4")), machine_of(Target("llvm -mcpu=x86-64-v3"))
HAS_DNNL = available(backend("dnnl"), Target()).ok
TARGETS = ["llvm", pytest.param(None, marks=pytest.mark.skipif(not HAS_DNNL, reason="oneDNN is not installed"))]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProductSizes]:
    """Panels of four columns are offered for everything; what was asked for."""
    sizes: list[ProductSizes] = []

    def offers(product: ProductSizes, target: Target) -> Sequence[PanelOffer]:
        sizes.append(product)
        return [PanelOffer(4, 1.0, 2.0)]

    monkeypatch.setitem(PANEL_OFFERS._providers, "llvm", offers)
    return sizes


def product(shape: tuple[Any, ...] = (1, 5), matrix: tuple[int, ...] = (5, 10), **options: Any) -> IRModule:
    return graph({"x": shape}, lambda bb, x: op.matmul(x, weights(*matrix), **options))


def operators(mod: IRModule) -> list[str]:
    calls = [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]
    return [call.op.name.removeprefix("relax.") for call in calls]


def converted(mod: IRModule) -> IRModule:
    after = ConvertMatmulToDensePack("llvm")(mod)
    assert problems_of(after) == []
    return after


@pytest.mark.parametrize("shape", [(1, 5), (5,), (1, 2, 5), (2, 3, 5)])
def test_a_constant_matrix_gets_into_panels(asked: list[ProductSizes], shape: tuple[int, ...]):
    mod = product(shape)
    after = converted(mod)
    (call,) = [value for value in get_var2val(after["main"]).values() if isinstance(value, Call)]
    assert (call.op.name, call.args[1].data.shape, call.attrs["units"]) == ("relax.nn.dense_pack", (3, 5, 4), 10)
    assert asked == [ProductSizes(int(np.prod(shape[:-1])), 5, 10)]
    assert_same_results(mod, after, exact=False)
    assert converted(after) is after


def test_how_many_rows_there_are_need_not_be_known(asked: list[ProductSizes]):
    after = converted(product((2, SizeSymbol("n", "int64"), 5)))
    assert operators(after) == ["nn.dense_pack"]
    assert asked == [ProductSizes(None, 5, 10)]


@pytest.mark.usefixtures("asked")
def test_a_matrix_of_several_products_is_packed_once():
    matrix = weights(5, 5)
    after = converted(graph({"x": (1, 5)}, lambda bb, x: op.matmul(bb.emit(op.matmul(x, matrix)), matrix)))
    first, second = [value for value in get_var2val(after["main"]).values() if isinstance(value, Call)]
    assert first.args[1] is second.args[1]


@pytest.mark.usefixtures("asked")
def test_the_way_back_gives_the_same_matrix():
    mod = product()
    back = ConvertDensePackToMatmul()(converted(mod))
    assert operators(back) == ["matmul"]
    assert_same_results(mod, back)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    "mod",
    [
        product((1, 5), (5,)),
        product((2, 3, 5), (2, 5, 4)),
        product(out_dtype="float64"),
        graph({"x": (1, 5), "w": (5, 4)}, lambda bb, x, w: op.matmul(x, w)),
        graph({"x": (4, 5)}, lambda bb, x: op.matmul(weights(2, 4), x)),
    ],
    ids=["a vector", "a matrix each", "another dtype", "a parameter", "a constant on the left"],
)
def test_what_stays(mod: IRModule):
    assert ConvertMatmulToDensePack("llvm")(mod) is mod


def test_offers_are_for_large_matrices():
    widths = {
        rows: [o.panel for o in panel_offers(ProductSizes(rows, 768, 3072), WIDE, True)] for rows in (1, 7, 8, 12)
    }
    assert widths == {1: [64], 7: [64], 8: [32], 12: [32]}
    assert [o.panel for o in panel_offers(ProductSizes(1, 768, 3072), MIDDLE, False)] == [32]
    assert [o.panel for o in panel_offers(ProductSizes(6, 768, 3072), MIDDLE, False)] == [16]
    assert [o.panel for o in panel_offers(ProductSizes(None, 768, 3072), MIDDLE, True)] == [16]
    assert [o.panel for o in panel_offers(ProductSizes(None, 768, 3072), WIDE, False)] == [32]
    assert [len(panel_offers(ProductSizes(rows, 784, 128), MIDDLE, True)) for rows in (64, None)] == [0, 1]
    assert panel_offers(ProductSizes(1, 128, 128), WIDE, False) == ()
    assert [o.panel for o in panel_offers(ProductSizes(1, 4096, 256), WIDE, False)] == [64]
    assert [len(panel_offers(ProductSizes(1, terms, 128), MIDDLE, True)) for terms in (784, 512)] == [1, 0]
    assert panel_offers(ProductSizes(1, 1 << 20, 32), WIDE, False) == ()
    wide = {
        columns: [o.panel for o in panel_offers(ProductSizes(1, 784, columns), WIDE, False)] for columns in (128, 192)
    }
    assert wide == {128: [64], 192: []}  # two panels for two threads; three would be two for one of them


@pytest.mark.parametrize(("machine", "panel"), [(WIDE, 32), (MIDDLE, 16)], ids=["512 bits", "256 bits"])
@pytest.mark.parametrize("has_library", [False, True])
def test_many_rows_are_tiled_beside_a_library_too(machine: Machine, panel: int, has_library: bool):
    offers = [panel_offers(ProductSizes(count, 768, 3072), machine, has_library) for count in (13, 128, 4000)]
    assert [[offer.panel for offer in each] for each in offers] == [[panel]] * 3
    assert all(offer.cost < offer.direct for (offer,) in offers)


def test_few_columns_are_not_tiled():
    assert panel_offers(ProductSizes(128, 768, 255), WIDE, False) == ()


def test_estimates_grow_with_rows_and_know_of_a_library():
    one, four = (panel_offers(ProductSizes(rows, 768, 3072), WIDE, False)[0] for rows in (1, 4))
    assert one.cost < four.cost < four.direct
    beside = panel_offers(ProductSizes(1, 768, 3072), WIDE, True)[0]
    assert one.cost == beside.cost < beside.direct < one.direct


class Layers(torch.nn.Module):
    """A linear layer with an activation, one with a residual, and one whose matrix is not transposed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(256, 1000), torch.nn.Linear(1000, 256, bias=False)
        self.plain = torch.nn.Parameter(torch.randn(256, 700) / 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.second(torch.nn.functional.gelu(self.first(x)))) @ self.plain


def packed(model: Any) -> int:
    groups = model.report.plan.groups
    return sum(operator.op == "relax.nn.dense_pack" for group in groups for operator in group.operators)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [(1,), (2,), (3,), (1, 4), (50,), (3, 20)])
def test_layers_are_what_float64_gives(rows: tuple[int, ...], target: str | None, tmp_path: Path):
    model, x = Layers().eval(), torch.randn(*rows, 256)
    compiled = eutectic.compile(model, [x], target=target)
    want = model.double()(x.double()).detach()
    assert (compiled(x) - want).abs().max() <= 1e-5 * want.abs().max()
    is_wide = machine_of(Target("llvm")).lanes() == 16
    assert packed(compiled) == 3 or not is_wide or (target is None and np.prod(rows) > 12)
    compiled.save(tmp_path / "layers.eut")
    loaded = eutectic.load(tmp_path / "layers.eut")
    assert torch.equal(loaded(x), compiled(x))


def test_epilogues_are_fused():
    compiled = eutectic.compile(Layers().eval(), [torch.randn(1, 256)], target="llvm -mcpu=x86-64-v3")
    groups = [[operator.op for operator in group.operators] for group in compiled.report.plan.groups]
    assert [len(group) for group in groups] == [3, 2, 1]


def test_live_weights_are_followed():
    model, x = Layers().eval(), torch.randn(2, 256)
    compiled = eutectic.compile(model, [x], target="llvm", weights="live")
    for _ in range(4):  # compiled again at first, then with weights as inputs, which stay matrices
        with torch.no_grad():
            model.first.weight.mul_(1.5)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_any_number_of_rows():
    model, x = Layers().eval(), torch.randn(2, 256)
    rows = torch.export.Dim("rows", min=1, max=64)
    dynamic = eutectic.compile(model, [x], target="llvm", dynamic_shapes=({0: rows},))
    assert packed(dynamic) == 3
    for count in (1, 5, 6, 13, 64):
        y = torch.randn(count, 256)
        torch.testing.assert_close(dynamic(y), model(y).detach(), rtol=1e-4, atol=1e-5)


def test_another_processor_chooses_for_itself():
    here = eutectic.compile(Layers().eval(), [torch.randn(1, 256)], target="llvm")._saved()
    wide, middle = variants(here, ["x86-64-v4", "x86-64-v3"])
    shapes = [[array.shape for array in map(plain, saved.constants["relax.expr.Constant"])] for saved in (wide, middle)]
    assert (256, 1000) not in shapes[0] + shapes[1]
    assert [sorted(shape[-1] for shape in item if len(shape) == 3) for item in shapes] == [[64, 64, 64], [32, 32, 32]]
    (again,) = variants(wide, ["x86-64-v4"])
    assert again.text == wide.text


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("gpt2_block", 4), ("bert_layer", 6), ("mlp", 1)])
def test_which_networks_have_panels(name: str, count: int):
    model, inputs = MODELS[name].build()
    (wide,) = variants(eutectic.compile(model, inputs, target="llvm")._saved(), ["x86-64-v4"])
    assert wide.text.count("nn.dense_pack(") == count
