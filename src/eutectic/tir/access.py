"""Which regions of buffers a block reads and writes, found from its body.

Indices are relaxed over the loops inside the block: `A[vi * 4 + k]` in a loop
`k in range(4)` reads `A[vi * 4:vi * 4 + 4]`. Where an index has no bounds the
whole axis is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.node import Node, children, fields_of
from eutectic.ir.prim_expr import (
    Add,
    Broadcast,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    add,
    as_prim,
    floordiv,
    maximum,
    minimum,
    mul,
    sub,
)
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order, rewrite
from eutectic.support.errors import WellFormedError
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.iter_var import Range
from eutectic.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, For, LetStmt

Interval: TypeAlias = tuple[PrimExpr, PrimExpr]  # both ends belong to it
Domains: TypeAlias = dict[Var, "Interval | None"]
_MOST_PARTS: Final = 100  # of bounds, beyond which they are taken to be those of the buffer


def block_access(block: Block) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """Regions that a block reads and writes, in order of first access.

    Blocks inside count with the regions that they state. Buffers that live
    inside the block are left out, and so are reads of what the block writes
    when it has an `init`: they see the block's own partial results.

    Args:
        block: A block of any kind; its own `reads` and `writes` are not looked at.

    Returns:
        Reads and writes.

    Raises:
        WellFormedError: the block uses a buffer through its pointer, so that the regions must be stated.
    """
    accesses = _Access(block)
    accesses.walk([*([block.init] if block.init is not None else []), block.body])
    writes = accesses.regions(accesses.writes)
    written = {id(region.buffer) for region in writes} if block.init is not None else set()
    return tuple(r for r in accesses.regions(accesses.reads) if id(r.buffer) not in written), writes


class _Access:
    """One walk through the body of a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.domains: Domains = {}
        self.reads: dict[Buffer, list[Interval | None]] = {}
        self.writes: dict[Buffer, list[Interval | None]] = {}
        self.inside: set[Buffer] = set(block.alloc_buffers)
        self.matched = {match.buffer: match for match in block.match_buffers}
        self.allocated: set[Var] = set()

    def walk(self, roots: Iterable[Node]) -> None:
        stack = list(reversed(list(roots)))
        while stack:
            item = stack.pop()
            stack.extend(reversed(self.enter(item)))

    def enter(self, item: Node) -> list[Node]:
        """Note what `item` accesses; returns what to look at below it."""
        match item:
            case BlockRealize():
                self.block_inside(item)
                return [item.predicate, *item.iter_values]
            case For():
                self.domains[item.loop_var] = self.hull(item.min, add(item.min, sub(item.extent, 1)))
            case LetStmt() | Let():
                loads = any(isinstance(n, BufferLoad) for n in post_order(item.value))
                self.domains[item.var] = None if loads else relax(item.value, self.domains)
            case BufferStore():
                self.note(self.writes, item.buffer, [relax(i, self.domains) for i in item.indices])
            case BufferLoad():
                self.note(self.reads, item.buffer, [relax(i, self.domains) for i in item.indices])
            case DeclBuffer():
                self.inside.add(item.buffer)
            case Allocate():
                self.allocated.add(item.buffer_var)
            case AttrStmt():
                return [item.value, item.body]
            case Var() if item.dtype == "handle" and item not in self.allocated:
                raise WellFormedError(
                    f"block {self.block.name_hint} uses buffer {item.name} through its pointer, so its regions are "
                    "not known",
                    help="state them with T.reads(...) and T.writes(...)",
                )
            case _:
                pass
        return _uses(item)

    def hull(self, first: PrimExpr, last: PrimExpr) -> Interval | None:
        low, high = relax(first, self.domains), relax(last, self.domains)
        return None if low is None or high is None else (low[0], high[1])

    def block_inside(self, realize: BlockRealize) -> None:
        """A block inside counts with its regions, at the values of its axes."""
        axes = {v.var: value for v, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
        for regions, into in ((realize.block.reads, self.reads), (realize.block.writes, self.writes)):
            for region in regions:
                self.note(into, region.buffer, [self.range_at(r, axes) for r in region.region])

    def range_at(self, taken: Range, axes: dict[Var, PrimExpr]) -> Interval | None:
        low = substitute(taken.min, axes)
        if taken.is_point:
            return relax(low, self.domains)
        return self.hull(low, add(low, sub(substitute(taken.extent, axes), 1)))

    def note(self, into: dict[Buffer, list[Interval | None]], buffer: Buffer, box: list[Interval | None]) -> None:
        if buffer in self.matched:
            buffer, box = _at_source(self.matched[buffer], box)
        if buffer in self.inside:
            return
        known = into.get(buffer)
        into[buffer] = box if known is None else [_union(a, b) for a, b in zip(known, box, strict=True)]

    def regions(self, boxes: dict[Buffer, list[Interval | None]]) -> tuple[BufferRegion, ...]:
        return tuple(
            BufferRegion(
                buffer, tuple(_range(interval, size) for interval, size in zip(box, buffer.shape, strict=False))
            )
            for buffer, box in boxes.items()
            if buffer not in self.inside
        )


def _uses(item: Node) -> list[Node]:
    """Children other than what is bound here and the buffers themselves."""
    out: list[Node] = []
    for _, role, value in fields_of(item):
        if role == "use":
            out += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Node)]
    return [node for node in out if not isinstance(node, Buffer)]


