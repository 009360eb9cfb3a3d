"""Models that were compiled before are read: the same numbers and reports, and never those of another model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eutectic
from eutectic import PassContext, relax
from eutectic.backend.dnnl.backend import OneDnn
from eutectic.driver import kept
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.weights import LONGEST_PAUSE
from eutectic.ir.instrument import PassInstrument
from eutectic.ir.services import Measured
from eutectic.ir.structural import structural_equal
from eutectic.relax import op
from eutectic.support import cache
from eutectic.support.registry import additions
from eutectic.testing.graphs import graph, weights
from eutectic.tune import Database


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache of its own, in which models are kept."""
    monkeypatch.delenv("EUTECTIC_CACHE_MODELS")
    monkeypatch.setattr(kept, "additions", tuple)  # other tests register things in this process
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path / "kernels"))
    yield tmp_path / "kernels"
    kept.settle()


class Net(nn.Module):
    """Two convolutions, of which the second can be computed by Winograd's method."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Conv2d(3, width, 1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x)))).mean((2, 3))


X = torch.randn(1, 3, 28, 28, generator=torch.Generator().manual_seed(0))


def compiled(model: Any = None, inputs: Any = (X,), **options: Any) -> CompiledModel:
    """A model, compiled; what is to be kept of it is there afterwards."""
    options = {"target": "llvm", **options}
    made = eutectic.compile(Net().eval() if model is None else model, inputs, **options)
    kept.settle()
    return made


def was_read(model: CompiledModel) -> bool:
    return kept.NOTE in model.report.notes


def models() -> list[cache.EntryInfo]:
    return [item for item in cache.entries() if item.is_model]


def test_a_model_is_read_the_second_time():
    first, second = compiled(), compiled()
    assert not was_read(first)
    assert was_read(second)
    assert len(models()) == 1
    assert torch.equal(first(X), second(X))
    assert first.report.regions == second.report.regions
    assert first.report.plan == second.report.plan
    assert [name for name, _ in second.report.passes] == ["import", "look up"]
    assert {"FuseTIR", "look up"} <= {name for name, _ in first.report.passes}
    assert 0 < second.report.seconds < first.report.seconds
    assert first.script() == second.script()
    assert repr(first) == repr(second)
    assert first.variant == second.variant


def test_what_the_file_does_not_have_is_made_when_it_is_asked_for():
    first, second = compiled(), compiled()
    for one, other in ((first.module, second.module), (first.lowered, second.lowered)):
        assert [gv.name_hint for gv in one.functions] == [gv.name_hint for gv in other.functions]
        assert all(map(structural_equal, one.functions.values(), other.functions.values()))
    assert [time.name for time in first.profile(X)] == [time.name for time in second.profile(X)]
    assert str(second.explain(X)).count("fused_") == str(first.explain(X)).count("fused_") > 0


@pytest.mark.filterwarnings("ignore::eutectic.EutecticAdvice")
def test_values_that_fast_code_would_lose(monkeypatch: pytest.MonkeyPatch):
    model = nn.Conv2d(64, 64, 3, padding=1).eval()
    x = torch.randn(1, 64, 28, 28)
    first, second = (compiled(model, (x,)) for _ in range(2))
    assert was_read(second)
    assert "winograd" in second.script()
    x[0, 3, 5, 5] = np.inf
    want = model(x)
    for made in (first, second):
        np.testing.assert_array_equal(torch.isfinite(made(x)), torch.isfinite(want))
        np.testing.assert_array_equal(torch.isnan(made(x)), torch.isnan(want))


def test_it_can_be_saved_copied_and_written_as_data(tmp_path: Path):
    want, read = compiled()(X), compiled()
    assert was_read(read)
    path = read.save(tmp_path / "net.eut")
    assert torch.equal(eutectic.load(path)(X), want)
    assert torch.equal(eutectic.LoadedModel.from_bytes(read.to_bytes())(X), want)


def test_weights_are_those_of_the_time_of_compiling():
    """The graph that is made again later does not read the torch module."""
    model = Net().eval()
    compiled(model)
    read = compiled(model)
    want = read(X)
    with torch.no_grad():
        model.first.weight.zero_()
    time.sleep(LONGEST_PAUSE)
    with pytest.warns(eutectic.EutecticAdvice, match="old values"):
        read(X)
    assert torch.equal(read(X), want)
    fresh = eutectic.compile(read.module, target="llvm")
    np.testing.assert_allclose(fresh(X.numpy())[0], want, rtol=1e-5, atol=1e-6)


def test_buffers_are_those_of_the_torch_module():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.count

    x = torch.ones(2)
    for _ in range(2):
        module = Counter().eval()
        made = compiled(module, (x,))
        assert [made(x)[0].item() for _ in range(2)] == [1, 2]
        assert module.count.item() == 2
    assert was_read(made)


def other_weight() -> CompiledModel:
    model = Net().eval()
    with torch.no_grad():
        model.second.weight[0, 0, 0, 0] += 1e-3
    return compiled(model)


def other_name() -> CompiledModel:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, picture: torch.Tensor) -> torch.Tensor:
            return self.net(picture)

    return compiled(Other().eval())


def other_context() -> CompiledModel:
    with PassContext(disabled_pass=["FuseOps"]):
        return compiled()


def other_processor() -> CompiledModel:
    return compiled(target="llvm -mcpu=x86-64-v3")


def measured() -> Measured:
    return Measured({"a workload": {"a point": {"tile": 3}}})


OTHERS: dict[str, Callable[[], CompiledModel]] = {
    "a weight": other_weight,
    "a name and a place in the source": other_name,
    "a context": other_context,
    "a processor": other_processor,
    "an input": lambda: compiled(inputs=(torch.randn(2, 3, 28, 28),)),
    "a dtype": lambda: compiled(Net().eval().double(), (X.double(),)),
    "threads": lambda: compiled(threads=3),
    "a precision": lambda: compiled(precision="strict"),
    "a size that varies": lambda: compiled(
        inputs=(torch.randn(2, 3, 28, 28),), dynamic_shapes=({0: torch.export.Dim("n", max=9)},)
    ),
    "measured choices": lambda: compiled(tuned=measured()),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", OTHERS)
def test_another_model_is_another_one(what: str):
    compiled()
    assert not was_read(OTHERS[what]())
    assert was_read(OTHERS[what]()), "it is kept, too"


def test_another_version_of_the_compiler_is_another_model(monkeypatch: pytest.MonkeyPatch):
    compiled()
    monkeypatch.setattr(kept, "_surroundings", lambda: b"changed")
    assert not was_read(compiled())


def test_another_version_of_a_library_is_another_model(monkeypatch: pytest.MonkeyPatch):
    compiled(target="llvm -libs=dnnl")
    monkeypatch.setattr(OneDnn, "version", lambda self: "4.0.0 avx9")
    assert not was_read(compiled(target="llvm -libs=dnnl"))


class Looker(PassInstrument):
    """Looks at passes."""


def with_instrument() -> CompiledModel:
    with PassContext(instruments=[Looker()]):
        return compiled()


UNKEPT: dict[str, Callable[[], CompiledModel]] = {
    "an instrument": with_instrument,
    "checks of passes": lambda: compiled(verify=True),
    "a pipeline": lambda: compiled(pipeline="LegalizeOps,FuseTIR"),
    "weights that are followed": lambda: compiled(weights="live"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", UNKEPT)
def test_what_is_not_kept(what: str):
    assert not was_read([UNKEPT[what]() for _ in range(2)][1])
    assert models() == []


@pytest.mark.parametrize("name", ["EUTECTIC_CACHE_MODELS", "EUTECTIC_CACHE_DIR"])
def test_it_can_be_switched_off(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path):
    monkeypatch.setenv(name, "0" if name.endswith("MODELS") else "")
    assert not was_read([compiled() for _ in range(2)][1])
    assert not list(folder.glob("*.eut"))


def test_large_models_are_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "MOST_OF_MODEL", 1000)
    compiled()
    assert models() == []


def test_operators_that_run_in_python_are_not_kept():
    x = relax.Var("x", relax.TensorStructInfo((5,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]), bb.dataflow():
        bb.emit_func_output(bb.emit_output(op.unique(x)))
    for _ in range(2):
        made = compiled(bb.get(), None)
        assert made.report.host_operators
        np.testing.assert_array_equal(made(np.array([3, 1, 3, 2, 1], "float32")), [1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize("place", np.linspace(0, 0.999, 12))
@pytest.mark.parametrize("way", ["flip", "cut"])
def test_a_damaged_file_is_compiled_again(way: str, place: float, folder: Path):
    want = compiled()(X)
    (path,) = folder.glob("*.eut")
    content = bytearray(path.read_bytes())
    at = int(place * len(content))
    if way == "flip":
        content[at] ^= 0x55
    path.unlink()  # what reads it has it mapped
    path.write_bytes(content if way == "flip" else content[:at])
    again = compiled()
    assert torch.equal(again(X), want)
    assert was_read(again) <= (way == "flip"), "padding between members is in no digest"
    assert was_read(compiled())


def test_no_file_in_its_place(folder: Path):
    compiled()
    (path,) = folder.glob("*.eut")
    path.unlink()
    os.mkfifo(path)
    assert not was_read(compiled())


def test_a_model_that_is_being_written_is_waited_for():
    first = eutectic.compile(Net().eval(), (X,), target="llvm")
    second = eutectic.compile(Net().eval(), (X,), target="llvm")
    assert not was_read(first)
    assert was_read(second)


def test_progress_ends():
    runs: list[list[tuple[str, int, int]]] = [[], []]
    for said in runs:
        compiled(progress=lambda *step, said=said: said.append(step))
        assert said[-1][1] == said[-1][2]
        assert [done for _, done, _ in said] == sorted(done for _, done, _ in said)
    assert [said[-1][0] for said in runs] == ["load", "ready"]


def test_tuned_models_are_read(tmp_path: Path):
    database = Database(tmp_path / "tuning.db")
    assert not was_read(compiled(tuned=database))
    assert was_read(compiled(tuned=database))


def test_graphs_of_ours_are_kept():
    mod = graph({"x": (4, 8)}, lambda bb, x: op.nn.softmax(bb.emit(op.matmul(x, weights(8, 8)))))
    x = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    first, second = compiled(mod, None), compiled(mod, None)
    assert was_read(second)
    np.testing.assert_array_equal(first(x), second(x))


def test_libraries():
    model = nn.Sequential(nn.Conv2d(64, 96, 5, padding=2), nn.ReLU6()).eval()
    x = torch.randn(1, 64, 20, 20)
    first, second = (compiled(model, (x,), target="llvm -libs=dnnl") for _ in range(2))
    assert was_read(second)
    assert first.report.regions[0].codegen == "dnnl"
    assert torch.equal(first(x), second(x))
    x[0, 0, 0, 0] = np.nan
    with pytest.warns(eutectic.EutecticAdvice):
        np.testing.assert_array_equal(torch.isnan(second(x)), torch.isnan(model(x)))


# ---- what others registered

_REGISTERS = {
    "attribute": "from eutectic.ir.op import Op; Op.get('relax.add').set_attr('mine', 1)",
    "operator attribute": "from eutectic.ir.op import register_op_attr; register_op_attr('relax.add', 'mine', 1)",
    "legalization": "from eutectic.relax.transform.legalize_ops import register_legalize\n"
    "register_legalize('relax.add', lambda bb, call: call)",
    "pattern": "from eutectic.relax.dpl import is_op, wildcard\n"
    "from eutectic.relax.dpl.table import register_patterns\n"
    "register_patterns([('mine.add', is_op('relax.add')(wildcard(), wildcard()))])",
    "function": "@eutectic.register_global_func('mine')\ndef mine(): pass",
    "operator": "from eutectic.relax.op.registry import define_op; define_op('mine.op')",
}
_ASK = "import eutectic\n{}\nfrom eutectic.support.registry import additions; print(len(additions()))"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["nothing", *_REGISTERS])
def test_what_others_register_is_noted(what: str):
    everything = "import eutectic.backend.llvm.backend, eutectic.backend.dnnl.backend, eutectic.tune, eutectic.topi"
    code = _ASK.format("\n".join([everything, _REGISTERS.get(what, "")]))
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(said) == (what != "nothing")


def test_who_registered_something_compiles_each_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "additions", lambda: ("pattern mine.add",))
    assert not was_read([compiled() for _ in range(2)][1])
    assert models() == []
    assert isinstance(additions(), tuple)
