"""eutectic.compile of graph modules: signatures, reports, threads, options, and life without oneDNN."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

import eutectic
from eutectic import EutecticError, relax
from eutectic.backend.dnnl.library import Availability, availability
from eutectic.ir.instrument import PassInstrument
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax import Tuple, op
from eutectic.support.errors import CallError, CodegenError, FrontendError, PassError
from eutectic.testing.graphs import arrays, assert_close, evaluate, graph, weights
from eutectic.tir import Var as SizeSymbol


def network() -> IRModule:
    """Two convolutions with bias and activation, a pool, an operator oneDNN does not have, two results."""

    def body(bb, x, scale):
        bias = op.reshape(weights(8, seed=3), (1, 8, 1, 1))
        first = op.nn.relu(op.add(op.nn.conv2d(x, weights(8, 4, 3, 3), padding=1), bias))
        pooled = bb.emit(op.nn.max_pool2d(first, (2, 2), strides=(2, 2)))
        second = bb.emit(op.clip(op.nn.conv2d(pooled, weights(4, 8, 1, 1)), 0, 6))
        return Tuple((op.multiply(op.erf(second), scale), Tuple((pooled,))))

    return graph({"x": (1, 4, 8, 8), "scale": (1, 4, 1, 1)}, body)


NETWORK = network()
INPUTS = arrays(NETWORK["main"])
WANT = evaluate(NETWORK, *INPUTS)
TARGET = "llvm -libs=dnnl" if availability().ok else "llvm"  # whatever this processor would be given by default
FAST = eutectic.compile(NETWORK, target=TARGET)


def assert_same(got, want=WANT) -> None:
    assert_close(got[0], want[0])
    assert_close(got[1][0], want[1][0])


# ---- calling


def test_results_have_the_structure_of_the_function():
    got = FAST(*INPUTS)
    assert [type(part) for part in got] == [np.ndarray, tuple]
    assert_same(got)


def test_inputs_may_be_strided_and_are_left_alone():
    wide = np.zeros((1, 4, 8, 16), "float32")
    wide[..., ::2] = INPUTS[0]
    before = wide.copy()
    assert_same(FAST(wide[..., ::2], np.asfortranarray(INPUTS[1])))
    np.testing.assert_array_equal(wide, before)


def test_keyword_arguments_in_any_order():
    x, scale = INPUTS
    assert_same(FAST(x, scale=scale))
    assert_same(FAST(scale=scale, x=x))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (2, {"sclae": 0}, r"unexpected argument 'sclae'; the function takes x, scale"),
        (2, {"x": 0}, r"argument 'x' is given twice"),
        (0, {"scale": 1}, r"argument 'x' is missing; the function takes x, scale"),
        (1, {}, r"argument 'scale' is missing"),
        (3, {}, r"expected 2 tensors \(x, scale\), got 3"),
    ],
    ids=["unknown", "twice", "first missing", "last missing", "too many"],
)
def test_wrong_arguments_are_refused(args: int, kwargs: dict, message: str):
    given = [*INPUTS, INPUTS[0]][:args]
    with pytest.raises(CallError, match=message):
        FAST(*given, **{name: INPUTS[i] for name, i in kwargs.items()})


def test_a_near_name_is_offered():
    with pytest.raises(CallError) as error:
        FAST(INPUTS[0], sclae=INPUTS[1])
    assert error.value.help == "did you mean scale?"


@pytest.mark.parametrize("value", [3.0, [1.0], "x", None])
def test_arguments_that_are_no_tensors(value):
    with pytest.raises(CallError, match="argument scale must be an array, got"):
        FAST(INPUTS[0], value)


def test_torch_tensors_go_in_without_a_copy_and_arrays_come_out():
    torch = pytest.importorskip("torch")
    identity = eutectic.compile(graph({"x": (2, 3)}, lambda bb, x: x))
    given = torch.ones(2, 3)
    got = identity(given)
    assert isinstance(got, np.ndarray)
    assert got.ctypes.data == given.data_ptr()
    assert_same(FAST(*[torch.from_numpy(value) for value in INPUTS]))


def test_dlpack_objects_go_in():
    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    assert_same(FAST(*[Foreign(value) for value in INPUTS]))


def test_results_belong_to_the_caller():
    first = FAST(*INPUTS)
    first[0][:] = 0
    first[1][0][:] = 0
    assert_same(FAST(*INPUTS))


def test_eight_threads_share_one_model():
    def call(seed: int):
        args = arrays(NETWORK["main"], seed)
        return args, [FAST(*args) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        for args, results in pool.map(call, range(16)):
            want = evaluate(NETWORK, *args)
            for got in results:
                assert_same(got, want)


def test_symbolic_batch_sizes():
    n = SizeSymbol("n", "int64")
    mod = graph({"x": (n, 4, 5, 5)}, lambda bb, x: op.nn.relu(op.nn.conv2d(x, weights(4, 4, 3, 3), padding=1)))
    fast = eutectic.compile(mod)
    for batch in (1, 3, 1, 0):
        x = np.random.default_rng(batch).standard_normal((batch, 4, 5, 5)).astype("float32")
        assert_close(fast(x), evaluate(mod, x))
    assert len(fast.report.regions) == 1


# ---- what is said about it


def test_the_report_accounts_for_every_operator():
    report = FAST.report
    fused = [name for c in report.composites for name in c.ops]
    assert report.convolutions == report.convolutions_fused == 2
    assert [u.op for u in report.unfused] == ["relax.erf"]
    assert "no pattern of dnnl takes relax.erf" in report.unfused[0].reason
    assert fused.count("relax.nn.max_pool2d") == fused.count("relax.clip") == 1
    assert report.passes[0][0] == "import"
    json.dumps(report.to_json())


def test_compiling_twice_gives_equal_reports_and_text():
    again = eutectic.compile(network(), target=TARGET)
    assert again.report.regions == FAST.report.regions
    assert again.report.unfused == FAST.report.unfused
    assert again.report.notes == FAST.report.notes
    assert again.script() == FAST.script()


def test_the_module_is_not_changed():
    mod = network()
    text = mod.script()
    eutectic.compile(mod)
    assert mod.script() == text


def test_what_profile_runs_is_compiled_once():
    model = eutectic.compile(NETWORK, target=TARGET)
    model.profile(*INPUTS)
    first = model._timed()
    model.profile(*INPUTS)
    assert model._timed() is first


def test_profile_has_a_time_for_every_kernel():
    times = FAST.profile(*INPUTS)
    assert len(times) > len(FAST.executable.instructions) == 1
    assert sum("dnnl" in t.name for t in times) == sum(r.codegen == "dnnl" for r in FAST.report.regions)
    assert all(t.seconds > 0 for t in times)


def test_the_model_says_what_it_is(capsys):
    assert repr(FAST) == f"CompiledModel(x, scale; {len(FAST.report.regions)} native regions)"
    FAST.show()
    assert capsys.readouterr().out == FAST.script() + "\n"


def test_progress_counts_up_to_its_end():
    seen = []
    eutectic.compile(network(), progress=lambda name, done, total: seen.append((name, done, total)))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[0] == ("import", 0, seen[0][2])
    assert seen[-1] == ("load", seen[-1][2], seen[-1][2])


# ---- options


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 2}, {"verify": True}, {"precision": "strict"}])
def test_options_keep_the_result(options):
    assert_same(eutectic.compile(network(), **options)(*INPUTS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fast"}, "unknown precision 'fast'"),
        ({"threads": 0}, "threads=0: expected a positive number"),
    ],
)
def test_options_that_do_not_exist(options, message: str):
    with pytest.raises(PassError, match=message):
        eutectic.compile(network(), **options)


def test_a_module_without_main():
    mod = IRModule({"other": network()["main"].with_attr("global_symbol", "other")})
    with pytest.raises(FrontendError, match="the module has no graph function main"):
        eutectic.compile(mod)


def test_errors_name_the_step():
    mod = network()
    mod["main"] = mod["main"].with_attr("global_symbol", "other")
    with pytest.raises(EutecticError) as error:
        eutectic.compile(mod, verify=True)
    assert "another global_symbol" in str(error.value)
    assert "while compiling, in step CanonicalizeBindings" in str(error.value)


# ---- without the library


def test_without_onednn_everything_is_compiled_by_llvm(monkeypatch):
    found = Availability(False, "it is not installed", "", "")
    monkeypatch.setattr("eutectic.backend.dnnl.library.availability", lambda: found)
    fast = eutectic.compile(network())
    assert fast.report.notes == ("oneDNN is not used: it is not installed",)
    assert [region.codegen for region in fast.report.regions] == ["llvm"]
    assert fast.report.unfused == ()
    assert_same(fast(*INPUTS))


def test_onednn_that_is_asked_for_must_be_there(monkeypatch):
    found = Availability(False, "it is not installed", "", "")
    monkeypatch.setattr("eutectic.backend.dnnl.library.availability", lambda: found)
    with pytest.raises(CodegenError, match="oneDNN is not there: it is not installed"):
        eutectic.compile(network(), target="llvm -libs=dnnl")


def test_target_llvm_uses_no_library():
    fast = eutectic.compile(network(), target="llvm")
    assert {region.codegen for region in fast.report.regions} == {"llvm"}
    assert "relax.nn.conv2d" in {op for c in fast.report.composites for op in c.ops}
    assert_same(fast(*INPUTS))


@pytest.mark.parametrize("build", [eutectic.compile, relax.build])
def test_passes_run_in_the_current_context(build):
    class Seen(PassInstrument):
        names: ClassVar[list[str]] = []

        def run_before_pass(self, mod, info):
            self.names.append(info.name)

    Seen.names.clear()
    with PassContext(disabled_pass=["FuseOps"], instruments=[Seen()]):
        build(NETWORK, target="llvm")
    assert "LegalizeOps" in Seen.names
    assert "FuseOps" not in Seen.names
    Seen.names.clear()
    build(NETWORK, target="llvm")
    assert Seen.names == []
