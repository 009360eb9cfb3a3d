"""Accesses of tensor programs: proved to be inside, refused, or looked at when they happen."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eutectic.driver.build import build as build_module
from eutectic.driver.build_prim_func import build
from eutectic.ir.structural import structural_equal
from eutectic.relax import BlockBuilder, TensorStructInfo, op
from eutectic.relax import Var as RelaxVar
from eutectic.relax.transform import LegalizeOps
from eutectic.script import from_source
from eutectic.support.errors import CallError, CodegenError, EutecticError, OutOfBoundsError, PassError, WellFormedError
from eutectic.testing.bad_accesses import check, program_with_accesses
from eutectic.tir.transform.check_bounds import check_bounds
from eutectic.tir.trusted import is_trusted, trust

HEAD = """
@T.prim_func
def f(A: T.Buffer((4, 8)), I: T.Buffer((4,), "int32"), B: T.Buffer((32,)), n: T.int32, k: T.int64):
"""


def program(body: str, head: str = HEAD) -> Any:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return from_source(head + lines + "\n")


PROVED = {
    "rows": "for i, j in T.grid(4, 8):\n    B[i * 8 + j] = A[i, j]",
    "divided": "for i in range(32):\n    B[i] = A[i // 8, i % 8]",
    "if": "for i in range(40):\n    if i < 32:\n        B[i] = A[0, 0]",
    "if of a parameter": "if n < 32 and n >= 0:\n    B[n] = A[0, 0]",
    "choice": "for i in range(32):\n    B[i] = T.if_then_else(i > 0 and i < 9, A[0, i - 1], T.float32(0))",
    "let": "for i in range(32):\n    v: T.int32 = T.min(i * 3, 31)\n    B[v] = A[0, 0]",
    "clamped data": "for i in range(4):\n    B[T.max(T.min(I[i], 31), 0)] = A[0, 0]",
    "assert": "assert n < 32 and n >= 0, 'n'\nB[n] = A[0, 0]",
    "where": """
