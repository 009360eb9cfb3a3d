"""fuse_reduction_epilogue at every step of a sum: the eight cases of the clipping seed in both modes, and refusals.

Mode `per_iteration` is compared with the text of the program that is wanted; mode `exact` with what the
unfused program computes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from tests.tir.schedule.programs import refused

from eutectic.compat import install_as_tvm, uninstall
from eutectic.ir.prim_expr import Max, Min, as_prim
from eutectic.ir.structural import assert_structural_equal
from eutectic.ir.visit import rewrite
from eutectic.script import from_source
from eutectic.testing.epilogues import Case, differences, program
from eutectic.tir import PrimFunc
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule

LOW, HIGH = -2, 3
CLIP: Final = f"T.min(T.max({{s}}, T.float32({LOW})), T.float32({HIGH}))"
SECOND: Final = """
    for i, j in T.grid(3, 4):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.min(T.max(temp[vi, vj], T.float32(-1)), T.float32(1))
"""
MORE: Final = {"after": SECOND, "tail": ', E: T.Buffer((3, 4), "float32")'}
ORDERS: Final = {
    "min(max(s, l), h)": CLIP,
    "min(h, max(s, l))": f"T.min(T.float32({HIGH}), T.max({{s}}, T.float32({LOW})))",
    "min(max(l, s), h)": f"T.min(T.max(T.float32({LOW}), {{s}}), T.float32({HIGH}))",
    "max(min(s, h), l)": f"T.max(T.min({{s}}, T.float32({HIGH})), T.float32({LOW}))",
    "max(l, min(s, h))": f"T.max(T.float32({LOW}), T.min({{s}}, T.float32({HIGH})))",
}
EXPECTED: Final = """
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((3, 5), "{dtype}"), B: T.Buffer((5, 4), "{dtype}"), C: T.Buffer((4,), "{dtype}"),
         X: T.Buffer((3, 4), "{dtype}"), D: T.Buffer((3, 4), "{dtype}"){tail}):
    temp = T.alloc_buffer((3, 4), "{dtype}")
    for i, j, k in T.grid(3, 4, 5):
        with T.block("sum"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads({bias}A[vi, vk], B[vk, vj])
            T.writes(D[vi, vj])
            with T.init():
                D[vi, vj] = {init}
            D[vi, vj] = {update}
{after}
"""


def made(value: str, **slots: Any) -> PrimFunc:
    return Case("", program(value, **slots)).program


def fused(func: PrimFunc, mode: str) -> PrimFunc:
    sch = Schedule(func, debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue", mode=mode)
    return sch.func


def expected(init: str, update: str, *, bias: str = "", dtype: str = "float32", **more: str) -> PrimFunc:
    """The wanted program; X[0, 0] in the text is zero, which would fold with another constant while it is parsed."""
    slots = {"tail": "", "after": "", **more}
    u = "(D[vi, vj] + A[vi, vk] * B[vk, vj])"
    text = EXPECTED.format(bias=bias, dtype=dtype, init=init, update=update.format(u=u), **slots)
    func = from_source(text)
    zero = as_prim(0, dtype)
    done = rewrite(func, lambda item: zero if isinstance(item, BufferLoad) and item.buffer.name == "X" else None)
    assert isinstance(done, PrimFunc)
    return done


CLIPPED: Final = {
    "init": f"T.min(T.max(X[0, 0], T.float32({LOW})), T.float32({HIGH}))",
    "update": f"T.min(T.max({{u}}, T.float32({LOW})), T.float32({HIGH}))",
}


def test_clip_per_iteration():
    assert_structural_equal(fused(made(CLIP), "per_iteration"), expected(**CLIPPED))


def test_clip_per_iteration_computes_what_clipping_each_partial_sum_does():
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((3, 5), (5, 4)))
    want = np.zeros((3, 4), "float32")
    for k in range(5):
        want = np.clip(want + np.outer(a[:, k], b[k]), LOW, HIGH)
    got = np.zeros((3, 4), "float32")
    run(fused(made(CLIP), "per_iteration"), a, b, np.zeros(4, "float32"), np.zeros((3, 4), "float32"), got)
    assert got.tolist() == want.tolist()
    assert (got != np.clip(a @ b, LOW, HIGH)).any()


def test_clip_per_iteration_beside_another_reader_of_the_sum():
    """The other reader is left with a buffer that nothing writes, as in TVM."""
    assert_structural_equal(fused(made(CLIP, **MORE), "per_iteration"), expected(**CLIPPED, **MORE))


@pytest.mark.parametrize("order", ORDERS)
def test_clip_per_iteration_in_all_orders(order: str):
    assert_structural_equal(fused(made(ORDERS[order]), "per_iteration"), expected(**CLIPPED))


@pytest.mark.parametrize("value", [CLIP, *ORDERS.values()])
@pytest.mark.parametrize("more", [{}, MORE])
def test_clip_exact(value: str, more: dict[str, str]):
    before = made(value, **more)
    assert not list(differences(before, fused(before, "exact")))


OTHERS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "bias": ("{c} + {s}", {"init": "C[vj]", "update": "{u}", "bias": "C[vj], "}),
    "bias and relu": (
        "T.max(T.float32(0), {s} + {c})",
        {"init": "T.max(C[vj], X[0, 0])", "update": "T.max({u}, X[0, 0])", "bias": "C[vj], "},
    ),
    "relu": ("T.max({s}, {zero})", {"init": "T.max(X[0, 0], X[0, 0])", "update": "T.max({u}, X[0, 0])"}),
    "integer relu": (
        "T.max({zero}, {s})",
        {"init": "T.max(X[0, 0], X[0, 0])", "update": "T.max({u}, X[0, 0])", "dtype": "int32"},
    ),
    "clip from zero": (
        "T.max(T.min({s}, T.float32(6)), {zero})",
        {
            "init": "T.min(T.max(X[0, 0], X[0, 0]), T.float32(6))",
            "update": "T.min(T.max({u}, X[0, 0]), T.float32(6))",
        },
    ),
    "bounds that cross": (
        "T.max(T.min({s}, T.float32(-1)), T.float32(1))",
        {
            "init": "T.max(T.min(X[0, 0], T.float32(-1)), T.float32(1))",
            "update": "T.max(T.min({u}, T.float32(-1)), T.float32(1))",
        },
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_epilogues_per_iteration(name: str):
    value, wanted = OTHERS[name]
    before = made(value, dtype=wanted.get("dtype", "float32"))
    assert_structural_equal(fused(before, "per_iteration"), expected(**wanted))


def test_indices_are_followed():
    func = fused(made("T.max({s} + {c}, {zero})", shape="(4, 3)", store="vj, vi"), "per_iteration")
    text = func.script()
    assert "D[vj, vi] = T.max(C[vj], T.float32(0.0))" in text
    assert "T.reads(C[vj], A[vi, vk], B[vk, vj])" in text


REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "other epilogue": ({"value": "T.tanh({s})"}, "it is not a bias, a relu of a sum with or without a bias, or a clip"),
    "relu by select": ({"value": "T.Select({s} > {zero}, {s}, {zero})"}, "it is not a bias"),
    "two of the sum": ({"value": "{s} + {s}"}, "it is not a bias"),
    "clip by the sum": ({"value": "T.min(T.max({s}, T.float32(0)), {s})"}, "it is not a bias"),
    "other start": ({"value": CLIP, "init": "T.float32(1)"}, "temp is not a sum that begins with zero"),
    "negative zero": ({"value": CLIP, "init": "T.float32(-0.0)"}, "temp is not a sum that begins with zero"),
    "maximum": ({"value": CLIP, "update": "T.max({s}, {p})"}, "temp is not a sum that begins with zero"),
    "wider": ({"value": "T.Cast('float64', {s})", "out": "float64"}, "temp is float32 and D is float64"),
    "output": ({"value": CLIP, "declared": "", "tail": ', temp: T.Buffer((3, 4), "float32")'}, "lives longer than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str):
    slots, said = REFUSED[name]
    sch = Schedule(made(**slots))
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue", mode="per_iteration"))
    assert "block epilogue has no form at every step" in text
    assert said in text
    assert 'mode="exact" takes every epilogue' in text


@pytest.mark.parametrize(("given", "exact"), [(None, True), ("0", True), ("1", False)])
def test_scripts_for_tvm_are_exact_unless_they_ask(given: str | None, exact: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EUTECTIC_TVM_SEMANTICS", raising=False)
    if given is not None:
        monkeypatch.setenv("EUTECTIC_TVM_SEMANTICS", given)
    install_as_tvm(replace=True)
    try:
        from tvm.tir import Schedule as TheirSchedule
    finally:
        uninstall()
    for options in ({}, {"mode": "exact"}):
        sch = TheirSchedule(made(CLIP))
        sch.fuse_reduction_epilogue("sum", "epilogue", **options)
        assert ("mode=" in str(sch.trace)) == (not exact and not options)
    ours = Schedule(made(CLIP))
    ours.fuse_reduction_epilogue("sum", "epilogue")
    assert "mode=" not in str(ours.trace)


def test_what_is_not_folded_stays():
    """The start of a relu without a bias is the relu of zero, as an expression."""
    func = fused(made("T.max({s}, {zero})"), "per_iteration")
    kinds = {type(item.value) for item in _stores(func)}
    assert kinds == {Max}
    assert {type(item.value) for item in _stores(fused(made(CLIP), "per_iteration"))} == {Min}


def _stores(func: PrimFunc) -> list[Any]:
    found: list[Any] = []
    rewrite(func, lambda item: found.append(item) if type(item).__name__ == "BufferStore" else None)
    return found
