"""Stages over flat memory: every access is one offset, and axes that lie one behind the other are one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eutectic.tir.schedule.rules.linear import Linear, flat_offset, linear, strides_of
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, mul
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.buffer import Buffer, BufferLoad

SLACK: Final = 64  # elements


@dataclass(frozen=True)
class Flat:
    """A stage whose loads have one index each.

    Attributes:
        name: Of the stage.
        spatial: Axes of the result.
        reduce: Axes that are reduced over.
        acc: Stands for the accumulator in `update` and `final`; None when nothing is reduced.
        update: New value of the accumulator.
        init: Its first value.
        final: What is stored.
        target: Where.
        offset: At which element, linear in the spatial axes.
        slack: Identities of the buffers that may be read `SLACK` elements beyond their last.
    """

    name: str
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    acc: Var | None
    update: PrimExpr | None
    init: PrimExpr | None
    final: PrimExpr
    target: Buffer
    offset: PrimExpr
    slack: frozenset[int] = frozenset()

    @property
    def variables(self) -> set[Var]:
        """Variables of all axes."""
        return {axis.var for axis in (*self.spatial, *self.reduce)}

    def steps(self, expr: PrimExpr | None) -> list[tuple[BufferLoad, Linear | None]]:
        """Loads of an expression, each with its offset as a linear function of the axes; None when it is not one."""
        if expr is None:
            return []
        variables = self.variables
        return [(load, linear(load.indices[0], variables)) for load in loads(expr)]

    def target_step(self, var: Var) -> int | PrimExpr:
        """Distance of neighbours along an axis in the result."""
        found = linear(self.offset, self.variables)
        return 0 if found is None else found.step(var)


class FlatBuffers:
    """One flat view per buffer.

    Args:
        own: Buffers that the function allocates; they get some elements more than they need, so that vectors
            may be read beyond the last.

    Attributes:
        views: Flat view by the identity of the buffer.
    """

    def __init__(self, own: Iterable[Buffer] = ()) -> None:
        self.views: dict[int, tuple[Buffer, Buffer]] = {}
        self._own = {id(buffer): buffer for buffer in own}
        self._slack: set[int] = set()

    @property
    def slack(self) -> frozenset[int]:
        """Identities of the views that have elements beyond the last."""
        return frozenset(self._slack)

    def of(self, buffer: Buffer) -> Buffer:
        """The flat view of a buffer."""
        known = self.views.get(id(buffer))
        if known is None:
            size: PrimExpr = IntImm("int64", 1)
            for extent in buffer.shape:
                size = mul(size, extent)
            if id(buffer) in self._own:
                size = add(size, SLACK)
            view = Buffer(buffer.name, (size,), buffer.dtype, data=buffer.data, elem_offset=buffer.elem_offset)
            known = self.views[id(buffer)] = (buffer, view)
            if id(buffer) in self._own:
                self._slack.add(id(view))
        return known[1]


def flatten(stage: Stage, buffers: FlatBuffers) -> Flat:
    """A stage over flat memory."""
    variables = {axis.var for axis in (*stage.spatial, *stage.reduce)}
    acc = Var(f"{stage.name}_acc", stage.output.dtype) if stage.init is not None else None

    def change(node: Node) -> Node | None:
        if not isinstance(node, BufferLoad):
            return None
        if acc is not None and node.buffer is stage.output:
            return acc
        return BufferLoad(buffers.of(node.buffer), (_offset(node.buffer, node.indices, variables),))

    def over(expr: PrimExpr) -> PrimExpr:
        made = rewrite(expr, change)
        assert isinstance(made, PrimExpr)
        return made

    last = stage.epilogue or stage
    final = over(last.value) if stage.epilogue is not None or acc is None else acc
    return Flat(
        stage.name,
        stage.spatial,
        stage.reduce,
        acc,
        None if acc is None else over(stage.value),
        None if stage.init is None else over(stage.init),
        final,
        buffers.of(last.output),
        _offset(last.output, last.indices, variables),
        buffers.slack,
    )


def _offset(buffer: Buffer, indices: Sequence[PrimExpr], variables: set[Var]) -> PrimExpr:
    found = flat_offset(buffer, indices, variables)
    if found is not None:
        return to_expr(found)
    total: PrimExpr = IntImm("int64", 0)
    for index, stride in zip(indices, strides_of(buffer), strict=True):
        total = add(total, mul(index, stride))
    return total


def to_expr(form: Linear) -> PrimExpr:
    """A linear function as an expression; constants last."""
    total: PrimExpr = IntImm("int64", 0)
    for var, step in form.steps.items():
        total = add(total, mul(var, step) if step != 1 else var)
    return add(total, form.rest)


def collapse(flat: Flat) -> Flat:
    """Adjacent axes that every access steps through as through one are made one."""
    made = _collapse(flat, flat.spatial, True)
    return _collapse(made, made.reduce, False)


def _collapse(flat: Flat, axes: tuple[Axis, ...], spatial: bool) -> Flat:
    at = len(axes) - 2
    while at >= 0:
        outer, inner = axes[at], axes[at + 1]
        merged = _merged(flat, outer, inner)
        if merged is not None:
            flat, axis = merged
            axes = (*axes[:at], axis, *axes[at + 2 :])
            flat = replace(flat, spatial=axes) if spatial else replace(flat, reduce=axes)
            at = min(at, len(axes) - 2)
            continue
        at -= 1
    return flat


def _merged(flat: Flat, outer: Axis, inner: Axis) -> tuple[Flat, Axis] | None:
    size = inner.size
    if size is None or outer.var.dtype != inner.var.dtype:
        return None
    variables = flat.variables
    exprs = [expr for expr in (flat.update, flat.init, flat.final) if expr is not None]
    fresh = Var(f"{outer.var.name}_{inner.var.name}", outer.var.dtype)
    table: dict[int, PrimExpr] = {}
    for load in {id(item): item for expr in exprs for item in loads(expr)}.values():
        form = linear(load.indices[0], variables)
        moved = None if form is None else _moved(form, outer.var, inner.var, size, fresh)
        if moved is None:
            return None
        table[id(load)] = BufferLoad(load.buffer, (to_expr(moved),))
    form = linear(flat.offset, variables)
    moved = None if form is None else _moved(form, outer.var, inner.var, size, fresh)
    if moved is None:
        return None

    def over(expr: PrimExpr | None) -> PrimExpr | None:
        return None if expr is None else _swap(expr, table)

    update, init, final = over(flat.update), over(flat.init), over(flat.final)
    gone = (outer.var, inner.var)
    made_exprs = [expr for expr in (update, init, final) if expr is not None]
    if any(isinstance(part, Var) and part in gone for expr in made_exprs for part in post_order(expr)):
        return None
    assert final is not None
    made = replace(flat, update=update, init=init, final=final, offset=to_expr(moved))
    return made, Axis(fresh, mul(outer.extent, size))


def _swap(expr: PrimExpr, table: dict[int, PrimExpr]) -> PrimExpr:
    """An expression with loads replaced; a load inside another one's index goes with that."""
    made = rewrite(expr, lambda node: table.get(id(node)))
    assert isinstance(made, PrimExpr)
    return made


def _moved(form: Linear, outer: Var, inner: Var, size: int, fresh: Var) -> Linear | None:
    step, far = form.step(inner), form.step(outer)
    if not isinstance(step, int) or not isinstance(far, int) or far != step * size:
        return None
    steps = {var: value for var, value in form.steps.items() if var not in (outer, inner)}
    if step != 0:
        steps[fresh] = step
    return Linear(steps, form.rest)
