"""What a statement reads and writes, element by element, in terms of the loops inside it.

Found from bodies, not from the regions that blocks state: a proof must not rest on what somebody wrote down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias

from eutectic.ir.dtype import is_integer
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    EQ,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Sub,
    Var,
    add,
    as_prim,
    compare,
    logical_not,
    mul,
    sub,
)
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.access import Domains, relax
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.first_points import conjunction_of, first_point, first_points, variables_by_kind
from eutectic.tir.analysis.outer_terms import OuterTerms
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, MatchBufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.statement_mutator import operands_of, with_values
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

Bounds: TypeAlias = tuple[PrimExpr, PrimExpr]  # first value and number of values
_EFFECTS: Final = frozenset(
    "tir." + name
    for name in ("ret", "address_of", "tvm_tuple", "tvm_storage_sync", "assume", "undef", "call_packed", "call_extern")
)
_KEPT: Final = 64  # results for statements that primitives ask about one after the other
_COMMUTATIVE: Final = (Add, Mul, Min, Max)
# Bounds of a loop whose own are not known, such as a product of two sizes.
_ANYWHERE: Final[Bounds] = (as_prim(-(1 << 31), "int64"), as_prim(1 << 32, "int64"))


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write, for all iterations of the loops inside the statement that was looked at.

    Attributes:
        buffer: What is accessed; buffers with one `data` share their elements.
        indices: One index per axis; None where it is not an affine function of loop variables and sizes.
        iters: Bounds of the loops inside.
        conditions: Conditions on loop variables and sizes under which it happens; there may be more.
        is_write: Whether it is a write.
        stmt: The store that it belongs to, or the statement that reads.
        above: The statements around `stmt`, outermost first, from the one that was looked at.
        update: The store when this is its read or write of an element that it updates by an operation whose
            order does not matter: sums, products, minima and maxima of integers.
        exact: Whether it happens in all iterations that `iters` and `conditions` leave, so that what is
            written according to them is written indeed.
    """

    buffer: Buffer
    indices: tuple[PrimExpr | None, ...]
    iters: Mapping[Var, Bounds]
    conditions: tuple[PrimExpr, ...]
    is_write: bool
    stmt: Stmt
    above: tuple[Stmt, ...]
    update: Stmt | None = None
    exact: bool = True


def has_known_bounds(access: Access, index: PrimExpr) -> bool:
    """Whether the bounds of all loops in an index are known, so that its range says something about memory."""
    loops = (part for part in post_order(index) if isinstance(part, Var))
    return all(access.iters.get(loop) is not _ANYWHERE for loop in loops)


@dataclass(frozen=True, slots=True)
class Accesses:
    """All that a statement reads and writes.

    Attributes:
        items: Reads and writes of elements, in the order of the program.
        opaque: Statements that do what is not known: calls with effects, loops with conditions, pointers.
        private: Memory that exists only inside: it is new each time.
        outer: What names in indices stand for, where they were asked for: terms of values from outside.
    """

    items: tuple[Access, ...]
    opaque: tuple[Stmt, ...]
    private: frozenset[Var]
    outer: Mapping[Var, PrimExpr] = field(default_factory=dict)

    def of(self, data: Var) -> list[Access]:
        """Reads and writes of one memory."""
        return [item for item in self.items if item.buffer.data is data]

    @property
    def written(self) -> frozenset[Var]:
        """Memory that is written."""
        return frozenset(item.buffer.data for item in self.items if item.is_write)

    @property
    def read(self) -> frozenset[Var]:
        """Memory that is read."""
        return frozenset(item.buffer.data for item in self.items if not item.is_write)


@dataclass
class _Place:
    """What is known where the walk is."""

    values: dict[Var, PrimExpr] = field(default_factory=dict)
    iters: dict[Var, Bounds] = field(default_factory=dict)
    conditions: tuple[PrimExpr, ...] = ()
    matched: dict[Buffer, MatchBufferRegion] = field(default_factory=dict)
    above: tuple[Stmt, ...] = ()
    around: tuple[Stmt, ...] = ()
    exact: bool = True

    def within(self, stmt: Stmt) -> _Place:
        return replace(
            self,
            values=dict(self.values),
            iters=dict(self.iters),
            matched=dict(self.matched),
            above=(*self.above, stmt),
        )


