"""Structural equality: names do not count, everything else does; equal programs have equal hashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eutectic
from eutectic.ir.attrs import DictAttrs
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.structural import (
    StructuralKey,
    assert_structural_equal,
    structural_digest,
    structural_equal,
    structural_hash,
    structural_mismatch,
)
from eutectic.relax import const, op
from eutectic.relax.expr import Function, Var
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.testing.graphs import graph
from eutectic.tir import Var as SizeSymbol


def relu_graph(name: str = "x", shape: tuple[int, ...] = (2, 3)):
    return graph({name: shape}, lambda bb, x: op.nn.relu(op.add(x, const(1.0))))


def test_names_do_not_count():
    a, b = relu_graph("x"), relu_graph("y")
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)


@pytest.mark.parametrize(
    "other",
    [
        relu_graph(shape=(3, 2)),
        graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.add(x, const(2.0)))),
        graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.multiply(x, const(1.0)))),
        graph({"x": ((2, 3), "float16")}, lambda bb, x: op.nn.relu(op.add(x, const(1.0, "float16")))),
    ],
    ids=["shape", "constant", "operator", "dtype"],
)
def test_everything_else_counts(other):
    assert not structural_equal(relu_graph(), other)
    assert structural_hash(relu_graph()) != structural_hash(other)


def test_the_mismatch_names_the_path(golden):
    a = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.add(x, const(1.0))))
    b = graph({"x": (2, 3)}, lambda bb, x: op.nn.relu(op.add(x, const(2.0))))
    golden(str(structural_mismatch(a, b)))
    with pytest.raises(ValueError, match="structures differ at"):
        assert_structural_equal(a, b)


def test_binders_are_matched_by_position():
    x, y = Var("x", TensorStructInfo((2,))), Var("y", TensorStructInfo((2,)))
    first, second = Function([x, y], x), Function([x, y], y)
    assert not structural_equal(first, second)
    assert structural_equal(Function([x, y], y), Function([y, x], x))


def test_free_variables_are_equal_only_to_themselves_unless_mapped():
    x, y = Var("x", TensorStructInfo((2,))), Var("y", TensorStructInfo((2,)))
    assert structural_equal(op.add(x, x), op.add(x, x))
    assert not structural_equal(op.add(x, x), op.add(y, y))
    assert structural_equal(op.add(x, x), op.add(y, y), map_free_vars=True)
    assert not structural_equal(op.add(x, y), op.add(x, x), map_free_vars=True)


def test_symbolic_sizes_are_binders_too():
    def make(name: str):
        n = SizeSymbol(name, "int64")
        return graph({"x": (n, 4)}, lambda bb, x: op.nn.relu(x))

    assert structural_equal(make("n"), make("batch"))


def test_constants_compare_by_bytes():
    assert structural_equal(const(np.float32(0.0)), const(np.float32(0.0)))
    assert not structural_equal(const(np.float32(0.0)), const(np.float32(-0.0)))
    assert structural_equal(const(np.float32("nan")), const(np.float32("nan")))


def test_equality_of_a_deep_chain_needs_no_recursion():
    def chain(bb, x):
        for _ in range(3000):
            x = bb.emit(op.nn.relu(x))
        return x

    assert structural_equal(graph({"x": (2,)}, chain), graph({"x": (2,)}, chain))


def test_the_hash_is_the_same_in_every_process():
    code = (
        "from eutectic.relax import const, op\n"
        "from eutectic.ir.structural import structural_hash\n"
        "from eutectic.testing.graphs import graph\n"
        "print(structural_hash(graph({'x': (2, 3)}, lambda bb, x: op.nn.relu(op.add(x, const(1.0))))))"
    )
    env_runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("0", "1")
    }
    assert env_runs == {f"{structural_hash(relu_graph())}\n"}


FIRST, SECOND, THIRD = (SizeSymbol(name, "int64") for name in "ijk")
OPEN = st.recursive(
    st.sampled_from([FIRST, SECOND, THIRD, IntImm("int64", 1)]),
    lambda inner: st.builds(lambda a, b: (a + 2) * 3 - b, inner, inner),
    max_leaves=4,
)


@given(st.lists(OPEN, min_size=1, max_size=3), st.lists(OPEN, min_size=1, max_size=3))
def test_keys_of_open_expressions_are_equal_exactly_when_these_are(one: list[PrimExpr], other: list[PrimExpr]):
    a, b = StructuralKey(tuple(one)), StructuralKey(tuple(other))
    assert (a == b) == structural_equal(tuple(one), tuple(other))
    assert a != b or hash(a) == hash(b)


def test_keys_tell_variables_apart_that_digests_number_alike():
    assert structural_digest((FIRST, SECOND)) == structural_digest((SECOND, FIRST))
    assert StructuralKey((FIRST, SECOND)) != StructuralKey((SECOND, FIRST))
    assert StructuralKey((FIRST, SECOND)) == StructuralKey((FIRST, SECOND))


def rebuilt(expr: PrimExpr) -> PrimExpr:
    """The same without parts in common."""
    if isinstance(expr, (SizeSymbol, IntImm)):
        return expr
    return type(expr)(rebuilt(expr.a), rebuilt(expr.b))


@given(OPEN)
def test_what_is_shared_does_not_count(expr: PrimExpr):
    twice = expr + expr * expr
    assert structural_digest(rebuilt(twice)) == structural_digest(twice)


@given(OPEN, OPEN)
def test_digests_are_equal_exactly_when_programs_are_but_for_names(one: PrimExpr, other: PrimExpr):
    assert (structural_digest(one) == structural_digest(other)) == structural_equal(one, other, map_free_vars=True)


def test_digests_tell_values_apart_that_python_takes_for_equal():
    values = (1, True, 1.0, "1", 0.0, -0.0, None, (), b"1", float("nan"))
    assert len({structural_digest(DictAttrs({"x": value})) for value in values}) == len(values)


@pytest.mark.parametrize("place", [0, 1, 123_457, 199_999])
def test_large_arrays_count_with_all_elements(place: int):
    one, other = np.zeros(200_000, "float32"), np.zeros(200_000, "float32")
    other[place] = 1
    assert structural_digest(const(one)) != structural_digest(const(other))
    assert structural_digest(const(one)) == structural_digest(const(one.copy()))
    assert structural_digest(const(one), is_exact=False) == structural_digest(const(one.copy()), is_exact=False)
    assert StructuralKey(const(one)) != StructuralKey(const(other))


def test_only_closed_programs_are_keyed_by_digest():
    """Whoever else keys parts of a program by digest merges what differs in its variables only."""
    closed = {"ir/structural.py", "backend/llvm/kernels.py", "relax/block_builder.py", "tir/schedule/rules/choosing.py"}
    source = Path(eutectic.__file__).parent
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"\bstructural_(digest|hash)\(", path.read_text(encoding="utf-8"))
    }
    assert users <= closed
