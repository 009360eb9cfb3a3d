"""Kernels that helpers make: the same as those of one process, whatever becomes of the helpers."""

from __future__ import annotations

import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eutectic
from eutectic import te, topi
from eutectic.driver import kernel_sharing, native
from eutectic.driver.kernel_process import request_of, serve
from eutectic.driver.kernel_sharing import helpers_worth, made_by_several
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.transform import PassContext
from eutectic.relax import op
from eutectic.support.errors import ArgumentError, CodegenError, EutecticAdvice
from eutectic.target import Target
from eutectic.testing.graphs import graph, weights
from eutectic.tir import PrimFunc

X = np.random.default_rng(0).standard_normal((9, 8), "float32")
HOST = Target("llvm")
WIDTHS = (5, 7, 3, 6, 9, 4, 11, 10)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("EUTECTIC_THREADS", "2")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[Any]]:
    """The helpers that are started."""
    started: list[subprocess.Popen[Any]] = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]  # only where it is called
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(kernel_sharing.subprocess, "Popen", Recorded)
    return started


def chain(rows: Any = 9) -> IRModule:
    def body(bb: Any, x: Any) -> Any:
        for columns in WIDTHS:
            x = bb.emit(op.matmul(x, weights(x.struct_info.dims[1].value, columns)))
        return bb.emit(op.nn.softmax(x))

    return graph({"x": (rows, X.shape[1])}, body)


def compiled(monkeypatch: pytest.MonkeyPatch, helpers: int, mod: IRModule) -> eutectic.CompiledModel:
    monkeypatch.setenv("EUTECTIC_HELPERS", str(helpers))
    return eutectic.compile(mod, target="llvm")


def programs(monkeypatch: pytest.MonkeyPatch) -> dict[str, PrimFunc]:
    """The programs of `chain`, as they are shared out."""
    seen: dict[str, PrimFunc] = {}

    def made(funcs: dict[str, PrimFunc], target: Target, helpers: int) -> Any:
        seen.update(funcs)
        return made_by_several(funcs, target, 0)

    with monkeypatch.context() as patch:
        patch.setattr(native, "made_by_several", made)
        compiled(patch, 1, chain())
    eutectic.support.cache.clear()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("rows", [9, Var("n", "int64")], ids=str)
def test_they_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch, processes, rows: Any):
    several = compiled(monkeypatch, 1, chain(rows))
    assert len(processes) == 1
    assert processes[0].returncode is not None
    eutectic.support.cache.clear()
    alone = compiled(monkeypatch, 0, chain(rows))
    assert len(processes) == 1
    np.testing.assert_array_equal(several(X), alone(X))
    for one, other in zip(several.report.plan.groups, alone.report.plan.groups, strict=True):
        assert (one.trace, one.chosen, one.name) == (other.trace, other.chosen, other.name)


def test_helpers_make_some_of_them(monkeypatch: pytest.MonkeyPatch, processes):
    funcs, own = programs(monkeypatch), threading.Event()
    monkeypatch.setattr(kernel_sharing._Share, "take", lambda self: own.set())  # this process makes none
    monkeypatch.setattr(kernel_sharing, "make_kernel", lambda *_: pytest.fail("made here"))
    made = made_by_several(funcs, HOST, 2)
    assert own.is_set()
    assert len(processes) == 2
    assert made.keys() == funcs.keys()
    assert not any(built.cached for built in made.values())
    assert all(built.function is funcs[name] for name, built in made.items())


@pytest.mark.parametrize(
    ("executable", "reason"), [("/nowhere/python", "No such file"), ("/bin/false", r"with status 1|Broken pipe")]
)
def test_without_them_all_is_made_here_and_that_is_said(monkeypatch: pytest.MonkeyPatch, executable: str, reason: str):
    monkeypatch.setattr(kernel_sharing, "get_executable", lambda: executable)
    with pytest.warns(EutecticAdvice, match=rf"ended early \(.*({reason})") as seen:
        model = compiled(monkeypatch, 2, chain())
    assert len([item for item in seen if "ended early" in str(item.message)]) == 1
    eutectic.support.cache.clear()
    np.testing.assert_array_equal(model(X), compiled(monkeypatch, 0, chain())(X))


def test_one_that_ends_in_the_middle_is_no_harm(monkeypatch: pytest.MonkeyPatch, processes):
    funcs, ask = programs(monkeypatch), kernel_sharing._Helper._ask

    def killing(self: Any, process: Any, request: str) -> None:
        ask(self, process, request)
        process.kill()
        process.wait()

    monkeypatch.setattr(kernel_sharing._Helper, "_ask", killing)
    monkeypatch.setattr(kernel_sharing._Share, "take", lambda self: None)
    with pytest.warns(EutecticAdvice, match="ended early"):
        made = made_by_several(funcs, HOST, 1)
    assert made.keys() == funcs.keys()


def test_what_cannot_be_compiled_is_an_error_as_in_one_process(monkeypatch: pytest.MonkeyPatch, processes):
    funcs = programs(monkeypatch)
    name = next(iter(funcs))
    monkeypatch.setattr(kernel_sharing, "make_kernel", _refusing(name))
    monkeypatch.setattr(kernel_sharing, "request_of", lambda func, target, name: "[1, 2]\n")
    with (
        warnings.catch_warnings(action="ignore", category=EutecticAdvice),
        pytest.raises(CodegenError, match=f"refused: {name}"),
    ):
        made_by_several(funcs, HOST, 1)
    assert [process.returncode is not None for process in processes] == [True]
    assert not [thread for thread in threading.enumerate() if thread.name == "eutectic-helper"]


