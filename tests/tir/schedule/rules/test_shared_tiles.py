"""What threads share of a reduction's tiles: parts that are equal, and those that neighbouring kernels gave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.backend.llvm.machine import machine_of
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.visit import post_order
from eutectic.target import Target
from eutectic.tir.schedule.rules.cpu import choice_points, schedule_for_cpu
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

NATIVE = Target("llvm")
WIDE = Vectors(512, 32)


def pointwise(channels: int, filters: int, size: int, batch: int = 1) -> tir.PrimFunc:
    data = te.placeholder((batch, channels // 16, size, size, 16), "float32", "data")
    weight = te.placeholder((filters // 16, channels // 16, 1, 1, 16, 16), "float32", "weight")
    return te.create_prim_func([data, weight, topi.nn.relu(conv2d_nchwc(data, weight, 1, 0))])


def one_row(terms: int, columns: int, batch: int = 1) -> tir.PrimFunc:
    data, weight = te.placeholder((batch, 1, terms), "float32"), te.placeholder((batch, terms, columns), "float32")
    k = te.reduce_axis((0, terms), "k")
    shape = (batch, 1, columns)
    product = te.compute(shape, lambda b, i, j: te.sum(data[b, i, k] * weight[b, k, j], axis=k), "product")
    return te.create_prim_func([data, weight, product])


def shared(func: tir.PrimFunc, processor: Vectors = WIDE) -> tuple[str, int]:
    """Name and iterations of the loop that threads share."""
    scheduled = schedule_for_cpu(func, processor)
    (loop,) = [part for part in post_order(scheduled.body) if isinstance(part, tir.For) and part.kind == "parallel"]
    return loop.loop_var.name, loop.extent.value


@pytest.mark.parametrize(("filters", "least"), [(160, 20), (320, 20), (96, 12)])
def test_few_tiles_of_vectors_are_shared_together_with_those_of_rows(filters: int, least: int):
    """Five tiles, as 160 channels are, leave one of two threads waiting for a fifth of the time."""
    name, pieces = shared(pointwise(960, filters, 7))
    assert name.startswith("fo"), "weights stay outside"
    assert pieces >= least


def test_many_tiles_of_vectors_are_shared_alone():
    assert shared(pointwise(160, 960, 7)) == ("fo_0_fi_0_fused", 30)


def test_tiles_that_two_threads_cannot_share_equally_are_shared_together_with_those_of_rows():
    """Of 21 tiles one thread had 11, and took a tenth longer than the other."""
    name, pieces = shared(pointwise(240, 672, 14))
    assert name.startswith("fo"), "weights stay outside"
    assert pieces == 21 * 14
    assert shared(pointwise(160, 2080, 7)) == ("fo_0_fi_0_fused", 65), "one of many more is not noticed"


def test_tiles_of_many_rows_read_more_weights_again():
    """300 kB, which 14 tiles read again and again; with few registers 33 tiles would."""
    chain = pointwise(112, 672, 14)
    assert shared(chain)[0].startswith("ax1")
    assert shared(chain, Vectors(256, 16))[0].startswith("fo")


@pytest.mark.parametrize(("channels", "filters", "size"), [(96, 576, 14), (576, 96, 14), (192, 32, 28), (32, 192, 28)])
@pytest.mark.parametrize("batch", [1, 2])
def test_rows_of_an_image_are_shared_where_weights_are_small(channels: int, filters: int, size: int, batch: int):
    """What widens channels, the windows of each and what narrows them again are shared in the same way."""
    name, pieces = shared(pointwise(channels, filters, size, batch))
    assert name.startswith("nn" if batch > 1 else "ax1"), "images, then their rows"
    assert pieces >= batch * 12


@pytest.mark.parametrize(
    ("shape", "order"),
    [((1, 3, 64, 64), "ax2 ax1"), ((2, 3, 64, 64), "ax0 ax1 ax2"), ((1, 64, 32, 32), "ax1 ax2")],
)
def test_few_channels_of_an_image_that_is_padded_are_inside_of_its_rows(shape: tuple[int, ...], order: str):
    """The convolution that follows is shared by rows: half of what it read had been written by the other thread."""
    x = te.placeholder(shape, "float32")
    name, _ = shared(te.create_prim_func([x, topi.nn.pad(x, (0, 0, 1, 1), (0, 0, 1, 1))]))
    varying = [part for part in name.split("_") if part.startswith("ax") and (part != "ax0" or shape[0] > 1)]
    assert varying == order.split()


@pytest.mark.parametrize(
    ("terms", "columns", "batch", "pieces"),
    [(784, 128, 1, 2), (784, 96, 1, 2), (784, 256, 1, 2), (64, 64, 1, 1), (784, 128, 4, 4), (784, 16, 1, 1)],
)
def test_halves_of_a_matrix_for_two_threads(terms: int, columns: int, batch: int, pieces: int):
    """A row times a matrix takes as long as it takes to read the matrix."""
    assert shared(one_row(terms, columns, batch))[1] == pieces


def products(batch: int, rows: int, terms: int = 128, panels: int = 4) -> tir.PrimFunc:
    """Matrix products with weights in panels, as Winograd's method has one for each of its values."""
    data = te.placeholder((batch, rows, terms), "float32", "data")
    weight = te.placeholder((batch, panels, terms, 32), "float32", "weight")
    k = te.reduce_axis((0, terms), "k")
    product = te.compute(
        (batch, panels, rows, 32), lambda b, p, r, v: te.sum(data[b, r, k] * weight[b, p, k, v], axis=k), "product"
    )
    return te.create_prim_func([data, weight, product])


