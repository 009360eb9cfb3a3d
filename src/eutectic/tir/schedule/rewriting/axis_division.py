"""Axes of a block divided into a part of the loops outside of a nest and one of the loops in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, floordiv, floormod, mul, sub
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.legality.nest_under import Nest
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.statement_mutator import rewrite_expr, with_values


@dataclass(frozen=True, slots=True)
class AxisParts:
    """An axis in two parts.

    Attributes:
        outer: Axis of the block outside; None when it was left out.
        outer_value: What it is bound to, in terms of the loops outside of the nest.
        inner: Axis of the block inside; None when it was left out.
        inner_value: What it is bound to, in terms of the loops of the nest.
        index: The old axis in terms of both.
    """

    outer: IterVar | None
    outer_value: PrimExpr
    inner: IterVar | None
    inner_value: PrimExpr
    index: PrimExpr

    def without_unit_axes(self) -> AxisParts:
        """The same, where axes of one value are left out and their value stands in the index."""
        parts = self
        for which in ("outer", "inner"):
            axis = getattr(self, which)
            if axis is not None and axis.dom is not None and axis.dom.is_point:
                parts = replace_part(parts, which, axis)
        return parts


def replace_part(part: AxisParts, which: str, axis: IterVar) -> AxisParts:
    """`part` without one of its axes, which has one value."""
    assert axis.dom is not None
    low = axis.dom.min
    index = rewrite_expr(part.index, lambda item: low if item is axis.var else None)
    if which == "outer":
        return AxisParts(None, part.outer_value, part.inner, part.inner_value, index)
    return AxisParts(part.outer, part.outer_value, None, part.inner_value, index)


def divided(edit: Edit, nest: Nest, condition: PrimExpr) -> list[AxisParts]:
    """The parts of each axis of the block of a nest.

    The index that the parts make is the value that the axis is bound to, in every iteration.

    Args:
        edit: The call.
        nest: The block and its loops; domains of axes depend on no loops.
        condition: What holds of the outer loops where the block runs.

    Raises:
        ScheduleError: an axis does not divide.
    """
    stmt = nest.site.stmt
    analyzer = analyzer_for(nest.site)
    with analyzer.constraint_scope(condition):
        return [
            _parts(edit, nest, axis, value, analyzer)
            for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True)
        ]


def _parts(edit: Edit, nest: Nest, axis: IterVar, value: PrimExpr, analyzer: Analyzer) -> AxisParts:
    used = variables(value)
    dtype = axis.var.dtype
    unit = Range(min=IntImm(dtype, 0), extent=IntImm(dtype, 1))
    zero = IntImm(dtype, 0)
    outer, inner = (Var(f"{axis.var.name}_{which}", dtype) for which in "oi")
    if not used & nest.inside:
        return AxisParts(replace(axis, var=outer), value, IterVar(unit, inner, axis.iter_type), zero, outer)
    if not used & nest.outside:
        return AxisParts(IterVar(unit, outer, axis.iter_type), zero, replace(axis, var=inner), value, inner)
    return _mixed_parts(edit, nest, axis, value, analyzer, (outer, inner))


def _mixed_parts(
    edit: Edit, nest: Nest, axis: IterVar, value: PrimExpr, analyzer: Analyzer, names: tuple[Var, Var]
) -> AxisParts:
    """`value` as `base + tile * size + rest`, where `0 <= rest < size` and only `rest` depends on the nest."""
    assert axis.dom is not None
    first = nest.first_iteration
    begin = analyzer.simplify(with_values(value, first))
    rest = analyzer.simplify(sub(value, begin))
    bound = analyzer.const_int_bound(rest)
    if reads_memory(value) or variables(rest) & nest.outside or not _is_finite(bound.lo, bound.hi):
        _refuse(edit, nest, axis, value, "its parts of inner and outer loops cannot be told apart")
    low, size = int(bound.lo), int(bound.hi) - int(bound.lo) + 1
    begin, rest = (analyzer.simplify(add(begin, low)), analyzer.simplify(sub(rest, low)))
    choice = next((c for c in _bases(nest, axis, begin, size, analyzer) if _divides(begin, c[0], size, analyzer)), None)
    if choice is None:
        what = f"the loops outside do not step by multiples of the {size} values inside"
        if nest.site.block.init is not None and axis.iter_type == "comm_reduce":
            what += " from the beginning of the reduction"
        _refuse(edit, nest, axis, value, what)
    base, tiles = choice
    (outer, inner), dtype = names, axis.var.dtype
    tile = analyzer.simplify(floordiv(sub(begin, base), size))
    index = add(inner, base) if _is_one(tiles) else add(add(mul(outer, size), inner), base)
    return AxisParts(
        IterVar(Range(min=IntImm(dtype, 0), extent=tiles), outer, axis.iter_type),
        tile,
        IterVar(Range(min=IntImm(dtype, 0), extent=IntImm(dtype, size)), inner, axis.iter_type),
        rest,
        index,
    )


def _divides(begin: PrimExpr, base: PrimExpr, size: int, analyzer: Analyzer) -> bool:
    return analyzer.can_prove_equal(floormod(sub(begin, base), size), 0)


def _bases(
    nest: Nest, axis: IterVar, begin: PrimExpr, size: int, analyzer: Analyzer
) -> list[tuple[PrimExpr, PrimExpr]]:
    """Values that tiles can be counted from, and the number of tiles then.

    The tiles of a reduction with initial values are counted from its beginning, so that the first tile is the
    one in which they are stored.
    """
    assert axis.dom is not None
    dtype = axis.var.dtype
    count = analyzer.simplify(floordiv(add(axis.dom.extent, size - 1), size))
    bases: list[tuple[PrimExpr, PrimExpr]] = [(axis.dom.min, count)]
    bound = analyzer.const_int_bound(begin)
    if _is_finite(bound.lo, bound.hi) and not (nest.site.block.init is not None and axis.iter_type == "comm_reduce"):
        tiles = (int(bound.hi) - int(bound.lo)) // size + 1
        bases.append((IntImm(dtype, int(bound.lo)), IntImm(dtype, tiles)))
    return bases


def _is_finite(*ends: float) -> bool:
    return all(abs(end) < 1 << 31 for end in ends)


def _is_one(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and expr.value == 1


def _refuse(edit: Edit, nest: Nest, axis: IterVar, value: PrimExpr, why: str) -> NoReturn:
    loops = ", ".join(loop.loop_var.name for loop in nest.loops)
    message = (
        f"{edit.name}: axis {axis.var.name} of block {nest.site.block.name_hint}, bound to {shown(value)}, does not "
        f"divide at loop {loops}: {why}"
    )
    sites = [nest.site, *(nest.loop_site(edit, loop) for loop in nest.loops[:1])]
    edit.refuse(sites, message, help="choose a loop whose iterations are tiles of each axis")
