"""Convolutions of 16 bits become convolutions of float32, whose results are rounded."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from tests.relax.transform.rewriting import assert_stays, ops_after

import eutectic
from eutectic.backend.dnnl.backend import OneDnn
from eutectic.driver.pipeline import pipeline
from eutectic.relax import op
from eutectic.relax.expr import Constant, Expr
from eutectic.relax.transform import WidenConvolutions
from eutectic.testing.graphs import graph, weights

DTYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
SHAPE = (2, 3, 7, 6)


def narrow(dtype: str, *shape: int) -> Constant:
    return Constant(weights(*shape).data.astype(DTYPES[dtype]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", [None, "float32"])
def test_a_convolution_of_float32_is_rounded(dtype: str, out_dtype: str | None):
    def body(bb: Any, x: Expr) -> Expr:
        return op.nn.conv2d(x, narrow(dtype, 4, 3, 3, 3), padding=1, out_dtype=out_dtype)

    mod = graph({"x": (SHAPE, dtype)}, body)
    assert ops_after(WidenConvolutions(), mod) == ["astype", "nn.conv2d", *([] if out_dtype else ["astype"])]


def test_what_several_read_is_widened_once():
    def body(bb: Any, x: Expr) -> Expr:
        first, second = (op.nn.conv2d(x, narrow("float16", 4, 3, k, k), padding=k // 2) for k in (1, 3))
        return op.add(bb.emit(first), bb.emit(second))

    names = ops_after(WidenConvolutions(), graph({"x": (SHAPE, "float16")}, body))
    assert names == ["astype", "nn.conv2d", "astype", "nn.conv2d", "astype", "add"]


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ((2, 3, 9), lambda x: op.nn.conv1d(x, narrow("bfloat16", 4, 3, 3))),
        ((1, 3, 4, 5, 6), lambda x: op.nn.conv3d(x, narrow("bfloat16", 4, 3, 3, 3, 3))),
        ((2, 3, 4, 5), lambda x: op.nn.conv2d_transpose(x, narrow("bfloat16", 3, 4, 2, 2), strides=2)),
    ],
    ids=["a signal", "a volume", "transposed"],
)
def test_convolutions_of_every_kind(shape: tuple[int, ...], body: Any):
    names = ops_after(WidenConvolutions(), graph({"x": (shape, "bfloat16")}, lambda bb, x: body(x)))
    assert names[0] == names[-1] == "astype"
    assert len(names) == 3


def test_what_stays():
    wide = graph({"x": SHAPE}, lambda bb, x: op.nn.conv2d(x, weights(4, 3, 3, 3)))
    assert_stays(WidenConvolutions(), wide)
    half = graph({"x": (SHAPE, "float16")}, lambda bb, x: op.nn.conv2d(x, narrow("float16", 4, 3, 3, 3)))
    assert_stays(WidenConvolutions("bfloat16"), half)
    product = graph({"x": ((2, 3), "float16")}, lambda bb, x: op.matmul(x, narrow("float16", 3, 4)))
    assert_stays(WidenConvolutions(), product)


def test_dtypes_that_a_library_multiplies_are_left_to_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(OneDnn, "multiplies", lambda library, dtype, target: dtype == "bfloat16")

    def widened(target: str) -> list[str]:
        return [step.dtypes for step in pipeline(target).passes if isinstance(step, WidenConvolutions)]

    assert widened("llvm") == ["bfloat16,float16"]
    assert widened("llvm -libs=dnnl") == ["float16"]


class Network(torch.nn.Module):
    """Convolutions of 3x3 with a residual, a batch norm and a pool."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.block = torch.nn.Sequential(
            torch.nn.Conv2d(16, 16, 3, padding=1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU()
        )
        self.last = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        return self.last((y + self.block(y)).mean((2, 3)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_networks_are_as_exact_as_eager(dtype: torch.dtype):
    model, x = Network().to(dtype).eval(), torch.randn(32, 3, 12, 12).to(dtype)
    want = Network().to(dtype).eval().double()(x.double()).detach()
    compiled = eutectic.compile(model, [x], target="llvm")
    assert compiled(x).dtype == dtype
    assert (compiled(x) - want).norm() <= 1.5 * (model(x) - want).norm()
