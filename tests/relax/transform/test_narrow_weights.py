"""Weights of 16 bits in products of float32: what is rounded, what stays, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import eutectic
from eutectic.backend.dnnl.backend import OneDnn
from eutectic.backend.llvm.dense_pack import narrow_weights, panel_offers
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.pipeline import pipeline
from eutectic.driver.recompile import variants
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.analysis import get_var2val, problems_of
from eutectic.relax.expr import Call, Constant
from eutectic.relax.transform import ConvertDensePackToMatmul, ConvertMatmulToDensePack
from eutectic.relax.transform.dense_pack.choice import PANEL_OFFERS, PanelOffer, ProductSizes
from eutectic.relax.transform.dense_pack.convert import WeightsRemark
from eutectic.runtime.packed_array import plain
from eutectic.support.errors import CodegenError
from eutectic.target import Target
from eutectic.testing.graphs import assert_same_results, graph, weights

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
MIDDLE, OLD = "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2"
holds = pytest.mark.skipif(len(narrow_weights(machine_of(Target("llvm")))) < 2, reason="no vectors are widened fast")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ProductSizes]:
    """Panels of four columns are offered for everything, those of 16 bits at a lower cost; what was asked for."""
    sizes: list[ProductSizes] = []

    def offers(product: ProductSizes, target: Target) -> Sequence[PanelOffer]:
        sizes.append(product)
        return [PanelOffer(4, 1.0 if product.dtype == "float32" else 0.5, 2.0)]

    monkeypatch.setitem(PANEL_OFFERS._providers, "llvm", offers)
    return sizes


def calls(mod: IRModule) -> list[Call]:
    return [value for value in get_var2val(mod["main"]).values() if isinstance(value, Call)]


def narrow_matrix(dtype: str) -> Constant:
    return Constant(weights(5, 10).data.astype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16))


def converted(mod: IRModule, narrow: str = "") -> IRModule:
    after = ConvertMatmulToDensePack("llvm", narrow)(mod)
    assert problems_of(after) == []
    return after


@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
def test_weights_are_rounded_where_that_is_asked_for(asked: list[ProductSizes], narrow: str):
    mod = graph({"x": (1, 5)}, lambda bb, x: op.matmul(x, weights(5, 10)))
    with PassContext(remarks=True) as ctx:
        (call,) = calls(converted(mod, narrow))
    assert (call.op.name, call.args[1].data.dtype.name, call.struct_info.dtype) == (
        "relax.nn.dense_pack",
        narrow,
        "float32",
    )
    assert [remark for remark in ctx.remarks if isinstance(remark, WeightsRemark)] == [WeightsRemark(narrow)]
    assert asked == [ProductSizes(1, 5, 10), ProductSizes(1, 5, 10, narrow)]
    (wide,) = calls(converted(mod))
    assert wide.args[1].data.dtype == "float32"


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("number", [np.inf, np.nan, 65520.0])
def test_a_matrix_that_does_not_fit_stays_float32(number: float):
    matrix = weights(5, 10).data.copy()
    matrix[2, 3] = number
    mod = graph({"x": (1, 5)}, lambda bb, x: op.matmul(x, Constant(matrix)))
    (call,) = calls(converted(mod, "float16"))
    assert (call.op.name, call.args[1].data.dtype) == ("relax.nn.dense_pack", "float32")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("out_dtype", [None, "float32"])
def test_narrow_matrices_stay_so_and_sums_are_float32(dtype: str, out_dtype: str | None):
    matrix = narrow_matrix(dtype)
    mod = graph({"x": ((3, 5), dtype)}, lambda bb, x: op.matmul(x, matrix, out_dtype))
    after = converted(mod)
    ops = [call.op.name for call in calls(after)]
    assert ops == ["relax.astype", "relax.nn.dense_pack", *([] if out_dtype else ["relax.astype"])]
    assert_same_results(mod, after, exact=False)
    back = ConvertDensePackToMatmul()(after)
    assert [call.op.name for call in calls(back)] == [name.replace("nn.dense_pack", "matmul") for name in ops]
    assert_same_results(after, back)


@pytest.mark.usefixtures("asked")
def test_data_of_several_products_is_widened_once():
    matrix = narrow_matrix("bfloat16")

    def body(bb: Any, x: Any) -> Any:
        return op.add(bb.emit(op.matmul(x, matrix)), bb.emit(op.matmul(x, matrix)))

    after = converted(graph({"x": ((1, 5), "bfloat16")}, body))
    names = [call.op.name.removeprefix("relax.") for call in calls(after)]
    assert names == ["astype", "nn.dense_pack", "astype", "nn.dense_pack", "astype", "add"]


def test_what_is_offered():
    """Weights that rows wait for; more rows widen them again and again."""
    middle, old = machine_of(Target(MIDDLE)), machine_of(Target(OLD))
    for dtype in ("bfloat16", "float16"):
        for rows, is_cheaper in ((1, True), (8, True), (16, True), (None, True), (17, False), (128, False)):
            (wide,) = panel_offers(ProductSizes(rows, 768, 3072), middle, False)
            (narrow,) = panel_offers(ProductSizes(rows, 768, 3072, dtype), middle, False)
            assert (narrow.panel, narrow.cost < wide.cost) == (wide.panel, is_cheaper)
        assert panel_offers(ProductSizes(1, 768, 3072, dtype), old, False) == ()
        assert panel_offers(ProductSizes(1, 64, 64, dtype), middle, False) == ()
    assert [*narrow_weights(middle)] == ["bfloat16", "float16"]
    assert [*narrow_weights(old)] == []


@pytest.mark.usefixtures("asked")
def test_a_library_with_instructions_keeps_what_is_narrow_already(monkeypatch: pytest.MonkeyPatch):
    matrix = narrow_matrix("bfloat16")
    narrow = graph({"x": ((1, 5), "bfloat16")}, lambda bb, x: op.matmul(x, matrix))
    rounded = graph({"x": (1, 5)}, lambda bb, x: op.matmul(x, weights(5, 10)))
    monkeypatch.setattr(OneDnn, "multiplies", lambda library, dtype, target: dtype == "bfloat16")

    def has_panels(mod: IRModule, target: str) -> bool:
        steps = pipeline(target, "bf16").passes
        (step,) = [step for step in steps if isinstance(step, ConvertMatmulToDensePack)]
        return any(call.op.name == "relax.nn.dense_pack" for call in calls(step(mod)))

    assert not has_panels(narrow, "llvm -libs=dnnl")
    assert has_panels(narrow, "llvm")
    assert has_panels(rounded, "llvm -libs=dnnl")


class Layers(torch.nn.Module):
    """Two layers with an activation between."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(256, 1000), torch.nn.Linear(1000, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.nn.functional.gelu(self.first(x)))


