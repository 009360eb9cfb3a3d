"""The benchmarks of whole networks and of what is paid beside them: what they measure by default, and their JSON."""

from __future__ import annotations

import importlib
import json
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
import torch
from rich.console import Console

from eutectic.testing.models import MODELS
from eutectic.testing.peers import PEERS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script of the folder, which finds its neighbours as it does from a shell."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


def test_all_networks_and_contenders_take_part_by_default(monkeypatch: pytest.MonkeyPatch):
    arguments = benchmark("end_to_end", monkeypatch)._arguments([])
    assert arguments.models == list(MODELS)
    assert arguments.peers == list(PEERS)
    assert arguments.peers[:2] == ["eutectic", "eutectic-llvm"]
    assert arguments.batch == 1


def test_a_batch_is_of_different_images(monkeypatch: pytest.MonkeyPatch):
    batched = benchmark("end_to_end", monkeypatch).batched
    images = torch.randn(1, 3, 8, 8), torch.randn(1, 2, 4, 4)
    more = batched(images, 3)
    assert [x.shape for x in more] == [(3, 3, 8, 8), (3, 2, 4, 4)]
    for one, several in zip(images, more, strict=True):
        assert torch.equal(several[:1], one)
        assert not torch.equal(several[1], several[2])
    assert batched(images, 1) is images
    assert batched((*images, torch.randn(1, 5)), 3) is None


def test_networks_of_varying_sizes_are_measured_at_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    sizes, found = benchmark("sizes", monkeypatch), tmp_path / "found.json"
    assert sizes.main(["--networks", "mlp", "--rounds", "1", "--json", str(found)]) == 0
    measured = json.loads(found.read_text())["networks"]["mlp"]
    assert list(measured) == ["8", "3", "64"]
    for rows in measured.values():
        assert {"eutectic", "eager", "for one size"} <= rows.keys()
        assert all(low <= median <= high for low, median, high in rows.values())


def test_an_unknown_network_of_varying_sizes_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        benchmark("sizes", monkeypatch).main(["--networks", "mlp,nobody"])
    assert "unknown: nobody" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-2"])
def test_a_batch_has_at_least_one(number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        benchmark("end_to_end", monkeypatch)._arguments(["--batch", number])
    assert f"expected 1 or more, received {number}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "moved"), [((), False), ((53.0, 60.0), False), ((53.0, 320.0), True), ((320.0, 53.0), True)]
)
def test_processors_that_moved_are_told(times: tuple[float, ...], moved: bool, monkeypatch: pytest.MonkeyPatch):
    """The virtual machine of a measurement went from processors of one cache to those of two: all peers took longer."""
    module = benchmark("outcome", monkeypatch)
    outcome = module.Outcome("m", "M", (), {}, times)
    assert outcome.moved == moved
    assert outcome.to_json("eutectic")["exchange_ns"] == list(times)
    text = StringIO()
    module.print_outcome(Console(file=text, width=120), outcome, "eutectic")
    assert ("the processors moved" in text.getvalue()) == moved


@pytest.mark.slow
def test_networks_are_measured_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "result.json"
    words = ["--models", "unet_block,gpt2_block", "--peers", "eutectic,eager", "--batch", "2", "--rounds", "1"]
    assert benchmark("end_to_end", monkeypatch).main([*words, "--threads", "1", "--json", str(file)]) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert (document["batch"], document["machine"]["threads"]) == (2, 1)
    (model,) = document["models"]
    assert (model["model"], set(model["peers"])) == ("unet_block", {"eutectic", "eager"})
    assert all(0 < row["error_float64"] < 1e-4 for row in model["peers"].values())
    assert "without gpt2_block" in capsys.readouterr().out


@pytest.mark.slow
def test_calls_and_compilations_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "result.json"
    words = ["--models", "mlp", "--rounds", "1", "--threads", "1", "--json", str(file)]
    assert benchmark("overhead", monkeypatch).main(words) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert set(document["call_microseconds"]["mlp"]["llvm"]) == {"tensors", "arrays", "eager"}
    measured = [(row["model"], row["target"]) for row in document["compilations"]]
    assert measured == [("mlp", "default"), ("mlp", "llvm"), ("mlp", "llvm -libs=dnnl")]
    for row in document["compilations"]:
        assert 0 < row["seconds"]["again"] < row["seconds"]["cold"]


def test_networks_of_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    zoo = benchmark("zoo", monkeypatch)
    known = dict(MODELS)

    class Several(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Conv2d(3, 8, 3)

        def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
            return {"out": [self.inner(x).relu(), x]}

    def package(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        if name != "several":
            raise RuntimeError("Unknown model")
        return Several(), (torch.randn(1, 3, 9, 9),)

    monkeypatch.setitem(zoo.SOURCES, "timm", package)
    file = tmp_path / "found.json"
    try:
        status = zoo.main(["--models=timm:several", "--peers", "eutectic,eager", "--rounds", "1", "--json", str(file)])
    finally:
        MODELS.clear()
        MODELS.update(known)
    (row,) = json.loads(file.read_text())["models"]
    assert status == 0
    assert row["model"] == "timm:several"
    assert row["peers"]["eutectic"]["error_float64"] < 1e-5
    with pytest.raises(SystemExit, match="timm has no network 'other': Unknown model"):
        zoo.built("timm:other")
    for name in ("several", "elsewhere:several"):
        with pytest.raises(SystemExit, match="give package:name, with a package of torchvision, timm"):
            zoo.built(name)
    monkeypatch.setitem(zoo.sys.modules, "timm", None)
    with pytest.raises(SystemExit, match="timm cannot be imported"):
        zoo._timm("several")
