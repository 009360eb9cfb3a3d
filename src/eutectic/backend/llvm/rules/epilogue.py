"""What is done to the result of a reduction is done as its tiles are stored: `fuse_reduction_epilogue` on stages.

The stages become a tensor program again, the primitive fuses what it proves to be an epilogue, and
the nests that it leaves are read as stages with an epilogue. The tiles of `reduction.py` then keep accumulators in
registers and apply the epilogue where a tile is written back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eutectic.tir.schedule.rules.stage import Stage, substitute
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.support.errors import ScheduleError
from eutectic.tir.access import block_access
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule import Schedule
from eutectic.tir.stmt import BufferStore, For, ForKind, SeqStmt, Stmt, seq

_TRUE = IntImm("bool", 1)


def with_epilogues(func: PrimFunc, stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> list[Stage]:
    """Stages of which reductions have taken up what only depends on one element of their result.

    Args:
        func: The function that they are of.
        stages: In order; none has an epilogue.
        intermediates: Buffers that nobody outside reads.
    """
    found = list(stages)
    local = {id(buffer) for buffer in intermediates}
    for stage in reversed(stages):
        reader = _only_reader(stage, found) if stage.init is not None and id(stage.output) in local else None
        if reader is None or not _may_follow(stage, reader):
            continue
        made = _fused(func, stage, reader, intermediates)
        if made is not None:
            found[found.index(reader)] = made
            found.remove(stage)
    return found


def _only_reader(stage: Stage, stages: Sequence[Stage]) -> Stage | None:
    readers = [other for other in stages if any(load.buffer is stage.output for load in other.reads())]
    return readers[0] if len(readers) == 1 else None


def _may_follow(stage: Stage, reader: Stage) -> bool:
    """Whether a reader could be an epilogue; the primitive proves whether it is one."""
    return reader.init is None and reader.epilogue is None and len(reader.spatial) == len(stage.spatial)


def _fused(func: PrimFunc, stage: Stage, reader: Stage, intermediates: Sequence[Buffer]) -> Stage | None:
    """A reduction with its epilogue; None when the primitive refuses.

    Each buffer is written by one stage, so that the reduction may wait until its only reader runs: what that reads
    is there before.
    """
    names = (f"{stage.name}_reduction", f"{reader.name}_epilogue")
    nests = [_nest(stage, names[0]), _nest(reader, names[1])]
    root = Block((), (), (), "root", seq(*nests), alloc_buffers=tuple(intermediates))
    schedule = Schedule(func.with_body(BlockRealize((), _TRUE, root)), error_render_level="none")
    try:
        schedule.fuse_reduction_epilogue(*names)
    except ScheduleError:
        return None
    made = schedule.func.body
    assert isinstance(made, BlockRealize)
    return _read(made.block.body, stage, reader)


def _nest(stage: Stage, name: str) -> Stmt:
    """A stage as loops around a block."""
    axes, values, loops = [], [], []
    for kind, group in (("data_par", stage.spatial), ("comm_reduce", stage.reduce)):
        for axis in group:
            zero = IntImm(axis.var.dtype, 0)
            loop = Var(axis.var.name, axis.var.dtype)
            axes.append(IterVar(Range(min=zero, extent=axis.extent), axis.var, kind))
            values.append(loop)
            loops.append((loop, zero, axis.extent))
    body = BufferStore(stage.output, stage.value, stage.indices)
    init = None if stage.init is None else BufferStore(stage.output, stage.init, stage.indices)
    block = Block(tuple(axes), (), (), name, body, init)
    reads, writes = block_access(block)
    made: Stmt = BlockRealize(tuple(values), _TRUE, Block(tuple(axes), reads, writes, name, body, init))
    for var, low, extent in reversed(loops):
        made = For(var, low, extent, ForKind.SERIAL, made)
    return made


def _read(stmt: Stmt, stage: Stage, reader: Stage) -> Stage:
    """The stage that a fused nest is: the loops of the reduction, and after those over terms the epilogue."""
    last: BlockRealize | None = None
    while not isinstance(stmt, BlockRealize):
        if isinstance(stmt, SeqStmt):
            stmt, after = stmt.seq
            assert isinstance(after, BlockRealize)
            last = after
        else:
            assert isinstance(stmt, For)
            stmt = stmt.body
    update, init = stmt.block.body, stmt.block.init
    assert isinstance(update, BufferStore)
    assert isinstance(init, BufferStore)
    made = replace(stage, output=update.buffer, indices=update.indices, value=update.value, init=init.value)
    if last is None:  # the sum begins with what the epilogue adds
        return replace(made, name=reader.name)
    store = last.block.body
    assert isinstance(store, BufferStore)
    axes = _axes(stmt, last)
    indices = tuple(substitute(index, axes) for index in store.indices)
    return replace(made, epilogue=Stage(reader.name, stage.spatial, (), store.buffer, indices, substitute(store.value, axes)))


def _axes(reduction: BlockRealize, epilogue: BlockRealize) -> Mapping[Var, PrimExpr]:
    """The axes of the epilogue as those of the reduction."""
    bound: dict[Var, PrimExpr] = {
        value: axis.var
        for axis, value in zip(reduction.block.iter_vars, reduction.iter_values, strict=True)
        if isinstance(value, Var)
    }
    return {
        axis.var: substitute(value, bound) for axis, value in zip(epilogue.block.iter_vars, epilogue.iter_values, strict=True)
    }
