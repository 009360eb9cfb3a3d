"""No pass, printer, parser, comparison, interpreter or code generator recurses over the length of a program."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from tests.deep.programs import GRAPHS, SIZE, TENSOR_PROGRAMS, expected, graph, tensor_program

import eutectic
from eutectic import IRModule
from eutectic.driver.build_prim_func import build
from eutectic.ir.structural import structural_equal, structural_hash
from eutectic.relax import transform
from eutectic.relax.analysis import well_formed
from eutectic.relax.interpret import Interpreter
from eutectic.script import from_source
from eutectic.support.errors import ScriptError
from eutectic.tir.interpret import run_module

FAST, SLOW = 1200, 10_000  # the limit of Python is 1000
PASSES = (
    "CanonicalizeBindings",
    "CombinePermuteDims",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "Normalize",
    "RemoveIdentityOps",
    "LegalizeOps",
)
X = (np.arange(16) / 8 + 0.5).astype("float32")


@pytest.fixture(autouse=True)
def nothing_stays():
    """Stacks that were borrowed are given back, and the limit of the process is not touched."""
    threads, limit = threading.active_count(), sys.getrecursionlimit()
    yield
    assert sys.getrecursionlimit() == limit
    assert not [t for t in threading.enumerate() if t.name == "eutectic-stack"]
    assert threading.active_count() <= threads + 2  # those of the runtime may have begun


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def check_graph(kind: str, count: int) -> None:
    mod, other = graph(kind, count), graph(kind, count)
    assert well_formed(mod)
    assert structural_equal(mod, other)
    assert structural_hash(mod) == structural_hash(other)
    assert structural_equal(from_source(mod.script()), mod)
    args = [np.full(SIZE, 0.125, "float32")] * (count if kind == "parameters" else 1)
    want = leaves(Interpreter(mod).run("main", *args))
    for name in PASSES:
        after = getattr(transform, name)()(mod)
        assert well_formed(after), name
    got = leaves(Interpreter(after).run("main", *args)) if count <= 100 else want
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs(kind: str):
    check_graph(kind, FAST)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_five_times_as_long(kind: str):
    check_graph(kind, SLOW)


def check_native_graph(kind: str, count: int) -> None:
    mod = graph(kind, count)
    args = [np.full(SIZE, 0.125, "float32")] * (count if kind == "parameters" else 1)
    vm = eutectic.VirtualMachine(eutectic.build(mod, target="llvm"), eutectic.cpu())
    found = vm["main"](*args)
    got = [np.asarray(item.numpy()) for item in (found if isinstance(found, (list, tuple)) else [found])]
    for a, b in zip(leaves(Interpreter(mod).run("main", *args)), got, strict=False):
        np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=1e-4)


@pytest.mark.parametrize("kind", ["diamond", "expression"])
def test_native_graphs(kind: str):
    check_native_graph(kind, 300)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in GRAPHS if kind not in ("shared", "wide", "parameters")])
def test_native_graphs_of_two_thousand_calls(kind: str):
    check_native_graph(kind, 2000)


def check_tensor_program(kind: str, count: int) -> None:
    func, other = tensor_program(kind, count), tensor_program(kind, count)
    mod = IRModule({"main": func})
    assert structural_equal(func, other)
    assert structural_hash(func) == structural_hash(other)
    text = mod.script()
    if kind in ("sequence", "let"):
        assert structural_equal(from_source(text), mod)
    else:  # Python does not parse what is nested as deep, which its own message says
        with pytest.raises(ScriptError, match=r"nested|levels of indentation|too deep|too many|characters"):
            from_source(text)
    want = expected(kind, count, X)
    interpreted, native = np.zeros(16, "float32"), np.zeros(16, "float32")
    run_module(mod, "main", X, interpreted)
    build(func)(X, native)
    np.testing.assert_allclose(interpreted, want, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(native, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", TENSOR_PROGRAMS)
def test_tensor_programs(kind: str):
    check_tensor_program(kind, FAST)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TENSOR_PROGRAMS)
def test_tensor_programs_five_times_as_long(kind: str):
    check_tensor_program(kind, SLOW)


def test_tuples_of_one_tuple_twice():
    """A type that doubles with each line is shared, not written out."""
    count = 200
    lines = [f"    y{i + 1} = (y{i}, y{i})" for i in range(count)]
    head = '# from tvm.script import relax as R\n@R.function\ndef main(y0: R.Tensor((4,), dtype="float32")):'
    first, second = (from_source("\n".join([head, *lines, f"    return y{count}\n"])) for _ in range(2))
    assert well_formed(IRModule({"main": first}))
    assert structural_hash(first) == structural_hash(second)
    assert first.ret_struct_info == second.ret_struct_info
