"""The benchmark of single layers: which layers a network has, what is computed and timed, the table, JSON and page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from tests.testing.test_benchmarks import benchmark

from eutectic.backend.contract import Availability
from eutectic.explain.machine import Bandwidth, MachineSpeed
from eutectic.explain.peak import fma_speed
from eutectic.target import Target
from eutectic.testing.models import MODELS, Built, ModelEntry

TARGET = Target("llvm")
SPEED = MachineSpeed("a processor", 1, 100e9, (Bandwidth(1000, 20e9), Bandwidth(10**6, 10e9)))


class Tiny(torch.nn.Module):
    """A convolution that is there twice, one of each channel, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = (torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))
        self.depthwise = torch.nn.Conv2d(32, 32, 3, stride=2, groups=32)
        self.last = torch.nn.Linear(32 * 9, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.again(torch.relu(self.first(x))))
        return self.last(self.depthwise(x).flatten(1))


def tiny() -> Built:
    torch.manual_seed(0)
    return Tiny().eval(), (torch.randn(1, 32, 8, 8),)


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return benchmark("layers", monkeypatch)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(MODELS, "tiny", ModelEntry("tiny", "A tiny network", tiny, "random"))
    return benchmark("kernels", monkeypatch)


def outcome(monkeypatch: pytest.MonkeyPatch, *microseconds: tuple[float, float]) -> object:
    """Layers of a million operations on 900 bytes, with these times of ours and of oneDNN."""
    module = benchmark("kernel_outcome", monkeypatch)

    def timing(median: float) -> object:
        return module.Timing(median, median, median, 1e-7, "rows to rows", 1)

    rows = [
        module.Row(f"<{number}>", 2, 10**6, 900, timing(own), timing(other))
        for number, (own, other) in enumerate(microseconds)
    ]
    return module.Outcome("m", "M & N", tuple(rows), SPEED)


def test_a_network_has_each_layer_once(layers: ModuleType):
    listed = [(x.name, x.count, x.flops, x.has_weights) for x in layers.layers_of(tiny(), TARGET)]
    assert listed[-2:] == [
        ("3x3 32 to 32 at 8x8, by 2x2, 32 groups", 1, 2 * 9 * 32 * 9, True),
        ("1x288 by weights 288x10", 1, 2 * 288 * 10, True),
    ]
    window = 2 * 32 * 64 * 32 * 9
    assert {row[0] for row in listed[:-2]} == {"3x3 32 to 32 at 8x8"}
    assert sum(row[1] for row in listed[:-2]) == 2
    assert {row[2] for row in listed[:-2]} == {window}


def test_points_that_windows_step_over_are_not_read(layers: ModuleType):
    model = torch.nn.Conv2d(16, 32, 1, stride=2).eval()
    (layer,) = layers.layers_of((model, (torch.randn(1, 16, 8, 8),)), TARGET)
    assert layer.bytes == 4 * (16 * 16 + 32 * 16 + 32 * 16)


def test_a_layer_is_computed_alone_by_one_kernel(layers: ModuleType):
    for layer in layers.layers_of(tiny(), TARGET):
        alone = layers.ours(layer, TARGET, 1)
        exact = layer.truth()
        assert (exact >= 0).all()
        assert (exact == 0).any()
        assert alone.kernels == 1
        np.testing.assert_allclose(alone.result(), exact, rtol=1e-5, atol=1e-5)


def test_a_product_of_two_tensors_has_nothing_behind_it(layers: ModuleType):
    layer = layers.product(5, 7, 3, has_weights=False)
    assert (layer.name, layer.flops, layer.bytes) == ("5x7 by 7x3", 210, 4 * (35 + 21 + 15))
    exact = layer.values[0].astype(np.float64) @ layer.values[1].astype(np.float64)
    np.testing.assert_allclose(layer.truth(), exact, rtol=1e-12)
    np.testing.assert_allclose(layers.ours(layer, TARGET, 1).result(), exact, rtol=1e-5, atol=1e-6)


def test_onednn_reads_the_layout_that_it_asks_for(layers: ModuleType):
    pytest.importorskip("eutectic.backend.dnnl.library")
    if not layers.backend("dnnl").availability(Target("llvm -libs=dnnl")).ok:
        pytest.skip("oneDNN is not installed")
    for layer in (*layers.layers_of(tiny(), TARGET), layers.product(6, 8, 4, has_weights=False)):
        alone = layers.library(layer, 1)
        assert alone.kernels == 1
        np.testing.assert_allclose(alone.result(), layer.truth(), rtol=1e-5, atol=1e-5)


def test_ratios_shares_and_totals(monkeypatch: pytest.MonkeyPatch):
    some = outcome(monkeypatch, (20.0, 10.0), (20.0, 30.0))
    slow, fast = some.rows
    assert (slow.ratio, fast.ratio) == (0.5, 1.5)
    assert some.behind() == [slow]
    assert some.totals_ms() == (0.08, 0.08)
    assert slow.least_us(SPEED) == pytest.approx(10.0)  # a million operations at 100 GFLOP/s
    assert some.of_peak(slow) == some.of_roofline(slow, slow.ours) == pytest.approx(0.5)
    assert some.of_roofline(slow, slow.library) == pytest.approx(1.0)
    assert "1 of 2 below 0.92 of oneDNN" in some.summary()