def _refusing(wanted: str) -> Any:
    from eutectic.driver.kernel_process import make_kernel

    def make(func: PrimFunc, target: Target, name: str) -> Any:
        if name == wanted:
            raise CodegenError(f"refused: {name}")
        return make_kernel(func, target, name)

    return make


def test_an_interrupt_leaves_no_process_behind(monkeypatch: pytest.MonkeyPatch, processes):
    funcs = programs(monkeypatch)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_sharing, "make_kernel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made_by_several(funcs, HOST, 1)
    assert processes[0].returncode is not None


def test_a_program_that_is_no_data_is_made_here(monkeypatch: pytest.MonkeyPatch, processes):
    funcs = programs(monkeypatch)

    def request(func: PrimFunc, target: Target, name: str) -> str:
        if name == "softmax":
            raise TypeError
        return request_of(func, target, name)

    monkeypatch.setattr(kernel_sharing, "request_of", request)
    assert made_by_several(funcs, HOST, 1).keys() == funcs.keys()


def test_a_request_that_fails_is_answered_and_others_follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (name, func), *_ = programs(monkeypatch).items()
    bad = request_of(func.with_attr("global_symbol", 3), Target("cuda"), name)
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    requests.write_text(bad + request_of(func, HOST, name))
    with requests.open() as source, answers.open("w") as sink:
        serve(source, sink)
    assert answers.read_text() == "\n\n"
    assert [entry.meta["name"] for entry in eutectic.support.cache.entries()] == [name]


# ---- when there are any


@pytest.mark.parametrize(("kernels", "worth"), [(1, 0), (7, 0), (8, 1), (11, 1), (12, 2), (100, 3)])
def test_each_has_something_to_do(monkeypatch: pytest.MonkeyPatch, kernels: int, worth: int):
    monkeypatch.setenv("EUTECTIC_THREADS", "4")
    assert helpers_worth(kernels) == worth


def test_a_user_says_how_many_at_most(monkeypatch: pytest.MonkeyPatch):
    for said, worth in (("0", 0), ("3", 3), ("", 1)):
        monkeypatch.setenv("EUTECTIC_HELPERS", said)
        assert helpers_worth(100) == worth
    monkeypatch.setenv("EUTECTIC_HELPERS", "some")
    with pytest.raises(ArgumentError, match="EUTECTIC_HELPERS='some': expected an integer from 0 on"):
        helpers_worth(100)


def test_none_without_a_cache_or_in_a_program_that_is_no_python(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr("sys.frozen", True, raising=False)
        assert helpers_worth(100) == 0
    monkeypatch.setenv("EUTECTIC_CACHE_DIR", "")
    assert helpers_worth(100) == 0


@pytest.mark.parametrize(
    "context", [{"verify": True}, {"disabled_pass": ["ScheduleForTarget"]}, {"disabled_pass": ["LowerTIR"]}]
)
def test_none_where_passes_are_looked_at_or_left_out(monkeypatch: pytest.MonkeyPatch, processes, context: Any):
    with PassContext(**context):
        compiled(monkeypatch, 2, chain())
    assert not processes


def test_they_begin_before_there_is_something_to_make(monkeypatch: pytest.MonkeyPatch, processes):
    monkeypatch.setattr(kernel_sharing, "_OPERATORS_EACH", 1)
    begun: list[int] = []

    def made(*args: Any) -> Any:
        begun.append(len(processes))
        return made_by_several(*args)

    monkeypatch.setattr(native, "made_by_several", made)
    model = compiled(monkeypatch, 1, chain())
    assert begun == [1]
    assert [process.returncode is not None for process in processes] == [True]
    eutectic.support.cache.clear()
    np.testing.assert_array_equal(model(X), compiled(monkeypatch, 0, chain())(X))


def test_those_that_nothing_is_left_for_end(monkeypatch: pytest.MonkeyPatch, processes):
    monkeypatch.setattr(kernel_sharing, "_OPERATORS_EACH", 1)
    monkeypatch.setenv("EUTECTIC_CACHE_MODELS", "0")
    for _ in range(2):  # the second time all kernels are known
        compiled(monkeypatch, 1, chain())
    assert [process.returncode is not None for process in processes] == [True, True]


def test_one_that_does_not_begin_leaves_none_behind(monkeypatch: pytest.MonkeyPatch, processes):
    monkeypatch.setenv("EUTECTIC_HELPERS", "2")
    begun = kernel_sharing._begun

    def begun_once() -> Any:
        if processes:
            raise OSError("no more processes")
        return begun()

    monkeypatch.setattr(kernel_sharing, "_begun", begun_once)
    with kernel_sharing.helpers_begin(1000):
        assert [process.returncode for process in processes] == [None]
    assert processes[0].returncode is not None


def test_none_begin_where_somebody_looks(monkeypatch: pytest.MonkeyPatch, processes):
    monkeypatch.setattr(kernel_sharing, "_OPERATORS_EACH", 1)
    monkeypatch.setenv("EUTECTIC_HELPERS", "1")
    eutectic.compile(chain(), target="llvm", verify=True)
    assert not processes


def test_what_takes_longest_is_begun_first():
    """Loops over padded images are cut into parts, which no length of a program tells."""
    x, w = te.placeholder((1, 16, 14, 14), "float32", "x"), te.placeholder((300, 300), "float32", "w")
    pool = te.create_prim_func([x, topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")])
    longest = topi.nn.relu(topi.add(topi.nn.relu(topi.add(topi.nn.relu(topi.matmul(w, w)), w)), w))
    share = kernel_sharing._Share({"pool": pool, "product": te.create_prim_func([w, longest])}, HOST)
    assert len(share._requests["pool"]) < len(share._requests["product"])
    assert [share.take(), share.take(), share.take()] == ["pool", "product", None]