def accesses_of(stmt: Stmt, around: Sequence[Stmt] = (), *, name_outer: bool = False) -> Accesses:
    """What `stmt` reads and writes; variables from outside of it have some fixed value each.

    Args:
        stmt: The statement.
        around: The statements around it; what blocks among these call by another name is known by its own.
        name_outer: Give terms of values from outside that are not affine a name, instead of not knowing an index. That
            is for questions about one run of the statement: another run has other values.
    """
    return _accesses(stmt, tuple(around), name_outer)


@lru_cache(maxsize=_KEPT)
def _accesses(stmt: Stmt, around: tuple[Stmt, ...], name_outer: bool) -> Accesses:
    walk, at = _Walk(OuterTerms() if name_outer else None), _Place(around=around)
    for item in around:
        if isinstance(item, BlockRealize):
            at.matched.update({match.buffer: match for match in item.block.match_buffers})
    walk.stmt(stmt, at)
    outer = {} if walk.outer is None else walk.outer.values
    return Accesses(tuple(walk.items), tuple(walk.opaque), frozenset(walk.private), outer)


def domains_of(access: Access, fixed: Collection[Var] = ()) -> Domains:
    """First and last values of the loops inside, but those that stand for one iteration; None where not known."""
    domains: Domains = {}
    for var, (low, extent) in access.iters.items():
        if var not in fixed:
            first, last = relax(low, domains), relax(add(low, sub(extent, 1)), domains)
            domains[var] = None if first is None or last is None else (first[0], last[1])
    return domains


