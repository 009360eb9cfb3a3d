"""Where a program touches memory, and what is known there: the loops, the conditions, the values of names.

Other than `accesses`, which asks what a statement touches as a whole, this looks at each load and store by itself:
a branch that is not taken, be it of a statement or within an expression, does not touch anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from eutectic.arith import Interval, exact_bounds
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import (
    And,
    Call,
    IntImm,
    LogicalBinary,
    PrimExpr,
    Var,
    lanes_of,
    logical_not,
)
from eutectic.support.deep import deep
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.first_points import conjunction_of, first_points, variables_by_kind
from eutectic.tir.analysis.index_facts import exprs_of, reads_memory
from eutectic.tir.analysis.lanes import of_lane
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, MatchBufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar
from eutectic.tir.op import is_if_then_else
from eutectic.tir.statement_mutator import operands_of, with_values
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

Bounds: TypeAlias = tuple[PrimExpr, PrimExpr]  # first value and number of values
_Pending: TypeAlias = "tuple[PrimExpr, Scope, set[int]]"  # with what was met in the scope before
_LARGEST_SIZE: Final = 1 << 47  # elements of an axis: more than any memory holds
_USUAL_SIZE: Final = 1 << 15  # a size whose product with another one stays in its dtype
_MOST_VISITS: Final = 20_000  # of expressions of one statement that are looked at under their own conditions


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known at a place.

    Attributes:
        ranges: Constant bounds of variables.
        usual: The same for arrays of usual sizes, whose products do not overflow.
        values: What names stand for, in terms of loop variables and parameters.
        iters: Bounds of the loops around.
        conditions: Conditions that hold there.
        exact: Whether the place is reached for all values of the loops that the conditions leave.
    """

    ranges: Mapping[Var, Interval] = field(default_factory=dict)
    usual: Mapping[Var, Interval] = field(default_factory=dict)
    values: Mapping[Var, PrimExpr] = field(default_factory=dict)
    iters: Mapping[Var, Bounds] = field(default_factory=dict)
    conditions: tuple[PrimExpr, ...] = ()
    exact: bool = True

    def resolved(self, expr: PrimExpr) -> PrimExpr:
        """An expression in terms of loop variables and parameters."""
        return with_values(expr, self.values) if self.values else expr

    def where(self, condition: PrimExpr, holds: bool = True) -> Scope:
        """The scope where a condition holds, or does not; what depends on memory does not count, as that may change."""
        parts = conjuncts(condition if holds else logical_not(condition))
        if not parts:
            return self
        kept = [part for part in map(self.resolved, parts) if part.dtype == "bool" and not reads_memory(part)]
        exact = self.exact and len(kept) == len(parts)
        return replace(self, conditions=(*self.conditions, *kept), exact=exact)

    def bound(self, var: Var, value: PrimExpr) -> Scope:
        """The scope in which a variable stands for a value."""
        if not is_integer(var.dtype):
            return self
        scope = self.known(var, exact_bounds(value, self.ranges), exact_bounds(value, self.usual))
        value = self.resolved(value)
        if reads_memory(value):
            return scope
        return replace(scope, values={**self.values, var: value})

    def looped(self, var: Var, low: PrimExpr, extent: PrimExpr) -> Scope:
        """The scope within a loop."""
        scope = self.known(var, _reached(low, extent, self.ranges), _reached(low, extent, self.usual))
        low, extent = self.resolved(low), self.resolved(extent)
        iters = {**self.iters, var: (low, extent)}
        outside = (variables(low) | variables(extent)) - self.iters.keys()
        return replace(scope, iters=iters, exact=self.exact and not outside and not reads_memory(extent))

    def known(self, var: Var, interval: Interval | None, usual: Interval | None) -> Scope:
        """The scope in which a variable has an interval; None says that it may be anything, also beyond its dtype."""
        one = {**self.ranges, var: interval or Interval()}
        both = self.usual is self.ranges
        return replace(self, ranges=one, usual=one if both else {**self.usual, var: usual or Interval()})


def _reached(low: PrimExpr, extent: PrimExpr, ranges: Mapping[Var, Interval]) -> Interval | None:
    first, count = exact_bounds(low, ranges), exact_bounds(extent, ranges)
    return None if first is None or count is None else Interval(first.lo, first.hi + count.hi - 1)