def substitute(expr: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
    """`expr` with variables replaced; nothing else is changed."""
    if not values:
        return expr
    rewritten: Any = rewrite(expr, lambda n: values.get(n) if isinstance(n, Var) else None)
    return rewritten  # type: ignore[no-any-return]  # a rewritten expression is one


def relax(expr: PrimExpr, domains: Domains) -> Interval | None:
    """Smallest and largest value while the variables of `domains` run; None when there are no bounds."""
    if isinstance(expr, (Ramp, Broadcast)):
        return _vector(expr, domains)
    if not any(isinstance(n, Var) and n in domains for n in post_order(expr)):
        return expr, expr
    match expr:
        case Var():
            return domains[expr]
        case Add() | Sub() | Min() | Max():
            return _of_both(expr, relax(expr.a, domains), relax(expr.b, domains))
        case Mul():
            return _scaled(relax(expr.a, domains), relax(expr.b, domains))
        case FloorDiv() if isinstance(expr.b, IntImm) and expr.b.value > 0:
            top = relax(expr.a, domains)
            return None if top is None else (floordiv(top[0], expr.b), floordiv(top[1], expr.b))
        case FloorMod() if isinstance(expr.b, IntImm) and expr.b.value > 0:
            return as_prim(0, expr.dtype), IntImm(expr.dtype, expr.b.value - 1)
        case Cast() if expr.dtype.startswith("int"):
            inner = relax(expr.value, domains)
            return None if inner is None else (inner[0].astype(expr.dtype), inner[1].astype(expr.dtype))
        case Select():
            return _union(relax(expr.true_value, domains), relax(expr.false_value, domains))
        case _:
            return None


def _vector(expr: Ramp | Broadcast, domains: Domains) -> Interval | None:
    if isinstance(expr, Broadcast):
        return relax(expr.value, domains)
    last = add(expr.base, mul(expr.stride, expr.lanes - 1))
    return _union(relax(expr.base, domains), relax(last, domains))


def _of_both(expr: Add | Sub | Min | Max, a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    match expr:
        case Add():
            return add(a[0], b[0]), add(a[1], b[1])
        case Sub():
            return sub(a[0], b[1]), sub(a[1], b[0])
        case Min():
            return minimum(a[0], b[0]), minimum(a[1], b[1])
        case _:
            return maximum(a[0], b[0]), maximum(a[1], b[1])


def _scaled(a: Interval | None, b: Interval | None) -> Interval | None:
    for interval, factor in ((a, b), (b, a)):
        if interval is not None and factor is not None and factor[0] is factor[1] and isinstance(factor[0], IntImm):
            ends = mul(interval[0], factor[0]), mul(interval[1], factor[0])
            return ends if factor[0].value >= 0 else (ends[1], ends[0])
    return None


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    if a[0] is b[0] and a[1] is b[1]:
        return a
    if _is_too_much(a) or _is_too_much(b):
        return a if all(map(structural_equal, a, b)) else None
    return _chosen(a[0], b[0], smaller=True), _chosen(a[1], b[1], smaller=False)


def _is_too_much(ends: Interval) -> bool:
    """Whether nobody reasons about bounds: they are computed from floats, as in resizing an image, or very long."""
    sizes: dict[int, int] = {}  # with what is shared counted as often as it occurs
    for end in ends:
        for part in post_order(end):
            sizes[id(part)] = 1 + sum(sizes.get(id(child), 0) for child in children(part))
            if isinstance(part, PrimExpr) and is_float(part.dtype):
                return True
    return any(sizes[id(end)] > _MOST_PARTS for end in ends)


def _chosen(a: PrimExpr, b: PrimExpr, *, smaller: bool) -> PrimExpr:
    """The smaller or larger of two, without a `Min` or `Max` where it is known which."""
    distance = a if a is b else simplify(sub(a, b))
    if a is b or (isinstance(distance, IntImm) and (distance.value == 0 or (distance.value < 0) == smaller)):
        return a
    if isinstance(distance, IntImm):
        return b
    return minimum(a, b) if smaller else maximum(a, b)


def _range(interval: Interval | None, size: PrimExpr) -> Range:
    if interval is None:
        return Range(min=0, extent=size)
    low, high = interval
    if low is high:
        return Range(min=low, extent=1)
    extent = simplify(add(sub(high, low), 1))
    return Range(min=low if isinstance(extent, IntImm) and extent.value == 1 else simplify(low), extent=extent)


def _shifted(interval: Interval, by: PrimExpr) -> Interval:
    low = add(by, interval[0])
    return low, low if interval[0] is interval[1] else add(by, interval[1])


def _at_source(match: MatchBufferRegion, box: list[Interval | None]) -> tuple[Buffer, list[Interval | None]]:
    """The part of the source region that an access of the matched buffer means."""
    outer = match.source.region
    leading = len(outer) - len(box)
    whole: list[Interval | None] = [(r.min, add(r.min, sub(r.extent, 1)) if not r.is_point else r.min) for r in outer]
    if leading < 0:
        return match.source.buffer, whole
    inner = [
        None if interval is None else _shifted(interval, r.min)
        for r, interval in zip(outer[leading:], box, strict=True)
    ]
    joined = [w if i is None else i for i, w in zip(inner, whole[leading:], strict=True)]
    return match.source.buffer, [*whole[:leading], *joined]
