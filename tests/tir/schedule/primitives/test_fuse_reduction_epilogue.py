"""fuse_reduction_epilogue in mode exact: the table, forms of the result, traces, refusals."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.tir.schedule.programs import PROGRAMS, keeps, refused

from eutectic import tir
from eutectic.script import from_source
from eutectic.support.errors import ScheduleError
from eutectic.testing.epilogue_cases import cases
from eutectic.testing.epilogues import Case, check, differences, program
from eutectic.tir import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.schedule import Schedule

CASES = {case.name: case for case in cases()}
RELU = "T.max({s} + {c}, {zero})"


def made(value: str, **slots: Any) -> PrimFunc:
    return Case("", program(value, **slots)).program


def fused(func: PrimFunc, **options: Any) -> Schedule:
    """A schedule with the epilogue in the reduction; every step was validated."""
    sch = Schedule(func, debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue", **options)
    return sch


def buffers(sch: Schedule) -> list[str]:
    return [buffer.name for buffer in sch.state.index("main").blocks[0].block.alloc_buffers]


def test_the_table_is_large_and_names_are_different():
    assert len(CASES) == len(cases()) >= 100


@pytest.mark.parametrize("name", CASES)
def test_table(name: str):
    case = CASES[name]
    outcome = check(case)
    assert outcome.result == ("fused" if case.fuses else "refused"), outcome.said


def test_wrong_results_would_be_seen():
    relu, other = made("T.max({s}, {zero})"), made("T.max({s} + T.float32(1e-6), {zero})")
    assert "D differs in" in next(differences(relu, other))
    twice = made("T.max({s}, {zero})", after="    D[5, 5] = T.float32(0)")
    assert next(differences(relu, twice)).startswith("undefined: ")


FORMS: dict[str, Callable[[], Schedule]] = {
    "bias and relu": lambda: fused(made(RELU)),
    "integer bias": lambda: fused(made("{c} + {s}", dtype="int32")),
    "reassociated bias": lambda: fused(made("{s} + {c}"), reassociate=True),
    "transposed": lambda: fused(made(RELU, shape="(4, 3)", store="vj, vi")),
    "wider": lambda: fused(made("T.Cast('float64', {s})", out="float64")),
    "tiles": lambda: tiles(made(RELU)),
}


def tiles(func: PrimFunc) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    i, j, k = sch.get_loops("sum")
    outer, inner = sch.split(i, [None, 2])
    sch.reorder(outer, k, inner, j)
    sch.fuse_reduction_epilogue("sum", "epilogue")
    return sch


@pytest.mark.parametrize("name", FORMS)
def test_forms(golden, name: str):
    golden(FORMS[name]().func.script())


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.fuses and case.has_terms][::9])
def test_programs_are_kept_with_their_traces(name: str):
    case = CASES[name]
    sch = Schedule(case.program)
    case.prepare(sch)
    sch.fuse_reduction_epilogue(case.reduction, "epilogue")
    keeps(case.program, sch)


def test_sums_that_nothing_needs_are_not_allocated():
    for value, options in ((RELU, {}), ("{s} + {c}", {"dtype": "int32"}), ("{s} + {x}", {"dtype": "float16"})):
        assert buffers(fused(made(value, **options))) == []
    assert buffers(fused(made("T.Cast('float64', {s})", out="float64"))) == ["temp"]


def test_a_demand_on_the_layout_of_the_sum_keeps_its_buffer():
    sch = Schedule(made(RELU), debug_mask="all")
    sch.storage_align("sum", 0, 0, 8, 1)
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert buffers(sch) == ["temp"]
    other = Schedule(made(RELU), debug_mask="all")
    other.set_scope("sum", 0, "local")
    other.fuse_reduction_epilogue("sum", "epilogue")
    assert buffers(other) == ["temp"]


def test_trace_and_handles():
    sch = Schedule(made(RELU))
    reduction, epilogue = sch.get_block("sum"), sch.get_block("epilogue")
    assert sch.fuse_reduction_epilogue(reduction, epilogue) is None
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="sum", func_name="main")',
        'b1 = sch.get_block(name="epilogue", func_name="main")',
        "sch.fuse_reduction_epilogue(reduction_block=b0, epilogue_block=b1)",
    ]
    assert len(sch.get_loops(reduction)) == 3
    assert len(sch.get_loops(epilogue)) == 2
    assert sch.get(epilogue).name_hint == "epilogue"
    other = Schedule(made("{s} + {c}", dtype="int32"))
    gone = other.get_block("epilogue")
    other.fuse_reduction_epilogue("sum", gone)
    with pytest.raises(ScheduleError, match="is gone"):
        other.get(gone)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"mode": "per_iteration"}, ', mode="per_iteration")'), ({"reassociate": True}, ", reassociate=True)")],
)
def test_trace_names_what_is_not_usual(options: dict[str, Any], said: str):
    sch = fused(made("{s} + {c}"), **options)
    assert sch.trace.as_python()[-1] == f"sch.fuse_reduction_epilogue(reduction_block=b0, epilogue_block=b1{said}"
    again = Schedule(made("{s} + {c}"))
    sch.trace.apply_to_schedule(again)
    assert again.func.script() == sch.func.script()


def test_nothing_is_added_where_the_size_is_zero_at_run_time():
    source = program(RELU, terms="n", head="n: T.int32, ")
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    sch = fused(func)
    assert buffers(sch) == []
    c, x, d = np.array([1, -2, 0, 3], "float32"), np.zeros((3, 4), "float32"), np.full((3, 4), 7, "float32")
    run(tir.transform.lower(sch.func), 0, np.zeros((3, 0), "float32"), np.zeros((0, 4), "float32"), c, x, d)
    assert d.tolist() == [[1, 0, 0, 3]] * 3


def test_several_epilogues_of_one_sum():
    other = """
    for i, j in T.grid(3, 4):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = T.tanh(temp[vi, vj])
