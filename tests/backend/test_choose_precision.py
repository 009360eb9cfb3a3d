"""ChoosePrecision: which convolutions stay in float32 though a library multiplies 16 bits faster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eutectic.backend.choose_precision import _NarrowWhereFaster
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Function
from eutectic.relax.op import nn
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.winograd import choice
from eutectic.relax.transform.winograd.choice import ConvolutionSizes, WinogradOffer
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights

REASON = "float32 is faster by Winograd's method"


@pytest.fixture(autouse=True)
def _offers(monkeypatch: pytest.MonkeyPatch):
    """Winograd's method takes 0.4 of the time of direct sums where images have 20 rows, and is not worthwhile else."""

    def offers(sizes: ConvolutionSizes, target: Target) -> Sequence[WinogradOffer]:
        return [WinogradOffer(4, 2, 4, 0.4, 1.0, worthwhile=sizes.height == 20)]

    monkeypatch.setitem(choice.WINOGRAD_OFFERS._providers, "llvm", offers)


def network(rows: int) -> IRModule:
    """Windows of 3x3 and of 1x1."""
    return graph(
        {"x": (1, 4, rows, 10)},
        lambda bb, x: nn.conv2d(bb.emit(nn.conv2d(x, weights(8, 4, 3, 3), padding=1)), weights(4, 8, 1, 1)),
    )


def dtypes(mod: IRModule) -> list[str]:
    """Of the operands of the convolutions."""
    function = mod["main"]
    assert isinstance(function, Function)
    infos = [
        call.args[1].struct_info for call in walk_calls(function) if getattr(call.op, "name", "") == "relax.nn.conv2d"
    ]
    return [info.dtype for info in infos if isinstance(info, TensorStructInfo)]


@pytest.mark.parametrize(
    ("rows", "share", "wanted"),
    [
        (20, 0.5, ["float32", "bfloat16"]),
        (20, 0.3, ["bfloat16", "bfloat16"]),  # less than the method takes
        (20, None, ["bfloat16", "bfloat16"]),  # of another processor nobody knows
        (21, 0.5, ["bfloat16", "bfloat16"]),
    ],
)
def test_which_stay(rows: int, share: float | None, wanted: list[str]):
    with PassContext() as ctx:
        after = _NarrowWhereFaster("bfloat16", "llvm", share)(network(rows))
    assert dtypes(after) == wanted
    reasons = [remark.reason for remark in ctx.remarks if remark.op == "relax.nn.conv2d"]
    assert reasons == [REASON if dtype == "float32" else "" for dtype in wanted]
