"""Backends by name: how one is added, asked and refused, and how several share a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eutectic
from eutectic.backend import registry
from eutectic.backend.contract import Availability, Backend, BackendRemark, LayoutOffer, Verdict
from eutectic.backend.dnnl.library import availability
from eutectic.backend.partition import Partition, outlined
from eutectic.backend.registry import backend, backend_names, loader, register_backend
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.relax.dpl import is_op, wildcard
from eutectic.relax.dpl.roles import part_of, roles_of
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.expr import Function
from eutectic.relax.interpret import Interpreter
from eutectic.relax.transform import FusionPattern, RunCodegen
from eutectic.relax.transform.composite import composite_calls
from eutectic.relax.transform.layouts.borders import region_with_borders
from eutectic.runtime.library import LibraryKernel
from eutectic.support.errors import CodegenError, LoadError, PassError, PatternError
from eutectic.support.registry import register_global_func
from eutectic.target import Target
from eutectic.testing.graphs import assert_close, evaluate, graph, weights


class Toy(Backend):
    """Computes `relu(a + b)` and notes what it was asked."""

    name, title = "toy", "Toyland"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def patterns(self, precision: str):
        total = is_op("relax.add")(wildcard().named("left"), wildcard().named("right")).named("total")
        return [FusionPattern("toy.add_relu", is_op("relax.nn.relu")(total))]

    def layouts(self, region: Function):
        return (LayoutOffer(),)

    def lower(self, region: Function, layout: LayoutOffer) -> LibraryKernel:
        self.asked.append(layout)
        calls = len(composite_calls(region))
        return LibraryKernel(self.name, region.attr("global_symbol"), {"calls": calls, "region": region}, {})

    def loader(self):
        return Loaded


class Loaded:
    native = None

    def __init__(self, kernel: LibraryKernel, threads: int | None) -> None:
        self.region, self.symbol = kernel.description["region"], kernel.symbol

    def __call__(self, inputs, outputs) -> None:
        (result,) = (Interpreter(eutectic.IRModule({self.symbol: self.region})).run(self.symbol, *inputs),)
        for array, value in zip(outputs, result if isinstance(result, tuple) else (result,), strict=True):
            array[...] = value


@pytest.fixture
def toy(monkeypatch) -> Toy:
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    made = Toy()
    assert register_backend(made, override=True) is made
    return made


def net():
    def body(bb, x):
        a = bb.emit(op.nn.relu(op.add(x, weights(3))))
        b = bb.emit(op.nn.relu(op.add(a, weights(3, seed=1))))
        return op.sigmoid(op.matmul(b, weights(3, 3, seed=2)))

    return graph({"x": (2, 3)}, body)


X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def test_a_backend_of_the_users_own_takes_its_part(toy: Toy):
    model = eutectic.compile(net(), target="llvm -libs=toy")
    assert_close(model(X), evaluate(net(), X))
    first, _ = model.report.regions
    assert [c.name for c in first.composites] == ["toy.add_relu"] * 2
    assert {u.op for u in model.report.unfused} == {"relax.matmul", "relax.sigmoid"}
    assert "no pattern of toy takes relax.matmul" in {u.reason for u in model.report.unfused}
    assert toy.asked == [LayoutOffer()]


@pytest.mark.skipif(not availability().ok, reason="oneDNN is not there")
@pytest.mark.parametrize(("libs", "wanted"), [("toy,dnnl", {"toy", "dnnl", "llvm"}), ("dnnl,toy", {"dnnl"})])
def test_earlier_backends_go_first(toy: Toy, libs: str, wanted: set[str]):
    model = eutectic.compile(net(), target=f"llvm -libs={libs}")
    assert_close(model(X), evaluate(net(), X))
    assert {region.codegen for region in model.report.regions} - {"llvm"} == wanted - {"llvm"}
    assert "dnnl" in model.script()


def test_its_roles_are_on_the_composite(toy: Toy):
    (region,) = [f for f in outlined(net(), "toy").functions.values() if f.attr("Codegen")]
    for _, _, composite in composite_calls(region):
        assert set(roles_of(composite)) == {"left", "right", "total"}
        assert part_of(composite, "total").op.name == "relax.add"
        assert part_of(composite, "right") is part_of(composite, "total").args[1]
        with pytest.raises(PatternError, match=r"toy\.add_relu has no part called 'rigth'") as caught:
            part_of(composite, "rigth")
        assert caught.value.help == "did you mean right?"


def test_its_patterns_are_found_by_name(toy: Toy):
    assert "toy.add_relu" in [entry.name for entry in get_patterns_with_prefix("toy")]
    assert len(get_patterns_with_prefix("cutlass.")) > 20


def test_a_backend_that_is_not_worth_its_calls(toy: Toy, monkeypatch):
    monkeypatch.setattr(Toy, "worthwhile", lambda self, mod, target: Verdict(ok=False, reason="it is a toy"))
    with PassContext(remarks=True) as ctx:
        mod = net()
        assert Partition("toy", if_worthwhile=True)(mod) is mod
        assert Partition("toy")(mod) is not mod
    said = [remark for remark in ctx.remarks if isinstance(remark, BackendRemark)]
    assert [(remark.kind, remark.reason) for remark in said] == [("declined", "it is a toy"), ("taken", "it was named")]
    plan = "Partition{backend=toy,if_worthwhile=true},LegalizeOps,FuseTIR"
    assert eutectic.compile(net(), target="llvm", pipeline=plan).report.notes == ("Toyland is not used: it is a toy",)


# ---- refusals


def test_names_that_nobody_has():
    with pytest.raises(CodegenError, match="no backend is called 'dnn'") as caught:
        backend("dnn")
    assert "dnnl" in caught.value.help
    with pytest.raises(CodegenError, match="unknown library 'dnn' in -libs"):
        Target("llvm -libs=dnn")
    with pytest.raises(CodegenError, match="no backend is called ''"):
        Partition()(net())
    with pytest.raises(PassError, match="unknown precision 'exact'"):
        outlined(net(), "dnnl", "exact")


def test_what_is_no_backend(toy: Toy):
    class Half:
        name = "half"

    with pytest.raises(CodegenError, match="Half is no backend: it has no title, availability, version, patterns"):
        register_backend(Half())
    with pytest.raises(CodegenError, match="a backend called 'toy' is registered already"):
        register_backend(Toy())
    odd = Toy()
    odd.name = "my toy"
    with pytest.raises(CodegenError, match="letters, digits and underscores, not 'my toy'"):
        register_backend(odd)
    assert "my toy" not in backend_names()


@pytest.mark.parametrize("name", ["cublas", "cudnn", "cutlass"])
def test_libraries_for_devices_are_refused_before_anything_is_compiled(name: str):
    with pytest.raises(CodegenError, match=f"{backend(name).title} is not there: it needs a CUDA device"):
        eutectic.compile(net(), target=f"llvm -libs={name}")
    with pytest.raises(LoadError, match="region r cannot run: it needs a CUDA device") as caught:
        loader(name)(LibraryKernel(name, "r", {"operators": list("abcdefgh")}, {}), None)
    assert caught.value.facts == ("operators of the region: a, b, c, d, e, f and 2 more",)


def test_a_library_that_is_not_there(toy: Toy, monkeypatch):
    monkeypatch.setattr(Toy, "availability", lambda self, target: Availability(ok=False, reason="it is lost"))
    with pytest.raises(CodegenError, match="Toyland is not there: it is lost") as caught:
        eutectic.compile(net(), target="llvm -libs=toy")
    assert caught.value.help == "leave -libs=toy out"
    monkeypatch.undo()


def test_a_library_without_a_loader(toy: Toy, monkeypatch):
    monkeypatch.setattr(Toy, "loader", lambda self: None)
    with pytest.raises(CodegenError, match="Toyland is not there: Toyland has no loader"):
        eutectic.compile(net(), target="llvm -libs=toy")
    with pytest.raises(LoadError, match="cannot run: Toyland has no loader"):
        eutectic.compile(net(), target="llvm", pipeline="Partition{backend=toy},LegalizeOps")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "to None"),
        (LibraryKernel("other", "s", {}, {}), "to other:s"),
        (LibraryKernel("toy", "s", {}, {}), "toy:s"),
    ],
    ids=["nothing", "of another library", "under another name"],
)
def test_what_is_no_kernel_of_the_region(toy: Toy, monkeypatch, made, said: str):
    monkeypatch.setattr(Toy, "lower", lambda self, region, layout: made)
    with pytest.raises(CodegenError, match=r"backend toy lowered region .*_toy") as caught:
        Partition("toy")(net())
    assert said in caught.value.message


def test_no_layout(toy: Toy, monkeypatch):
    monkeypatch.setattr(Toy, "layouts", lambda self, region: ())
    with pytest.raises(CodegenError, match="backend toy offers no layout for region"):
        eutectic.compile(net(), target="llvm -libs=toy")


@pytest.mark.parametrize("name", ["blocked", "NCHW16c", "HW2w"])
def test_a_layout_that_is_none_of_its_tensors(toy: Toy, monkeypatch, name: str):
    offer = LayoutOffer((name,))
    monkeypatch.setattr(Toy, "layouts", lambda self, region: (LayoutOffer(), offer))
    with pytest.raises(CodegenError, match=rf"backend toy offers layouts \('{name}',\) and \(\) for region") as caught:
        eutectic.compile(net(), target="llvm -libs=toy")
    assert "one name for each tensor" in (caught.value.help or "")


def test_a_backend_that_likes_other_layouts(toy: Toy, monkeypatch):
    """The graph brings tensors into its layouts, and the backend is told which."""
    offer = LayoutOffer(("WH",), ("WH",))
    monkeypatch.setattr(Toy, "layouts", lambda self, region: (LayoutOffer(cost=1e9), offer))

    def lower(self, region, layout):
        self.asked.append(layout)
        inside = region_with_borders(region, layout)
        return LibraryKernel("toy", region.attr("global_symbol"), {"calls": 1, "region": inside}, {})

    monkeypatch.setattr(Toy, "lower", lower)
    model = eutectic.compile(net(), target="llvm -libs=toy")
    assert_close(model(X), evaluate(net(), X))
    assert toy.asked == [offer]
    assert "layout_transform" in model.script()


def test_regions_that_only_their_maker_can_run(toy: Toy):
    class Own:
        symbol = "own"

    register_global_func("relax.ext.toy", lambda functions, options, names: [Own()], override=True)
    try:
        with pytest.raises(CodegenError, match="region own became a Own, which nothing can load"):
            eutectic.compile(RunCodegen()(outlined(net(), "toy")), target="llvm")
    finally:
        registry._announce("toy")


def test_nothing_is_imported_before_it_is_needed():
    code = (
        "import sys, eutectic\n"
        "from eutectic.target import Target\n"
        "Target('llvm -libs=dnnl')\n"
        "print([m for m in sys.modules if m.startswith('eutectic.backend.') and m.endswith(('.patterns', '.abi'))])\n"
        "from eutectic.relax.dpl.table import get_pattern\n"
        "print(get_pattern('cudnn.conv2d.nhwc_ohwi_bias').name)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[]", "cudnn.conv2d.nhwc_ohwi_bias"]
