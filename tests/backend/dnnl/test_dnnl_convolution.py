"""Convolutions of every kind agree with torch in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.backend.dnnl.dnnl_regions import assert_close, compute, normal, region_of

from eutectic.backend.dnnl.library import availability
from eutectic.backend.dnnl.spec import Convolution, PostBinary, PostEltwise, PostOp, TensorSpec

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not availability().ok, reason=f"oneDNN: {availability().reason}")


def reference(x, w, b, step: Convolution) -> np.ndarray:
    functional, rank = torch.nn.functional, len(step.strides)
    x, w = torch.tensor(x).double(), torch.tensor(w).double()
    bias = None if b is None else torch.tensor(b).double()
    if step.transposed:
        run = [functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d][rank - 1]
        # Uncut, then cut and padded by hand: torch takes symmetric padding only.
        y = run(x, w, None, step.strides, 0, 0, step.groups, step.dilation)
        for axis in range(rank):
            keep = step.dst.shape[axis + 2]
            begin = step.padding_begin[axis]
            missing = max(0, begin + keep - y.shape[axis + 2])
            pad = [0, 0] * (rank - 1 - axis) + [0, missing]
            y = functional.pad(y, pad).narrow(axis + 2, begin, keep)
        return (y if bias is None else y + bias.reshape(-1, *(1,) * rank)).numpy()
    pads = [p for axis in reversed(range(rank)) for p in (step.padding_begin[axis], step.padding_end[axis])]
    run = [functional.conv1d, functional.conv2d, functional.conv3d][rank - 1]
    return run(functional.pad(x, pads), w, bias, step.strides, 0, step.dilation, step.groups).numpy()


def make(
    n: int,
    c: int,
    o: int,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    strides: tuple[int, ...] | None = None,
    begin: tuple[int, ...] | None = None,
    end: tuple[int, ...] | None = None,
    dilation: tuple[int, ...] | None = None,
    groups: int = 1,
    transposed: bool = False,
    extra: tuple[int, ...] | None = None,
    bias: bool = True,
    post_ops: tuple[PostOp, ...] = (),
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Convolution]:
    rank = len(spatial)
    one, zero = (1,) * rank, (0,) * rank
    strides, begin, end, dilation = strides or one, begin or zero, end or begin or zero, dilation or one
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    axes = range(rank)
    if transposed:
        out = [(spatial[i] - 1) * strides[i] - begin[i] - end[i] + reach[i] + (extra or zero)[i] for i in axes]
        weight = (c, o // groups, *kernel)
    else:
        out = [(spatial[i] + begin[i] + end[i] - reach[i]) // strides[i] + 1 for i in axes]
        weight = (o, c // groups, *kernel)
    constants = {"w": normal(*weight, seed=1)} | ({"b": normal(o, seed=2)} if bias else {})
    dst = TensorSpec("y", (n, o, *out))
    name = "b" if bias else None
    step = Convolution("x", "w", name, dst, strides, begin, end, dilation, groups, transposed, post_ops)
    return {"x": normal(n, c, *spatial)}, constants, step


CASES = {
    "1d": make(2, 5, 7, (19,), (3,), begin=(1,), strides=(2,)),
    "1d dilated groups": make(1, 8, 16, (30,), (3,), dilation=(4,), groups=4),
    "1d depthwise": make(1, 16, 16, (30,), (5,), begin=(2,), groups=16),
    "2d": make(2, 3, 20, (16, 17), (3, 3), begin=(1, 1), strides=(2, 2)),
    "2d pointwise": make(1, 24, 40, (9, 9), (1, 1)),
    "2d asymmetric": make(1, 8, 8, (10, 11), (3, 4), begin=(0, 2), end=(3, 1)),
    "2d asymmetric strided": make(1, 8, 8, (14, 14), (3, 3), end=(1, 1), begin=(0, 0), strides=(2, 2)),
    "2d groups": make(1, 12, 18, (7, 7), (3, 3), begin=(1, 1), groups=3),
    "2d groups of 8": make(1, 16, 32, (7, 7), (3, 3), begin=(1, 1), groups=2),
    "2d depthwise": make(1, 32, 32, (14, 14), (3, 3), begin=(1, 1), groups=32),
    "2d depthwise odd": make(2, 5, 5, (9, 8), (3, 3), begin=(1, 1), groups=5, strides=(2, 1)),
    "2d depthwise multiplier": make(1, 4, 12, (9, 8), (3, 3), begin=(1, 1), groups=4),
    "2d depthwise dilated": make(1, 16, 16, (20, 20), (3, 3), begin=(2, 2), dilation=(2, 2), groups=16),
    "2d dilated": make(1, 8, 16, (20, 20), (3, 3), begin=(2, 3), dilation=(2, 3)),
    "2d no bias": make(1, 8, 16, (6, 6), (3, 3), bias=False),
    "3d": make(1, 4, 6, (6, 7, 8), (3, 2, 3), begin=(1, 0, 1), strides=(1, 2, 2)),
    "3d depthwise": make(1, 8, 8, (6, 7, 8), (3, 3, 3), begin=(1, 1, 1), groups=8),
    "transposed 1d": make(1, 6, 4, (9,), (4,), strides=(2,), begin=(1,), transposed=True),
    "transposed 2d": make(2, 16, 8, (7, 7), (4, 4), strides=(2, 2), begin=(1, 1), transposed=True),
    "transposed output padding": make(
        1, 8, 8, (5, 6), (3, 3), strides=(2, 3), begin=(1, 1), transposed=True, extra=(1, 2)
    ),
    "transposed dilated output padding": make(
        1, 8, 8, (5, 6), (3, 3), strides=(2, 3), begin=(2, 0), dilation=(3, 2), transposed=True, extra=(2, 2)
    ),
    "transposed output padding beyond the end": make(
        2, 3, 5, (5, 6), (2, 2), strides=(3, 4), transposed=True, extra=(2, 3)
    ),
    "transposed groups": make(1, 12, 6, (5, 5), (3, 3), strides=(2, 2), groups=3, transposed=True),
    "transposed depthwise": make(1, 16, 16, (5, 5), (3, 3), strides=(2, 2), begin=(1, 1), groups=16, transposed=True),
    "transposed asymmetric": make(1, 4, 6, (5, 5), (3, 3), begin=(0, 2), end=(1, 0), transposed=True),
    "transposed 3d": make(1, 4, 6, (3, 4, 5), (3, 3, 3), strides=(2, 2, 2), begin=(1, 1, 1), transposed=True),
}


@pytest.mark.parametrize("name", CASES)
def test_convolution_agrees_with_torch(name: str):
    inputs, constants, step = CASES[name]
    (got,) = compute(inputs, constants, [step], ["y"])
    assert_close(got, reference(inputs["x"], constants["w"], constants.get("b"), step))


@pytest.mark.parametrize("name", CASES)
def test_weights_given_at_run_time_mean_the_same(name: str):
    inputs, constants, step = CASES[name]
    (got,) = compute(inputs | constants, {}, [step], ["y"])
    assert_close(got, reference(inputs["x"], constants["w"], constants.get("b"), step))


@pytest.mark.parametrize("name", [n for n in CASES if "transposed" not in n])
def test_common_convolutions_have_an_optimised_kernel(name: str):
    inputs, constants, step = CASES[name]
    assert not [r for r in region_of(inputs, constants, [step], ["y"]).describe() if r.impl.startswith("ref")]


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("operand", [(2, 16, 6, 6), (16, 1, 1), (1, 16, 1, 1), (), (1,), (6,), (6, 1), (2, 1, 1, 1)])
@pytest.mark.parametrize("kind", ["add", "mul"])
def test_post_operand_broadcasts_as_in_numpy(groups: int, operand: tuple[int, ...], kind: str):
    post = (PostBinary(kind, "r"), PostEltwise("relu"))
    inputs, constants, step = make(2, 16, 16, (6, 6), (3, 3), begin=(1, 1), groups=groups, post_ops=post)
    r = np.asarray(normal(*operand, seed=9), np.float32)
    plain = reference(inputs["x"], constants["w"], constants["b"], step)
    want = np.maximum(plain + r if kind == "add" else plain * r, 0)
    for changing, fixed in ((inputs | {"r": r}, constants), (inputs, constants | {"r": r})):
        assert_close(compute(changing, fixed, [step], ["y"])[0], want)


def test_post_operations_apply_in_order():
    post = (PostEltwise("clip", -1, 1), PostBinary("mul", "s"), PostEltwise("linear", 2, 1), PostBinary("add", "r"))
    inputs, constants, step = make(1, 8, 8, (5, 5), (1, 1), post_ops=post)
    s, r = normal(8, 1, 1, seed=4), normal(1, 8, 5, 5, seed=5)
    plain = reference(inputs["x"], constants["w"], constants["b"], step)
    (got,) = compute(inputs | {"r": r}, constants | {"s": s}, [step], ["y"])
    assert_close(got, np.clip(plain, -1, 1) * s * 2 + 1 + r)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_random_convolutions_agree_with_torch(data: st.DataObject):
    rank = data.draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    groups = data.draw(st.sampled_from([1, 1, 2, 3, 8]))
    c, o = (groups * data.draw(st.integers(1, 9)) for _ in "co")
    transposed = data.draw(st.booleans())
    spatial, kernel, strides, dilation, begin, end = (
        each(1, 9),
        each(1, 3),
        each(1, 3),
        each(1, 2),
        each(0, 2),
        each(0, 2),
    )
    inputs, constants, step = make(
        data.draw(st.integers(1, 2)),
        c,
        o,
        spatial,
        kernel,
        strides=strides,
        begin=begin,
        end=end,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
        bias=data.draw(st.booleans()),
    )
    assume(min(step.dst.shape) > 0)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    assume(transposed or all(s + b + e >= r for s, b, e, r in zip(spatial, begin, end, reach, strict=True)))
    (got,) = compute(inputs, constants, [step], ["y"])
    assert_close(got, reference(inputs["x"], constants["w"], constants.get("b"), step))
