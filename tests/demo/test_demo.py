"""The demo with a stand-in for the compiler: what it prints, the JSON document, and life without weights."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import eutectic
from eutectic.cli.main import app
from eutectic.demo import subjects
from eutectic.demo.report import print_result, to_json
from eutectic.demo.run import ModelResult, show
from eutectic.driver.progress import bar
from eutectic.driver.report import CompileReport, CompositeRecord, RegionRecord, UnfusedRecord
from eutectic.support.errors import ToolchainError
from eutectic.testing.models import MODELS

CONV = CompositeRecord("dnnl.conv2d_bias_clip", ("relax.nn.conv2d", "relax.add", "relax.clip"), "f0")
REPORT = CompileReport(
    regions=(RegionRecord("dnnl_0", "dnnl", (CONV, CONV)),),
    unfused=(
        UnfusedRecord("relax.nn.conv2d", "lv3", "features.6", "digits.py:48", "its output is read twice [lv4, lv5]"),
        UnfusedRecord("relax.reshape", "lv7", "", "", "no pattern takes a reshape on its own"),
        UnfusedRecord("relax.reshape", "lv8", "", "", "no pattern takes a reshape on its own"),
    ),
    notes=("oneDNN 3.2",),
    seconds=0.5,
)


@dataclass
class Standin:
    """A compiled network that is the network itself, off by a little."""

    model: Any
    report: CompileReport = REPORT
    error: float = 1e-6

    def __call__(self, *inputs: Any) -> Any:
        return self.model(*inputs) + self.error


def compile_nothing(
    model: Any, inputs: tuple[Any, ...], /, *, threads: int | None = None, progress: Any = None
) -> Standin:
    """A compiler that does nothing, in two steps."""
    assert isinstance(inputs[0], torch.Tensor)
    if progress is not None:
        progress("import", 1, 2)
        progress("partition", 2, 2)
    return Standin(model)


def without_weights() -> dict[str, Any]:
    gone = {name: replace(MODELS[name], missing=lambda: "the package is not installed") for name in subjects.PREPARE}
    return {**MODELS, **gone}


@pytest.fixture(scope="module")
def result() -> ModelResult:
    if (reason := MODELS["digits"].missing()) is not None:
        pytest.skip(reason)
    (subject,) = subjects.choose(lambda _: None, without_weights())
    return show(subject, compile_nothing, threads=1, rounds=2)


def test_without_weights_the_digits_are_shown():
    said: list[str] = []
    (subject,) = subjects.choose(said.append, without_weights())
    assert subject.entry.name == "digits"
    assert [p.values.shape for p in subject.pictures] == [(1, 1, 8, 8)] * subjects.DIGITS_SHOWN
    assert said == [
        "Without MobileNetV2: the package is not installed.",
        "Without EfficientNet-Lite0: the package is not installed.",
        "No trained network is installed; training a small one on scikit-learn's digits instead.",
    ]


def test_without_photos_the_digits_are_shown(monkeypatch):
    monkeypatch.setattr(subjects.photos, "missing_reason", lambda: "scikit-image is not installed")
    said: list[str] = []
    (subject,) = subjects.choose(said.append)
    assert subject.entry.name == "digits"
    assert said[0] == "No photos: scikit-image is not installed."


def test_without_anything_there_is_one_clear_error():
    models = without_weights()
    models["digits"] = replace(models["digits"], missing=lambda: "scikit-learn is not installed")
    with pytest.raises(ToolchainError, match="no network to show: scikit-learn is not installed"):
        subjects.choose(lambda _: None, models)


def test_result_compares_with_eager(result: ModelResult):
    assert result.absolute_error == pytest.approx(1e-6, rel=0.5)
    assert result.relative_error < result.absolute_error
    assert result.threads == 1
    assert result.latency_ms > 0
    assert result.eager_latency_ms > 0
    assert len(result.photos) == subjects.DIGITS_SHOWN
    for photo in result.photos:
        assert photo.label == photo.eager_label
        assert photo.probability == pytest.approx(photo.eager_probability)
        assert 0.1 <= photo.probability <= 1


def test_json_has_exactly_the_documented_keys(result: ModelResult):
    (model,) = json.loads(json.dumps(to_json([result])))["models"]
    assert list(model) == [
        "name",
        "convolutions",
        "convolutions_fused",
        "relative_error",
        "latency_ms",
        "eager_latency_ms",
        "photos",
    ]
    assert (model["name"], model["convolutions"], model["convolutions_fused"]) == ("digits", 3, 2)
    assert all(list(p) == ["photo", "label", "probability", "eager_label"] for p in model["photos"])


def test_tables_say_what_was_fused_and_why_not(result: ModelResult, golden):
    steady = replace(
        result,
        photos=tuple(replace(p, probability=0.9, eager_probability=0.9) for p in result.photos[:1]),
        absolute_error=1e-6,
        relative_error=1e-7,
        latency_ms=1.0,
        eager_latency_ms=2.5,
    )
    text = StringIO()
    print_result(Console(file=text, width=120), steady)
    golden("\n".join(line.rstrip() for line in text.getvalue().splitlines()))


def test_everything_fused_reads_well(result: ModelResult):
    text = StringIO()
    print_result(Console(file=text, width=120), replace(result, report=replace(REPORT, unfused=(), notes=())))
    assert "2 of 2 convolutions are fused; 2 kernels in 1 region." in text.getvalue()
    assert "No operator stayed unfused." in text.getvalue()


def test_progress_bar_only_on_a_terminal():
    with bar("net", Console(file=StringIO()), delay=0) as progress:
        assert progress is None
    text = StringIO()
    with bar("net", Console(file=text, force_terminal=True, width=100), delay=0) as progress:
        assert progress is not None
        progress("partition", 1, 2)
    assert "net" in text.getvalue()


@pytest.fixture
def only_digits(monkeypatch) -> None:
    monkeypatch.setattr(eutectic, "compile", compile_nothing, raising=False)
    for name, entry in without_weights().items():
        monkeypatch.setitem(MODELS, name, entry)


@pytest.mark.usefixtures("only_digits")
def test_command_prints_json_and_nothing_else():
    run = CliRunner().invoke(app, ["demo", "--json", "--threads", "1"])
    assert run.exit_code == 0, run.output
    assert [m["name"] for m in json.loads(run.stdout)["models"]] == ["digits"]
    assert "training a small one" in run.stderr


@pytest.mark.usefixtures("only_digits")
def test_command_prints_tables():
    run = CliRunner().invoke(app, ["demo", "--threads", "1"])
    assert run.exit_code == 0, run.output
    assert "DigitsNet" in run.stdout
    assert "stayed unfused" in run.stdout


@pytest.mark.usefixtures("only_digits")
def test_command_ends_with_the_compilers_error(monkeypatch):
    def refuse(*_: Any, **__: Any) -> Any:
        raise ToolchainError("the library cannot be loaded", help="install it")

    monkeypatch.setattr(eutectic, "compile", refuse, raising=False)
    run = CliRunner().invoke(app, ["demo"])
    assert run.exit_code == 1
    assert "the library cannot be loaded" in run.stderr
    assert "install it" in run.stderr


def test_program_knows_its_version_and_its_verbs():
    run = CliRunner().invoke(app, ["--version"])
    assert run.exit_code == 0
    assert run.stdout.startswith("eutectic 0.")
    assert "demo" in CliRunner().invoke(app, ["--help"]).stdout
    assert CliRunner().invoke(app, ["demo", "--threads", "0"]).exit_code == 2


@pytest.mark.models
def test_photos_with_the_trained_networks():
    for name in subjects.PREPARE:
        if (reason := MODELS[name].missing()) is not None:
            pytest.skip(reason)
    chosen = subjects.choose(lambda sentence: pytest.fail(sentence))
    assert [s.entry.name for s in chosen] == ["mobilenet_v2", "efficientnet_lite0"]
    found = show(chosen[0], compile_nothing, rounds=1)
    assert [p.photo for p in found.photos] == ["coffee", "chelsea", "camera", "rocket", "astronaut"]
    assert np.isclose(found.photos[0].probability, 0.99, atol=0.02)