@dataclass(frozen=True, slots=True)
class Site:
    """A load or a store.

    Attributes:
        place: The load or the store.
        indices: One scalar per axis; the lanes of a vector are a loop of the scope. None where that cannot be said.
        scope: What is known there.
    """

    place: BufferLoad | BufferStore
    indices: tuple[PrimExpr | None, ...]
    scope: Scope

    @property
    def buffer(self) -> Buffer:
        """What is touched."""
        return self.place.buffer


@dataclass(frozen=True, slots=True)
class Naming:
    """A statement that gives memory a name or makes it.

    Attributes:
        place: A declaration, a region with a name, an allocation; a buffer of a block or of the signature.
        scope: What is known there.
    """

    place: DeclBuffer | MatchBufferRegion | Allocate | Buffer
    scope: Scope


@dataclass
class Sites:
    """All that a program touches.

    Attributes:
        accesses: Loads and stores; an object that stands in several places is there for each.
        namings: Names of memory.
    """

    accesses: list[Site] = field(default_factory=list)
    namings: list[Naming] = field(default_factory=list)


def sizes_of(func: PrimFunc) -> list[Var]:
    """Variables that are sizes of arguments, so that they are not negative."""
    shapes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    return list(dict.fromkeys(size for size in shapes if isinstance(size, Var)))


def sites_of(func: PrimFunc) -> Sites:
    """Every place of a function where memory is touched or named; code that is never reached is left out."""
    scope = Scope()
    scope = replace(scope, usual=scope.ranges)
    sizes = sizes_of(func)
    if sizes:
        usual = {size: Interval(0, _USUAL_SIZE) for size in sizes}
        scope = Scope(ranges={size: Interval(0, _LARGEST_SIZE) for size in sizes}, usual=usual)
    for buffer in func.buffer_map.values():
        if (
            isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in func.params
        ):  # arrays begin where they begin
            scope = scope.bound(buffer.elem_offset, IntImm(buffer.elem_offset.dtype, 0))
    walk = _Walk()
    walk.out.namings += [Naming(buffer, scope) for buffer in func.buffer_map.values()]
    walk.stmt(func.body, scope)
    return walk.out


class _Walk:
    def __init__(self) -> None:
        self.out = Sites()
        self.visits = 0

    # ---- statements

    @deep
    def stmt(self, stmt: Stmt, scope: Scope) -> None:
        self.visits = 0
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.stmt(part, scope)
            case For():
                self.exprs((stmt.min, stmt.extent), scope)
                inside = scope.looped(stmt.loop_var, stmt.min, stmt.extent)
                if not inside.ranges[stmt.loop_var].is_empty:
                    self.stmt(stmt.body, inside)
            case BufferStore():
                self.exprs((*stmt.indices, *_maybe(stmt.predicate), stmt.value), scope)
                self.access(stmt, scope)
            case IfThenElse():
                self.exprs((stmt.condition,), scope)
                for branch, holds in ((stmt.then_case, True), (stmt.else_case, False)):
                    if branch is not None and not _is_constant(stmt.condition, not holds):
                        self.stmt(branch, scope.where(stmt.condition, holds))
            case BlockRealize():
                self.realize(stmt, scope)
            case _:
                self.wrapper(stmt, scope)

    def wrapper(self, stmt: Stmt, scope: Scope) -> None:
        self.exprs(exprs_of(stmt), scope)
        match stmt:
            case LetStmt():
                self.stmt(stmt.body, scope.bound(stmt.var, stmt.value))
            case While():
                if not _is_constant(stmt.condition, False):
                    self.stmt(stmt.body, replace(scope.where(stmt.condition), exact=False))
            case AssertStmt():
                self.stmt(stmt.body, replace(scope.where(stmt.condition), exact=False))
            case Allocate() | DeclBuffer():
                self.out.namings.append(Naming(stmt, scope))
                self.stmt(stmt.body, scope)
            case AttrStmt():
                about = stmt.node
                if isinstance(about, IterVar):
                    scope = scope.looped(about.var, IntImm(about.var.dtype, 0), stmt.value)
                self.stmt(stmt.body, scope)
            case _:
                pass  # a call

    def realize(self, stmt: BlockRealize, scope: Scope) -> None:
        block = stmt.block
        self.exprs((stmt.predicate,), scope)
        if _is_constant(stmt.predicate, False):
            return
        inside = self.within(stmt, scope.where(stmt.predicate))
        if block.init is not None:
            self.stmt(block.init, self.within(stmt, _before_reduction(stmt, scope)))
        self.out.namings += [Naming(buffer, inside) for buffer in block.alloc_buffers]
        self.out.namings += [Naming(match, inside) for match in block.match_buffers]
        self.stmt(block.body, inside)

    def within(self, stmt: BlockRealize, scope: Scope) -> Scope:
        """The scope in which axes, and variables that regions with names define, have their values."""
        self.exprs(stmt.iter_values, scope)
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            scope = scope.bound(axis.var, value)
        for buffer in stmt.block.alloc_buffers:
            if isinstance(buffer.elem_offset, Var):
                scope = scope.bound(buffer.elem_offset, IntImm(buffer.elem_offset.dtype, 0))
        for match in stmt.block.match_buffers:
            self.exprs([part for taken in match.source.region for part in (taken.min, taken.extent)], scope)
            extents = [taken.extent for taken in match.source.region][-len(match.buffer.shape) or None :]
            for size, extent in zip(match.buffer.shape, extents, strict=False):
                if isinstance(size, Var) and size not in scope.ranges:
                    scope = scope.bound(size, extent)
        return scope

    # ---- expressions

    def exprs(self, items: Iterable[PrimExpr], scope: Scope) -> None:
        """Note the loads in expressions, each in the scope in which it is computed."""
        todo: list[_Pending] = []
        for item in items:
            todo.append((item, scope, set()))
        while todo:
            expr, at, seen = todo.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            self.visits += 1
            parts = operands_of(expr)
            if isinstance(expr, BufferLoad):
                self.access(expr, at)
            if not parts:
                continue
            if self.visits > _MOST_VISITS:  # shared parts under ever new conditions: they hold without these too
                todo += [(part, at, seen) for part in parts]
            elif lanes_of(parts[0].dtype) == 1 and isinstance(expr, LogicalBinary | Call | Let):
                todo += _in_turn(expr, parts, at, seen)
            else:
                todo += [(part, at, seen) for part in parts]

    def access(self, place: BufferLoad | BufferStore, scope: Scope) -> None:
        lanes = max((lanes_of(index.dtype) for index in place.indices), default=1)
        if lanes == 1:
            inside = scope if place.predicate is None else scope.where(place.predicate)
            self.out.accesses.append(Site(place, place.indices, inside))
            return
        lane = Var("lane", "int32")
        inside = scope.looped(lane, IntImm("int32", 0), IntImm("int32", lanes))
        indices = tuple(of_lane(index, lane) for index in place.indices)
        if place.predicate is not None:
            mask = of_lane(place.predicate, lane)
            inside = replace(inside, exact=False) if mask is None else inside.where(mask)
        self.out.accesses.append(Site(place, indices, inside))