@pytest.mark.parametrize(
    ("batch", "rows", "streams"),
    [(36, 49, False), (200, 49, False), (1, 2048, True), (4, 2048, True)],
)
def test_what_vectors_read_again_is_the_data_of_one_product(batch: int, rows: int, streams: bool):
    """25 kB of 36 products stay near, though all of them together do not: weights are read once, panel by panel."""
    chosen = choice_points(products(batch, rows), WIDE)["register_tile@0"].chosen
    assert chosen["stream_rows"] == streams
    asks = choice_points(products(batch, rows), Vectors(waits=True))["register_tile@0"].chosen.get("ahead", False)
    assert asks != streams


@pytest.mark.parametrize(
    "func",
    [pointwise(960, 160, 7), pointwise(96, 80, 7), pointwise(80, 480, 14, 2), one_row(784, 128), one_row(300, 100)],
)
def test_values(func: tir.PrimFunc):
    rng = np.random.default_rng(0)
    shapes = [tuple(int(size) for size in func.buffer_map[param].shape) for param in func.params]
    data, weight, out = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    if data.ndim == 3:
        want = data.astype(np.float64) @ weight
    else:
        want = np.maximum(np.einsum("ncyxi,fcabio->nfyxo", data.astype(np.float64), weight), 0)
    NativePrimFunc(schedule_for_cpu(func, machine_of(NATIVE)), NATIVE, 2)(data, weight, out)
    np.testing.assert_allclose(out, want, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("sizes", [(1, 1), (6, 64), (7, 65), (13, 200)])
@pytest.mark.parametrize("terms", [3, 64])
def test_values_of_tiles_whose_rows_and_columns_are_not_known(terms: int, sizes: tuple[int, int]):
    """A tile has rows of which those that are left are done one by one, and accumulators that begin within them."""
    rows, columns = tir.Var("rows", "int64"), tir.Var("columns", "int64")
    data, weight = te.placeholder((rows, terms), "float32"), te.placeholder((terms, columns), "float32")
    k = te.reduce_axis((0, terms), "k")
    product = te.compute((rows, columns), lambda i, j: te.sum(data[i, k] * weight[k, j], axis=k), "product")
    func = schedule_for_cpu(te.create_prim_func([data, weight, topi.nn.relu(product)]), WIDE)
    assert "rows=6, width=64" in str(func.attrs["tir.chosen"])
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal(shape).astype("float32") for shape in ((sizes[0], terms), (terms, sizes[1])))
    out = np.full(sizes, np.nan, "float32")
    NativePrimFunc(func, NATIVE, 2)(left, right, out)
    np.testing.assert_allclose(out, np.maximum(left.astype(np.float64) @ right, 0), atol=1e-5)


@settings(max_examples=30)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 14), st.sampled_from([1, 3, 16, 17, 33, 49])),
    terms=st.sampled_from([1, 2, 70]),
    operands=st.sampled_from(
        ["nfpk fk", "nfk pk", "fk nkp", "nfk kp", "nfk nkp", "nkf kp", "nfkp k", "fnk npk", "kn fkp"]
    ),
    processor=st.sampled_from([Vectors(128, 16), Vectors(256, 16), WIDE]),
)
@example(sizes=(2, 12, 49), terms=70, operands="fk nkp", processor=Vectors(256, 16))
def test_values_of_products_of_any_axes(sizes: tuple[int, int, int], terms: int, operands: str, processor: Vectors):
    """Tiles along axes that one operand has, or the other, or both; what is left of one may be a single iteration."""
    extents = dict(zip("nfpk", (*sizes, terms), strict=True))
    left, right = operands.split()
    shapes = [[extents[letter] for letter in letters] for letters in (left, right)]
    a, b = (te.placeholder(shape, "float32") for shape in shapes)
    k = te.reduce_axis((0, terms), "k")

    def product(*out: tir.Var) -> Any:
        at = dict(zip("nfpk", (*out, k), strict=True))
        return te.sum(a[tuple(at[letter] for letter in left)] * b[tuple(at[letter] for letter in right)], axis=k)

    func = te.create_prim_func([a, b, topi.nn.relu(te.compute(sizes, product))])
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype("float32") for shape in shapes)
    want = np.maximum(np.einsum(f"{left},{right}->nfp", x.astype(np.float64), y), 0)
    got = np.full(sizes, np.nan, "float32")
    NativePrimFunc(schedule_for_cpu(func, processor), NATIVE, 2)(x, y, got)
    np.testing.assert_allclose(got, want, atol=1e-5 * terms)