for i, j in T.grid(5, 7):
    with T.block("b"):
        v = T.axis.spatial(32, i * 7 + j)
        T.where(i * 7 + j < 32)
        B[v] = A[0, 0]""",
    "vector": "B[T.Ramp(0, 2, 16)] = A[0, T.Broadcast(T.int32(7), 16)]",
    "mask": "B.vstore([T.Ramp(28, 1, 8)], T.Broadcast(T.float32(1), 8), predicate=T.Ramp(0, 1, 8) < T.Broadcast(4, 8))",
    "never": "for i in range(0):\n    B[i + 99] = A[0, 0]",
    "region": """
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        V = T.match_buffer(A[v, 2:6], (4,))
        B[v] = V[3]""",
    "part": "V = T.decl_buffer((16,), 'float32', data=A.data, elem_offset=16)\nfor i in range(16):\n    B[i] = V[i]",
}


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_stays_as_it_is(name: str):
    func = program(PROVED[name])
    assert check_bounds(func) is func


REFUSED = {
    "beyond": ("for i in range(4):\n    B[i + 32] = A[i, 0]", r"index i \+ 32 takes values 32\.\.35"),
    "last": ("for i in range(33):\n    B[i] = A[0, 0]", "index i takes values 0..32"),
    "far": ("for i in range(4):\n    B[i * 1000000000] = A[i, 0]", "takes values 0..3000000000"),
    "negative": ("for i in range(4):\n    B[i] = A[i - 1, 0]", "axis 0 of buffer A has extent 4"),
    "constant": ("B[0] = A[0, 8]", "index 8 is 8, axis 1 of buffer A has extent 8"),
    "condition": ("for i, j in T.grid(4, 8):\n    if i + j > 8:\n        B[0] = A[j, 0]", "index j is never inside"),
    "vector": ("B[T.Ramp(0, 1000000, 16)] = T.Broadcast(T.float32(1), 16)", "takes values 0..15000000"),
    "never inside": ("for i in range(T.min(n, 9)):\n    B[i + 32] = A[0, 0]", "buffer B has extent 32"),
    "declared": (
        "V = T.decl_buffer((33,), 'float32', data=A.data)\nB[0] = V[0]",
        "reaches to byte 132 of its memory A",
    ),
    "offset": ("V = T.decl_buffer((2,), 'float32', data=A.data, elem_offset=31)\nB[0] = V[0]", "reaches to byte 132"),
    "region": (
        'for i in range(4):\n    with T.block("b"):\n        v = T.axis.spatial(4, i)\n'
        "        V = T.match_buffer(A[v, v * 2:v * 2 + 4], (4,))\n        B[v] = V[0]",
        "named V is outside of buffer A",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_leaves_for_sure_is_refused(name: str):
    body, message = REFUSED[name]
    with pytest.raises(OutOfBoundsError, match=message):
        build(program(body))


def test_the_text_of_a_refusal(golden):
    with pytest.raises(OutOfBoundsError) as caught:
        build(program("for i in range(4):\n    B[i] = A[i, 0] + A[i + 1, 7]\n    B[i * 16] = A[0, 0]"))
    golden(str(caught.value))


OPEN = {
    "data": ("for i in range(4):\n    B[I[i]] = A[i, 0]", {"n": 0}, {"I": 32}),
    "row of data": ("for i, j in T.grid(4, 8):\n    B[i * 8 + j] = A[I[i], j]", {"n": 0}, {"I": 4}),
    "parameter": ("for i in range(4):\n    B[i + n] = A[i, 0]", {"n": 28}, {"n": 29}),
    "parallel": ("for i in T.parallel(4):\n    B[i + n] = A[i, 0]", {"n": 0}, {"n": -1}),
    "vectorized": ("for i in T.vectorized(8):\n    B[i + n] = A[0, i]", {"n": 24}, {"n": 25}),
    "lanes": ("for i in T.vectorized(8):\n    if i < n:\n        B[i + n * 4] = A[0, i]", {"n": 6}, {"n": 7}),
    "wide": ("for i in range(4):\n    B[i + k * 4611686018427387904] = A[i, 0]", {"k": 0}, {"k": 1}),
    "mask": (
        "B.vstore([T.Ramp(n, 1, 8)], T.Broadcast(T.float32(1), 8), predicate=T.Ramp(0, 1, 8) < T.Broadcast(4, 8))",
        {"n": 28},
        {"n": 29},
    ),
    "view": ("V = T.decl_buffer((8,), 'float32', data=A.data, elem_offset=n)\nB[0] = V[7]", {"n": 24}, {"n": 25}),
    "region": (
        'with T.block("b"):\n    V = T.match_buffer(A[n, 0:8], (8,))\n    B[0] = V[0]',
        {"n": 3},
        {"n": 4},
    ),
    "size": ("X = T.alloc_buffer((k,))\nfor i in range(4):\n    X[i] = A[i, 0]\nB[0] = X[3]", {"k": 4}, {"k": 3}),
    "negative size": ("X = T.alloc_buffer((k,))\nX[0] = A[0, 0]\nB[0] = X[0]", {"k": 4}, {"k": -1}),
    "huge size": ("X = T.alloc_buffer((k,))\nX[0] = A[0, 0]\nB[0] = X[0]", {"k": 4}, {"k": 2**62 + 4}),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_is_open_is_looked_at(name: str):
    body, good, bad = OPEN[name]
    call = build(program(body), threads=2)

    def run(given: dict[str, int]) -> np.ndarray:
        a, b = np.arange(32, dtype="float32").reshape(4, 8), np.full(96, -1, "float32")
        at = np.array([0, 1, given.get("I", 2), 3], "int32")
        call(a, at, b[32:64], given.get("n", 0), given.get("k", 0))
        assert (b[:32] == -1).all()
        assert (b[64:] == -1).all()
        return b[32:64]

    assert (run(good) != -1).any()
    with pytest.raises((CallError, MemoryError), match=r"outside of|reaches to byte|no memory has|not enough memory"):
        run(bad)
    run(good)


def test_trust_is_no_part_of_a_program():
    func = program("for i in range(4):\n    B[I[i]] = A[i, 0]")
    text = func.script()
    assert is_trusted(trust(func).with_attr("note", 1))
    again = from_source(text)
    assert structural_equal(func, again)
    assert not is_trusted(again)
    assert not is_trusted(func.with_body(again.body))
    with pytest.raises(PassError, match="unknown bounds 'none'"):
        build(again, bounds="none")
    claimed = again.with_attr({"tir.bounds": "trusted", "tir.is_scheduled": True})
    with pytest.raises(CallError, match="outside of"):
        build(claimed)(np.zeros((4, 8), "f4"), np.full(4, 99, "i4"), np.zeros(32, "f4"), 0, 0)


def test_trust_of_one_build_is_not_that_of_the_next():
    func = program("for i in range(4):\n    B[I[i]] = A[i, 0]")
    build(func, bounds="trusted")
    assert not is_trusted(func)
    with pytest.raises(CallError, match="outside of"):
        build(func)(np.zeros((4, 8), "f4"), np.full(4, 99, "i4"), np.zeros(32, "f4"), 0, 0)


def test_operators_are_not_looked_at_again():
    x = RelaxVar("x", TensorStructInfo((4, 8)))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.nn.relu(x)))
    mod = LegalizeOps()(builder.get())
    assert is_trusted(mod["relu"])


MODULE = """
@I.ir_module
class M:
    @T.prim_func
    def f(a: T.handle, B: T.Buffer((8,), "float32")):
        n = T.int64()
        A = T.match_buffer(a, (n,))
        for i in range(8):
            B[i] = A[i]

    @R.function
    def main(x: R.Tensor(({size},), "float32")):
        cls = M
        y = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor(({out},), "float32"))
        return y