class _Walk:
    def __init__(self, outer: OuterTerms | None) -> None:
        self.outer = outer
        self.items: list[Access] = []
        self.opaque: list[Stmt] = []
        self.private: set[Var] = set()
        self.known: dict[Buffer, list[tuple[PrimExpr | None, ...]]] = {}

    @deep
    def stmt(self, stmt: Stmt, at: _Place) -> None:
        match stmt:
            case SeqStmt():
                for part in stmt.seq:
                    self.stmt(part, at.within(stmt))
            case For():
                self.loop(stmt, at)
            case BlockRealize():
                self.realize(stmt, at)
            case BufferStore():
                self.store(stmt, at)
            case IfThenElse():
                self.expr(stmt.condition, stmt, at)
                for branch, holds in ((stmt.then_case, True), (stmt.else_case, False)):
                    if branch is not None:
                        inside = at.within(stmt)
                        _assume(inside, stmt.condition if holds else logical_not(stmt.condition))
                        self.stmt(branch, inside)
            case _:
                self.other(stmt, at)

    def other(self, stmt: Stmt, at: _Place) -> None:
        inside = at.within(stmt)
        match stmt:
            case LetStmt():
                self.expr(stmt.value, stmt, at)
                inside.values[stmt.var] = _resolved(stmt.value, at)
                self.stmt(stmt.body, inside)
            case Evaluate():
                self.expr(stmt.value, stmt, at)
            case Allocate():
                self.private.add(stmt.buffer_var)
                self.stmt(stmt.body, inside)
            case AttrStmt() if stmt.attr_key not in ("thread_extent", "virtual_thread"):
                self.stmt(stmt.body, inside)
            case DeclBuffer():
                self.stmt(stmt.body, inside)
            case While() | AssertStmt():  # an assertion may end the program
                self.opaque.append(stmt)
                inside.exact = False
                self.stmt(stmt.body, inside)
            case _:
                self.opaque.append(stmt)

    def loop(self, stmt: For, at: _Place) -> None:
        inside = at.within(stmt)
        for bound in (stmt.min, stmt.extent):
            self.expr(bound, stmt, at)
        bounds = (_resolved(stmt.min, at), _resolved(stmt.extent, at))
        if not all(map(is_affine, bounds)):
            bounds = _ANYWHERE
            inside.exact = False
        inside.iters[stmt.loop_var] = bounds
        self.stmt(stmt.body, inside)

    def realize(self, stmt: BlockRealize, at: _Place) -> None:
        block = stmt.block
        for value in (stmt.predicate, *stmt.iter_values):
            self.expr(value, stmt, at)
        inside = at.within(stmt)
        _assume(inside, stmt.predicate)
        for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            inside.values[axis.var] = _resolved(value, at)
        self.private.update(buffer.data for buffer in block.alloc_buffers)
        inside.matched.update({match.buffer: match for match in block.match_buffers})
        if block.init is not None:
            self.stmt(block.init, _reduction_init(stmt, at, inside))
        self.stmt(block.body, inside)

    def store(self, stmt: BufferStore, at: _Place) -> None:
        updates = is_commutative_update(stmt)
        for part in (*stmt.indices, *filter(None, (stmt.predicate,))):
            self.expr(part, stmt, at)
        self.expr(stmt.value, stmt, at, stmt if updates else None)
        self.access(stmt.buffer, stmt.indices, True, stmt, at, stmt if updates else None)

    def expr(self, root: PrimExpr, stmt: Stmt, at: _Place, update: BufferStore | None = None) -> None:
        if isinstance(root, IntImm) or (isinstance(root, Var) and not is_opaque(root)):
            return
        lets: dict[Var, PrimExpr] = {}
        items = list(post_order(root, enter=lambda n: not isinstance(n, Buffer)))
        for item in items:
            if isinstance(item, Let):
                lets[item.var] = item.value
        inner = at if not lets else replace(at, values={**at.values})
        for var, value in lets.items():
            inner.values[var] = _resolved(value, inner)
        for item in items:
            if isinstance(item, BufferLoad):
                own = update is not None and item.buffer is update.buffer
                self.access(item.buffer, item.indices, False, stmt, inner, update if own else None)
            elif is_opaque(item) and stmt not in self.opaque:
                self.opaque.append(stmt)

    def access(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        is_write: bool,
        stmt: Stmt,
        at: _Place,
        update: Stmt | None,
    ) -> None:
        iters = dict(at.iters)
        resolved = [_index(index, at, iters) for index in indices]
        while buffer in at.matched:
            match = at.matched[buffer]
            buffer, resolved = match.source.buffer, _at_source(match, resolved, at)
        items = tuple(self.affine(index, iters) for index in resolved)
        exact = at.exact and not (isinstance(stmt, BufferStore) and stmt.predicate is not None)
        items = self.shared(buffer, items)
        self.items.append(Access(buffer, items, iters, at.conditions, is_write, stmt, at.above, update, exact))

    def affine(self, index: PrimExpr | None, iters: Mapping[Var, Bounds]) -> PrimExpr | None:
        """An index, if it is affine in terms of what is inside."""
        if index is None or is_affine(index):
            return index
        named = index if self.outer is None else self.outer.named(index, iters)
        return named if named is not index and is_affine(named) else None

    def shared(self, buffer: Buffer, items: tuple[PrimExpr | None, ...]) -> tuple[PrimExpr | None, ...]:
        """The same indices as an object met before, so that proofs about them can be kept."""
        known = self.known.setdefault(buffer, [])
        for other in known:
            if len(other) == len(items) and all(map(_alike, other, items)):
                return other
        known.append(items)
        return items


def _reduction_init(stmt: BlockRealize, at: _Place, inside: _Place) -> _Place:
    """Where the init of a block runs: at the first points of the reduction, be there terms or not."""
    within = list(takewhile(lambda item: not isinstance(item, BlockRealize), reversed((*at.around, *at.above))))
    loops = [item for item in reversed(within) if isinstance(item, For)]
    unknown = set[Var]().union(*variables_by_kind(stmt)) - {loop.loop_var for loop in loops}
    points = first_points(stmt, loops, unknown)
    first = replace(inside, values=dict(inside.values), iters=dict(inside.iters), conditions=at.conditions)
    first.exact = at.exact and not any(variables(part) & unknown for part in points.terms)
    _assume(first, conjunction_of(points.conditions))
    if not points.begins:
        _assume(first, first_point(stmt.block))
        if not points.begins_only:
            return first
    for loop in points.reduced:
        low = _resolved(points.begin[loop.loop_var], at)
        if is_affine(low) and loop.loop_var in first.iters:
            first.iters[loop.loop_var] = (low, IntImm(loop.loop_var.dtype, 1))
        _assume(first, compare(EQ, loop.loop_var, low))
    straight = takewhile(lambda item: isinstance(item, For | SeqStmt), within)
    alone = {item.loop_var for item in straight if isinstance(item, For)}
    some = all(loop.loop_var in alone or (loop.static_extent or 0) > 0 for loop in points.reduced)
    first.exact = first.exact and some  # where there is more than loops between, a loop without iterations has no init
    return first


