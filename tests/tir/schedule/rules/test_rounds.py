"""Tiles in rounds: each block of terms is summed for all rows of a piece of work before the next block is."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.padded import Array, BlockedConvolution
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.function_attributes import TRACE
from eutectic.tir.interpret import run
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules import partial_sums, rounds
from eutectic.tir.schedule.rules.choosing import with_decisions
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.tir.schedule.rules.register_axes import contiguous_result, register_axes
from eutectic.tir.schedule.rules.stage import stages_of
from eutectic.tir.schedule.rules.walk import walk_of

NATIVE = Target("llvm")
POINT = "register_tile@0"


@dataclass(frozen=True)
class Convolution:
    """Windows over images with channels in blocks of 16, whose weights are in panels, and a relu.

    Attributes:
        images: How many.
        size: Rows, and points of a row, of the result.
        blocks: Of channels.
        panels: Of weights.
        width: Numbers of a panel.
        taps: Rows, and points of a row, of a window.
        apart: From one tap to the next.
    """

    images: int = 1
    size: int = 7
    blocks: int = 32
    panels: int = 16
    width: int = 32
    taps: int = 3
    apart: int = 1

    def shapes(self) -> list[tuple[int, ...]]:
        wide = self.size + self.apart * (self.taps - 1)
        return [
            (self.images, self.blocks, wide, wide, 16),
            (self.panels, self.blocks, self.taps, self.taps, 16, self.width),
        ]

    def program(self, size: int | tir.Var | None = None) -> tir.PrimFunc:
        size = self.size if size is None else size
        (_, *shape), shape_of_weights = self.shapes()
        shape[1] = shape[2] = size + self.apart * (self.taps - 1)
        x, w = te.placeholder((self.images, *shape), "float32", "x"), te.placeholder(shape_of_weights, "float32", "w")
        extents = (self.blocks, "c"), (self.taps, "p"), (self.taps, "q"), (16, "i")
        c, p, q, i = (te.reduce_axis((0, n), name) for n, name in extents)
        sums = te.compute(
            (self.images, self.panels, size, size, self.width),
            lambda n, o, y, z, v: te.sum(
                x[n, c, y + self.apart * p, z + self.apart * q, i] * w[o, c, p, q, i, v], [c, p, q, i]
            ),
            "sums",
        )
        return te.create_prim_func([x, w, te.compute(sums.shape, lambda *at: te.max(sums[at], 0.0), "out")])

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(3)
        return [rng.standard_normal(shape).astype("float32") for shape in self.shapes()]

    def want(self, x: Array, w: Array) -> Array:
        total = np.zeros((self.images, self.panels, self.size, self.size, self.width))
        for p, q in np.ndindex(self.taps, self.taps):
            y, z = self.apart * p, self.apart * q
            seen = x[:, :, y : y + self.size, z : z + self.size].astype("f8")
            total += np.einsum("ncyzi,ociv->noyzv", seen, w[:, :, p, q].astype("f8"))
        return np.maximum(total, 0)


def chosen(func: tir.PrimFunc, processor: Vectors | None = None) -> dict[str, object]:
    return dict(choice_points(func, processor or Vectors())[POINT].chosen)


def in_rounds(func: tir.PrimFunc, processor: Vectors | None = None, *, there: bool = True) -> tir.PrimFunc | None:
    """The program with tiles in rounds, or the same ones without; None when it can have none."""
    processor = processor or Vectors()
    others = choice_points(func, processor)[POINT].alternatives()
    found = next((dict(decisions) for decisions in others if decisions.get("rounds")), None)
    if found is None:
        return None
    if not there:
        del found["rounds"]
        assert found in [dict(other) for other in others]
    done = schedule_for_cpu(with_decisions(func, {POINT: found}), processor)
    (said,) = map(str, done.attrs["tir.chosen"])  # nothing was refused
    assert said.startswith(POINT)
    assert ("rounds" in said) is there
    return done


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs have several rounds."""
    monkeypatch.setattr(partial_sums, "_TERMS", 40)
    monkeypatch.setattr(rounds, "_FEWEST_PIECES", 1)
    monkeypatch.setattr(rounds, "_FEWEST_TILES", 1)


