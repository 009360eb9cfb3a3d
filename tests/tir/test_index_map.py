"""Index maps: what they map, and that their inverses and paddings are right, against all points of small boxes."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import tir
from eutectic.compat.table import MODULES
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var, evaluate
from eutectic.ir.structural import structural_equal
from eutectic.support.errors import WellFormedError
from eutectic.tir import IndexMap, IntImm, Range

N, M = Var("n", "int64"), Var("m", "int64")
packed = IndexMap.from_func(lambda i, j: (j // 16, i, j % 16))


def said(values: Any) -> str:
    return str([item.value if isinstance(item, IntImm) else item for item in values])


# ---- making one


def test_functions_give_maps():
    assert said(packed.map_indices([3, 37])) == "[2, 3, 5]"
    assert IndexMap.from_func(lambda i: i + 1).final_indices[0].dtype == "int64"
    assert IndexMap.from_func(lambda i: i + 1, index_dtype="int32").final_indices[0].dtype == "int32"
    several = IndexMap.from_func(lambda i, *rest: (*rest, i), ndim=3)
    assert [var.name for var in several.initial_indices] == ["i", "rest_0", "rest_1"]
    assert said(several.map_indices([1, 2, 3])) == "[2, 3, 1]"
    named = IndexMap.from_func(lambda i, *, j: [j, i])
    assert said(named.map_indices([1, 2])) == "[2, 1]"
    assert said(IndexMap.from_func(lambda: (0,)).map_shape([])) == "[1]"


def test_separators():
    made, at = IndexMap.from_func_with_separators(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    assert at == [1]
    assert len(made.final_indices) == 2
    with pytest.raises(TypeError, match="from_func_with_separators"):
        IndexMap.from_func(lambda i: [i, IndexMap.AXIS_SEPARATOR])


def test_what_is_no_map():
    with pytest.raises(ValueError, match="needs ndim, at least 1"):
        IndexMap.from_func(lambda i, *rest: (*rest, i))
    with pytest.raises(ValueError, match=r"\*\*kwargs"):
        IndexMap.from_func(lambda **rest: 0)
    with pytest.raises(TypeError, match="returns expressions, got str"):
        IndexMap.from_func(lambda i: (i, "j"))
    with pytest.raises(ValueError, match="takes 2 indices, got 1"):
        packed.map_indices([1])
    with pytest.raises(ValueError, match="takes 2 indices, got 3"):
        packed.map_shape([1, 2, 3])
    with pytest.raises(ValueError, match="is no shape"):
        IndexMap.from_func(lambda i: i).map_shape([tir.const(1.5, "float32")])
    with pytest.raises(ValueError, match="does not begin at zero"):
        IndexMap.from_func(lambda i: i).map_shape([Range(1, 5)])
    i = Var("i")
    with pytest.raises(WellFormedError, match="each once"):
        IndexMap((i, i), (i,))


# ---- text


TEXTS = [
    "lambda i, j: (j // 16, i, j % 16)",
    "lambda i: (i + 2, -3 * i, i - -1)",
    "lambda i, j: ((i + j) * 2 - (j - i), tir.min(i, tir.max(j, 3)), (i % 4) * 2)",
    "lambda i, j: (i, tir.bitwise_xor(j, i % 8))",
    "lambda: (0,)",
    'lambda a, b: (tir.if_then_else(a < b, tir.const(1.5, "float32"), tir.const(float("-inf"), "float32")),)',
    "lambda a: (tir.Select(tir.logical_and(a.equal(1), (a < 2).not_equal(tir.const(True))), a, a),)",
    'lambda a: (tir.Cast("float32", a) / tir.const(2.0, "float32"),)',
    "lambda i: (tir.truncdiv(i, 3), tir.truncmod(i, 3))",
    "tir.IndexMap.from_func(lambda i: (7 - i,), inverse_index_map=lambda j: (7 - j,))",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trip(text: str):
    made = IndexMap.from_text(text)
    assert made.as_python() == text.replace("(i % 4) * 2", "i % 4 * 2")
    again = IndexMap.from_text(made.as_python())
    assert structural_equal(again, made)
    # what a trace prints is Python, too
    python = (lambda i, j: (j // 16, i, j % 16)) if text is TEXTS[0] else None
    if python is not None:
        assert structural_equal(IndexMap.from_func(python), made)


@pytest.mark.parametrize(
    "text",
    [
        "1 +",
        "__import__('os')",
        "lambda i: open('x')",
        "lambda i: (j,)",
        "lambda *i: (i,)",
        "lambda i=1: (i,)",
        "lambda i: (i if i else i,)",
        "lambda i: ('a',)",
        "lambda i: (i.dtype,)",
        "lambda i: ('a' * 9,)",
        "lambda i: (i // 0,)",
        "lambda i: (3 // 0,)",
        "lambda i: (i.equal('a'),)",
        'lambda i: (tir.Cast("int33", i),)',
        'lambda i: (tir.const("int32", i),)',
        f"lambda i: ({'+'.join(['i'] * 5000)},)",
        "tir.IndexMap.from_func(lambda i: (i,))",
        "tir.IndexMap.from_func(lambda i: (i,), ndim=1)",
        "tir.IndexMap.from_func(lambda i: (i,), inverse_index_map=3)",
        "tir.Schedule(lambda i: i)",
    ],
)
def test_what_is_no_text(text: str):
    with pytest.raises(ValueError, match=r"index|lambda"):
        IndexMap.from_text(text)


def test_names_in_text_are_distinct_and_legal():
    odd = (Var("i", "int64"), Var("i", "int64"), Var("lambda", "int64"), Var("tir", "int64"), Var("a.b", "int64"))
    made = IndexMap(odd, odd)
    assert made.as_python() == "lambda i, i_1, i2, i3, i4: (i, i_1, i2, i3, i4)"
    assert structural_equal(IndexMap.from_text(made.as_python()), made)


def test_printing():
    assert str(packed) == "T.index_map(lambda i, j: (j // 16, i, j % 16))"
    free = IndexMap.from_func(lambda i: (i // N,))
    assert free.script() == "T.index_map(lambda i: (i // n,))"
    with pytest.raises(ValueError, match="variable n is no input"):
        free.as_python()
    odd = IndexMap.from_func(lambda i: tir.exp(i.astype("float32")))
    assert odd.script().startswith("IndexMap(")


# ---- shapes and arrays


@pytest.mark.parametrize(
    ("function", "shape", "want"),
    [
        (lambda i: (i // 4, i % 4), [14], "[4, 4]"),
        (lambda i: (i // 4, i % 4), [3], "[1, 3]"),
        (lambda i: (i // 4, i % 4), [N], "[(n + 3) // 4, 4]"),
        (lambda i: (i // 4, i % 4), [N * 4], "[n, 4]"),
        (lambda i, j: (j, i), [N, M], "[m, n]"),
        (lambda i, j: i * 16 + j, [N, 16], "[n * 16]"),
        (lambda i: i + 4, [8], "[12]"),
        (lambda i: 7 - i, [8], "[8]"),
        (lambda i, j: (i, j ^ (i % 8)), [16, 8], "[16, 8]"),
        (lambda i, j: (j, i), [0, 4], "[4, 0]"),
        (lambda i: (i // 4, i % 4, 3), [0], "[0, 0, 4]"),
        (lambda i, j: (tir.max(i, j), i), [3, 5], "[5, 3]"),
    ],
)
def test_shapes(function: Any, shape: Any, want: str):
    assert said(IndexMap.from_func(function).map_shape(shape)) == want


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda i: i - 1, [8]),
        (lambda i: 7 - i, [N]),
        (lambda i, j: i * M + j, [N, M]),
        (lambda i: i * (1 << 28), [tir.const(16, "int32")]),  # does not fit int32
        (lambda i: i * (1 << 28) // (1 << 28), [tir.const(16, "int32")]),
        (lambda i: i << 2, [8]),
    ],
)
def test_no_shape(function: Any, shape: Any):
    with pytest.raises(ValueError, match="negative, or have no bound"):
        IndexMap.from_func(function).map_shape(shape)


def test_arrays():
    x = np.arange(24).reshape(4, 6)
    got = IndexMap.from_func(lambda i, j: (j // 3, i, j % 3)).map_ndarray(x)
    np.testing.assert_array_equal(got, x.reshape(4, 2, 3).transpose(1, 0, 2))
    assert IndexMap.from_func(lambda i, j: (j, i)).map_ndarray(np.zeros((0, 3))).shape == (3, 0)
    swizzled = IndexMap.from_func(lambda i, j: (i, j ^ (i % 4))).map_ndarray(np.arange(16).reshape(4, 4))
    assert swizzled[1].tolist() == [5, 4, 7, 6]
    assert IndexMap.from_func(lambda: (0, 0)).map_ndarray(np.float32(3)).tolist() == [[3.0]]
    with pytest.raises(ValueError, match=r"is not bijective on \[4, 6\]"):
        IndexMap.from_func(lambda i, j: (j // 4, i, j % 4)).map_ndarray(x)
    with pytest.raises(ValueError, match="is not bijective"):
        IndexMap.from_func(lambda i, j: i).map_ndarray(x)


# ---- inverses


def test_inverses():
    assert packed.inverse([3, 32]).as_python() == "tir.IndexMap.from_func(" + (
        "lambda axis0, axis1, axis2: (axis1, axis0 * 16 + axis2), inverse_index_map=lambda i, j: (j // 16, i, j % 16))"
    )
    assert packed.inverse([N, 32]).is_equivalent_to(packed.inverse([3, 32]))
    assert packed.inverse([N, M * 16]).is_equivalent_to(packed.inverse([3, 32]))
    with pytest.raises(ValueError, match="not proved to be bijective"):
        packed.inverse([N, M])
    with pytest.raises(ValueError, match=r"not proved to be bijective on \[3, 20\]"):
        packed.inverse([3, 20])
    reverse = IndexMap.from_func(lambda i: 7 - i)
    with pytest.raises(ValueError, match="give inverse_index_map"):
        reverse.inverse([8])
    given_back = IndexMap.from_func(lambda i: 7 - i, inverse_index_map=lambda j: 7 - j)
    assert given_back.inverse([8]).is_equivalent_to(reverse)
    wrong = IndexMap.from_func(lambda i: 7 - i, inverse_index_map=lambda j: 6 - j)
    with pytest.raises(ValueError, match="is not proved to be the inverse"):
        wrong.inverse([8])
    short = IndexMap.from_func(lambda i: (i // 2, i % 2), inverse_index_map=lambda j: j)
    with pytest.raises(ValueError, match="is not proved to be the inverse"):
        short.inverse([8])


@pytest.mark.parametrize(
    ("function", "shape", "back", "outside"),
    [
        (lambda i: (i // 4, i % 4), [14], "lambda axis0, axis1: (axis0 * 4 + axis1,)", "14 <= axis0 * 4 + axis1"),
        (lambda i: (i // 4, i % 4), [N], "lambda axis0, axis1: (axis0 * 4 + axis1,)", "n <= axis0 * 4 + axis1"),
        (lambda i: ((i + 2) // 4, (i + 2) % 4), [14], "lambda axis0, axis1: (axis0 * 4 + axis1 - 2,)", None),
        (lambda i, j: ((i * 14 + j) // 8, (i * 14 + j) % 8), [N, 14], None, "n <= (axis0 * 8 + axis1) // 14"),
        (lambda i: i + 4, [8], "lambda axis0: (axis0 - 4,)", "axis0 < 4"),
        (lambda i: (0, i), [5], "lambda axis0, axis1: (axis1,)", "False"),
    ],
)
def test_paddings(function: Any, shape: Any, back: str | None, outside: str | None):
    found, condition = IndexMap.from_func(function).non_surjective_inverse(shape)
    text = replace(found, inverse_index_map=None).with_dtype("int64").as_python()
    assert back is None or text == back
    assert outside is None or condition.script() == outside


def test_padding_of_a_given_inverse():
    """Places between the elements are padding, too."""
    spread = IndexMap.from_func(lambda i: i * 2, inverse_index_map=lambda j: j // 2)
    found, condition = spread.non_surjective_inverse([5])
    outside = [evaluate(condition, {found.initial_indices[0]: k}) for k in range(9)]
    assert outside == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_equivalence():
    one = IndexMap.from_func(lambda i, j: (i * 4 + j, j))
    assert one.is_equivalent_to(IndexMap.from_func(lambda a, b: (b + a * 2 * 2, b + 0), index_dtype="int32"))
    assert not one.is_equivalent_to(IndexMap.from_func(lambda i, j: (i * 4 + j, i)))
    assert not one.is_equivalent_to(IndexMap.from_func(lambda i, j: i * 4 + j))
    assert not one.is_equivalent_to(IndexMap.from_func(lambda i: (i, i)))


def test_dtypes():
    i32, i64 = Var("a", "int32"), Var("b", "int64")
    wide = packed.map_indices([i32, i64])
    assert [item.dtype for item in wide] == ["int64"] * 3
    assert [item.dtype for item in packed.map_indices([i32, 5])] == ["int32"] * 3
    bits = IndexMap.from_func(lambda i, j: (i, j ^ (i % 8))).with_dtype("int32")
    assert bits.final_indices[1].dtype == "int32"
    assert packed.with_dtype("int64") is packed


def test_tvm_knows_it():
    assert any(getattr(import_module(name), "IndexMap", None) is IndexMap for name in MODULES["tvm.tir"])


# ---- against all points


@st.composite
def maps(draw: Any) -> tuple[IndexMap, list[int]]:
    """Splits, fuses, shifts and permutations of the indices of a small shape; mostly with factors that divide."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 0]), min_size=1, max_size=3))
    inputs = [Var(name, "int64") for name in "ijk"[: len(shape)]]
    items: list[tuple[PrimExpr, int]] = list(zip(inputs, shape, strict=True))
    for _ in range(draw(st.integers(0, 4))):
        step = draw(st.sampled_from(["split", "split", "fuse", "swap", "shift", "drop", "mirror"]))
        k = draw(st.integers(0, len(items) - 1))
        expr, size = items[k]
        if step == "split":
            c = draw(st.sampled_from([2, 3, 4, 5]))
            items[k : k + 1] = [(expr // c, -(-size // c)), (expr % c, min(size, c))]
        elif step == "fuse" and len(items) > 1:
            other, count = items.pop((k + 1) % len(items))
            k = next(n for n, item in enumerate(items) if item[0] is expr)
            stride = draw(st.sampled_from([count, count, count, count + 1, max(count - 1, 1)])) or 1
            items[k] = (expr * stride + other, size * stride)
        elif step == "swap":
            items = draw(st.permutations(items))
        elif step == "shift":
            items[k] = (expr + draw(st.integers(-1, 2)), size + 2)
        elif step == "mirror" and size:
            items[k] = (size - 1 - expr, size)
        elif step == "drop" and len(items) > 1 and draw(st.integers(0, 3)) == 0:
            items.pop(k)
    return IndexMap(tuple(inputs), tuple(expr for expr, _ in items)), shape


@settings(max_examples=settings.default.max_examples * 10)
@given(case=maps())
def test_against_all_points(case: tuple[IndexMap, list[int]]):
    made, shape = case
    points = list(product(*map(range, shape)))
    images = [
        tuple(evaluate(out, dict(zip(made.initial_indices, at, strict=True))) for out in made.final_indices)
        for at in points
    ]
    space = made.on(shape)
    if space.is_injective:
        assert len(set(images)) == len(points)
    try:
        extents = [int(size) for size in made.map_shape(shape)]
    except ValueError:
        assert min((x for image in images for x in image), default=-1) < 0
        return
    assert all(0 <= x < size for image in images for x, size in zip(image, extents, strict=True))
    if points:
        assert extents == [max(column) + 1 for column in zip(*images, strict=True)]
    if space.is_bijective:
        assert len(set(images)) == prod(extents)
    try:
        back, outside = made.non_surjective_inverse(shape)
    except ValueError:
        return
    there = dict(zip(images, points, strict=True))
    assert len(there) == len(points)
    for place in product(*map(range, extents)):
        values = dict(zip(back.initial_indices, place, strict=True))
        assert bool(evaluate(outside, values)) == (place not in there)
        if place in there:
            assert tuple(evaluate(out, values) for out in back.final_indices) == there[place]


@given(shape=st.lists(st.sampled_from([2, 4, 6, 8, 12]), min_size=1, max_size=3), data=st.data())
def test_splits_and_permutations_have_inverses(shape: list[int], data: Any):
    inputs = [Var(name, "int64") for name in "ijk"[: len(shape)]]
    items: list[tuple[PrimExpr, int]] = list(zip(inputs, shape, strict=True))
    for _ in range(data.draw(st.integers(0, 3))):
        k = data.draw(st.integers(0, len(items) - 1))
        expr, size = items[k]
        c = data.draw(st.sampled_from([c for c in range(1, size + 1) if size % c == 0]))
        items[k : k + 1] = [(expr // c, size // c), (expr % c, c)]
    order = data.draw(st.permutations(items))
    made = IndexMap(tuple(inputs), tuple(expr for expr, _ in order))
    assert said(made.map_shape(shape)) == str([size for _, size in order])
    back = made.inverse(shape)
    x = np.arange(prod(shape)).reshape(shape)
    np.testing.assert_array_equal(back.map_ndarray(made.map_ndarray(x)), x)