def same_indices(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Whether two accesses of a buffer are at indices that are written alike."""
    return len(a) == len(b) and all(map(structural_equal, a, b))


def _alike(a: PrimExpr | None, b: PrimExpr | None) -> bool:
    return a is b or (a is not None and b is not None and _same(a, b))


def _assume(at: _Place, condition: PrimExpr) -> None:
    """Keep the conditions that isl can take; leaving some out only makes proofs harder."""
    parts = [_resolved(part, at) for part in conjuncts(condition)]
    kept = tuple(part for part in parts if is_affine(part))
    at.exact = at.exact and len(kept) == len(parts)
    at.conditions = (*at.conditions, *kept)


def _resolved(expr: PrimExpr, at: _Place) -> PrimExpr:
    """`expr` in terms of loop variables and what comes from outside."""
    return with_values(expr, at.values)


def _index(index: PrimExpr, at: _Place, iters: dict[Var, Bounds]) -> PrimExpr | None:
    """An index; the lanes of a vector become a loop."""
    if isinstance(index, Broadcast):
        return _resolved(index.value, at)
    if isinstance(index, Ramp):
        lane = Var("lane", index.base.dtype)
        iters[lane] = (IntImm(lane.dtype, 0), IntImm(lane.dtype, index.lanes))
        return add(_resolved(index.base, at), mul(lane, _resolved(index.stride, at)))
    return _resolved(index, at)


def _at_source(match: MatchBufferRegion, indices: list[PrimExpr | None], at: _Place) -> list[PrimExpr | None]:
    begins = [_resolved(part.min, at) for part in match.source.region]
    leading = len(begins) - len(indices)
    if leading < 0:
        return [None] * len(begins)
    moved = [None if i is None else add(begin, i) for begin, i in zip(begins[leading:], indices, strict=True)]
    return [*begins[:leading], *moved]


def is_opaque(item: object) -> bool:
    """Whether an expression has effects, or touches memory that is not named."""
    if isinstance(item, Call):
        known = isinstance(item.op, Op) and item.op.name.startswith("tir.") and item.op.name not in _EFFECTS
        return not known
    return isinstance(item, Var) and item.dtype == "handle"


def is_affine(expr: PrimExpr) -> bool:
    """Whether an integer or a condition is one that isl takes: no products of variables, nothing from memory."""
    if isinstance(expr, IntImm):
        return True
    for item in post_order(expr):
        match item:
            case IntImm():
                pass
            case Var() if is_integer(item.dtype) and item.dtype[0] != "u":
                pass
            case FloorDiv() | FloorMod() if isinstance(item.b, IntImm) and item.b.value > 0:
                pass
            case Mul() if isinstance(item.a, IntImm) or isinstance(item.b, IntImm):
                pass
            case Add() | Sub() | Min() | Max() if item.dtype[0] != "u":
                pass
            case Comparison() if is_integer(item.a.dtype):
                pass
            case And() | Or() | Not():
                pass
            case Cast() if item.widens:
                pass
            case _:
                return False
    return True


def is_commutative_update(stmt: BufferStore) -> bool:
    """Whether a store is `B[i] = B[i] op e` of integers, where the order of several makes no difference."""
    value = stmt.value
    if not isinstance(value, _COMMUTATIVE) or not is_integer(stmt.buffer.dtype) or stmt.predicate is not None:
        return False
    loads = [
        item for item in post_order(value) if isinstance(item, BufferLoad) and item.buffer.data is stmt.buffer.data
    ]
    if len(loads) != 1 or value.a is value.b or not any(loads[0] is side for side in (value.a, value.b)):
        return False
    pairs = zip(loads[0].indices, stmt.indices, strict=False)
    return loads[0].buffer is stmt.buffer and loads[0].predicate is None and all(_same(a, b) for a, b in pairs)


@deep
def _same(a: PrimExpr, b: PrimExpr) -> bool:
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value and a.dtype == b.dtype
    if type(a) is not type(b) or isinstance(a, Var | BufferLoad | Call):
        return False
    mine, other = operands_of(a), operands_of(b)
    return bool(mine) and len(mine) == len(other) and all(_same(x, y) for x, y in zip(mine, other, strict=True))