def of_rounded_weights(model: Layers, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What float64 gives with matrices that are rounded, and nothing else."""
    exact = Layers().double()
    exact.load_state_dict(model.state_dict())
    for layer in (exact.first, exact.second):
        layer.weight.data = layer.weight.data.to(dtype).double()
    return exact(x.double()).detach()


@holds
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_only_weights_are_rounded(precision: str, rows: int):
    model, x = Layers().eval(), torch.randn(rows, 256)
    compiled = eutectic.compile(model, [x], target="llvm", precision=precision)
    want = of_rounded_weights(model, x, DTYPES[precision])
    assert (compiled(x) - want).abs().max() <= 1e-5 * want.abs().max()
    dtype = str(DTYPES[precision]).removeprefix("torch.")
    note = f'precision="{precision}": weights of 2 matmul are {dtype}, products and sums float32'
    assert note in compiled.report.notes


@holds
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("rows", [1, 12, 64])
def test_narrow_models_are_no_less_exact_than_eager(dtype: torch.dtype, rows: int):
    torch.manual_seed(rows)
    model, x = Layers().to(dtype).eval(), torch.randn(rows, 256).to(dtype)
    want, eager = Layers().to(dtype).double()(x.double()).detach(), model(x).detach()
    got = eutectic.compile(model, [x], target="llvm")(x)
    assert got.dtype == dtype
    assert (got - want).norm() <= 1.5 * (eager - want).norm()


@holds
def test_files_and_other_processors(tmp_path: Path):
    model, x = Layers().eval(), torch.randn(1, 256)
    compiled = eutectic.compile(model, [x], target="llvm", precision="bf16")
    compiled.save(tmp_path / "layers.eut")
    assert torch.equal(eutectic.load(tmp_path / "layers.eut")(x), compiled(x))
    middle, old = variants(compiled._saved(), ["x86-64-v3", "x86-64-v2"])
    kinds = [{plain(array).dtype.name for array in saved.constants["relax.expr.Constant"]} for saved in (middle, old)]
    assert kinds == [{"float32", "bfloat16"}, {"float32"}]  # there it is faster to widen them once


def test_float16_is_refused_where_nothing_is_faster_with_it():
    with pytest.raises(CodegenError, match='precision="f16" cannot be used here'):
        eutectic.compile(Layers().eval(), [torch.randn(1, 256)], target="llvm -mcpu=x86-64", precision="f16")