# ---- where they pay


@pytest.mark.parametrize(
    "convolution",
    [
        Convolution(),  # 590 KB for each of 7 tiles
        Convolution(size=14, blocks=16, panels=8),
        Convolution(size=28, blocks=128, panels=8, apart=12),  # all weights are far, for each of 56 tiles
        Convolution(images=4),
    ],
)
def test_weights_of_a_tile_that_are_not_near_are_read_in_rounds(convolution: Convolution):
    assert chosen(convolution.program()).get("rounds")


@pytest.mark.parametrize(
    "convolution",
    [
        Convolution(blocks=4),  # 74 KB are near
        Convolution(size=2),  # two tiles
        Convolution(taps=5),  # 51 KB of a block of channels are not near either
        Convolution(panels=4),  # pieces of work: 7 rows of points are no even parts
        Convolution(size=28, blocks=8, panels=4),  # all weights are near, and rows are gone through once
    ],
)
def test_others_are_not(convolution: Convolution):
    assert not chosen(convolution.program()).get("rounds")


def test_images_of_any_size_have_none():
    assert not chosen(Convolution().program(tir.Var("n", "int64"))).get("rounds")


def test_pieces_of_work_are_even_parts_where_there_are_few():
    convolution = Convolution(size=14, blocks=16, panels=4)
    assert chosen(convolution.program()).get("rounds")
    text = schedule_for_cpu(convolution.program(), Vectors()).without_attr(TRACE).script()
    assert "T.parallel(8)" in text, "four panels, for 7 of 14 rows each"


def test_totals_stay_near():
    """Those of one image do, those of four do not, and those of a large one are done in bands of rows."""
    convolution = Convolution(images=4, size=28, blocks=32, panels=16)
    found = rounds_of(convolution)
    assert [span.size for span in found.inner] == [4, 28, 28]
    assert found.run == (found.inner[0], 1)
    assert (found.passes, found.panels) == (4, 16)
    large = rounds_of(Convolution(size=56, blocks=32, panels=16))
    assert large.run == (large.inner[0], 14)
    assert (large.passes, large.panels) == (4, 16)
    small = rounds_of(Convolution(images=4))
    assert [span.size for span in small.inner] == [4, 7, 7]


def rounds_of(convolution: Convolution) -> rounds.Rounds:
    """Tiles in rounds of one block of channels."""
    func = convolution.program()
    found = stages_of(func)
    assert found is not None
    walk = walk_of(found[0][0])
    axes, own = register_axes(walk, contiguous_result(walk)), chosen(func)
    assert axes.rows is not None
    assert axes.vector is not None
    made = rounds.rounds_of(axes, {axes.rows: own["rows"], axes.vector: own["width"]}, 1)
    assert made is not None
    return made


def test_it_is_a_choice():
    own, *others = choice_points(Convolution().program(), Vectors())[POINT].alternatives()
    assert own["rounds"]
    assert {name: value for name, value in own.items() if name != "rounds"} in others
    near, *others = choice_points(Convolution(blocks=4, size=14).program(), Vectors())[POINT].alternatives()
    assert not near.get("rounds")
    assert {**near, "rounds": True} in others


# ---- what they compute


def test_each_block_of_weights_is_read_for_all_rows_before_the_next():
    text = in_rounds(Convolution().program()).without_attr(TRACE).script()
    (rounds_and_rows,) = re.findall(r"for (c_\w+), (y_\w+), \w+ in T.grid\(32, 7, 1\)", text)
    assert text.index("T.parallel(16)") < text.index(", ".join(rounds_and_rows)) < re.search(r"for p\b", text).start()