def _in_turn(
    expr: LogicalBinary | Call | Let, parts: Sequence[PrimExpr], scope: Scope, seen: set[int]
) -> Iterator[_Pending]:
    """Operands of which some are computed only where others say so, or know what another one is."""
    branches: list[tuple[PrimExpr, bool]] = []
    match expr:
        case Let():
            yield expr.value, scope, seen
            yield expr.body, scope.bound(expr.var, expr.value), set()
            return
        case LogicalBinary():
            branches = [(parts[1], isinstance(expr, And))]
        case Call() if is_if_then_else(expr):
            branches = [(parts[1], True), (parts[2], False)]
        case _:
            yield from ((part, scope, seen) for part in parts)
            return
    yield parts[0], scope, seen
    for part, holds in branches:
        if operands_of(part) and id(part) not in seen and not _is_constant(parts[0], not holds):
            yield part, scope.where(parts[0], holds), set()


def _maybe(expr: PrimExpr | None) -> Sequence[PrimExpr]:
    return () if expr is None else (expr,)


def _is_constant(condition: PrimExpr, value: bool) -> bool:
    return isinstance(condition, IntImm) and bool(condition.value) == value


def _before_reduction(stmt: BlockRealize, scope: Scope) -> Scope:
    """Where the initial values of a reduction are stored: `first_points` has the definition."""
    spatial, used = variables_by_kind(stmt)
    low: dict[Var, PrimExpr] = {}
    for var, (first, _) in scope.iters.items():
        if var in used - spatial:
            low[var] = with_values(first, low)
    iters = {var: bounds for var, bounds in scope.iters.items() if var not in low}
    changed = replace(scope, values={**scope.values, **low}, iters=iters)
    for var, value in low.items():
        changed = changed.known(var, exact_bounds(value, scope.ranges), exact_bounds(value, scope.usual))
    kept = tuple(part for part in scope.conditions if not variables(part) & low.keys())
    changed = replace(changed, conditions=kept, exact=scope.exact and len(kept) == len(scope.conditions))
    return changed.where(conjunction_of(first_points(stmt, (), scope.iters.keys()).conditions))
