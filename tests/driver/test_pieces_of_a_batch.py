"""Models whose beginning is computed for a piece of the batch at a time: results, reports, times, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import eutectic
from eutectic.backend.dnnl.library import availability
from eutectic.explain.explanation import Explanation
from eutectic.ir.services import Speeds
from eutectic.relax.transform.split_batch import split
from eutectic.relax.transform.split_batch.choice import BatchOffer, BatchSizes
from eutectic.target import Target


@pytest.fixture(params=[1, 2], ids=["one image", "two images"], autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Images of a piece; all operators that can be are computed in pieces."""

    def offers(sizes: BatchSizes, target: Target, speeds: Speeds | None) -> list[BatchOffer]:
        return [BatchOffer(request.param, len(sizes.steps), 0.0, 1.0)]

    monkeypatch.setattr(split.BATCH_OFFERS, "ask", offers)
    monkeypatch.setenv("EUTECTIC_CACHE_MODELS", "0")
    return int(request.param)


class Network(torch.nn.Module):
    """Branches that come together, then what the whole batch is needed for; an input is a result, too."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        self.left, self.right = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.Conv2d(8, 8, 1)
        self.head = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Three results."""
        h = self.stem(x)
        both = torch.cat([self.left(h) + h, self.right(h).sigmoid()], 1)
        rows = torch.nn.functional.adaptive_avg_pool2d(both, 1).flatten(1)
        return self.head(rows - rows.mean(0)), both, x.flatten(1)


def made(batch: int = 4, **options: Any) -> tuple[Any, Any, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Network().eval(), torch.randn(batch, 3, 20, 18)
    return eutectic.compile(model, (x,), **{"target": "llvm", "verify": True, **options}), model, x


def assert_equal(got: Any, want: Any) -> None:
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_computed(threads: int):
    fast, model, x = made(threads=threads)
    assert_equal(fast(x), model(x))
    other = torch.randn_like(x)
    assert_equal(fast(other), model(other))
    assert fast.report.host_operators == ()


@pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")
def test_a_library_is_called_for_each_piece(size: int):
    fast, model, x = made(target="llvm -libs=dnnl")
    assert_equal(fast(x), model(x))
    taken = [group for group in fast.report.plan.groups if group.kind == "library" and "conv2d" in group.pattern]
    assert len(taken) == 3
    assert {group.times for group in taken} == {4 // size}


def test_each_kernel_is_told_once(size: int):
    fast, *_ = made()
    groups = fast.report.plan.groups
    convolutions = [group for group in groups if any("conv2d" in operator.op for operator in group.operators)]
    assert len(convolutions) == 3
    assert {group.times for group in convolutions} == {4 // size}
    assert convolutions[0].results[0].shape[0] == size
    assert convolutions[0].flops is not None
    assert convolutions[0].flops >= 2 * 4 * 8 * 27 * 90
    assert groups[-1].times == 1
    assert f"{4 // size} x float32[{size}, " in str(fast.report)


def test_times_are_those_of_all_pieces(size: int):
    fast, _, x = made()
    found: Explanation = fast.explain(x)
    timed = [group for group in found.groups if group.seconds is not None]
    kernels = [group for group in fast.report.plan.groups if group.kind == "kernel"]
    assert len(timed) == len(kernels)
    assert len(fast.profile(x)) == sum(group.times for group in kernels)


def test_why_what_comes_behind_is_another_kernel():
    class Backwards(torch.nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).flip(0)

    fast = eutectic.compile(Backwards(3, 8, 3).eval(), (torch.randn(4, 3, 8, 8),), target="llvm")
    reasons = [boundary.reason for boundary in fast.report.plan.boundaries]
    assert any("one piece of a batch after the other" in reason for reason in reasons), reasons


def test_files(tmp_path: Path):
    fast, model, x = made()
    again = eutectic.load(fast.save(tmp_path / "network.eut"))
    assert_equal(again(x), model(x))
    assert [group.times for group in again.report.plan.groups] == [g.times for g in fast.report.plan.groups]


def test_files_for_other_processors(tmp_path: Path):
    fast, model, x = made()
    again = eutectic.load(fast.save(tmp_path / "network.eut", targets=["x86-64-v2"]))
    assert_equal(again(x), model(x))


def test_numbers_that_winograd_would_lose():
    model = torch.nn.Sequential(torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU()).eval()
    x = torch.randn(4, 32, 56, 56)
    fast = eutectic.compile(model, (x,), target="llvm")
    x[1, 2, 3, 4] = float("nan")
    assert "conv2d_winograd" in fast.script()
    with pytest.warns(match="Winograd"):
        got = fast(x)
    assert torch.equal(got.isnan(), model(x).isnan())


def test_weights_that_change():
    fast, model, x = made(weights="live")
    for step in range(4):
        with torch.no_grad():
            model.head.weight += step
            model.left.weight *= 1 + step
        assert_equal(fast(x), model(x))


def test_another_number_of_pieces():
    fast, model, x = made(6)
    assert_equal(fast(x), model(x))