"""
    before = made(RELU, after=other)
    sch = fused(before)
    sch.fuse_reduction_epilogue("sum", "second")
    assert buffers(sch) == ["temp"]
    assert len(sch.get_loops("epilogue")) == len(sch.get_loops("second")) == 2
    keeps(before, sch)


def test_an_epilogue_of_an_epilogue():
    other = """
    for i, j in T.grid(3, 4):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = T.max(D[vi, vj], T.int32(0))
"""
    before = made("{s} + {c}", dtype="int32", after=other)
    sch = fused(before)
    sch.fuse_reduction_epilogue("sum", "second")
    assert "D[vi, vj] = C[vj]" in sch.func.script()
    keeps(before, sch)


def test_threads_keep_their_elements():
    before = made(RELU)
    sch = Schedule(before, debug_mask="all")
    i, j, k = sch.get_loops("sum")
    sch.reorder(i, k, j)
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert sch.func.script().count('thread="threadIdx.x"') == 2
    keeps(before, sch)


def test_a_layer_whose_bias_and_relu_are_one_block():
    before = PROGRAMS["dense"]()
    sch = Schedule(before, debug_mask="all")
    sch.reverse_compute_inline("compute")
    sch.fuse_reduction_epilogue(*blocks(sch))
    keeps(before, sch)


def blocks(sch: Schedule) -> list[str]:
    return [site.block.name_hint for site in sch.state.index("main").blocks if site.block.iter_vars]


@pytest.mark.parametrize("seed", range(24))
def test_random_schedules(seed: int):
    rng = random.Random(seed)
    value = rng.choice([RELU, "{s} * T.sigmoid({s})", "{s} + {c}", "T.Cast('float64', {s})"])
    dtype = "int32" if value == "{s} + {c}" else "float32"
    before = made(value, dtype=dtype, out="float64" if "Cast" in value else None)
    sch = Schedule(before)
    for name in ("sum", "epilogue"):
        for _ in range(rng.randrange(3)):
            loop = rng.choice(sch.get_loops(name))
            sch.split(loop, [None, rng.choice([1, 2, 3])])
        loops = sch.get_loops(name)
        rng.shuffle(loops)
        try:
            sch.reorder(*loops)
        except ScheduleError:
            continue  # sums of floats keep their order
    sch.fuse_reduction_epilogue("sum", "epilogue")
    for after in (sch.func, tir.transform.lower(sch.func)):
        assert not list(differences(before, after))


# ---- refusals


def test_refusals_show_the_blocks_and_a_way_out():
    sch = Schedule(CASES["sum, bias computed between"].program)
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue"))
    assert "fuse_reduction_epilogue: T0, which block epilogue reads, is written from block sum on" in text
    lines = text.splitlines()
    shown = [lines[k - 1] for k, line in enumerate(lines) if "^^^" in line]
    assert [line.split("|")[1].strip() for line in shown] == ['with T.block("sum"):', 'with T.block("epilogue"):']
    assert "compute T0 before the reduction" in text


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "mode": ({"mode": "tvm"}, "mode 'tvm' is unknown"),
    "both": ({"mode": "per_iteration", "reassociate": True}, "mode 'per_iteration' does not take reassociate"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_refused(name: str):
    options, said = OPTIONS[name]
    sch = Schedule(made(RELU))
    assert said in refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue", **options))


def test_the_wrong_way_round_and_the_same_block():
    sch = Schedule(made(RELU))
    swapped = refused(sch, lambda: sch.fuse_reduction_epilogue("epilogue", "sum"))
    assert "block epilogue is not a reduction into one buffer: it has no init" in swapped
    assert "it is a reduction" in refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "sum"))
    assert "block root has no block around it" in refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "root"))


def test_an_epilogue_within_the_loops_of_the_sum():
    inside = """
        with T.block("epilogue"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = temp[vi, vj]
"""
    source = program("", epilogue=inside).replace("for i, j, k in T.grid(3, 4, 5):", "for k, i, j in T.grid(5, 3, 4):")
    func = from_source(source)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func)
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue"))
    assert "block epilogue is inside loop k of the reduction, where the sum is not complete" in text


def test_an_epilogue_that_uses_a_name_from_outside():
    named = """
    for i in T.serial(3):
        with T.LetStmt(i * 2) as twice:
            for j in T.serial(4):
                with T.block("epilogue"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = temp[vi, vj] * T.Cast("float32", twice)
            X[i, 0] = T.float32(1)
"""
    sch = Schedule(made("", epilogue=named))
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue"))
    assert "block epilogue uses twice, which is bound outside of it" in text


def test_names_for_parts_of_other_buffers():
    """The output is part of a larger buffer, which the reduction must not read under its own name."""
    sch = Schedule(part_of_a_batch(""), debug_mask="all")
    sch.fuse_reduction_epilogue("sum", "epilogue")
    assert not list(differences(part_of_a_batch(""), sch.func))
    reading = Schedule(part_of_a_batch(" * D[vn, vi, vj]"))
    text = refused(reading, lambda: reading.fuse_reduction_epilogue("sum", "epilogue"))
    assert "D is accessed before block epilogue stores it" in text


def part_of_a_batch(factor: str) -> PrimFunc:
    func = from_source(f"""
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((2, 3, 5), "float32"), D: T.Buffer((2, 3, 4), "float32")):
    for n in T.serial(2):
        with T.block("outer"):
            vn = T.axis.spatial(2, n)
            T.reads(A[vn, 0:3, 0:5])
            T.writes(D[vn, 0:3, 0:4])
            temp = T.alloc_buffer((3, 4))
            part = T.match_buffer(D[vn, 0:3, 0:4], (3, 4), offset_factor=1)
            for i, j, k in T.grid(3, 4, 5):
                with T.block("sum"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        temp[vi, vj] = T.float32(0)
                    temp[vi, vj] = temp[vi, vj] + A[vn, vi, vk]{factor}
            for i, j in T.grid(3, 4):
                with T.block("epilogue"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    part[vi, vj] = T.max(temp[vi, vj], T.float32(1))
""")
    assert isinstance(func, PrimFunc)
    return func


def test_reductions_that_are_none():
    partial = made(RELU, update="{p}")
    sch = Schedule(partial)
    text = refused(sch, lambda: sch.fuse_reduction_epilogue("sum", "epilogue"))
    assert "it does not update each element from what it was before" in text


# ---- reordered additions


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reordered_additions_stay_within_the_bound(dtype: str):
    terms = 64
    before = made("{s} + {c}", dtype=dtype, terms=str(terms))
    after = fused(before, reassociate=True).func
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((3, terms), (terms, 4), (4,)))
    one, two = np.zeros((3, 4), dtype), np.zeros((3, 4), dtype)
    run(before, a, b, c, np.zeros((3, 4), dtype), one)
    run(after, a, b, c, np.zeros((3, 4), dtype), two)
    unit = np.finfo(dtype).eps / 2
    gamma = (terms + 1) * unit / (1 - (terms + 1) * unit)
    assert (one != two).any()
    assert (abs(one - two) <= 2 * gamma * (abs(c) + abs(a) @ abs(b))).all()


@pytest.mark.parametrize("value", [RELU, "{s} + {s}", "{s} - {c}"])
def test_only_a_bias_is_reordered(value: str):
    before = made(value)
    assert not list(differences(before, fused(before, reassociate=True).func))


def test_sums_of_narrow_floats_are_not_reordered():
    before = made("{s} + {c}", dtype="float16")
    assert not list(differences(before, fused(before, reassociate=True).func))
