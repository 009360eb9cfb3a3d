"""Tiles of several blocks of channels: which are chosen, what they compute, and that they fit into registers."""

from __future__ import annotations

import platform
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.driver.inspect import kernel_spills
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.interpret import run
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.tile_size import Tile, TileAxes, choose_tile, near_tiles
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

AVX2 = Vectors(256, 16)
AVX512 = Vectors()
NATIVE = Target("llvm")
LANES = 8


class Extent:
    """An axis of so many iterations."""

    def __init__(self, size: int) -> None:
        self.size = size


def axes(rows: int, vector: int, blocks: int, widest: int | None = None) -> TileAxes:
    return TileAxes(Extent(vector), Extent(rows), shares=True, blocks=Extent(blocks), widest=widest)


@pytest.mark.parametrize(
    ("rows", "blocks", "tile"),
    [
        (3136, 32, Tile(6, 8, 2)),  # twelve sums, as many as fit
        (3136, 3, Tile(4, 8, 3)),
        (7, 64, Tile(4, 8, 3)),  # 4 and 3 rows, where 6 of them would leave one
        (14, 32, Tile(5, 8, 2)),
        (49, 1, Tile(13, 8, 1)),
    ],
)
def test_tiles_are_those_with_the_least_cycles(rows: int, blocks: int, tile: Tile):
    assert choose_tile(axes(rows, LANES, blocks), AVX2) == tile


def test_blocks_of_two_vectors_are_one_in_a_tile():
    assert {tile.blocks for tile in near_tiles(axes(3136, 2 * LANES, 32), AVX2, 32, 99)} == {1, 2}