@pytest.mark.parametrize("processor", [Vectors(), Vectors(256, 16)])
@pytest.mark.parametrize("convolution", [Convolution(), Convolution(images=2, blocks=3, panels=9), Convolution(size=5)])
@pytest.mark.usefixtures("small")
def test_sums_are_those_of_tiles_without_rounds(convolution: Convolution, processor: Vectors):
    """Terms are added in the same order, so that no bit differs."""
    arrays = convolution.arrays()
    results = []
    for there in (True, False):
        out = np.full(convolution.want(*arrays).shape, np.nan, "float32")
        NativePrimFunc(in_rounds(convolution.program(), processor, there=there), NATIVE, 2)(*arrays, out)
        results.append(out)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], convolution.want(*arrays), atol=1e-3)


@pytest.mark.usefixtures("small")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    convolution=st.builds(
        Convolution,
        images=st.integers(1, 2),
        size=st.integers(2, 9),
        blocks=st.sampled_from([2, 4, 6]),
        panels=st.integers(1, 7),
        width=st.sampled_from([8, 16, 32, 48]),
        taps=st.integers(1, 3),
        apart=st.integers(1, 2),
    ),
    processor=st.sampled_from([Vectors(), Vectors(256, 16), Vectors(128, 16)]),
)
def test_values(convolution: Convolution, processor: Vectors):
    done = in_rounds(convolution.program(), processor)
    assume(done is not None)  # an even number of blocks of terms
    check_round_trip(done)
    arrays = convolution.arrays()
    out = np.full(convolution.want(*arrays).shape, np.nan, "float32")
    NativePrimFunc(done, NATIVE, 2)(*arrays, out)
    np.testing.assert_allclose(out, convolution.want(*arrays), atol=1e-3)


@pytest.mark.usefixtures("small")
def test_it_is_a_trace_that_gives_the_same_again():
    func = Convolution(size=3, blocks=4, panels=3).program()
    done = in_rounds(func, Vectors(256, 16))
    sch = tir.Schedule(func)
    trace_from_python(done.attrs[TRACE]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, done.body)


@pytest.mark.usefixtures("small")
def test_the_interpreter_computes_it():
    convolution = Convolution(size=3, blocks=2, panels=2, width=16)
    arrays = convolution.arrays()
    out = np.full(convolution.want(*arrays).shape, np.nan, "float32")
    run(in_rounds(convolution.program(), Vectors(256, 16)), *arrays, out)
    np.testing.assert_allclose(out, convolution.want(*arrays), atol=1e-3)


class Padded(BlockedConvolution):
    """Two images, which share what pads them with what adds."""

    images, blocks, filters = 2, 32, 8


@pytest.mark.parametrize(("size", "stride", "apart"), [(7, 1, 1), (14, 2, 1), (9, 1, 4)])
def test_images_that_are_padded_one_by_one(size: int, stride: int, apart: int):
    windows = Padded((size, size), (3, 3), (stride, stride), (apart, apart), (apart, apart), apart)
    assert any("rounds" in line for line in windows.chosen())
    windows.check(schedule_for_cpu(windows.program(), Vectors()))


class Narrow(BlockedConvolution):
    """Channels in blocks of 8, three of which make a tile, and one or two are left."""

    blocks, channels, filters, lanes = 8, 8, 32, 8


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_what_is_left_of_rows_is_one(rows: int):
    """The last tile of a row of seven may have one point, whose place is known."""
    windows, processor = Narrow((14, 14), (5, 5), (2, 2), (2, 2), (2, 2)), Vectors(256, 16)
    point = next(point for point in choice_points(windows.program(), processor).values() if point.chosen.get("rounds"))
    decisions = {**point.chosen, "rows": rows, "blocks": 3}
    done = schedule_for_cpu(with_decisions(windows.program(), {point.name: decisions}), processor)
    assert any(line.startswith(point.name) and "rounds=true" in line for line in done.attrs["tir.chosen"])
    windows.check(done)
