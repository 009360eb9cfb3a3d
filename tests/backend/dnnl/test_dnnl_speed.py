"""A precision of 16 bits is taken where it was measured to be faster, and refused with the figure where it was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import eutectic
import eutectic.support.cache as store
from eutectic.backend.dnnl import speed
from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.narrow import computes_in
from eutectic.target import Target

DNNL = "llvm -libs=dnnl"
HERE = Target("llvm")
pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")


def needs(dtype: str) -> pytest.MarkDecorator:
    """A skip where oneDNN does not compute a dtype, or kernels are made for another processor (`EUTECTIC_CPU`)."""
    state = computes_in(dtype, HERE)
    reason = "another processor is named" if state.ok else state.reason
    return pytest.mark.skipif(not (state.ok and speed.is_host(HERE)), reason=reason)


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32)).eval()


@needs("bfloat16")
def test_a_model_stays_in_float32_where_bfloat16_is_slower(narrow_takes: Callable[[float], None]):
    narrow_takes(1.93)
    model, x = mlp(), torch.randn(5, 64)
    compiled = eutectic.compile(model, (x,), target=DNNL, precision="bf16")
    (note,) = [note for note in compiled.report.notes if "no operator is narrowed" in note]
    assert "in 1.9 times the time of float32 on this processor" in note
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)


@needs("bfloat16")
@pytest.mark.parametrize(("share", "is_narrow"), [(0.89, True), (0.91, False), (1.0, False)])
def test_a_tenth_of_the_time_is_the_least_that_is_worth_it(
    narrow_takes: Callable[[float], None], share: float, is_narrow: bool
):
    narrow_takes(share)
    assert speed.faster_in("bfloat16", HERE).ok == is_narrow
    report = eutectic.compile(mlp(), (torch.randn(5, 64),), target=DNNL, precision="bf16").report
    assert any("bfloat16 in 2 matmul" in note for note in report.notes) == is_narrow


@needs("bfloat16")
@pytest.mark.parametrize(("share", "wide"), [(0.5, 1), (0.05, 0)])
def test_large_images_stay_in_float32_where_that_is_faster(
    narrow_takes: Callable[[float], None], share: float, wide: int
):
    narrow_takes(share)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 32, 1)
    ).eval()
    x = torch.randn(1, 64, 96, 96)
    compiled = eutectic.compile(model, (x,), target=DNNL, precision="bf16")
    notes = [note for note in compiled.report.notes if "float32 is faster by Winograd's method" in note]
    assert len(notes) == wide
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=0.02, atol=0.02)


@needs("float16")
def test_float16_is_not_used_where_it_is_slower(narrow_takes: Callable[[float], None]):
    narrow_takes(1.06)
    report = eutectic.compile(mlp(), (torch.randn(5, 64),), target=DNNL, precision="f16").report
    assert any(
        "no operator is narrowed" in note and "in 1.1 times the time of float32" in note for note in report.notes
    )


@needs("bfloat16")
def test_models_of_bfloat16_are_computed_in_it_however_long_it_takes(narrow_takes: Callable[[float], None]):
    narrow_takes(1.93)
    report = eutectic.compile(mlp().bfloat16(), (torch.randn(5, 64).bfloat16(),), target=DNNL).report
    assert [c.name for c in report.composites] == ["dnnl.matmul_bias_relu", "dnnl.matmul_bias"]


def test_other_processors_are_taken_at_their_word(narrow_takes: Callable[[float], None]):
    narrow_takes(100.0)
    for text in ("llvm -mcpu=znver4", "llvm -mcpu=x86-64-v3"):
        assert speed.faster_in("bfloat16", Target(text)) == computes_in("bfloat16", Target(text))
    assert speed.faster_in("float32", HERE).ok


@needs("bfloat16")
def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest):
    request.addfinalizer(speed.time_share.cache_clear)
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path))
    measured = []
    monkeypatch.setattr(speed, "_measured", lambda dtype: measured.append(dtype) or 0.25)
    for _ in range(2):
        speed.time_share.cache_clear()  # as another process has none
        assert speed.time_share("bfloat16") == 0.25
    assert measured == ["bfloat16"]
    (entry,) = store.entries()
    assert entry.meta["share"] == 0.25


@needs("bfloat16")
def test_a_measurement_is_a_ratio_of_two_products():
    assert 0.02 < speed._measured("bfloat16") < 50
