"""Whole networks in bfloat16: how far they are from float64, beside eager; and that no result changes its type."""

from __future__ import annotations

import copy

import pytest
import torch

import eutectic
from eutectic.backend.dnnl.narrow import computes_in
from eutectic.testing.models import MODELS

DNNL = "llvm -libs=dnnl"
WORST = 1.5  # times the error of eager
_state = computes_in("bfloat16")
pytestmark = [pytest.mark.skipif(not _state.ok, reason=_state.reason), pytest.mark.usefixtures("narrow_is_faster")]


class EncoderLayer(torch.nn.Module):
    """A layer as in BERT: norms behind the sums."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part(x).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value))
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.first(x + self.out(seen))
        return self.second(x + self.narrow(torch.nn.functional.gelu(self.wide(x))))


def built(name: str):
    if name == "encoder layer":
        torch.manual_seed(0)
        return EncoderLayer().eval(), (torch.randn(1, 64, 256),)
    if (reason := MODELS[name].missing()) is not None:
        pytest.skip(reason)
    return MODELS[name].build()


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.double() - exact).norm() / exact.norm())


@pytest.mark.models
@pytest.mark.parametrize(
    "name", ["resnet18", pytest.param("resnet50", marks=pytest.mark.slow), "mobilenet_v2", "encoder layer"]
)
def test_the_error_is_not_far_from_eagers(name: str):
    model, inputs = built(name)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*(x.double() for x in inputs))
        narrow, narrow_inputs = copy.deepcopy(model).bfloat16(), tuple(x.bfloat16() for x in inputs)
        eager = error(narrow(*narrow_inputs), exact)
        with torch.autocast("cpu", torch.bfloat16):
            autocast = error(model(*inputs), exact)
        mixed = eutectic.compile(model, inputs, target=DNNL, precision="bf16")
        got, of_narrow = mixed(*inputs), eutectic.compile(narrow, narrow_inputs, target=DNNL)(*narrow_inputs)
    assert (got.dtype, of_narrow.dtype) == (torch.float32, torch.bfloat16)
    assert any(note.startswith('precision="bf16": bfloat16 in ') for note in mixed.report.notes)
    assert 0 < error(got, exact) <= WORST * min(eager, autocast)
    assert 0 < error(of_narrow, exact) <= WORST * eager


@pytest.mark.models
def test_every_convolution_and_product_of_a_network_is_narrow():
    model, inputs = built("resnet18")
    report = eutectic.compile(model, inputs, target=DNNL, precision="bf16").report
    assert report.convolutions_fused == report.convolutions == 20
    operators = [operator for group in report.plan.groups for operator in group.operators]
    products = [operator for operator in operators if operator.op in ("relax.nn.conv2d", "relax.matmul")]
    assert len(products) == 21
    assert {tensor.dtype for operator in products for tensor in operator.reads} == {"bfloat16"}
    assert "bfloat16[1, 64," in str(report)
