"""Attention that is spelt out becomes one operator, and stays where that would change results or save nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relax.transform.rewriting import assert_stays, ops_after

from eutectic.relax import Expr, const, op
from eutectic.relax.transform import CombinePermuteDims, FuseAttention
from eutectic.relax.transform.attention import fuse
from eutectic.testing.graphs import assert_same_results, graph

SHAPES = {"q": (2, 3, 17, 4), "k": (2, 3, 4, 9), "v": (2, 3, 9, 5)}
MASK = ((2, 1, 17, 9), "bool")
Body = Callable[..., Expr]


@pytest.fixture(autouse=True)
def any_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "_FEWEST_KEYS", 1)


def scaled(x: Expr) -> Expr:
    return op.multiply(x, const(0.5))


def spelt(mask: Body | None = None, factor: Body | None = scaled) -> Body:
    """Attention in parts, each of which is bound."""

    def body(bb: Any, q: Expr, k: Expr, v: Expr, *masks: Expr) -> Expr:
        scores = bb.emit(op.matmul(q, k))
        scores = scores if factor is None else bb.emit(factor(scores))
        scores = scores if mask is None else bb.emit(mask(scores, *masks))
        return bb.emit(op.matmul(bb.emit(op.nn.softmax(scores, -1)), v))

    return body


def fused(shapes: dict[str, Any], body: Body) -> list[str]:
    """Names of the operators after the pass, which computes the same and leaves its input as it was."""
    mod = graph(shapes, body)
    return ops_after(FuseAttention(), mod)


def stays(shapes: dict[str, Any], body: Body) -> None:
    """The pass finds nothing to do, and returns what it was given."""
    mod = graph(shapes, body)
    assert_stays(FuseAttention(), mod)


def test_text():
    body = spelt(lambda x, seen: op.where(seen, x, const(-math.inf)))
    after = CombinePermuteDims()(FuseAttention()(graph({**SHAPES, "seen": MASK}, body)))
    calls = [line.split(" = ")[1] for line in after.script().splitlines() if " = R." in line]
    assert calls == [
        "R.permute_dims(q, axes=[0, 2, 1, 3])",
        "R.permute_dims(k, axes=[0, 3, 1, 2])",
        "R.permute_dims(v, axes=[0, 2, 1, 3])",
        'R.nn.masked_attention(lv, lv1, lv2, seen, scale=0.5, hidden=float("-inf"))',
        "R.permute_dims(lv3, axes=[0, 2, 1, 3])",
    ]


FACTORS = {
    "none": None,
    "multiply": lambda x: op.multiply(x, const(0.3)),
    "multiply, swapped": lambda x: op.multiply(const(0.3), x),
    "multiply by one number along axes": lambda x: op.multiply(x, const(np.full((1, 1), 0.3, "float32"))),
    "divide": lambda x: op.divide(x, const(3.0)),
}


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS.keys())
def test_factors(factor: Body | None):
    assert fused(SHAPES, spelt(factor=factor)).count("nn.attention") == 1


MASKS = {
    "hidden where false": lambda x, seen: op.where(seen, x, const(-1e4)),
    "hidden where true": lambda x, seen: op.where(seen, const(-1e4), x),
    "by a score that may win": lambda x, seen: op.where(seen, x, const(2.0)),
    "added": lambda x, seen: op.add(x, op.astype(seen, "float32")),
    "added, swapped": lambda x, seen: op.add(op.astype(seen, "float32"), x),
}


@pytest.mark.parametrize("shape", [(2, 3, 17, 9), (2, 1, 1, 9), (1, 1, 17, 1), (17, 9), (9,), (3, 1, 9)])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_masks(mask: Body, shape: tuple[int, ...]):
    after = fused({**SHAPES, "seen": (shape, "bool")}, spelt(mask))
    assert after.count("nn.masked_attention") == 1
    assert "nn.softmax" not in after


def test_a_query_that_sees_nothing_is_nan():
    hidden = const(np.full((17, 9), -np.inf, "float32"))
    assert fused(SHAPES, spelt(lambda x: op.add(x, hidden))).count("nn.masked_attention") == 1


SEEN = np.tri(17, dtype=bool)
CAUSAL = {
    "hidden": (lambda x: op.where(const(SEEN), x, const(-math.inf)), True),
    "hidden, inverted": (lambda x: op.where(const(~SEEN[None, None]), const(-math.inf), x), True),
    "added": (lambda x: op.add(x, const(np.where(SEEN, 0, -np.inf).astype("float32"))), True),
    "hidden by a number": (lambda x: op.where(const(SEEN), x, const(-1e9)), False),
    "added numbers": (lambda x: op.add(x, const(np.where(SEEN, 0, -1e9).astype("float32"))), False),
    "something is added to what is seen": (
        lambda x: op.add(x, const(np.where(SEEN, np.eye(17), -np.inf).astype("float32"))),
        False,
    ),
    "the next one, too": (lambda x: op.where(const(np.tri(17, 17, 1, dtype=bool)), x, const(-math.inf)), False),
    "of each head": (lambda x: op.where(const(np.stack([SEEN] * 3)), x, const(-math.inf)), False),
}


@pytest.mark.parametrize(("mask", "is_causal"), CAUSAL.values(), ids=CAUSAL.keys())
def test_masks_that_are_known_to_be_causal(mask: Body, is_causal: bool):
    shapes = {"q": (2, 3, 17, 4), "k": (2, 3, 4, 17), "v": (2, 3, 17, 5)}
    assert fused(shapes, spelt(mask)).count("nn.attention") == is_causal


def test_a_causal_row_that_is_broadcast_is_none():
    seen = const(np.tri(1, 9, dtype=bool))
    assert fused(SHAPES, spelt(lambda x: op.where(seen, x, const(-math.inf)))).count("nn.masked_attention") == 1


@pytest.mark.parametrize("outer", [(), (3,), (2, 1, 3)])
def test_other_numbers_of_axes(outer: tuple[int, ...]):
    shapes = {"q": (*outer, 17, 4), "k": (*outer, 4, 9), "v": (*outer, 9, 5)}
    assert fused(shapes, spelt()).count("nn.attention") == 1


@pytest.mark.parametrize(("outer", "mask"), [((), (17, 9)), ((3,), (3, 17, 9)), ((3,), (1, 9)), ((3,), (9,))])
def test_masks_of_fewer_axes(outer: tuple[int, ...], mask: tuple[int, ...]):
    shapes = {"q": (*outer, 17, 4), "k": (*outer, 4, 9), "v": (*outer, 9, 5), "seen": (mask, "bool")}
    assert fused(shapes, spelt(MASKS["hidden where true"])).count("nn.masked_attention") == 1


SUBSCRIPTS = [
    ("bhid,bhjd->bhij", (2, 3, 17, 4), (2, 3, 9, 4), "bhij,bhjd->bhid", (2, 3, 9, 5)),
    ("bihd,bjhd->bhij", (2, 17, 3, 4), (2, 9, 3, 4), "bhij,bjhd->bihd", (2, 9, 3, 5)),
    ("bhjd,bhid->bhij", (2, 3, 9, 4), (2, 3, 17, 4), "bjhd,bhij->hbdi", (2, 9, 3, 5)),
    ("hid,hdj->hij", (3, 17, 4), (3, 4, 9), "hij,hdj->hdi", (3, 5, 9)),
]


@pytest.mark.parametrize(("scores", "q", "k", "mixed", "v"), SUBSCRIPTS)
def test_einsum(scores: str, q: tuple[int, ...], k: tuple[int, ...], mixed: str, v: tuple[int, ...]):
    def body(bb: Any, q: Expr, k: Expr, v: Expr) -> Expr:
        weights = bb.emit(op.nn.softmax(bb.emit(op.einsum((q, k), scores)), -1))
        operands = (weights, v) if mixed.split(",")[0] in scores else (v, weights)
        return bb.emit(op.einsum(operands, mixed))

    after = fused({"q": q, "k": k, "v": v}, body)
    assert after.count("nn.attention") == 1
    assert "einsum" not in after


@given(st.permutations("bhid"), st.permutations("bhjd"), st.permutations("bhij"), st.permutations("bhjv"))
def test_any_order_of_axes(q: list[str], k: list[str], scores: list[str], v: list[str]):
    """Whatever order the letters have, the pass computes the same, if it does anything."""
    sizes = {"b": 2, "h": 3, "i": 16, "j": 5, "d": 4, "v": 2}
    shapes = {name: tuple(map(sizes.get, letters)) for name, letters in (("q", q), ("k", k), ("v", v))}
    names = ["".join(letters) for letters in (q, k, scores, v)]

    def body(bb: Any, q: Expr, k: Expr, v: Expr) -> Expr:
        weights = bb.emit(op.nn.softmax(bb.emit(op.einsum((q, k), f"{names[0]},{names[1]}->{names[2]}")), -1))
        return bb.emit(op.einsum((weights, v), f"{names[2]},{names[3]}->bhiv"))

    mod = graph(shapes, body)
    assert_same_results(mod, FuseAttention()(mod), exact=False)


# ---- what stays as it is


def read_twice(bb: Any, q: Expr, k: Expr, v: Expr) -> list[Expr]:
    weights = bb.emit(op.nn.softmax(bb.emit(op.matmul(q, k)), -1))
    return [bb.emit(op.matmul(weights, v)), weights]


def along_queries(bb: Any, q: Expr, k: Expr, v: Expr) -> Expr:
    return bb.emit(op.matmul(bb.emit(op.nn.softmax(bb.emit(op.matmul(q, k)), -2)), v))


STAYS = {
    "weights are a result": (SHAPES, read_twice),
    "softmax along queries": (SHAPES, along_queries),
    "a factor of each score": (SHAPES, spelt(factor=lambda x: op.multiply(x, const(np.ones((17, 1), "float32"))))),
    "divided by zero": (SHAPES, spelt(factor=lambda x: op.divide(x, const(0.0)))),
    "a mask that broadcasts scores": (
        {"q": (2, 1, 17, 4), "k": (2, 1, 4, 9), "v": (2, 3, 9, 5), "seen": ((2, 3, 17, 9), "bool")},
        spelt(MASKS["hidden where true"]),
    ),
    "values that are broadcast": ({**SHAPES, "v": (1, 3, 9, 5)}, spelt()),
    "operands of other ranks": ({**SHAPES, "k": (4, 9)}, spelt()),
    "few queries": ({**SHAPES, "q": (2, 3, 15, 4)}, spelt()),
    "16-bit floats": ({name: (shape, "float16") for name, shape in SHAPES.items()}, spelt(factor=None)),
}


@pytest.mark.parametrize(("shapes", "body"), STAYS.values(), ids=STAYS.keys())
def test_stays(shapes: dict[str, Any], body: Body):
    stays(shapes, body)


@pytest.mark.parametrize(("keys", "is_fused"), [(255, False), (256, True)])
def test_few_keys_are_not_worth_it(monkeypatch: pytest.MonkeyPatch, keys: int, is_fused: bool):
    monkeypatch.undo()
    mod = graph({"q": (1, 2, 16, 4), "k": (1, 2, 4, keys), "v": (1, 2, keys, 4)}, spelt())
    assert (FuseAttention()(mod) is not mod) is is_fused