"""


def test_call_tir_hands_over_what_is_declared():
    made = build_module(from_source(MODULE.format(size=8, out=8)))
    np.testing.assert_array_equal(made(np.arange(8, dtype="float32")), np.arange(8))
    with pytest.raises(CodegenError, match=r"called with y of shape \(4,\).* its parameter B has shape \(8,\)"):
        build_module(from_source(MODULE.format(size=8, out=4)))
    short = build_module(from_source(MODULE.format(size=7, out=8)))
    with pytest.raises(CallError, match="index i is outside of axis 0 of buffer A"):
        short(np.zeros(7, "float32"))


@pytest.mark.parametrize("size", ["-1", "2.5", "2**63", "T.int64(-4)"])
@pytest.mark.parametrize("text", ["A = T.alloc_buffer(({},))", "A = T.decl_buffer(({},), data=B.data)",
    "A = T.allocate([{}], 'float32', 'global')", "for i in T.parallel({}):", "for i, j in T.grid(2, {}):"])  # fmt: skip
def test_extents_are_numbers_of_elements(size: str, text: str):
    body = text.format(size) + ("\n    B[0] = T.float32(1)" if text.endswith(":") else "\nB[0] = T.float32(1)")
    with pytest.raises(EutecticError) as caught:
        program(body)
    assert isinstance(caught.value, WellFormedError) or caught.value.code == "P0100"


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int):
    found = check(program_with_accesses(random.Random(seed)), seed)
    assert found.kind in ("refused", "raised", "equal"), found.detail


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 13_000, 500))
def test_many_random_programs(first: int):
    """In a process of its own, which must not end early."""
    code = (
        "import random, sys\n"
        "from eutectic.testing.bad_accesses import check, program_with_accesses\n"
        "for seed in range(int(sys.argv[1]), int(sys.argv[1]) + 500):\n"
        "    found = check(program_with_accesses(random.Random(seed)), seed)\n"
        "    assert found.kind != 'wrong', f'seed {seed}: {found.detail}'\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(first)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