def test_blocks_whose_weights_do_not_stay_near_are_fewer():
    assert choose_tile(axes(7, 16, 32), AVX512).blocks == 3
    assert choose_tile(axes(7, 16, 32, widest=40), AVX512).blocks == 2
    assert choose_tile(axes(7, 16, 32, widest=1), AVX512).blocks == 1


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 20), st.sampled_from([AVX2, AVX512]))
def test_tiles_fit_into_registers(rows: int, vector: int, blocks: int, processor: Vectors):
    for tile in near_tiles(axes(rows, vector, blocks), processor, 32, 99):
        vectors = tile.blocks * (tile.width // processor.lanes())
        assert tile.rows * vectors + vectors + 1 <= processor.registers
        assert tile.rows <= rows
        assert tile.blocks <= blocks
        assert tile.cost > 0


def convolution(blocks: int, filters: int, image: tuple[int, int], window: int, stride: int = 1) -> tir.PrimFunc:
    """A convolution over blocks of channels with a bias and an activation."""
    data = te.placeholder((1, blocks, *image, LANES), "float32", "data")
    weight = te.placeholder((filters, blocks, window, window, LANES, LANES), "float32", "weight")
    bias = te.placeholder((filters, LANES), "float32", "bias")
    made = conv2d_nchwc(data, weight, stride, window // 2)
    total = te.compute(made.shape, lambda n, o, y, x, c: made[n, o, y, x, c] + bias[o, c], "total")
    return te.create_prim_func([data, weight, bias, topi.nn.relu(total)])


def values_of(func: tir.PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = [[int(size) for size in func.buffer_map[param].shape] for param in func.params]
    return [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data())
def test_values_for_any_number_of_blocks_and_rows(data: st.DataObject):
    """Sums of small whole numbers are exact in every order."""
    sizes = [data.draw(st.integers(1, most)) for most in (2, 7, 9, 9)]
    window, stride = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([1, 2]))
    func = convolution(sizes[0], sizes[1], (sizes[2], sizes[3]), window, stride)
    *inputs, want = values_of(func)
    run(func, *inputs, want)
    scheduled = schedule_for_cpu(func, AVX2)
    assert not any("refused" in str(line) for line in scheduled.attrs["tir.chosen"])
    check_round_trip(scheduled)
    got = np.full_like(want, np.nan)
    NativePrimFunc(scheduled, NATIVE, 2)(*inputs, got)
    np.testing.assert_array_equal(got, want)


def test_every_candidate_gives_the_same():
    func = convolution(2, 5, (7, 7), 1)
    *inputs, want = values_of(func)
    run(func, *inputs, want)
    (point,) = [point for name, point in choice_points(func, AVX2).items() if name.startswith("register_tile")]
    forms = {(choice["rows"], choice["blocks"]) for choice in point.alternatives()}
    assert len({blocks for _, blocks in forms}) > 1
    for choice in point.alternatives():
        decided = with_decisions(func, {point.name: choice})
        got = np.full_like(want, np.nan)
        NativePrimFunc(schedule_for_cpu(decided, AVX2), NATIVE, 2)(*inputs, got)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("run_of", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("image", [(7, 7), (6, 8)], ids=["odd", "even"])
def test_runs_of_tiles_give_the_same(run_of: int, image: tuple[int, int]):
    """The last run may have fewer tiles, none that is whole, or one that is not."""
    func = convolution(2, 5, image, 1)
    *inputs, want = values_of(func)
    run(func, *inputs, want)
    (point,) = [point for name, point in choice_points(func, AVX2).items() if name.startswith("register_tile")]
    assert "run" not in point.chosen
    plain = {**point.chosen, "stream_rows": False}
    scheduled = schedule_for_cpu(with_decisions(func, {point.name: {**plain, "run": run_of}}), AVX2)
    assert not any("refused" in str(line) for line in scheduled.attrs["tir.chosen"])
    check_round_trip(scheduled)
    got = np.full_like(want, np.nan)
    NativePrimFunc(scheduled, NATIVE, 2)(*inputs, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("sizes", "processor", "run_of"),
    [
        ((64, 64, (56, 56)), AVX2, 13),  # 160 kB of 6.4 MB
        ((64, 64, (56, 56)), AVX512, None),
        ((64, 64, (7, 7)), AVX2, None),  # the data stays near
        ((32, 8, (56, 56)), AVX2, None),  # the weights do
    ],
)
def test_what_stays_near_is_walked_through_in_one_run(
    sizes: tuple[int, int, tuple[int, int]], processor: Vectors, run_of: int | None
):
    points = choice_points(convolution(*sizes, 1), processor)
    (point,) = [point for name, point in points.items() if name.startswith("register_tile")]
    assert point.chosen.get("run") == run_of
    assert all("run" not in choice or not choice["stream_rows"] for choice in point.alternatives())


STEMS = {
    "7x7 by twos": (3, 16, 7, 2),
    "3x3 by twos": (3, 8, 3, 2),
    "3x3": (3, 8, 3, 1),
}


def stem(channels: int, filters: int, window: int, stride: int) -> tir.PrimFunc:
    """A convolution of an image, whose result is in blocks."""
    data = te.placeholder((1, channels, 32, 32), "float32", "data")
    weight = te.placeholder((filters // LANES, channels, window, window, LANES), "float32", "weight")
    return te.create_prim_func([data, weight, conv2d_nchwc(data, weight, stride, window // 2)])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
@pytest.mark.parametrize("case", STEMS.values(), ids=STEMS.keys())
def test_windows_that_rows_see_together_are_not_written_out(case: tuple[int, int, int, int]):
    """Written out, elements would be kept for the next row in registers that the sums need."""
    func = stem(*case)
    (line,) = [str(line) for line in schedule_for_cpu(func, AVX2).attrs["tir.chosen"] if "register_tile" in str(line)]
    assert "unroll=[false, false, false]" in line
    assert kernel_spills(func, "llvm -mcpu=x86-64-v3") == {"main": 0}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions")
@pytest.mark.parametrize(("window", "image"), [*product([1, 3], [(7, 7), (14, 14), (28, 28)])])
def test_sums_stay_in_registers(window: int, image: tuple[int, int]):
    """One tap: a vector may be put away for the 96 products with a block of channels, which are written out."""
    func = convolution(4, 8, image, window)
    assert machine_of(Target("llvm -mcpu=x86-64-v3")).registers == AVX2.registers
    assert kernel_spills(func, "llvm -mcpu=x86-64-v3")["main"] <= (6 if window == 1 else 0)