def test_few_operations_are_bound_by_memory(monkeypatch: pytest.MonkeyPatch):
    module = benchmark("kernel_outcome", monkeypatch)
    timing = module.Timing(100.0, 100.0, 100.0, 0.0, "", 2)
    row = module.Row("r", 1, 1000, 500_000, timing, None, "not installed")
    assert row.least_us(SPEED) == pytest.approx(50.0)  # half a megabyte at 10 GB/s
    assert row.ratio is None
    assert row.note == "ours: 2 kernels; without oneDNN: not installed"
    assert "nothing to compare with" in module.Outcome("m", "m", (row,), SPEED).summary()


def test_the_page_has_a_bar_for_each_timing(monkeypatch: pytest.MonkeyPatch):
    machine = {"processor": "P", "threads": 1}
    text = benchmark("kernel_page", monkeypatch).page(
        [outcome(monkeypatch, (20.0, 10.0), (20.0, 30.0))], machine, "llvm"
    )
    assert "M &amp; N" in text
    assert "&lt;0&gt;" in text
    (chart,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    svg = ElementTree.fromstring(chart)
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.attrib["width"]) for bar in svg.iter(f"{space}rect")]
    assert len(widths) == 4
    assert widths[1] == pytest.approx(2 * widths[0])
    assert [t.text for t in svg.iter(f"{space}text") if t.get("class") == "behind"] == ["0.50"]
    assert "src=" not in text  # it loads nothing
    assert "href=" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--models", "nothing"], "unknown: nothing; known: "),
        (["--rounds", "0"], "expected 1 or more, received 0"),
        (["--target", "llvm -libs=dnnl"], "expected no libraries"),
    ],
)
def test_mistaken_arguments_are_refused(
    words: list[str], message: str, kernels: ModuleType, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        kernels._arguments(words)
    assert message in capsys.readouterr().err


def test_a_narrower_target_has_a_lower_peak(monkeypatch: pytest.MonkeyPatch, kernels: ModuleType):
    narrow = Target("llvm -mcpu=x86-64-v2")
    if kernels.machine_of(Target()).lanes(32) < 8:
        pytest.skip("this processor has no wider vectors")
    assert fma_speed(1, narrow) < 0.7 * fma_speed(1)
    monkeypatch.setenv(kernels._ISA, "")
    monkeypatch.delenv(kernels._ISA)
    assert kernels.confine_library(Target("llvm")) == ""
    assert kernels.confine_library(narrow) == "SSE41"


@pytest.mark.slow
def test_layers_are_measured_beside_onednn(tmp_path: Path, kernels: ModuleType, capsys: pytest.CaptureFixture[str]):
    data, html = tmp_path / "result.json", tmp_path / "result.html"
    words = ["--models", "tiny", "--sizes", "48", "--rounds", "1", "--threads", "1"]
    assert kernels.main([*words, "--json", str(data), "--html", str(html)]) == 0
    document = json.loads(data.read_text(encoding="utf-8"))
    assert (document["benchmark"], document["machine"]["threads"], document["rounds"]) == ("kernels", 1, 1)
    network, products = document["models"]
    assert [row["layer"] for row in products["layers"]] == ["48x48 by 48x48", "48x48 by weights 48x48"]
    out = capsys.readouterr().out
    for row in (*network["layers"], *products["layers"]):
        assert 0 < row["ours"]["error"] < 1e-5
        assert 0 < row["ours"]["of_peak"] <= row["ours"]["of_roofline"] * 1.0001
        if row["onednn"] is not None:
            assert row["ratio"] == pytest.approx(row["onednn"]["median_us"] / row["ours"]["median_us"])
        assert re.search(rf"^ {re.escape(row['layer'])} +{row['count']} ", out, re.MULTILINE)
        assert row["layer"] in html.read_text(encoding="utf-8")
    assert f"{len(network['totals']['behind'])} of {len(network['layers'])} below 0.92 of oneDNN" in out


@pytest.mark.slow
def test_without_onednn_our_kernels_are_measured_alone(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(kernels, "available", lambda *_: Availability(ok=False, reason="it is away"))
    assert kernels.main(["--models", "", "--sizes", "32", "--rounds", "1", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "without oneDNN: it is away" in out
    assert "nothing to compare with" in out


@pytest.mark.slow
def test_a_wrong_result_is_said_and_not_timed(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(kernels, "TOLERANCE", 0.0)
    assert kernels.main(["--models", "", "--sizes", "32", "--rounds", "1", "--threads", "1"]) == 1
    out = capsys.readouterr().out
    assert "wrong result: ours on 32x32 by 32x32 differs by" in out
    assert "GFLOP/s" not in out
