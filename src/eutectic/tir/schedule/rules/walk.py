"""How a stage walks through memory: which axes are one, and how far apart neighbours along them are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import FloorDiv, IntImm, Mul, PrimExpr, Var, mul
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.analysis.linear import Linear, flat_offset
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads


@dataclass(frozen=True)
class Span:
    """Axes, outermost first, that every access steps through as through one.

    Attributes:
        axes: The axes; one at least.
    """

    axes: tuple[Axis, ...]

    @property
    def var(self) -> Var:
        """The variable whose steps are those of the span."""
        return self.axes[-1].var

    @property
    def extent(self) -> PrimExpr:
        """Number of iterations."""
        total: PrimExpr = self.axes[0].extent
        for axis in self.axes[1:]:
            total = mul(total, axis.extent)
        return total

    @property
    def size(self) -> int | None:
        """The extent when it is a constant."""
        return self.extent.value if isinstance(self.extent, IntImm) else None

    @property
    def likely(self) -> int | None:
        """The extent, or where that varies the one of an example; None when that is not known either."""
        sizes = [axis.likely for axis in self.axes]
        return None if None in sizes else prod(size for size in sizes if size is not None)


@dataclass(frozen=True)
class Access:
    """A load, or the store of the result.

    Attributes:
        buffer: What is accessed.
        form: Distance from the first element, linear in the axes; None when it is not. Where neighbours read the same
            in groups, as channels of a convolution do, it is that of the groups.
        load: The load; None for the store.
    """

    buffer: Buffer
    form: Linear | None
    load: BufferLoad | None = None

    def coefficient(self, span: Span) -> int | PrimExpr | None:
        """Distance of neighbours along a span; None when it is not known."""
        return None if self.form is None else self.form.step(span.var)


@dataclass(frozen=True)
class Walk:
    """A stage with its axes put together.

    Attributes:
        stage: The stage.
        shared: Axes of the result that it has in common with others, which are done for each of its points.
        spatial: Spans of the rest of the result.
        reduce: Spans that are reduced over.
        reads: Loads of the reduced terms, or of the value when nothing is reduced.
        after: Loads of the epilogue.
        store: Where the result goes.
    """

    stage: Stage
    shared: tuple[Axis, ...]
    spatial: tuple[Span, ...]
    reduce: tuple[Span, ...]
    reads: tuple[Access, ...]
    after: tuple[Access, ...]
    store: Access


def walk_of(stage: Stage, depth: int = 0, apart: Collection[Axis] = ()) -> Walk:
    """How a stage walks through memory.

    Args:
        stage: The stage.
        depth: Number of axes, from the outermost on, that it shares with others.
        apart: Axes that do not become one with what follows.

    Adjacent axes are one span when the outer one continues, in every access, where the inner one ends, and when
    nothing but the places of accesses depends on them.
    """
    axes = (*stage.spatial, *stage.reduce)
    extents = {axis.var: axis.extent for axis in axes}
    last = stage.epilogue or stage

    def access(load: BufferLoad) -> Access:
        form = flat_offset(load.buffer, load.indices, extents)
        if form is None:
            whole = [_without_groups(index) for index in load.indices]
            if any(index is not before for index, before in zip(whole, load.indices, strict=True)):
                form = flat_offset(load.buffer, whole, extents)
        return Access(load.buffer, form, load)

    terms = [stage.value] if stage.init is None else [stage.value, stage.init]
    reads = [access(load) for load in _loads(terms) if stage.init is None or load.buffer is not stage.output]
    after = [] if last is stage else [access(load) for load in _loads([last.value]) if load.buffer is not stage.output]
    store = Access(last.output, flat_offset(last.output, last.indices, extents))
    values = [*terms, *([] if last is stage else [last.value])]
    fixed = _mentioned(values) | {var for item in reads + after if item.form is None for var in _variables(item)}
    known = [item for item in (*reads, *after, store) if item.form is not None]

    is_one = len({axis.loop.dtype for axis in axes}) < 2  # others cannot be put together

    def spans(group: Sequence[Axis]) -> tuple[Span, ...]:
        merged: list[Span] = []
        for axis in reversed(group):
            if merged and is_one and axis not in apart and _continues(axis, merged[-1], known, fixed):
                merged[-1] = Span((axis, *merged[-1].axes))
            else:
                merged.append(Span((axis,)))
        return tuple(reversed(merged))

    return Walk(
        stage,
        stage.spatial[:depth],
        spans(stage.spatial[depth:]),
        spans(stage.reduce),
        tuple(reads),
        tuple(after),
        store,
    )


def _without_groups(index: PrimExpr) -> PrimExpr:
    """An index with `x` for `x // n * n`: neighbours that read the same are as far apart on the whole as others."""

    def change(item: Node) -> Node | None:
        if not isinstance(item, Mul) or not isinstance(item.a, FloorDiv):
            return None
        divisor, factor = item.a.b, item.b
        same = isinstance(divisor, IntImm) and isinstance(factor, IntImm) and divisor.value == factor.value
        return item.a.a if same else None

    changed = rewrite(index, change)
    assert isinstance(changed, PrimExpr)
    return changed


def _continues(outer: Axis, inner: Span, accesses: Sequence[Access], fixed: set[Var]) -> bool:
    size = inner.size
    if size is None or outer.var in fixed or any(axis.var in fixed for axis in inner.axes):
        return False
    for item in accesses:
        far, near = item.form.step(outer.var), item.form.step(inner.var)  # type: ignore[union-attr]  # linear ones
        if not isinstance(far, int) or not isinstance(near, int) or far != near * size:
            return False
    return True


def _loads(exprs: Sequence[PrimExpr]) -> list[BufferLoad]:
    """Loads in expressions, each node once, those in the indices of others included."""
    return list({id(load): load for expr in exprs for load in loads(expr)}.values())


def _mentioned(exprs: Sequence[PrimExpr]) -> set[Var]:
    """Variables that values depend on other than by places of loads."""
    parts = (part for expr in exprs for part in post_order(expr, enter=lambda node: not isinstance(node, BufferLoad)))
    return {part for part in parts if isinstance(part, Var)}


def _variables(access: Access) -> set[Var]:
    assert access.load is not None
    return {part for part in post_order(access.load) if isinstance(part, Var)}
