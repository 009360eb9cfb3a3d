"""What is done to the finished elements of a reduction is a part of its stage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.rules.stage import Stage, loads
from eutectic.tir.statement_mutator import with_values


def with_epilogues(stages: Sequence[Stage], intermediates: Collection[Buffer]) -> list[Stage]:
    """Stages of which reductions have taken up what only depends on one element of their result.

    Args:
        stages: In order; none has an epilogue.
        intermediates: Buffers that nobody outside reads.

    """
    remaining = list(stages)
    for stage in reversed(stages):
        if stage.init is None or stage.output not in intermediates:
            continue
        readers = [other for other in remaining if any(load.buffer is stage.output for load in other.reads())]
        at = remaining.index(stage)
        follows = len(readers) == 1 and at + 1 < len(remaining) and remaining[at + 1] is readers[0]
        joined = _joined(stage, readers[0]) if follows else None
        if joined is not None:
            remaining[at : at + 2] = [joined]
    return remaining


def _joined(stage: Stage, reader: Stage) -> Stage | None:
    """A reduction with its reader as epilogue; None when the reader is not one."""
    if reader.init is not None or reader.epilogue is not None or len(reader.spatial) != len(stage.spatial):
        return None
    table = _axes(stage, reader)
    if table is None:
        return None
    spatial = tuple(next(axis for axis in reader.spatial if table.get(axis.var) is own.var) for own in stage.spatial)
    if not all(structural_equal(a.extent, b.extent) for a, b in zip(stage.spatial, spatial, strict=True)):
        return None
    indices = tuple(with_values(index, table) for index in reader.indices)
    value = with_values(reader.value, table)
    epilogue = Stage(reader.name, spatial, (), reader.output, indices, value, units=reader.units)
    return replace(stage, epilogue=epilogue)


def _axes(stage: Stage, reader: Stage) -> dict[Var, PrimExpr] | None:
    """The axes of a reader as those of the stage; None when it reads other elements than its own."""
    reads = [load for load in loads(reader.value) if load.buffer is stage.output]
    if not reads or any(not structural_equal(reads[0].indices, other.indices) for other in reads[1:]):
        return None
    table: dict[Var, PrimExpr] = {}
    for own, theirs in zip(stage.indices, reads[0].indices, strict=True):
        if isinstance(own, Var) and isinstance(theirs, Var) and theirs not in table:
            table[theirs] = own
        elif not (isinstance(own, IntImm) and isinstance(theirs, IntImm)):
            return None
    others = {axis.var for axis in reader.spatial} - table.keys()
    return None if others or _inside_others(reader, stage) else table


def _inside_others(reader: Stage, stage: Stage) -> bool:
    """Whether a place that the reader reads at depends on an element of the result."""
    indices = [index for load in loads(reader.value) for index in load.indices]
    parts = (part for index in indices for part in post_order(index))
    return any(isinstance(part, BufferLoad) and part.buffer is stage.output for part in parts)
