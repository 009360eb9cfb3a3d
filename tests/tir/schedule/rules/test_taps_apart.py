"""Windows whose taps are far apart: what points of a tile read is padding in places, and is left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.padded import BlockedConvolution
from tests.tir.schedule.rules.processors import Vectors

from eutectic import tir
from eutectic.ir.visit import post_order
from eutectic.tir.function_attributes import FINITE_PARAMS
from eutectic.tir.schedule.rules.choosing import Chooser
from eutectic.tir.schedule.rules.cpu import schedule_by_rules, schedule_for_cpu
from eutectic.tir.transform import lower

NARROW = Vectors(bits=256, registers=16)


class Convolution(BlockedConvolution):
    """A padded convolution whose weights are finite."""

    def __init__(self, rows: int, points: int, dilation: int, taps: int = 3, stride: int = 1, filters: int = 2) -> None:
        border = dilation * (taps // 2)
        super().__init__((rows, points), (taps, taps), (stride, stride), (border, border), (border, border), dilation)
        self.filters = filters

    def program(self) -> tir.PrimFunc:
        return super().program().with_attr(FINITE_PARAMS, (1,))

    def scheduled(self) -> tir.PrimFunc:
        """For a processor that is the same wherever tests run."""
        return schedule_for_cpu(self.program(), Vectors())


def asked(func: tir.PrimFunc) -> list[str]:
    """Predicates of what adds, where there are some."""
    realizes = [item for item in post_order(func.body) if isinstance(item, tir.BlockRealize)]
    found = [str(item.predicate) for item in realizes if item.block.name_hint.endswith("_update")]
    return [text for text in found if text != "T.bool(True)"]


@pytest.mark.parametrize(("points", "dilation"), [(14, 12), (14, 6), (28, 12), (33, 12), (33, 24)])
def test_each_point_asks_for_itself(points: int, dilation: int):
    scheduled = Convolution(14, points, dilation).scheduled()
    conditions = asked(scheduled)
    assert conditions
    assert all("rx" in text and "xx_1" in text for text in conditions)
    text = str(lower(scheduled))
    assert not [line for line in text.splitlines() if "if " in line and "xx_1" in line], "it is known of each"


def test_terms_that_are_left_out_are_not_in_the_code():
    """Of 14 points two taps of three see nothing at 12 each, and at 13 with taps one further apart."""

    def products(dilation: int) -> int:
        text = str(lower(Convolution(14, 14, dilation).scheduled()))
        return sum(" * " in line.split("=", 1)[-1] and "w_1[" in line for line in text.splitlines())

    assert products(12) == 14 + 2 * 2
    assert products(13) == 14 + 2 * 1


@pytest.mark.parametrize(("points", "dilation"), [(14, 1), (56, 1), (130, 20), (130, 4)])
def test_where_little_is_padding_or_tiles_are_many_rows_ask_together(points: int, dilation: int):
    """Taps that are next to each other, and rows of more tiles than are written out."""
    assert not any("xx_1" in text for text in asked(Convolution(14, points, dilation).scheduled()))


@settings(max_examples=15)
@given(st.integers(1, 30), st.integers(1, 34), st.integers(1, 20), st.sampled_from([3, 5]), st.integers(1, 2))
def test_results(rows: int, points: int, dilation: int, taps: int, stride: int):
    Convolution(rows, points, dilation, taps, stride).check(atol=1e-4)


@pytest.mark.parametrize("filters", [1, 2, 9])
def test_few_and_many_filters(filters: int):
    convolution = Convolution(9, 28, 12, filters=filters)
    convolution.check(atol=1e-4)
    loops = [item for item in post_order(convolution.scheduled().body) if isinstance(item, tir.For)]
    shared = [loop.loop_var.name for loop in loops if loop.kind == "parallel"]
    assert len(shared) == 1, "threads share tiles, and no padded copy is made"


@pytest.mark.parametrize(("size", "dilation"), [(14, 12), (14, 6), (28, 12), (28, 24), (33, 12), (40, 24)])
@pytest.mark.parametrize("filters", [1, 4, 11])
@pytest.mark.parametrize("processor", [Vectors(), NARROW])
def test_no_padded_copy_is_made(size: int, dilation: int, filters: int, processor: Vectors):
    program = Convolution(size, size, dilation, filters=filters).program()
    chooser = Chooser(processor)
    text = str(schedule_by_rules(program, processor, chooser).func)
    assert "pad_temp" not in text
    assert not chooser.refusals


@pytest.mark.parametrize(("size", "dilation"), [(14, 1), (28, 2), (130, 20)])
def test_where_little_is_padding_a_copy_is_made(size: int, dilation: int):
    assert not any("taps_apart" in line for line in Convolution(size, size, dilation).chosen())


@pytest.mark.parametrize("dilation", [8, 12])
def test_terms_are_a_loop_where_much_is_padding(dilation: int):
    """Few terms of a tap would be written out for vectors of 256 bits; then nothing could be asked before them."""
    convolution = Convolution(14, 130, dilation)
    convolution.channels = convolution.lanes = 8
    scheduled = schedule_for_cpu(convolution.program(), NARROW)
    (chosen,) = (str(line) for line in scheduled.attrs["tir.chosen"] if "register_tile" in str(line))
    assert "unroll=[false, false, false, true]" in chosen
    assert all("ry" in text for text in asked(scheduled))
    assert asked(scheduled)
    convolution.check(scheduled, atol=1e-4)
