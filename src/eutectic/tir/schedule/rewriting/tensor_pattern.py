"""The description of a tensor intrinsic in the form that programs are compared with."""

from __future__ import annotations

import random
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.nest_under import nest_of_block, nest_under_loop
from eutectic.tir.schedule.legality.tensor_form import body_of
from eutectic.tir.schedule.rewriting.blockize_nest import blockize_nest
from eutectic.tir.schedule.state import ScheduleState
from eutectic.tir.stmt import For, Stmt


@dataclass(frozen=True, slots=True)
class Pattern:
    """A description as one iteration of a block around it.

    Attributes:
        init: The statement that stores initial values; None when there are none.
        body: What follows: loops around a block without an init.
    """

    init: Stmt | None
    body: Stmt


def pattern_of(desc: PrimFunc) -> Pattern:
    """The parts that a program is compared with."""
    state = ScheduleState(IRModule({"main": desc}))
    edit = Edit("TensorIntrin", state, {}, function="main", rng=random.Random(0), level="none")
    body = body_of(desc)
    if isinstance(body, For):
        nest = nest_under_loop(edit, edit.state.index("main").loops[body.loop_var])
    else:
        nest = nest_of_block(edit.state.index("main").blocks[-1])
    block = edit.block(blockize_nest(edit, nest)).block
    return Pattern(block.init, block.body)
