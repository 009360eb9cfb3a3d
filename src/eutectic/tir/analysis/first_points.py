"""Where the `init` of a block runs: the one definition, which lowering, proofs about accesses and schedules share.

A *loop of the reduction* is a loop around the block, within the same outer block, that the value of a reduced axis uses
and that of no spatial axis does. Each iteration of the other loops is an instance of the reduction. Its first point is
the first iteration of the loops of the reduction where all reduced axes have the first values of their domains; of a
loop that has no iterations at all, it is the value where that loop would begin. `init` runs once at the first point of
each instance, before the body, if

- the guards hold: the parts of the predicate that depend on no loop of the reduction, and
- the spatial axes have values inside of their domains.

The other parts of the predicate are about terms. They decide which terms are there, and never whether there is a first
value: a sum without terms is the initial value. So loops may change places without a change of what is computed.

TVM runs `init` where the reduced axes have their first values and the whole predicate holds (its pass
`LowerInitBlock`). Both agree on programs whose predicate holds at the first points, such as those of split loops. Where
TVM leaves an element without a initial value, which then is whatever the memory held, this definition stores it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.sets import Region, is_empty, is_injective
from eutectic.ir.prim_expr import EQ, GT, LE, LT, IntImm, PrimExpr, Var, add, compare, logical_and, logical_not
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For


@dataclass(frozen=True, slots=True)
class FirstPoints:
    """The first points of a block with an `init`.

    Attributes:
        stmt: The block.
        loops: The loops around it within the same outer block, outermost first, as far as they are known.
        reduced: The loops of the reduction among them.
        begin: Where each of these begins, in terms of other variables.
        guards: The parts of the predicate that decide whether there is a initial value.
        terms: The parts that decide which terms there are.
    """

    stmt: BlockRealize
    loops: tuple[For, ...]
    reduced: tuple[For, ...]
    begin: Mapping[Var, PrimExpr]
    guards: tuple[PrimExpr, ...]
    terms: tuple[PrimExpr, ...]

    def at_begin(self, expr: PrimExpr) -> PrimExpr:
        """An expression where the loops of the reduction begin."""
        return with_values(expr, self.begin)

    @property
    def in_domain(self) -> list[PrimExpr]:
        """That spatial axes are inside of their domains, where parts about terms could have been needed for it."""
        used = {var for part in self.terms for var in variables(part)} - self.begin.keys()
        out: list[PrimExpr] = []
        for axis, value in self._axes("data_par"):
            if axis.dom is not None and variables(value) & used:
                out += [
                    compare(LE, axis.dom.min, value),
                    compare(LT, value, add(axis.dom.min, axis.dom.extent)),
                ]
        if not out:
            return out
        analyzer = self._analyzer()
        with analyzer.constraint_scope(conjunction_of(self.guards)):
            return [part for part in out if not analyzer.can_prove(part)]

    @property
    def conditions(self) -> list[PrimExpr]:
        """The conditions under which there is an `init` at a first point."""
        return [*self.guards, *self.in_domain]

    @property
    def axes_begin(self) -> list[PrimExpr]:
        """That the reduced axes have their first values."""
        pairs = self._axes("comm_reduce")
        return [compare(EQ, value, axis.dom.min) for axis, value in pairs if axis.dom is not None]

    @property
    def loops_begin(self) -> list[PrimExpr]:
        """That the loops of the reduction are where they begin."""
        return [compare(EQ, loop.loop_var, self.begin[loop.loop_var]) for loop in self.reduced]

    @property
    def begins(self) -> bool:
        """Whether it is proved that the reduced axes have their first values where the loops begin."""
        parts = [self.at_begin(part) for part in self.axes_begin]
        unclear = [part for part in parts if not (isinstance(part, IntImm) and part.value)]
        if not unclear:
            return True
        analyzer = self._analyzer()
        return all(map(analyzer.can_prove, unclear))

    @property
    def begins_only(self) -> bool:
        """Whether it is proved that the reduced axes have their first values nowhere but where the loops begin."""
        own = {value for _, value in self._axes("comm_reduce") if isinstance(value, Var)}
        if all(loop.loop_var in own for loop in self.reduced) and self.begins:
            return True
        iters = {loop.loop_var: (loop.min, loop.extent) for loop in self.loops}
        elsewhere = logical_not(conjunction_of(self.loops_begin))
        return is_empty(Region((), iters, conjunction_of([*self.axes_begin, elsewhere])))

    @property
    def has_one(self) -> bool:
        """Whether it is proved that the reduced axes have their first values in one iteration of an instance only."""
        if self.begins_only:
            return True
        iters = {loop.loop_var: (loop.min, loop.extent) for loop in self.reduced}
        return is_injective(Region((), iters, conjunction_of(self.axes_begin)))

    @property
    def terms_hold(self) -> bool:
        """Whether it is proved that the whole predicate holds at the first points that have an `init`."""
        if not self.terms:
            return True
        analyzer = self._analyzer()
        with analyzer.constraint_scope(conjunction_of([self.at_begin(part) for part in self.conditions])):
            return self.begins and all(analyzer.can_prove(self.at_begin(part)) for part in self.terms)

    def has_iterations(self, loop: For) -> bool:
        """Whether it is proved that a loop has an iteration."""
        return (loop.static_extent or 0) > 0 or self._analyzer().can_prove(compare(GT, loop.extent, 0))

    def _axes(self, kind: str) -> list[tuple[IterVar, PrimExpr]]:
        pairs = zip(self.stmt.block.iter_vars, self.stmt.iter_values, strict=True)
        return [(axis, value) for axis, value in pairs if axis.iter_type == kind]

    def _analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        for loop in self.loops:
            analyzer.bind(loop.loop_var, Range(min=loop.min, extent=loop.extent))
        return analyzer


def first_points(stmt: BlockRealize, loops: Sequence[For], unknown: Collection[Var] = ()) -> FirstPoints:
    """The first points of a block.

    Args:
        stmt: The block.
        loops: The loops around it within the same outer block, outermost first.
        unknown: Variables of further loops around these, of which nothing is known.
    """
    spatial, used = variables_by_kind(stmt)
    reduced = tuple(loop for loop in loops if loop.loop_var in used - spatial)
    begin: dict[Var, PrimExpr] = {}
    for loop in reduced:
        begin[loop.loop_var] = with_values(loop.min, begin)
    parts = conjuncts(stmt.predicate)
    over = begin.keys() | (set(unknown) & (used - spatial))
    guards = tuple(part for part in parts if not variables(part) & over)
    terms = tuple(part for part in parts if variables(part) & over)
    return FirstPoints(stmt, tuple(loops), reduced, begin, guards, terms)


def variables_by_kind(stmt: BlockRealize) -> tuple[set[Var], set[Var]]:
    """What the values of spatial axes are computed from, and those of reduced ones."""
    by_kind: dict[str, set[Var]] = {"data_par": set(), "comm_reduce": set()}
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        by_kind.setdefault(axis.iter_type, set()).update(variables(value))
    return by_kind["data_par"], by_kind["comm_reduce"]


def first_point(block: Block) -> PrimExpr:
    """The condition that all reduced axes are at their first values, on the axes."""
    return conjunction_of(
        [
            compare(EQ, axis.var, axis.dom.min)
            for axis in block.iter_vars
            if axis.iter_type == "comm_reduce" and axis.dom is not None
        ]
    )


def conjunction_of(parts: Sequence[PrimExpr]) -> PrimExpr:
    """All of several conditions."""
    out: PrimExpr = IntImm("bool", 1)
    for part in parts:
        out = logical_and(out, part)
    return out
