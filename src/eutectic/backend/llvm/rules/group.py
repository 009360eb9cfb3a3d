"""Stages that share their outer axes, such as the rows of a softmax, are done row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eutectic.tir.schedule.rules.stage import Axis, Stage, substitute
from eutectic.ir.dtype import item_bytes
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.buffer import Buffer, BufferLoad

_MOST_ROW_BYTES = 1 << 20  # of a row's values that are kept by each thread


@dataclass(frozen=True)
class Group:
    """Stages that are done together for each point of the shared axes.

    Attributes:
        shared: Axes of all of them, outermost first; none for a stage alone.
        stages: Over what is left of their axes; variables of the shared axes are free in them.
        rows: Buffers that hold one row only.
    """

    shared: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    rows: tuple[Buffer, ...] = ()


def groups_of(stages: Sequence[Stage], intermediates: Sequence[Buffer]) -> list[Group]:
    """Stages in order, those put together that one point of shared axes after the other can be done for."""
    out: list[Group] = []
    at = 0
    local = {id(buffer): buffer for buffer in intermediates}
    while at < len(stages):
        best: Group | None = None
        count = 1
        for end in range(at + 2, len(stages) + 1):
            made = _together(stages[at:end], stages[end:], local)
            if made is None:
                break
            best, count = made, end - at
        out.append(best or Group((), (stages[at],)))
        at += count
    return out


def _together(stages: Sequence[Stage], later: Sequence[Stage], local: dict[int, Buffer]) -> Group | None:
    depth = min(len(stage.spatial) for stage in stages)
    while depth and not all(_same(stages[0], stage, depth) for stage in stages[1:]):
        depth -= 1
    while depth:
        if _size(stages[0].spatial[:depth]) >= 2 and all(_own_rows(stage, stages, depth) for stage in stages):
            break
        depth -= 1
    if not depth or any(_is_matrix_like(stage, depth) for stage in stages):
        return None
    shared = stages[0].spatial[:depth]
    made = [_over(stage, shared, depth) for stage in stages]
    inside = {id(stage.result) for stage in stages}
    read_later = {id(load.buffer) for stage in later for load in stage.reads()}
    kept = [stage.result for stage in stages if id(stage.result) in local and id(stage.result) not in read_later]
    names = {id(stage.result): stage for stage in made}
    rows = {id(buffer): _row(buffer, names[id(buffer)], shared) for buffer in kept if id(buffer) in inside}
    sizes = [_bytes(row.buffer) for row in rows.values()]
    if None in sizes or sum(size or 0 for size in sizes) > _MOST_ROW_BYTES:
        return None
    return Group(shared, tuple(_in_rows(stage, rows) for stage in made), tuple(row.buffer for row in rows.values()))


def _same(first: Stage, other: Stage, depth: int) -> bool:
    return all(
        structural_equal(a.extent, b.extent) for a, b in zip(first.spatial[:depth], other.spatial[:depth], strict=True)
    )


def _size(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.size if axis.size is not None else 2
    return total


def _own_rows(stage: Stage, stages: Sequence[Stage], depth: int) -> bool:
    """Whether a stage reads results of the others at its own point of the shared axes only."""
    made = {id(other.result): other for other in stages}
    for load in stage.reads():
        other = made.get(id(load.buffer))
        if other is None or other is stage:
            continue
        last = other.epilogue or other
        places = [load.indices[k] for k, index in enumerate(last.indices) if isinstance(index, Var)]
        mine = [axis.var for axis in stage.spatial[:depth]]
        if not all(place is var for place, var in zip(places[:depth], mine, strict=False)):
            return False
    return True


def _is_matrix_like(stage: Stage, depth: int) -> bool:
    """A reduction that reads what it shares between points of an axis: it has a better schedule of its own."""
    if stage.init is None:
        return False
    rest = stage.spatial[depth:]
    used: list[bool] = []
    for axis in (*stage.spatial[:depth], *rest):
        reads = [any(axis.var in _variables(index) for index in load.indices) for load in stage.reads()[:2]]
        used.append(len(reads) > 1 and any(reads) and not all(reads))
    return sum(used) >= 2


def _variables(expr: PrimExpr) -> set[Var]:
    return {part for part in post_order(expr) if isinstance(part, Var)}


def _over(stage: Stage, shared: tuple[Axis, ...], depth: int) -> Stage:
    """A stage with its shared axes renamed to those of the group and taken away."""
    table: dict[Var, PrimExpr] = {
        own.var: axis.var for own, axis in zip(stage.spatial[:depth], shared, strict=True) if own.var is not axis.var
    }
    epilogue = stage.epilogue
    if epilogue is not None:
        epilogue = _renamed(epilogue, table, depth)
    return replace(_renamed(stage, table, depth), epilogue=epilogue)


def _renamed(stage: Stage, table: dict[Var, PrimExpr], depth: int) -> Stage:
    return replace(
        stage,
        spatial=stage.spatial[depth:],
        indices=tuple(substitute(index, table) for index in stage.indices),
        value=substitute(stage.value, table),
        init=None if stage.init is None else substitute(stage.init, table),
    )


@dataclass(frozen=True)
class _Row:
    """Memory for one row of a buffer.

    Attributes:
        buffer: The row.
        axes: Axes of the whole buffer that it has, by number; at the others all readers are where its writer is.
    """

    buffer: Buffer
    axes: tuple[int, ...]

    def at(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Where in the row an element of the whole buffer is."""
        return tuple(indices[axis] for axis in self.axes)


def _row(buffer: Buffer, stage: Stage, shared: tuple[Axis, ...]) -> _Row:
    variables = {axis.var for axis in shared}
    indices = (stage.epilogue or stage).indices
    axes = tuple(k for k, index in enumerate(indices) if not (isinstance(index, Var) and index in variables))
    shape = tuple(buffer.shape[axis] for axis in axes)
    return _Row(Buffer(f"{buffer.name}_row", shape, buffer.dtype, scope="local"), axes)


def _bytes(buffer: Buffer) -> int | None:
    total = item_bytes(buffer.dtype)
    for size in buffer.shape:
        if not isinstance(size, IntImm):
            return None
        total *= size.value
    return total


def _in_rows(stage: Stage, rows: dict[int, _Row]) -> Stage:
    """A stage that reads and writes rows in place of whole buffers."""

    def strip(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        row = rows.get(id(buffer))
        if row is None:
            return buffer, indices
        return row.buffer, row.at(indices)

    def change(node: Node) -> Node | None:
        if isinstance(node, BufferLoad) and id(node.buffer) in rows:
            return BufferLoad(*strip(node.buffer, node.indices))
        return None

    def over(one: Stage) -> Stage:
        output, indices = strip(one.output, one.indices)
        value, init = rewrite(one.value, change), None if one.init is None else rewrite(one.init, change)
        assert isinstance(value, PrimExpr)
        assert init is None or isinstance(init, PrimExpr)
        return replace(one, output=output, indices=indices, value=value, init=init)

    return replace(over(stage), epilogue=None if stage.epilogue is None else over(stage.epilogue))
