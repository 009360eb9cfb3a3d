"""What is refuted quickly is wrong on some point, and what rules ask is refuted without isl."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.arith.test_sets import reached, regions

from eutectic.arith import sets
from eutectic.arith.quick_refutations import refutes
from eutectic.arith.sets import Region, covers, disjoint
from eutectic.ir.prim_expr import IntImm, PrimExpr, SizeVar, Var, as_prim

IN, J, P, Q = (Var(name) for name in "ijpq")
N = SizeVar("n")


def refuted(question: str, *parts: Region, assumption: PrimExpr | bool = True) -> bool:
    return refutes(question, sets._tuples(parts), as_prim(assumption, "bool"))


@given(regions(), regions())
def test_only_what_is_wrong_is_refuted(a: Region, b: Region):
    first, second = set(reached(a)), set(reached(b))
    assert not (refuted("covers", a, b) and second <= first)
    assert not (refuted("disjoint", a, b) and not first & second)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_counts_of_boxes(wide: list[int], narrow: list[int]):
    axes, others = [Var(f"w{k}") for k in range(3)], [Var(f"n{k}") for k in range(3)]
    a = Region(
        (sum(axes[: len(wide)], as_prim(0, "int32")),), {v: (0, size) for v, size in zip(axes, wide, strict=False)}
    )
    b = Region(tuple(others[:1]), {v: (0, size) for v, size in zip(others, narrow, strict=False)})
    if refuted("covers", a, b):
        assert not set(reached(b)) <= set(reached(a))


@pytest.fixture
def no_isl(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> bool:
        raise AssertionError("isl was asked")

    monkeypatch.setattr(sets, "_answered", asked)


@pytest.mark.usefixtures("no_isl")
def test_two_rounds_of_a_reduction_write_the_same():
    inside = (P < 8) & (as_prim(0, "int32") < P + 1) & (Q < 8) & (as_prim(0, "int32") < Q + 1)
    assert not disjoint(Region((IN,), {IN: (0, 4)}), Region((J,), {J: (0, 4)}), inside & (P != Q))


@pytest.mark.usefixtures("no_isl")
def test_a_part_does_not_cover_the_whole():
    part = Region((P + IN, J), {IN: (0, 1), J: (0, 64)})
    whole = Region((IN, J), {IN: (0, 16), J: (0, 64)})
    assert not covers(part, whole, (P < 16) & (IntImm("int32", 3) < P + 1))
    assert not covers(
        Region(part.indices, part.iters, as_prim(False, "bool")), Region((IN, J), {IN: (0, 1), J: (0, 1)})
    )


@pytest.mark.usefixtures("no_isl")
def test_a_tile_does_not_cover_what_has_an_unknown_size():
    tile = Region((P * 6 + IN, J), {IN: (0, 6), J: (0, 8)}, P * 6 + IN < N)
    whole = Region((IN, J), {IN: (0, N), J: (0, 8)})
    zero = as_prim(0, "int32")
    assert not covers(tile, whole, (P < (N + 5) // 6) & (zero < P + 1))
    assert not covers(tile, whole, (P < (N + 5) // 6) & (N // 6 < P + 1)), "the last one, which is none of the whole"


def test_what_depends_on_unknown_sizes_is_left_to_proofs():
    assert not refuted("covers", Region((IN,), {IN: (0, N)}), Region((J,), {J: (0, N)}))
    assert not refuted("is_empty", Region((IN,), {IN: (0, 4)}))
    assert not refuted("disjoint", Region((IN,), {IN: (0, 4)}), Region((J,), {J: (0, 4)}), assumption=P < P)
    assert not refuted("disjoint", Region((IN,), {IN: (0, J)}), Region((J,), {J: (0, 4)}))
