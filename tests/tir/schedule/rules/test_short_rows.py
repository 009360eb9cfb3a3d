"""Rows that are read across: short ones several to a vector, long ones as tiles; and what is stored before that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors
from tests.tir.transform.schedules import of

from eutectic import te, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.tir import PrimFunc
from eutectic.tir.function_attributes import TRACE
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.digit_axes import digits_apart, in_digits
from eutectic.tir.schedule.rules.stage import stages_of
from eutectic.tir.schedule.rules.walk import walk_of

AVX512, AVX2 = Vectors(), Vectors(256, 16)
NATIVE = Target("llvm")
PATCHES = (0, 2, 4, 3, 5, 1)


def turned(shape: Sequence[int], order: Sequence[int], result: Sequence[int], dtype: str = "float32") -> PrimFunc:
    """Data of a shape whose axes are brought into another order, and counted together."""

    def definition(data: te.Tensor) -> te.Tensor:
        return topi.reshape(topi.transpose(topi.add(data, data), list(order)), list(result))

    return of(definition, te.placeholder(tuple(shape), dtype, "data"))


def patches(channels: int, size: int, count: int = 4, dtype: str = "float32") -> PrimFunc:
    """Patches of an image, each a row of its pixels with their channels last."""
    shape = (1, channels, count, size, count, size)
    return turned(shape, PATCHES, (1, count * count, size * size * channels), dtype)


def channels_last(channels: int, size: int, dtype: str = "float32") -> PrimFunc:
    return turned((1, channels, size, size), (0, 2, 3, 1), (1, size, size, channels), dtype)


def chosen(func: PrimFunc, processor: Vectors = AVX512) -> tuple[str, object]:
    ((name, point),) = choice_points(func, processor).items()
    return name.partition("@")[0], point.chosen["width"]


def keeps(func: PrimFunc, scheduled: PrimFunc) -> None:
    """The scheduled program, as native code, gives the same numbers."""
    data, out = (func.buffer_map[param] for param in func.params)
    values = np.random.default_rng(3).integers(-9, 9, [int(size) for size in data.shape]).astype(data.dtype)
    found, want = (np.zeros([int(size) for size in out.shape], out.dtype) for _ in range(2))
    NativePrimFunc(scheduled, NATIVE, 2)(values, found)
    run(func, values, want)
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("func", "processor", "rule", "width"),
    [
        (patches(3, 16), AVX512, "short_rows", 96),  # two rows of 16 pixels
        (patches(3, 16), AVX2, "short_rows", 48),
        (patches(3, 14), AVX512, "short_rows", 84),
        (patches(3, 4), AVX512, "short_rows", 12),  # more rows of pixels would be many short loads
        (patches(3, 3), AVX512, "elementwise", 32),  # fewer pixels side by side than are worth it
        (patches(4, 16), AVX512, "elementwise", 32),  # any vector is whole pixels
        (channels_last(3, 40), AVX512, "short_rows", 96),
        (channels_last(4, 40), AVX512, "short_rows", 128),
        (channels_last(7, 40), AVX2, "short_rows", 112),
        (channels_last(8, 40), AVX512, "elementwise", 16),
        (channels_last(1, 40), AVX512, "elementwise", 32),
    ],
)
def test_what_is_chosen(func: PrimFunc, processor: Vectors, rule: str, width: int):
    assert chosen(func, processor) == (rule, width)


def test_long_rows_are_tiles_of_the_axes_that_they_count():
    text = schedule_for_cpu(patches(20, 16), AVX512).without_attr(TRACE).script()
    assert "T.unroll(16)" in text
    assert "T.vectorized(16)" in text
    assert "// 20" not in text


@pytest.mark.parametrize("processor", [AVX512, AVX2])
@pytest.mark.parametrize(
    "func",
    [
        patches(3, 16, 2),
        patches(3, 14, 2),
        patches(5, 4, dtype="int8"),
        patches(6, 6, dtype="float16"),
        patches(20, 16, 2),
        patches(15, 8, 2),
        channels_last(3, 17),  # the last vector has fewer rows
        channels_last(2, 9, "float64"),
        turned((2, 3, 5, 6), (0, 2, 3, 1), (2, 90)),
        turned((2, 3, 2, 2, 4, 3, 4), (0, 2, 4, 3, 5, 6, 1), (8, 144)),
    ],
)
def test_results(func: PrimFunc, processor: Vectors):
    keeps(func, schedule_for_cpu(func, processor))


def test_values_that_are_places():
    def definition(data: te.Tensor) -> te.Tensor:
        rows = topi.reshape(topi.transpose(data, list(PATCHES)), [1, 16, 48])
        return te.compute(rows.shape, lambda n, i, j: rows[n, i, j] * j.astype("float32"), "scaled")

    func = of(definition, te.placeholder((1, 3, 4, 4, 4, 4), "float32", "data"))
    assert chosen(func) == ("short_rows", 12)
    keeps(func, schedule_for_cpu(func, AVX512))


def test_other_widths():
    func = patches(3, 16)
    (point,) = choice_points(func, AVX512).values()
    alternatives = point.alternatives()
    assert [(decisions["width"], decisions["threads"]) for decisions in alternatives] == [
        (96, True),
        (48, True),
        (96, False),
    ]
    for decisions in alternatives:
        keeps(func, schedule_for_cpu(with_decisions(func, {"short_rows@0": decisions}), AVX512))


def digits(func: PrimFunc) -> list[int | None] | None:
    """Sizes of the axes of the last stage, with those apart that it counts together."""
    stages = stages_of(_inlined(func).func)
    assert stages is not None
    found = in_digits(stages[0][-1])
    return None if found is None else [axis.size for axis in found.spatial]


def _inlined(func: PrimFunc) -> Schedule:
    sch = Schedule(func)
    names = [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
    sch.compute_inline(names[:-1])
    return sch


def test_digits_of_an_axis():
    assert digits(patches(3, 16)) == [4, 4, 16, 16, 3]
    assert digits(turned((1, 4, 4, 4), (0, 1, 3, 2), (1, 4, 4, 4))) is None


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5), st.data())
def test_any_order_counted_together_in_any_way(shape: list[int], data: st.DataObject):
    order = data.draw(st.permutations(range(len(shape))))
    sizes = [shape[axis] for axis in order]
    cut = data.draw(st.integers(0, len(sizes)))
    result = [int(np.prod(sizes[:cut], initial=1)), int(np.prod(sizes[cut:], initial=1))]
    assume(np.prod(shape) > 1)
    func = turned(shape, order, result)
    keeps(func, schedule_for_cpu(func, AVX512))
    sch = _inlined(func)
    stages = stages_of(sch.func)
    assert stages is not None
    stage = stages[0][-1]
    found = in_digits(stage)
    if found is not None:
        apart = digits_apart(sch, stage)
        keeps(func, apart.func)
        axes, again = walk_of(found), stages_of(apart.func, counts_together=True)
        assert again is not None
        assert [axis.size for axis in again[0][-1].spatial] == [axis.size for axis in found.spatial]
        assert all(access.form is not None for access in axes.reads)


def joined(turn: Callable[[te.Tensor], te.Tensor], size: int = 40) -> PrimFunc:
    """Two images, one channel after the other, and what becomes of them."""
    a, b = (te.placeholder((1, channels, size, size), "float32", "x") for channels in (5, 6))
    return of(lambda a, b: turn(topi.concatenate([a, b], 1)), a, b)


def stored(func: PrimFunc) -> int:
    return schedule_for_cpu(func, AVX512).script().count("T.alloc_buffer")


def test_parts_are_stored_before_they_are_read_across():
    assert stored(joined(lambda t: topi.transpose(t, [0, 2, 3, 1]))) == 1
    assert stored(joined(lambda t: topi.transpose(t, [0, 1, 3, 2]))) == 0  # a vector is within one part
    assert stored(joined(topi.nn.relu)) == 0
    assert stored(joined(lambda t: topi.transpose(t, [0, 2, 3, 1]), 4)) == 0  # two loops would cost more


@pytest.mark.parametrize("processor", [AVX512, AVX2])
def test_padded_patches(processor: Vectors):
    def definition(data: te.Tensor) -> te.Tensor:
        padded = topi.nn.pad(topi.nn.relu(data), (0, 0, 0, 0), (0, 0, 2, 5))
        split = topi.reshape(padded, [1, 3, 8, 5, 8, 5])
        return topi.reshape(topi.transpose(split, list(PATCHES)), [1, 64, 75])

    func = of(definition, te.placeholder((1, 3, 38, 35), "float32", "data"))
    scheduled = schedule_for_cpu(func, processor)
    assert scheduled.script().count("T.alloc_buffer") == 1
    keeps(func, scheduled)
