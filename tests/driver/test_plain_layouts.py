"""Modules without the layouts of a processor: they compute the same, and another processor chooses its own."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic.artefact.model import LoadedModel
from eutectic.driver.plain_layouts import with_plain_layouts
from eutectic.driver.recompile import module_of, variants
from eutectic.relax import op
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import Var
from eutectic.relax.interpret import Interpreter
from eutectic.relax.transform import FoldConstant
from eutectic.runtime.saved import SavedModel
from eutectic.target import Target
from eutectic.testing.graphs import arrays, graph, weights


class Net(nn.Module):
    """Blocks of channels through all that keeps them: sums, clips, pools, what is cut, joined, mirrored; flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.depth = nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.norm, self.last = nn.GroupNorm(8, 64), nn.Conv2d(128, 64, 1)
        self.scale = nn.Parameter(torch.rand(64, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.max_pool2d(nn.functional.relu6(self.first(x)), 2)
        y = torch.relu(self.second(y) + y) * self.scale
        a, b = self.depth(y).chunk(2, 1)
        a = nn.functional.pad(a * torch.sigmoid(b), (1, 1, 1, 1), mode="reflect")[:, :, 1:-1, 1:-1]
        y = torch.cat([a, self.norm(y), b], 1)
        return self.last(y).flatten(1)


torch.manual_seed(0)
X = torch.randn(1, 3, 24, 24)


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    return eutectic.compile(Net().eval(), (X,), target="llvm -mcpu=x86-64-v2", threads=1)._saved()


def blocks(text: str) -> set[str]:
    """The blocks of channels of results."""
    return set(re.findall(r'out_layout="NCHW(\d+)c"', text))


def test_a_module_loses_its_layouts(saved: SavedModel):
    assert blocks(saved.text)
    module = FoldConstant()(module_of(saved, Target("llvm")))
    text = module.script()
    assert not blocks(text)
    assert "layout_transform" not in text
    assert with_plain_layouts(module) is module


def test_each_variant_has_blocks_of_its_own(saved: SavedModel):
    small, large = variants(saved, ["x86-64-v2", "x86-64-v4"])
    assert blocks(small.text) == blocks(saved.text)
    assert max(map(int, blocks(small.text))) < max(map(int, blocks(large.text)))


def test_results_stay(saved: SavedModel):
    again = eutectic.compile(module_of(saved, Target("llvm")), target="llvm", threads=1)
    want = LoadedModel(saved)(X)
    got = again(X.numpy())
    np.testing.assert_allclose(got[0] if isinstance(got, tuple) else got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_what_reads_a_layout_and_is_not_known_here_reads_it_still():
    w, scale = weights(32, 3, 3, 3), weights(2, 1, 1, 16)

    def body(b: BlockBuilder, x: Var) -> Var:
        y = b.emit(op.layout_transform(b.emit(op.nn.conv2d(x, w)), "NCHW", "NCHW16c"))
        z = b.emit(op.multiply(b.emit(op.exp(y)), scale))
        return b.emit(op.reshape(z, (2, 36, 16)))

    module = graph({"x": (1, 3, 8, 8)}, body)
    plain = with_plain_layouts(module)
    assert plain is not module
    inputs = arrays(module["main"])
    want, got = (Interpreter(mod).run("main", *inputs) for mod in (module, plain))
    np.testing.assert_array_equal(got, want)


def test_operators_of_several_tensors():
    """Tensors for each point of a block, all of them in blocks of channels."""
    layouts = {"data_layout": "NCHW", "kernel_layout": "OIHW16o", "out_layout": "NCHW16c"}

    def body(b: BlockBuilder, x: Var) -> Var:
        parts = [b.emit(op.nn.conv2d(x, weights(2, 3, 1, 1, 16, seed=k), **layouts)) for k in range(2)]
        joined = b.emit(op.nn.depth_to_space(parts, (1, 2), layout="NCHW16c"))
        return b.emit(op.layout_transform(joined, "NCHW16c", "NCHW"))

    module = graph({"x": (1, 3, 4, 5)}, body)
    plain = FoldConstant()(with_plain_layouts(module))
    assert "NCHW16c" not in plain.script()
    inputs = arrays(module["main"])
    want, got = (Interpreter(mod).run("main", *inputs) for mod in (module, plain))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
