"""Neighbouring axes of varying sizes as one: which programs have them, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eutectic import te, topi
from eutectic.ir.prim_expr import IntImm, evaluate
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import PrimFunc, Var
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.function_attributes import EXAMPLE_SIZES, example_sizes
from eutectic.tir.interpret import run
from eutectic.tir.transform.join_axes import join_axes
from eutectic.tir.trusted import is_trusted, trust
from eutectic.tir.well_formed import verify_well_formed

N, H, W = Var("n", "int64"), Var("h", "int64"), Var("w", "int64")
SIZES = {N: 2, H: 3, W: 5}
HALF = (H + 1) // 2
Make = Callable[..., te.Tensor]


def program(make: Make, *shapes: tuple[Any, ...]) -> PrimFunc:
    wide = [tuple(IntImm("int64", size) if isinstance(size, int) else size for size in shape) for shape in shapes]
    inputs = [te.placeholder(shape, "float32", f"x{number}") for number, shape in enumerate(wide)]
    return of_tensors([*inputs, make(*inputs)])


def of_tensors(tensors: list[te.Tensor]) -> PrimFunc:
    """The program of tensors, and of sizes that none of them tells."""
    sizes = [size for tensor in tensors for size in tensor.shape]
    used = {var for size in sizes for var in variables(size)}
    return te.create_prim_func([*tensors, *sorted(used - {size for size in sizes if size in used}, key=str)])


def pointwise(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.relu(topi.nn.conv2d(x, w, 1, 0, 1))


def softmax_of_points(x: te.Tensor) -> te.Tensor:
    return topi.nn.softmax(x, 1)


def gram(x: te.Tensor) -> te.Tensor:
    """Products of all points with all."""
    k = te.reduce_axis((0, x.shape[2]), "k")
    h, w, _ = x.shape
    return te.compute((h, w, h, w), lambda a, b, i, j: te.sum(x[a, b, k] * x[i, j, k], axis=k), "gram")


JOINED = {
    "elementwise": ((lambda x: topi.exp(x)), [(2, H, W)], [1]),
    "all three": ((lambda x: topi.exp(x)), [(N, H, W, 4)], [2]),
    "sizes that are computed": ((lambda x: topi.exp(x)), [(HALF, W + 1)], [1]),
    "residual": ((lambda x, y: topi.add(topi.nn.relu(x), y)), [(1, H, W, 4), (1, H, W, 4)], [1, 1]),
    "a value for each channel": ((lambda x, b: topi.add(x, b)), [(N, 4, H, W), (4, 1, 1)], [1]),
    "points of an image": (pointwise, [(1, 3, H, W), (4, 3, 1, 1)], [1]),
    "channels last": (
        (lambda x, w: topi.nn.conv2d(x, w, 1, 0, 1, data_layout="NHWC", kernel_layout="HWIO")),
        [(1, H, W, 3), (1, 1, 3, 4)],
        [1],
    ),
    "sum over both": ((lambda x: topi.sum(x, (1, 2))), [(4, H, W)], [1]),
    "softmax over channels": (softmax_of_points, [(1, 4, H, W)], [1]),
    "rows of several images": ((lambda x, w: topi.nn.dense(x, w)), [(N, H, 6), (4, 6)], [1]),
    "one of two buffers": ((lambda x: topi.sum(topi.exp(x), 3)), [(N, H, 2, W)], [1]),
    "all points with all": (gram, [(H, W, 3)], [1]),
    "behind a transposition": ((lambda x: topi.transpose(x, (2, 0, 1))), [(H, W, 4)], [1]),
}
APART = {
    "a window": ((lambda x, w: topi.nn.conv2d(x, w, 1, 1, 1)), [(1, 3, H, W), (4, 3, 3, 3)]),
    "steps": ((lambda x, w: topi.nn.conv2d(x, w, 2, 0, 1)), [(1, 3, H, W), (4, 3, 1, 1)]),
    "transposed": ((lambda x: topi.transpose(x, (1, 0))), [(H, W)]),
    "a value for each row": ((lambda x, y: topi.add(x, y)), [(2, H, W), (H, 1)]),
    "sum over one": ((lambda x: topi.sum(x, 1)), [(H, W, 4)]),
    "flipped": ((lambda x: topi.flip(x, 1)), [(H, W, 4)]),
    "the size is a value": ((lambda x: te.compute(x.shape, lambda i, j: x[i, j] * W.astype("float32"))), [(H, W)]),
    "a number for each": ((lambda x: te.compute(x.shape, lambda i, j: x[i, j] + i.astype("float32"))), [(H, W)]),
    "one size varies": ((lambda x: topi.exp(x)), [(N, 3, 4)]),
    "the diagonal": ((lambda x: te.compute((H,), lambda i: x[i, i])), [(H, H)]),
}


def sizes_of(func: PrimFunc, sizes: dict[Var, int]) -> list[tuple[int, ...]]:
    """Of the arguments of a program whose sizes are made of some."""
    return [tuple(evaluate(size, sizes) for size in buffer.shape) for buffer in func.buffer_map.values()]


def check(func: PrimFunc, sizes: dict[Var, int]) -> None:
    """The joined program gives what the program gives, of the same memory under other shapes."""
    joined = join_axes(func)
    assert joined is not None
    verify_well_formed(joined.func)
    check_round_trip(joined.func)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in sizes_of(func, sizes)]
    shaped = [
        array.copy().reshape([int(np.prod([array.shape[axis] for axis in group])) for group in groups])
        for array, groups in zip(arrays, joined.groups, strict=True)
    ]
    numbers = [sizes[var] for var in func.params if var in sizes]
    run(func, *arrays, *numbers)
    run(joined.func, *shaped, *numbers)
    np.testing.assert_array_equal(shaped[-1].reshape(arrays[-1].shape), arrays[-1])


@pytest.mark.parametrize(("make", "shapes", "fewer"), JOINED.values(), ids=JOINED.keys())
def test_joined(make: Make, shapes: list[tuple[Any, ...]], fewer: list[int]):
    func = program(make, *shapes)
    joined = join_axes(func)
    assert joined is not None
    ranks = [
        old.ndim - new.ndim for old, new in zip(func.buffer_map.values(), joined.func.buffer_map.values(), strict=True)
    ]
    assert ranks[: len(fewer)] == fewer
    assert [len(groups) for groups in joined.groups] == [buffer.ndim for buffer in joined.func.buffer_map.values()]
    check(func, SIZES)
    check(func, {N: 1, H: 1, W: 1})
    check(func, {N: 1, H: 4, W: 2})


@pytest.mark.parametrize(("make", "shapes"), APART.values(), ids=APART.keys())
def test_kept_apart(make: Make, shapes: list[tuple[Any, ...]]):
    assert join_axes(program(make, *shapes)) is None


def test_what_a_size_is_needed_for_keeps_its_axes_apart_unless_another_parameter_tells_it():
    def times(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda i, j: x[i, j] * y[0] * W.astype("float32"))

    assert join_axes(program(times, (H, W), (H,))) is None
    joined = join_axes(program(times, (H, W), (W,)))
    assert joined is not None
    assert joined.groups == (((0, 1),), ((0,),), ((0, 1),))


def test_equal_products_are_one_size():
    joined = join_axes(program(gram, (H, W, 3)))
    assert joined is not None
    assert joined.groups == (((0, 1), (2,)), ((0, 1), (2, 3)))
    points, out = joined.func.buffer_map.values()
    assert points.shape[0] is out.shape[0]
    assert out.shape[0] is out.shape[1]


def test_the_example_is_known_of_the_new_size():
    func = program(topi.exp, (N, 2, HALF, W)).with_attr(EXAMPLE_SIZES, {"h": 7, "w": 3, "n": 5})
    joined = join_axes(func)
    assert joined is not None
    (size,) = variables(joined.func.buffer_map.values()[0].shape[2])
    assert example_sizes(joined.func) == {"n": 5, size.name: 12}


def test_trust_goes_on():
    func = program(topi.exp, (H, W))
    plain, trusted = join_axes(func), join_axes(trust(func.with_attr("known", True)))
    assert plain is not None
    assert trusted is not None
    assert is_trusted(trusted.func)


@st.composite
def programs(draw: st.DrawFn) -> PrimFunc:
    """Values of two tensors whose axes are some of five, in any order, maybe summed over some of them."""
    axes = draw(st.lists(st.sampled_from([N, H, W, HALF, 2, 3]), min_size=2, max_size=4))
    order = draw(st.permutations(range(len(axes))))
    kept = draw(st.lists(st.booleans(), min_size=len(axes), max_size=len(axes)))
    summed = draw(st.sets(st.sampled_from(range(len(axes))), max_size=len(axes) - 1))
    x = te.placeholder(tuple(axes), "float32", "x")
    y = te.placeholder(tuple(axes[axis] for axis in order if kept[axis]), "float32", "y")
    taps = {axis: te.reduce_axis((0, axes[axis]), f"k{axis}") for axis in sorted(summed)}
    left = [axis for axis in order if axis not in summed]

    def value(*at: Any) -> Any:
        places = {**dict(zip(left, at, strict=True)), **taps}
        total = x[tuple(places[axis] for axis in range(len(axes)))]
        other = tuple(places[axis] for axis in order if kept[axis])
        total = total + y[other] if other else total
        return te.sum(total, axis=list(taps.values())) if taps else total

    inputs = [x, y] if y.shape else [x]
    out = te.compute(tuple(axes[axis] for axis in left), value, "out")
    return of_tensors([*inputs, topi.exp(out)])


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_any_program_gives_the_same(func: PrimFunc, n: int, h: int, w: int):
    if join_axes(func) is not None:
        check(func, {N: n, H: h, W: w})
