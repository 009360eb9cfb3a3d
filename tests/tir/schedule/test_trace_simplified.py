"""Traces without what nothing uses."""

from __future__ import annotations

from eutectic import te, tir
from eutectic.ir.structural import structural_equal
from eutectic.tir.schedule import Instruction


def program() -> tir.PrimFunc:
    x = te.placeholder((8, 8), name="x")
    return te.create_prim_func([x, te.compute((8, 8), lambda i, j: x[i, j] + 1.0, name="y")])


def test_look_ups_and_choices_that_nothing_uses_are_left_out():
    sch = tir.Schedule(program())
    i, j = sch.get_loops("y")
    sch.sample_perfect_tile(j, 2)
    sch.split(i, sch.sample_perfect_tile(i, 2))
    short = sch.trace.simplified()
    assert [inst.kind for inst in short] == ["get_block", "get_loops", "sample_perfect_tile", "split"]
    again = tir.Schedule(program())
    short.apply_to_schedule(again)
    assert structural_equal(again.mod, sch.mod)


def test_decisions_by_instruction():
    sch = tir.Schedule(program())
    sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    (inst,) = sch.trace.insts
    assert sch.trace.get_decision(inst) == 1
    sch.trace.append(inst, decision=0)
    assert sch.trace.insts[-1].decision == 0
    assert sch.trace.get_decision(Instruction("get_block", (), ())) is None
