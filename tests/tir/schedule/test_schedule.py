"""The core of schedules: handles, traces, copies, samples, validation, what refusals show."""

from __future__ import annotations

import json
import re

import pytest
from tests.tir.programs import matmul, softmax
from tests.tir.schedule.programs import PROGRAMS, keeps, refused

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import FloatImm
from eutectic.ir.structural import structural_equal
from eutectic.support.errors import ScheduleError, WellFormedError
from eutectic.tir import Block, BufferStore, For, PrimFunc
from eutectic.tir.schedule import PRIMITIVES, BlockRV, LoopRV, Schedule, Trace, primitive
from eutectic.tir.schedule.edit import Edit


def tiled() -> Schedule:
    sch = Schedule(matmul(size=10), seed=1)
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, factors=sch.sample_perfect_tile(j, 2))
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1)
    sch.annotate(k, "user.pragma", {"unroll": [1, sch.sample_categorical([2, 4], [0.5, 0.5])]})
    return sch


def test_program_and_trace(golden):
    sch = tiled()
    golden(sch.func.script(), "program")
    golden(str(sch.trace), "trace")
    golden("\n".join(json.dumps(part) for parts in sch.trace.as_json() for part in parts), "json")
    keeps(matmul(size=10), sch)


def test_the_same_seed_gives_the_same_program():
    assert structural_equal(tiled().mod, tiled().mod)


def test_handles_stand_for_what_loops_and_blocks_become():
    sch = Schedule(matmul(size=8))
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [2, 4])
    sch.reorder(k, i0, i1)
    sch.reorder_block_iter_var(block, [2, 0, 1])
    found, loop = sch.get(block), sch.get(k)
    assert isinstance(found, Block)
    assert [axis.var.name for axis in found.iter_vars] == ["vk", "vi", "vj"]
    assert isinstance(loop, For)
    assert loop.loop_var.name == "k"
    assert sch.get_sref(block).stmt.block is found
    assert sch.get_sref(found).above == sch.get_sref(block).above
    assert sch.get_sref(loop).stmt is loop
    assert [sch.get(rv).loop_var.name for rv in sch.get_loops(block)] == ["k", "i_0", "j", "i_1"]
    assert "loop i is gone" in refused(sch, lambda: sch.split(i, [2, 4]))
    sch.remove_rv(j)
    assert "expected a loop of this schedule" in refused(sch, lambda: sch.unroll(j))
    with pytest.raises(ScheduleError, match="not one of this schedule"):
        sch.remove_rv(j)


def test_blocks_around_and_beside():
    sch = Schedule(softmax())

    def names(rvs: list[BlockRV]) -> list[str]:
        return [sch.get(rv).name_hint for rv in rvs]

    assert names(sch.get_child_blocks(sch.get_block("root"))) == ["top", "e", "total", "y"]
    assert names(sch.get_producers("y")) == ["e", "total"]
    assert names(sch.get_consumers("e")) == ["total", "y"]
    assert names(sch.get_output_blocks("root")) == ["y"]
    assert names(sch.get_child_blocks(sch.get_loops("total")[0])) == ["total"]


def test_copies_go_their_own_ways():
    sch = Schedule(matmul(size=8), seed=3)
    i, *_ = sch.get_loops("matmul")
    other = sch.copy()
    sch.split(i, [2, 4])
    other.split(i, [4, 2])
    assert len(sch.trace) == len(other.trace)
    assert not structural_equal(sch.mod, other.mod)
    keeps(matmul(size=8), other)


def test_functions_of_a_module():
    mod = IRModule({"one": matmul(), "two": softmax()})
    sch = Schedule(mod)
    assert "the module has several functions: one, two" in refused(sch, lambda: sch.get_block("y"))
    assert "did you mean two?" in refused(sch, lambda: sch.work_on("too"))
    sch.work_on("two")
    sch.parallel(sch.get_loops("y")[0])
    sch.unroll(sch.get_loops(sch.get_block("matmul", func_name="one"))[2])
    assert mod["one"] is not sch.mod["one"]
    again = Schedule(mod)
    sch.trace.apply_to_schedule(again)
    assert structural_equal(again.mod, sch.mod)
    assert sch.func is sch.mod["two"]


@pytest.mark.parametrize("level", ["detail", "fast", "none"])
def test_a_refusal(golden, level: str):
    sch = Schedule(matmul(size=16), error_render_level=level)
    k = sch.get_loops("matmul")[2]
    golden(refused(sch, lambda: sch.parallel(k)))


def test_a_refusal_in_a_long_program(golden):
    sch = Schedule(PROGRAMS["conv"]())
    for name in ("pad_temp", "T_add", "compute", "conv2d_nchw"):
        for loop in sch.get_loops(name):
            sch.split(loop, [1, None])
    golden(refused(sch, lambda: sch.compute_inline("conv2d_nchw")))


