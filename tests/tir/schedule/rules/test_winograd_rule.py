"""Convolutions by Winograd's method in default schedules: tiles of several stages, by rows or stage by stage."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.structural import structural_equal
from eutectic.target import Target
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.rules import winograd
from eutectic.tir.schedule.rules.cpu import schedule_by_rules, schedule_for_cpu
from eutectic.tir.stmt import parts_of
from eutectic.topi.nn import winograd as topi_winograd
from eutectic.topi.nn.winograd_transforms import packed_weights

LANES = Vectors(128).lanes()
LAYOUTS = ("NHWC", f"NCHW{LANES}c")
LAYOUTS_OF_VOLUMES = ("NDHWC", f"NCDHW{LANES}c")
# Images, channels, filters, rows, columns, outputs of a tile along an axis, padding.
CASES = [
    (1, 4, 8, 9, 14, 4, 1),
    (2, 8, 4, 12, 8, 2, 1),
    (1, 8, 16, 10, 62, 4, 0),
    (3, 4, 4, 5, 13, 2, (0, 1, 2, 1)),
]
# Slices, those of a window, then as for images.
VOLUMES = [
    (5, 3, 1, 4, 8, 9, 14, 4, 1),
    (4, 1, 1, 8, 4, 12, 8, 2, (0, 1, 1)),
    (3, 2, 2, 4, 8, 9, 13, 4, (1, 0, 1, 0, 1, 2)),
    (1, 3, 1, 4, 4, 8, 9, 4, (1, 1, 1)),
]


def laid_out(image: np.ndarray, layout: str) -> np.ndarray:
    """An image `(n, c, h, w)`, or a volume `(n, c, d, h, w)`, in a layout."""
    if layout.endswith("C"):
        return np.ascontiguousarray(np.moveaxis(image, 1, -1))
    n, c, *space = image.shape
    return np.ascontiguousarray(np.moveaxis(image.reshape(n, c // LANES, LANES, *space), 2, -1))


def direct(data: np.ndarray, weight: np.ndarray, padding: Any) -> np.ndarray:
    """Direct sums in float64."""
    rank = data.ndim - 2
    widths = (padding,) * (2 * rank) if isinstance(padding, int) else padding * (2 * rank // len(padding))
    padded = np.pad(data.astype(np.float64), [(0, 0), (0, 0), *zip(widths[:rank], widths[rank:], strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=tuple(range(2, data.ndim)))
    taps = [1, *range(data.ndim, windows.ndim)]
    return np.moveaxis(np.tensordot(windows, weight.astype(np.float64), (taps, [*range(1, weight.ndim)])), -1, 1)


def program(case: tuple[Any, ...], layout: str) -> tuple[tir.PrimFunc, list[np.ndarray], np.ndarray]:
    """A convolution with bias, residual and relu; its arguments; what it gives."""
    *slices, n, c, o, h, w, tile, padding = case
    depth, window = (slices[:1], slices[1:]) if slices else ([], [])
    rng = np.random.default_rng(sum(case[:-1]))
    shapes = (n, c, *depth, h, w), (o, c, *window, 3, 3)
    data, weight = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    exact = direct(data, weight, padding)
    ones = [1] * (data.ndim - 2)
    bias, residual = (rng.standard_normal(shape).astype("float32") for shape in ((1, o, *ones), exact.shape))
    inputs = [
        laid_out(data, layout),
        packed_weights(weight, tile, LANES, 2 * LANES if o % (2 * LANES) == 0 else LANES),
        laid_out(bias, layout),
        laid_out(residual, layout),
    ]
    tensors = [te.placeholder(array.shape, "float32", f"p{k}") for k, array in enumerate(inputs)]
    convolution = topi.nn.conv3d_winograd if slices else topi.nn.conv2d_winograd
    convolved = convolution(tensors[0], tensors[1], padding, layout)
    result = topi.nn.relu(topi.add(topi.add(convolved, tensors[2]), tensors[3]))
    expected = laid_out(np.maximum(exact + bias + residual, 0), layout)
    return te.create_prim_func([*tensors, result]), inputs, expected


@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by stages"])
@pytest.mark.parametrize(
    ("case", "layout"),
    [
        *((case, layout) for case in CASES for layout in LAYOUTS),
        *((case, layout) for case in VOLUMES for layout in LAYOUTS_OF_VOLUMES),
    ],
    ids=str,
)
def test_results(case: tuple[Any, ...], layout: str, by_rows: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(winograd, "_NEAR_BYTES", 1 << 30 if by_rows else 0)
    monkeypatch.setattr(winograd, "_FEWEST_ROWS", 0)
    func, inputs, expected = program(case, layout)
    sch = schedule_by_rules(func, Vectors(128))
    nests = parts_of(sch.func.body.block.body)
    assert len(nests) == (1 if by_rows else 4)  # all stages; or padding, transforms, products, and transforms back
    out = np.full(expected.shape, np.nan, "float32")
    NativePrimFunc(sch.func, Target("llvm"), threads=2)(*inputs, out)
    terms = inputs[1].size // np.prod(inputs[1].shape[:3]) // inputs[1].shape[-1]
    assert np.abs(out - expected).max() < 2e-6 * np.abs(expected).max() * terms


@pytest.mark.parametrize(
    ("slices", "window", "nests"), [(16, 1, 1), (3, 1, 4), (64, 3, 1)], ids=["as images", "too few", "in one row"]
)
def test_rows_of_volumes(slices: int, window: int, nests: int):
    """Slices of windows of one are images, so rows of them count; windows of several share what they transform."""
    func, _, _ = program(
        (slices, window, 1, 4, 8, 8 if window == 1 else 56, 8, 4, (window // 2, 1, 1)), LAYOUTS_OF_VOLUMES[1]
    )
    assert len(parts_of(schedule_by_rules(func, Vectors(128)).func.body.block.body)) == nests


@pytest.mark.parametrize("channels", [16, 24, 40])
def test_large_images_are_summed_in_blocks_of_blocks(channels: int, monkeypatch: pytest.MonkeyPatch):
    """Of 4 terms each; of more than 8 such blocks some are added up first, of 10 each 5."""
    monkeypatch.setattr(topi_winograd, "_LARGE", 1)
    monkeypatch.setattr(topi_winograd, "_TERMS_OF_LARGE", 4)
    monkeypatch.setattr(winograd, "_FEWEST_ROWS", 0)
    func, inputs, expected = program((1, channels, 8, 9, 14, 4, 1), LAYOUTS[1])
    sch = schedule_by_rules(func, Vectors(128))
    assert sch.func.script().count("_rf_rf = T.alloc_buffer(") == (channels > 32)
    out = np.full(expected.shape, np.nan, "float32")
    NativePrimFunc(sch.func, Target("llvm"), threads=1)(*inputs, out)
    assert np.abs(out - expected).max() < 2e-6 * np.abs(expected).max() * channels


def test_values_of_tiles_are_not_all_in_one_set_of_a_cache():
    """Of 64 tiles with 16 channels each value has 4 KiB: without more, all 36 of a tile would be 4 KiB apart."""
    func, _, _ = program((1, 16, 8, 32, 256, 4, 1), LAYOUTS[1])
    text = schedule_by_rules(func, Vectors(128)).func.script()
    aligned = re.findall(r'"buffer_dim_align": (\[\[.*?\]\]).*"winograd": "(\w+)"', text)
    assert {("[[0, 1, 256, 144]]", name) for name in ("input_transform", "products")} <= {*aligned}
    assert len({bound for bound, _ in aligned}) == 1


@pytest.mark.parametrize(("case", "layout"), [(CASES[0], LAYOUTS[1]), (VOLUMES[0], LAYOUTS_OF_VOLUMES[1])], ids=str)
@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by stages"])
def test_traces_make_the_same_program(
    by_rows: bool, case: tuple[Any, ...], layout: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(winograd, "_NEAR_BYTES", 1 << 30 if by_rows else 0)
    monkeypatch.setattr(winograd, "_FEWEST_ROWS", 0)
    func, _, _ = program(case, layout)
    scheduled = schedule_for_cpu(func, Vectors(128))
    assert "sch.compute_at(" in scheduled.script()
    sch = tir.Schedule(func)
    trace_from_python(scheduled.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, scheduled.body)
    check_round_trip(scheduled)


@pytest.mark.parametrize(
    ("batch", "size", "nests"), [(1, 56, 1), (1, 28, 4), (2, 28, 1)], ids=["14 rows", "7 rows", "7 rows of 2 images"]
)
def test_few_rows_of_tiles_are_not_enough_for_threads(batch: int, size: int, nests: int):
    """Of 7 rows one of two threads has 4: then stage by stage, which has tiles enough."""
    func, _, _ = program((batch, 4, 8, size, size, 4, 1), LAYOUTS[1])
    assert len(parts_of(schedule_by_rules(func, Vectors(128)).func.body.block.body)) == nests
