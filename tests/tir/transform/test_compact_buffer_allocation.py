"""Memory moves into the loops that use it, and only where an iteration reads what it wrote itself."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tir.schedule.programs import compare_programs, of, tiled, x

from eutectic import te, tir, topi
from eutectic.driver.build_prim_func import build
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.ir.structural import structural_equal
from eutectic.script import tir as T
from eutectic.tir import Allocate, For, PrimFunc, Schedule
from eutectic.tir.analysis.index_facts import statements
from eutectic.tir.transform import (
    CompactBufferAllocation,
    PlanAndUpdateBufferAllocationLocation,
    compact_buffer_allocation,
    lower,
    lower_blocks,
    lower_init_block,
    plan_allocations,
)


def compacted(func: PrimFunc) -> PrimFunc:
    """The function without blocks, after the pass, which must keep what it computes."""
    placed = plan_allocations(func)
    tir.verify_well_formed(placed)
    compare_programs(func, placed, "plan_allocations")
    before = lower_blocks(lower_init_block(placed))
    after = compact_buffer_allocation(before)
    tir.verify_well_formed(after)
    compare_programs(before, after, "compact_buffer_allocation")
    assert compact_buffer_allocation(after) is after
    return after


def places(func: PrimFunc) -> dict[str, tuple[int, list[int]]]:
    """Of each allocation the number of loops around it, and its extents."""
    found: dict[str, tuple[int, list[int]]] = {}

    def visit(stmt: tir.Stmt, depth: int) -> None:
        if isinstance(stmt, Allocate):
            found[stmt.buffer_var.name] = (depth, [getattr(size, "value", -1) for size in stmt.extents])
        for part in _parts(stmt):
            visit(part, depth + isinstance(stmt, For))

    visit(func.body, 0)
    return found


def _parts(stmt: tir.Stmt) -> list[tir.Stmt]:
    inner = list(statements(stmt))[1:]
    below = {id(part) for item in inner for part in list(statements(item))[1:]}
    return [item for item in inner if id(item) not in below]


@T.prim_func
def two_nests(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
    b_data = T.allocate([16], "float32", "global")
    b = T.decl_buffer((16,), data=b_data)
    for i0 in range(4):
        for i1 in range(4):
            b[i0 * 4 + i1] = x[i0 * 4 + i1] * T.float32(2)
        for i2 in range(4):
            y[i0 * 4 + i2] = b[i0 * 4 + 3 - i2]


TEXT = """
@T.prim_func
def two_nests(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
    for i0 in range(4):
        b_data = T.allocate([4], "float32", "global")
        b = T.decl_buffer((4,), data=b_data)
        for i1 in range(4):
            b[i1] = x[i0 * 4 + i1] * T.float32(2.0)
        for i2 in range(4):
            y[i0 * 4 + i2] = b[3 - i2]
"""


def test_a_tile_of_what_two_nests_share():
    assert compacted(two_nests).script().partition("\n")[2].strip() == TEXT.strip()
    made = CompactBufferAllocation()(PlanAndUpdateBufferAllocationLocation()(IRModule({"main": two_nests})))
    assert structural_equal(made["main"], compacted(two_nests))


def test_values_of_earlier_iterations_keep_their_memory():
    @T.prim_func
    def prefix_sum(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
        b_data = T.allocate([17], "float32", "global")
        b = T.decl_buffer((17,), data=b_data)
        b[0] = T.float32(0)
        for i in range(16):
            b[i + 1] = b[i] + x[i]
            y[i] = b[i + 1]

    @T.prim_func
    def last_one(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
        b_data = T.allocate([1], "float32", "global")
        b = T.decl_buffer((1,), data=b_data)
        for i in range(16):
            if i == 0:
                b[0] = x[0]
            y[i] = b[0]

    for func in (prefix_sum, last_one):
        assert compacted(func) is func


def test_half_of_what_is_read_is_not_enough():
    @T.prim_func
    def func(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        b_data = T.allocate([8], "float32", "global")
        b = T.decl_buffer((8,), data=b_data)
        for i in range(4):
            for j in range(8):
                if i == 0 or j < 4:
                    b[j] = x[i, j]
            for k in range(8):
                y[i, k] = b[k]

    assert compacted(func) is func


def test_uses_that_are_no_accesses_keep_their_memory():
    @T.prim_func
    def bound(x: T.Buffer((4,), "int32"), y: T.Buffer((4, 4), "int32")):
        b_data = T.allocate([4], "int32", "global")
        b = T.decl_buffer((4,), "int32", data=b_data)
        for i in range(4):
            b[i] = T.max(T.min(x[i], 4), 0)
            for j in range(b[i]):
                y[i, j] = j

    @T.prim_func
    def named_twice(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        b_data = T.allocate([4], "int32", "global")
        b = T.decl_buffer((4,), "int32", data=b_data)
        for i in range(4):
            c = T.decl_buffer((2, 2), "int32", data=b_data)
            b[i] = x[i]
            y[i] = c[i // 2, i % 2]

    made = compacted(bound)
    assert places(made) == {"b_data": (1, [1])}  # inside of i, around j
    assert compacted(named_twice) is named_twice


def test_accumulators_of_a_tile():
    a, b = x(16, 12), x(12, 24, name="b")
    product = topi.matmul(a, b)
    sch = Schedule(te.create_prim_func([a, b, topi.nn.relu(product)]))
    i, j, k = sch.get_loops("T_matmul")
    (io, ii), (jo, ji) = sch.split(i, [None, 4]), sch.split(j, [None, 8])
    sch.reorder(io, jo, k, ii, ji)
    sch.set_scope("T_matmul", 0, "local")
    sch.fuse_reduction_epilogue("T_matmul", "compute")
    assert places(compacted(sch.func)) == {"T_matmul": (2, [4, 8])}
    sch.parallel(io)
    assert places(compacted(sch.func)) == {"T_matmul": (2, [4, 8])}
    sch.vectorize(ji)
    given = [
        np.random.default_rng(n).standard_normal(shape, np.float32) for n, shape in enumerate([(16, 12), (12, 24)])
    ]
    out = np.empty((16, 24), np.float32)
    build(sch.func)(*given, out)
    np.testing.assert_allclose(out, np.maximum(given[0] @ given[1], 0), atol=1e-5)


def test_initial_values_under_a_condition():
    """The reduction loop is around the tile: each tile's sums begin in its own iteration of the others."""

    @T.prim_func
    def func(x: T.Buffer((4, 6), "float32"), y: T.Buffer((4,), "float32")):
        b_data = T.allocate([4], "float32", "global")
        b = T.decl_buffer((4,), data=b_data)
        for i in range(2):
            for k in range(6):
                for j in range(2):
                    if k == 0:
                        b[i * 2 + j] = T.float32(0)
                    b[i * 2 + j] = b[i * 2 + j] + x[i * 2 + j, k]
            for j2 in range(2):
                y[i * 2 + j2] = b[i * 2 + j2]

    assert places(compacted(func)) == {"b_data": (1, [2])}


def test_windows_and_tails():
    image = x(1, 2, 7, 9)
    weight = x(3, 2, 3, 3, name="w")
    sch = Schedule(te.create_prim_func([image, weight, topi.nn.conv2d(image, weight, 1, 1, 1)]))
    loops = sch.get_loops("conv2d_nchw")
    row_tiles, _ = sch.split(loops[2], [None, 4])
    sch.compute_at("pad_temp", row_tiles)
    made = places(compacted(sch.func))
    assert made == {"pad_temp": (2, [1, 2, 6, 11])}, made  # rows of one tile and of the window


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_at_every_level(levels: int):
    sch = Schedule(of(lambda t: topi.tanh(topi.exp(t)), x(5, 6, 7)))
    last = sch.get_output_blocks("root")[0]
    sch.compute_at(sch.get_producers(last)[0], sch.get_loops(last)[levels - 1])
    (found,) = places(compacted(sch.func)).values()
    assert found == (levels, [*([1] * levels), *(6, 7)[levels - 1 :]])


def test_sizes_that_are_not_known():
    n = Var("n", "int64")
    func = of(lambda t: topi.tanh(topi.exp(t)), x(n, 8))
    sch = Schedule(func)
    last = sch.get_output_blocks("root")[0]
    sch.compute_at(sch.get_producers(last)[0], sch.get_loops(last)[0])
    (found,) = places(compacted(sch.func)).values()
    assert found == (1, [1, 8])


def test_lowered_tiles_of_everything():
    func = of(lambda t: topi.nn.softmax(t, -1), x(6, 10))
    sch = Schedule(func)
    last = sch.get_output_blocks("root")[0]
    outer, *_ = tiled(sch, sch.get(last).name_hint, 2)
    for block in reversed([site.block.name_hint for site in sch.state.index("main").blocks][1:-1]):
        sch.compute_at(block, outer)
    assert all(depth == 1 for depth, _ in places(compacted(sch.func)).values())
    compare_programs(func, lower(sch.func), "lower")


def test_strides_of_a_buffer_without_elements():
    """A demand on strides holds for every size, also none: there is no memory of negative size."""
    n = Var("n", "int64")
    sch = Schedule(of(lambda t: topi.nn.relu(topi.sum(t, 1)), x(n, 4)))
    sch.storage_align("x_red", 0, 0, 4, 3)
    compare_programs(sch.func, lower(sch.func), "lower")  # for sizes of 0 as well
    built = build(sch.func)
    for size in (0, 1, 5):
        given, out = np.ones((size, 4), np.float32), np.empty(size, np.float32)
        built(given, out)
        np.testing.assert_array_equal(out, np.full(size, 4, np.float32))


def test_loops_over_a_product_of_sizes_keep_the_size_of_the_memory():
    """Their bounds are not affine, so that nothing is known of what they reach: not some large number either."""
    h, w = Var("h", "int64"), Var("w", "int64")
    func = of(lambda t: topi.transpose(topi.reshape(t, (3, h * w)), (1, 0)), x(3, h, w))
    before = lower_blocks(lower_init_block(plan_allocations(func)))
    after = compact_buffer_allocation(before)
    assert str(1 << 32) not in after.script()
    ((_, shape),) = places(after).values()
    assert shape == places(before)[next(iter(places(before)))][1]
