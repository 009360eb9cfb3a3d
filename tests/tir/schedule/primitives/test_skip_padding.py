"""skip_padding and can_skip_padding: sums without the terms that multiply padding, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.tir.schedule.programs import keeps, small_conv
from tests.tir.transform.schedules import of, x

from eutectic import te, topi
from eutectic.script import tir as T
from eutectic.support.errors import ScheduleError
from eutectic.tir import PrimFunc
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.schedule import BlockRV, Schedule
from eutectic.tir.transform import lower

WEIGHTS = 1  # place of the parameter


def convolution(
    size: int = 4, dilation: int = 1, stride: int = 1, dtype: str = "float32", finite: Any = (1,)
) -> PrimFunc:
    """A padded convolution, of which taps in the corners see nothing else where they are far apart."""

    def definition(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.relu(topi.nn.conv2d(data, weight, stride, dilation, dilation))

    func = of(definition, x(1, 2, size, 3, dtype=dtype), x(2, 2, 3, 3, name="w", dtype=dtype))
    return func.with_attr(FINITE_PARAMS, finite) if finite else func


def skipped(func: PrimFunc, loop: int = 5, **options: Any) -> Schedule:
    """The schedule in which sums leave out rows of padding."""
    sch = Schedule(func, **options)
    skip(sch, loop)
    return sch


def skip(sch: Schedule, loop: int = 5, around: str = "conv2d_nchw_update") -> None:
    """The steps of it; loops are n, c, y, x, ci, ky, kx."""
    block = only_adds(sch)
    sch.skip_padding(block, 1, sch.get_loops(around)[loop])


def only_adds(sch: Schedule) -> BlockRV:
    """The block of a convolution, of which another one begins the sums."""
    block = sch.get_block("conv2d_nchw")
    sch.decompose_reduction(block, sch.get_loops(block)[4])
    return block


@pytest.mark.parametrize(("dilation", "stride"), [(1, 1), (2, 1), (1, 2), (3, 2), (4, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_results_keep_their_bits(dilation: int, stride: int, dtype: str):
    func = convolution(5, dilation, stride, dtype, finite=() if dtype == "int32" else (WEIGHTS,))
    sch = skipped(func, debug_mask="all")
    assert "T.where" in sch.func.script()
    keeps(func, sch)


def test_which_conditions_it_asks():
    sch = skipped(convolution())
    assert "T.where(ry + yy >= 1 and ry + yy < 5)" in sch.func.script().replace("yy + ry", "ry + yy")
    both = skipped(convolution(), loop=6).func.script()
    assert "rx" in next(line for line in both.splitlines() if "T.where" in line)
    loops = [str(stmt) for stmt in str(lower(sch.func)).splitlines() if "if " in stmt or "for " in stmt]
    asked = next(k for k, line in enumerate(loops) if "if " in line and "ry" in line)
    assert "for rx" in loops[asked + 1]  # once for all terms within


def test_border_that_was_split_into_parts():
    sch = Schedule(convolution())
    sch.loop_partition(sch.get_loops("pad_temp")[3], [1, None])
    skip(sch)
    keeps(convolution(), sch)


def test_asking_changes_nothing():
    sch = Schedule(convolution())
    block = sch.get_block("conv2d_nchw")
    assert sch.can_skip_padding(block, 1, sch.get_loops(block)[5]) is False  # it begins its sums itself
    sch.decompose_reduction(block, sch.get_loops(block)[4])
    loop = sch.get_loops(block)[5]
    before, steps = sch.func, len(sch.trace)
    assert sch.can_skip_padding(block, 1, loop) is True
    assert sch.can_skip_padding(block, 2, loop) is False
    assert sch.func is before
    assert len(sch.trace) == steps
    assert sch.can_skip_padding("conv2d_nchw_update", 1, loop) is True


@pytest.mark.parametrize(("dilation", "want"), [(1, 2 / 12), (2, 4 / 12), (3, 6 / 12), (4, 8 / 12)])
def test_share_of_padding(dilation: int, want: float):
    """Of three taps of four points each, those on both sides of the middle see `dilation` points beyond the border."""
    sch = Schedule(convolution(4, dilation))
    block = only_adds(sch)
    loops, before, steps = sch.get_loops(block), sch.func, len(sch.trace)
    rows, taps = loops[5], loops[6]
    assert sch.padding_share(block, 1, rows, rows) == pytest.approx(want)
    assert sch.padding_share(block, 1, taps, rows) == pytest.approx(want)
    assert sch.padding_share(block, 1, rows, taps) == 0, "nothing that is known there depends on taps"
    assert sch.padding_share(block, 2, taps, taps) == 0, "weights are no padding"
    assert sch.func is before
    assert len(sch.trace) == steps


def test_share_of_padding_of_more_iterations_than_are_looked_at():
    sch = Schedule(convolution(2000, 500))
    block = only_adds(sch)
    rows = sch.get_loops(block)[5]
    assert sch.can_skip_padding(block, 1, rows)
    assert sch.padding_share(block, 1, rows, rows) == 0


# ---- refusals


def filtered(*, border: float = 0.0, first: float = 0.0) -> PrimFunc:
    """Sums of three neighbours, which begin with a number, of data with a border of another."""

    @T.prim_func(private=True)
    def func(A: T.Buffer((4,), "float32"), w: T.Buffer((3,), "float32"), C: T.Buffer((4,), "float32")):
        T.func_attr({"tir.finite_params": [1]})
        P = T.alloc_buffer((6,))
        S = T.alloc_buffer((4,))
        for i in range(6):
            with T.block("P"):
                v = T.axis.spatial(6, i)
                P[v] = T.if_then_else(v >= 1 and v < 5, A[v - 1], T.float32(border))
        for i in range(4):
            with T.block("first"):
                v = T.axis.spatial(4, i)
                S[v] = T.float32(first)
            for k in range(3):
                with T.block("S"):
                    v, u = T.axis.remap("SR", [i, k])
                    S[v] = S[v] + P[v + u] * w[u]
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = S[v]

    return func


@T.prim_func(private=True)
def of_the_caller(P: T.Buffer((6,), "float32"), w: T.Buffer((3,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"tir.finite_params": [1]})
    S = T.alloc_buffer((4,))
    for i in range(2):
        with T.block("P"):
            v = T.axis.spatial(2, i)
            P[v] = T.if_then_else(v >= 1, T.float32(2), T.float32(0))
    for i in range(4):
        with T.block("first"):
            v = T.axis.spatial(4, i)
            S[v] = T.float32(0)
        for k in range(3):
            with T.block("S"):
                v, u = T.axis.remap("SR", [i, k])
                S[v] = S[v] + P[v + u] * w[u]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = S[v]


def product_of(*, narrow: bool) -> PrimFunc:
    """A sum of what is padded times two weights, or a weight of a narrower dtype: both may be infinite."""
    a, w, v = te.placeholder((4,), "float32", "A"), te.placeholder((3,), "float32", "w"), te.placeholder((3,), name="v")
    pad, k = topi.nn.pad(a, [1], [1], 0, "P"), te.reduce_axis((0, 3), "k")

    def term(i: Any) -> Any:
        if narrow:
            return (pad[i + k].astype("float16") * w[k].astype("float16")).astype("float32")
        return pad[i + k] * (w[k] * v[k])

    total = te.compute((4,), lambda i: te.sum(term(i), axis=k), "S")
    out = te.compute((4,), lambda i: total[i] + 1.0, "C")
    return te.create_prim_func([a, w, v, out]).with_attr(FINITE_PARAMS, (1, 2))


def of_a_sum(sch: Schedule) -> None:
    block = sch.get_block("S")
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    for number in range(len(sch.get(block).reads)):
        if sch.get(block).reads[number].buffer.name == "P":
            sch.skip_padding(block, number, sch.get_loops(block)[1])


def at_last(block: str) -> Callable[[Schedule], Any]:
    """The step at the innermost loop."""
    return lambda sch: sch.skip_padding(block, 1, sch.get_loops(block)[-1])


@pytest.mark.parametrize(
    ("func", "step", "said"),
    [
        (filtered(first=-0.0), at_last("S"), "another number than 0.0"),
        (filtered(border=1.0), at_last("S"), "does not pad P with zeros"),
        (of_the_caller, at_last("S"), "what writes P is not known"),
        (convolution(finite=()), lambda sch: skip(sch, 5), "known to be finite"),
        (convolution(finite=(0,)), lambda sch: skip(sch, 5), "known to be finite"),
        (convolution(), lambda sch: skip(sch, 3), "is padding as far as"),
        (convolution(), lambda sch: sch.skip_padding("conv2d_nchw", 1, sch.get_loops("conv2d_nchw")[5]), "only add"),
        (convolution(), lambda sch: sch.skip_padding("pad_temp", 0, sch.get_loops("pad_temp")[0]), "only add"),
        (product_of(narrow=True), of_a_sum, "known to be finite"),
        (product_of(narrow=False), of_a_sum, "known to be finite"),
        (convolution(), lambda sch: skip(sch, 0, around="pad_temp"), "is not around block"),
        (small_conv(), lambda sch: sch.skip_padding("conv2d_nchw", 4, sch.get_loops("conv2d_nchw")[5]), "no buffer"),
    ],
)
def test_what_it_refuses(func: PrimFunc, step: Callable[[Schedule], Any], said: str):
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match=said):
        step(sch)
