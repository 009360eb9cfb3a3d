"""Default schedules for CPUs: programs of primitives that compute the same, and traces that make them again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.tir.schedule.rules.processors import Vectors

from eutectic import te, tir, topi
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir.interpret import run
from eutectic.tir.schedule import trace_from_python
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.primitive import PRIMITIVES
from eutectic.tir.schedule.rules.cpu import schedule_by_rules, schedule_for_cpu
from eutectic.tir.stmt import For, ForKind
from eutectic.topi.nn.conv_blocked import conv2d_nchwc

NARROW, WIDE = Vectors(128, 16), Vectors(256, 16)
n = Var("n", "int64")
k = Var("k", "int64")


def a(*shape: int | Var, name: str = "a", dtype: str = "float32") -> te.Tensor:
    return te.placeholder(shape, dtype, name)


def of(definition: Callable[..., te.Tensor], *inputs: te.Tensor) -> tir.PrimFunc:
    return te.create_prim_func([*inputs, definition(*inputs)])


def conv(stride: int = 1, padding: int = 0, groups: int = 1) -> Callable[..., te.Tensor]:
    def definition(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
        made = topi.nn.conv2d(x, w, stride, padding, 1, groups)
        return topi.nn.relu(topi.add(made, topi.reshape(b, (1, int(b.shape[0]), 1, 1))))

    return definition


def layer_norm(x: te.Tensor, g: te.Tensor, b: te.Tensor) -> te.Tensor:
    return topi.nn.layer_norm(x, g, b, [1])


PROGRAMS: dict[str, tir.PrimFunc] = {
    "elementwise": of(topi.exp, a(3, 70)),
    "axes that are one": of(topi.nn.relu, a(2, 7, 7)),
    "broadcast": of(topi.add, a(5, 3, 3), a(5, 1, 1, name="b")),
    "transposition": of(lambda x: topi.transpose(x, (1, 0)), a(9, 13)),
    "padding": of(lambda x: topi.nn.pad(x, (0, 1), (0, 2), 0.0), a(4, 11)),
    "read twice": of(lambda x: topi.multiply(x, topi.sigmoid(x)), a(40)),
    "nothing": of(topi.exp, a(3, 0)),
    "one element": of(topi.exp, a(1, 1)),
    "product": of(topi.matmul, a(7, 5), a(5, 19, name="b")),
    "product of many rows": of(topi.matmul, a(31, 6), a(6, 40, name="b")),
    "batched product": of(topi.matmul, a(2, 5, 4), a(2, 4, 9, name="b")),
    "any rows": of(
        lambda x, y, b: topi.nn.relu(topi.add(topi.matmul(x, y), b)), a(n, 6), a(6, 9, name="y"), a(9, name="b")
    ),
    "any columns": of(topi.matmul, a(3, 4), a(4, n, name="b")),
    "any terms": of(topi.matmul, a(3, k), a(k, 9, name="b")),
    "convolution": of(conv(1, 1), a(1, 3, 6, 7), a(4, 3, 3, 3, name="w"), a(4, name="b")),
    "pointwise convolution": of(conv(), a(1, 6, 5, 5), a(9, 6, 1, 1, name="w"), a(9, name="b")),
    "strided convolution": of(conv(2), a(1, 4, 8, 8), a(9, 4, 1, 1, name="w"), a(9, name="b")),
    "depthwise convolution": of(conv(1, 1, 6), a(1, 6, 7, 9), a(6, 1, 3, 3, name="w"), a(6, name="b")),
    "pool": of(lambda x: topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), a(1, 3, 9, 9)),
    "sum over rows": of(lambda x: topi.sum(x, 0), a(9, 21)),
    "sum of rows": of(lambda x: topi.sum(x, 1), a(5, 37)),
    "sum of all": of(topi.sum, a(6, 11)),
    "sum of few": of(lambda x: topi.sum(x, 1), a(5, 3)),
    "sum of any number": of(lambda x: topi.sum(x, 1), a(4, k)),
    "largest of any number": of(lambda x: topi.max(x, 1), a(n, k)),
    "softmax": of(lambda x: topi.nn.softmax(x, 1), a(4, 37)),
    "softmax of any size": of(lambda x: topi.nn.softmax(x, 1), a(n, k)),
    "layer norm": of(layer_norm, a(4, 24), a(24, name="g"), a(24, name="b")),
    "pair of results": of(lambda x: topi.argmax(x, 1), a(3, 17)),
    "integers": of(lambda x: topi.sum(x, 1), a(4, 40, dtype="int32")),
}
REORDERED = ("sum", "softmax", "layer norm", "product", "any terms", "pool", "convolution")  # or rounded otherwise


def arrays(func: tir.PrimFunc, sizes: dict[Var, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    made = []
    for buffer in func.buffer_map.values():
        shape = [sizes[size] if isinstance(size, Var) else int(size) for size in buffer.shape]
        made.append(np.asarray(rng.standard_normal(shape) * 4, buffer.dtype))
    return made


@pytest.mark.parametrize("processor", [NARROW, WIDE], ids=["128", "256"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_stay(name: str, processor: Vectors):
    func = PROGRAMS[name]
    made = schedule_for_cpu(func, processor)
    for sizes in ({n: 1, k: 1}, {n: 11, k: 37}):
        want = arrays(func, sizes)
        got = [array.copy() for array in want]
        run(func, *want)
        run(made, *got)
        np.testing.assert_allclose(got[-1], want[-1], rtol=1e-5, atol=1e-5)
        if not any(word in name for word in REORDERED):
            np.testing.assert_array_equal(got[-1], want[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_traces_make_the_same_program(name: str):
    func = PROGRAMS[name]
    made = schedule_for_cpu(func, WIDE)
    sch = tir.Schedule(func)
    trace_from_python(made.attrs["tir.schedule_trace"]).apply_to_schedule(sch)
    assert structural_equal(sch.func.body, made.body)


@pytest.mark.parametrize("name", ["softmax", "convolution", "any rows", "sum of any number"])
def test_traces_are_printed_with_the_program(name: str):
    made = schedule_for_cpu(PROGRAMS[name], WIDE)
    assert "sch.vectorize(" in made.script()
    check_round_trip(made)


def kinds(func: tir.PrimFunc) -> list[str]:
    return [part.kind for part in post_order(func.body) if isinstance(part, For)]


@pytest.mark.parametrize("name", ["convolution", "product of many rows", "softmax", "strided convolution"])
def test_vectors_and_threads(name: str):
    big = {
        "convolution": of(conv(1, 1), a(1, 16, 28, 28), a(32, 16, 3, 3, name="w"), a(32, name="b")),
        "product of many rows": of(topi.matmul, a(64, 64), a(64, 64, name="b")),
        "softmax": of(lambda x: topi.nn.softmax(x, 1), a(64, 128)),
        "strided convolution": of(conv(2), a(1, 16, 28, 28), a(32, 16, 1, 1, name="w"), a(32, name="b")),
    }
    found = kinds(schedule_for_cpu(big[name], WIDE))
    assert ForKind.PARALLEL in found
    assert ForKind.VECTORIZED in found


def test_parts_of_a_row_keep_their_vectors():
    """Stages that only share their axes are no group: it would compute one element of each at a time."""
    row = a(3, 96)
    parts = topi.split(row, [32, 64], 1)
    func = te.create_prim_func([row, *parts])
    made = schedule_for_cpu(func, WIDE)
    assert kinds(made).count(ForKind.VECTORIZED) == 3
    want = arrays(func, {})
    got = [array.copy() for array in want]
    run(func, *want)
    run(made, *got)
    np.testing.assert_array_equal(np.concatenate(got[1:], 1), got[0])


def test_small_work_is_for_one_thread():
    assert ForKind.PARALLEL not in kinds(schedule_for_cpu(of(topi.nn.relu, a(64)), WIDE))


def test_what_a_user_scheduled_stays():
    sch = tir.Schedule(PROGRAMS["product"])
    sch.parallel(sch.get_loops("T_matmul")[0])
    assert schedule_for_cpu(sch.func, WIDE) is sch.func


def test_what_was_scheduled_stays():
    made = schedule_for_cpu(PROGRAMS["product"], WIDE)
    assert schedule_for_cpu(made, NARROW) is made


@T.prim_func
def scans(x: T.Buffer((8, 16), "float32"), out: T.Buffer((8, 16), "float32")):
    for i in range(8):
        for j in range(1, 16):
            with T.block("scan"):
                v_i, v_j = T.axis.spatial(8, i), T.axis.opaque(16, j)
                out[v_i, v_j] = out[v_i, v_j - 1] + x[v_i, v_j]


def test_programs_of_other_forms_are_shared_by_threads_where_that_is_safe():
    assert sorted(kinds(schedule_for_cpu(scans, WIDE))) == [ForKind.PARALLEL, ForKind.SERIAL]


def test_a_refusal_leaves_a_group_as_it_was(monkeypatch: pytest.MonkeyPatch):
    """What a rule cannot do keeps its loops, and its results."""

    def refuse(edit: Edit, *args: object, **kwargs: object) -> None:
        edit.refuse(None, "no")

    monkeypatch.setattr(PRIMITIVES["decompose_reduction"], "function", refuse)
    func = PROGRAMS["product of many rows"]
    made = schedule_for_cpu(func, WIDE)
    assert ForKind.VECTORIZED not in kinds(made)
    want, got = arrays(func, {}), arrays(func, {})
    run(func, *want)
    run(made, *got)
    np.testing.assert_array_equal(got[-1], want[-1])


class TestOrder:
    """Which loops of a convolution threads share: over places of the image, or over blocks of channels."""

    @staticmethod
    def outermost(channels: int, filters: int, size: int, window: int) -> tuple[str, int]:
        data = te.placeholder((1, channels // 16, size, size, 16), "float32", "d")
        weight = te.placeholder((filters // 16, channels // 16, window, window, 16, 16), "float32", "w")
        func = te.create_prim_func([data, weight, conv2d_nchwc(data, weight, 1, window // 2)])
        sch = schedule_by_rules(func, Vectors(512, 32))
        (loop,) = [loop for loop in map(sch.get, sch.get_loops("conv2d_nchwc_update")) if loop.kind == "parallel"]
        return loop.loop_var.name, loop.extent.value

    def test_small_weights_are_near_for_all_places(self):
        name, count = self.outermost(64, 64, 112, 1)
        assert "fo" not in name
        assert count >= 112

    @pytest.mark.parametrize("window", [1, 3])
    def test_large_weights_are_read_once(self, window: int):
        name, count = self.outermost(1024, 512, 7, window)
        assert "fo" in name
        assert 8 <= count <= 32, "tiles may have several of the 32 blocks, but threads want parts of their own"

    def test_few_blocks_are_not_enough_for_threads(self):
        name, count = self.outermost(4096, 64, 14, 1)
        assert name.startswith("ax1"), "rows of the image are outside"
        assert count >= 14


def _vectors(tensors: list[te.Tensor]) -> list[tuple[int, int]]:
    """For each loop of vectors its lanes, and iterations of the loop that is right outside of it."""
    scheduled = schedule_for_cpu(te.create_prim_func(tensors), WIDE)
    outside = [part for part in post_order(scheduled.body) if isinstance(part, For) and isinstance(part.body, For)]
    pairs = [(loop.body.extent.value, loop.extent.value) for loop in outside if loop.body.kind == ForKind.VECTORIZED]
    return sorted(pairs)


def test_parts_of_a_transposition_reuse_lines():
    """The axis that is read contiguously runs right outside of the vectors, in all parts."""
    x, y = te.placeholder((37, 70), "float32"), te.placeholder((70, 19), "float32")
    joined = topi.concatenate([topi.transpose(x), y], 1)
    assert _vectors([x, y, joined]) == [(3, 70), (5, 70), (16, 70), (16, 70)]


@pytest.mark.parametrize(
    ("rows", "columns", "lanes"), [(32, 4096, 8), (4096, 32, 16), (32, 100, 16), (1024, 1024, 16), (32, 3136, 16)]
)
def test_far_lanes_are_few(rows: int, columns: int, lanes: int):
    """Rows of which lines share a set of a cache in what is read, and fewer do in what is written.

    The border keeps columns from being made of rows, which would be of one vector each.
    """
    x = te.placeholder((rows, columns), "float32")
    padded = topi.nn.pad(topi.transpose(x), (0, 0), (1, 0), 0.0)
    assert {width for width, _ in _vectors([x, padded])} == {lanes}


@pytest.mark.parametrize("shape", [(24, 8, 20), (24, 160), (2, 12, 4, 40)])
def test_rows_of_reshaped_data_are_read_along_their_lines(shape: tuple[int, ...]):
    """Its places are quotients and remainders, and follow each other all the same: they are columns of a matrix."""
    x, wide = (te.placeholder([IntImm("int64", n) for n in sizes], "float32") for sizes in (shape, (24, 160)))
    assert _vectors([x, topi.transpose(topi.reshape(x, wide.shape))]) == [(8, 8)]


def _around(func: tir.PrimFunc, block: str) -> list[tuple[str, int]]:
    """Kind and extent of the loops around a block."""
    sch = tir.Schedule(func)
    return [(sch.get(loop).kind, sch.get(loop).extent.value) for loop in sch.get_loops(block)]


def test_columns_of_an_image_are_interpolated_apart_from_rows():
    """They come from places one by one; in the rows that are made of them all would be put together twice."""
    x = te.placeholder((1, 64, 16, 16), "float32", "x")
    columns = topi.image.resize2d(x, (16, 32))
    func = te.create_prim_func([x, topi.image.resize2d(columns, (32, 32))])
    assert {"resize", "resize_1"} <= set(_names(schedule_for_cpu(func, WIDE)))


def _names(func: tir.PrimFunc) -> list[str]:
    return [part.name_hint for part in post_order(func.body) if isinstance(part, tir.Block)]


def test_what_a_row_of_an_image_has_in_common_is_computed_once():
    """A thread gets whole rows, where these are many and places are computed."""
    x = te.placeholder((1, 4, 16, 16, 16), "float32", "x")
    many = schedule_for_cpu(te.create_prim_func([x, topi.image.resize2d(x, (32, 32), "NCHW16c")]), WIDE)
    assert _around(many, "resize") == [("parallel", 128), ("serial", 32), ("vectorized", 16)]
    few = schedule_for_cpu(te.create_prim_func([x, topi.image.resize2d(x, (8, 128), "NCHW16c")]), WIDE)
    assert _around(few, "resize") == [("parallel", 4096), ("vectorized", 16)]


def test_of_two_equal_axes_the_inner_one_gives_the_rows_of_a_tile():
    """Neighbours of a row are near each other in memory, those of a column are not."""
    data, weight = a(3, 17, 17, name="data"), a(3, 2, 2, 16, name="weight")
    k, p, q = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 2), "p"), te.reduce_axis((0, 2), "q")

    def window(i: Var, j: Var, lane: Var) -> te.Tensor:
        return te.sum(data[k, 2 * i + p, 2 * j + q] * weight[k, p, q, lane], [k, p, q])

    func = te.create_prim_func([data, weight, te.compute((8, 8, 16), window, "out")])
    tiled = schedule_by_rules(func, WIDE).func.script()
    assert "for j_1 in T.unroll(" in tiled
    assert "for i_1 in T.unroll(" not in tiled


def blocked(size: int, window: int = 3, stride: int = 1, padding: int | None = None) -> tir.PrimFunc:
    """A convolution with a window for each channel, padded by half of it by default, over blocks of channels."""
    padding = window // 2 if padding is None else padding
    data, weight = a(1, 4, size, size, 16, name="data"), a(4, 1, window, window, 16, name="weight")
    return te.create_prim_func([data, weight, conv2d_nchwc(data, weight, stride, padding, 1, 64)])


@pytest.mark.parametrize(("size", "rows"), [(14, 3), (7, 3), (2, 2), (1, 1)])
def test_neighbours_of_a_window_for_each_channel_are_computed_together(size: int, rows: int):
    scheduled = schedule_for_cpu(blocked(size + 2, padding=0), WIDE)
    (chosen,) = [line for line in map(str, scheduled.attrs["tir.chosen"]) if "register_tile" in line]
    assert f"rows={rows}, " in chosen


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 14])
@pytest.mark.parametrize(("window", "stride"), [(3, 1), (3, 2), (5, 1)])
def test_windows_for_each_channel_give_the_same(size: int, window: int, stride: int):
    func = blocked(size, window, stride)
    rng = np.random.default_rng(size)
    arrays = [rng.standard_normal([int(n) for n in func.buffer_map[p].shape], np.float32) for p in func.params]
    want, got = [array.copy() for array in arrays], [array.copy() for array in arrays]
    run(func, *want)
    run(schedule_for_cpu(func, WIDE), *got)
    np.testing.assert_array_equal(got[-1], want[-1])


def test_an_axis_outside_of_vectors_is_parted_where_its_conditions_change():
    sch = schedule_by_rules(of(lambda x: topi.nn.pad(x, [0, 1, 1, 0]), a(8, 5, 5, 16)), WIDE)
    check_round_trip(sch.func)
    (nest,) = [loop for loop in post_order(sch.func.body) if isinstance(loop, For) and loop.kind == ForKind.PARALLEL]
    inside = [part for part in post_order(nest.body) if isinstance(part, For) and part.kind == ForKind.SERIAL]
    assert len(inside) == 3