def test_unknown_names_and_options():
    sch = Schedule(matmul())
    assert "no block of main is called matmull; it has: root, matmul" in refused(sch, lambda: sch.get_block("matmull"))
    with pytest.raises(AttributeError, match="did you mean split"):
        sch.splitt(1)
    with pytest.raises(ScheduleError, match="error_render_level 'loud' is unknown"):
        Schedule(matmul(), error_render_level="loud")
    with pytest.raises(ScheduleError, match="debug_mask 'some' is unknown"):
        Schedule(matmul(), debug_mask="some")
    with pytest.raises(ScheduleError, match="no tensor function"):
        Schedule(IRModule({}))
    with pytest.raises(ScheduleError, match="got int"):
        Schedule(3)
    with pytest.raises(ScheduleError, match="not the JSON form"):
        Trace.apply_json_to_schedule("[1]", sch)
    with pytest.raises(ScheduleError, match="no schedule primitive is called spilt"):
        Trace.apply_json_to_schedule([[["spilt", [], []]], []], sch)


@pytest.fixture
def broken():
    """A primitive that changes what is computed, and one that breaks the program."""

    @primitive
    def wrong(edit: Edit, loop: LoopRV, well_formed: bool = True) -> None:
        site = edit.loop(loop)
        block = next(s.block for s in edit.state.index(site.function).blocks if s.block.iter_vars)
        store = block.body
        assert isinstance(store, BufferStore)
        value = store.value + FloatImm("float32", 1.0)
        made = replace(store, value=value) if well_formed else replace(store, indices=store.indices[:1])
        edit.replace(site.function, {}, {block: replace(block, body=made)})

    yield wrong
    del PRIMITIVES["wrong"]


def test_validation_names_step_element_and_values(golden, broken):
    sch = Schedule(matmul(size=4), debug_mask="all")
    k = sch.get_loops("matmul")[2]
    said = refused(sch, lambda: sch.wrong(k))
    golden(re.sub(r"\S*eutectic-difference-\w+", "FOLDER", said))
    unwatched = Schedule(matmul(size=4))
    unwatched.wrong(unwatched.get_loops("matmul")[0])
    with pytest.raises(WellFormedError, match="after schedule primitive wrong"):
        sch.wrong(k, well_formed=False)


def test_a_primitive_is_declared_once(broken):
    from eutectic.support.errors import InternalError

    with pytest.raises(InternalError, match="declared twice"):
        primitive(broken.function)


def test_decisions_can_be_changed():
    sch = Schedule(matmul(size=12), seed=0)
    i, *_ = sch.get_loops("matmul")
    sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=4))
    (inst,) = sch.trace.decisions
    other = Schedule(matmul(size=12))
    sch.trace.with_decision(inst, [3, 2, 2]).apply_to_schedule(other)
    assert [sch_loop.static_extent for sch_loop in map(other.get, other.get_loops("matmul"))][:3] == [3, 2, 2]
    again = Schedule(matmul(size=12))
    sch.trace.apply_to_schedule(again, decision_provider=lambda inst, args, decision: [1, 12, 1])
    assert "decision=[1, 12, 1]" in str(again.trace)


def test_samples(golden):
    sch = Schedule(matmul(size=24), seed=5)
    i, *_ = sch.get_loops("matmul")
    seen = {tuple(sch.get(f) for f in sch.sample_perfect_tile(i, 2, max_innermost_factor=4)) for _ in range(60)}
    assert seen == {(24, 1), (12, 2), (8, 3), (6, 4)}
    assert {sch.get(sch.sample_categorical([1, 2, 3], [0.5, 0.5, 0.0])) for _ in range(40)} == {1, 2}
    assert "are not 2 factors of 24" in refused(sch, lambda: sch.sample_perfect_tile(i, 2, decision=[3, 5]))
    assert "2 probabilities are given for 1" in refused(sch, lambda: sch.sample_categorical([1], [0.5, 0.5]))
    assert "sum is not 1" in refused(sch, lambda: sch.sample_categorical([1], [0.5]))


def test_everything_keeps_a_signature_and_a_docstring():
    for name, made in PRIMITIVES.items():
        assert made.__doc__, name
        assert getattr(Schedule, name) is made
        assert name in dir(Schedule)


def test_a_schedule_shows_itself(capsys):
    Schedule(matmul()).show("plain")
    out = capsys.readouterr().out
    assert "def main" in out
    assert "def apply_trace(sch: tir.Schedule) -> None:\n  pass" in out


def test_functions_without_blocks_are_scheduled_too():
    from eutectic.script import tir as T

    @T.prim_func(private=True)
    def plain(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
        for i in range(10):
            B[i] = A[i] * T.float32(2)

    assert isinstance(plain, PrimFunc)
    sch = Schedule(plain)
    assert not sch.state.index("main").blocks
    assert [site.stmt.loop_var.name for site in sch.state.index("main").loops.values()] == ["i"]
