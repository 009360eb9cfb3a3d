"""compute_inline: readers of a buffer compute its elements themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from eutectic.ir.node import Node, children, replace
from eutectic.ir.prim_expr import LogicalBinary, PrimExpr, Var, cast, lanes_of
from eutectic.ir.structural import StructuralKey
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Access, Accesses
from eutectic.tir.analysis.program_order import between, shared, written_before
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.elementwise import axes_from_indices, elementwise
from eutectic.tir.schedule.legality.scope import known_accesses, local_buffer, require_closed, scope_of
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import RegionRecomputer, with_recomputed_regions
from eutectic.tir.schedule.rewriting.removal import taken_out, without_buffer
from eutectic.tir.schedule.state import BlockSite, replaced
from eutectic.tir.statement_mutator import rewrite_expr
from eutectic.tir.stmt import BufferStore, For, SeqStmt, Stmt, parts_of, seq
from eutectic.tir.substitute import fresh_lets


@primitive
def compute_inline(edit: Edit, block: BlockLike | Sequence[BlockLike], name_values: bool = False) -> None:
    """Compute the elements of a buffer where they are read, and take the block that stored them away.

    Args:
        edit: The call.
        block: A block `B[i, j] = f(i, j)` whose indices are its axes, each once. Or several, which is faster than one
            after the other: each of them is then all that is in its loops, and what they read is not written again.
            They are inlined in this order; with names, readers first keep what many of them share in one piece.
        name_values: Name a value by `T.let` where an expression reads it more than once, so that it is computed once;
            not where all of the reads are behind a condition, nor a value with an `if_then_else`.

    Raises:
        ScheduleError: the block is gone, or of another form; `B` is not allocated in the block around, has other
            writers or is read as a vector; an element could be read that the block has not
            written before; something that the block reads is written between it and a reader; or the block is alone.

    before: B[i] = A[i] * 2; C[i] = B[i] + 1
    after:  C[i] = A[i] * 2 + 1
    """
    if not name_values:
        edit.unsaid.add("name_values")
    if isinstance(block, list | tuple):
        _inline_all(edit, [edit.block(rv) for rv in block], name_values)
        return
    site = edit.block(block)  # type: ignore[arg-type]  # not several
    elementwise(edit, site)
    scope = scope_of(edit, site)
    inliner = _inliner(edit, site, scope, known_accesses(edit, scope), name_values)
    work = inliner.stmt(replaced(scope.stmt, taken_out(edit, site)))
    edit.replace(scope.function, {scope.stmt: _finished(work, [inliner.store.buffer])})


def _inliner(edit: Edit, site: BlockSite, scope: BlockSite, accesses: Accesses, named: bool) -> _Inliner:
    """What puts the values of a block in the place of loads, when that is legal."""
    store = elementwise(edit, site)
    local_buffer(edit, site, scope, store.buffer)
    axes = axes_from_indices(edit, site, store.indices, "that it is stored at in")
    _require_inlinable(edit, site, scope, store, accesses)
    return _Inliner(store, axes, site.block, named)


def _inline_all(edit: Edit, sites: Sequence[BlockSite], named: bool) -> None:
    """Inline blocks of one scope, one after the other, where only what reads them is looked at."""
    if not sites:
        edit.refuse(None, "compute_inline: no block is given")
    scope = scope_of(edit, sites[0])
    accesses = known_accesses(edit, scope)
    parts = parts_of(scope.block.body)
    places = {_own_part(edit, site, scope, parts): site for site in sites}
    waiting = {place: _inliner(edit, site, scope, accesses, named) for place, site in places.items()}
    for place, site in places.items():
        _require_unchanged(edit, site, waiting[place].store, accesses)
    left = {place: part for place, part in enumerate(parts) if place not in places}
    if not left:
        edit.refuse(sites, "compute_inline: nothing would be left in the block around", help="keep what is read last")
    buffers = [inliner.store.buffer for inliner in waiting.values()]
    reads: dict[int, set[Buffer]] = {place: _loaded(part) for place, part in left.items()}
    reads |= {place: _loaded(inliner.store) for place, inliner in waiting.items()}
    for place in places:
        inliner = waiting.pop(place)
        for reader in [reader for reader, seen in reads.items() if inliner.store.buffer in seen and reader != place]:
            if reader in waiting:
                store = waiting[reader].store
                waiting[reader].store = replace(store, value=inliner.expr(store.value))
            else:
                left[reader] = inliner.stmt(left[reader])
            reads[reader] = (reads[reader] | reads[place]) - {inliner.store.buffer}
        del reads[place]
    body = replace(scope.block, body=seq(*left.values()))
    edit.replace(scope.function, {scope.stmt: _finished(replace(scope.stmt, block=body), buffers)})


def _loaded(root: Node) -> set[Buffer]:
    return {item.buffer for item in post_order(root) if isinstance(item, BufferLoad)}


def _own_part(edit: Edit, site: BlockSite, scope: BlockSite, parts: Sequence[Stmt]) -> int:
    """Which part of the scope has only this block in it."""
    line = [*site.within_scope, site.stmt]
    top = next((item for item in line if not isinstance(item, SeqStmt)), site.stmt)
    place = next((k for k, part in enumerate(parts) if part is top), None)
    inner: Stmt = top
    while isinstance(inner, For):
        inner = inner.body
    if site.scope is not scope.stmt or place is None or inner is not site.stmt:
        message = f"compute_inline: block {site.block.name_hint} is not all that is in loops of the same scope"
        edit.refuse(site, message, help="inline it by itself")
    return place


def _require_unchanged(edit: Edit, site: BlockSite, store: BufferStore, accesses: Accesses) -> None:
    """What a block reads is not written from it on, so that it may be computed wherever its readers go."""
    at = next(k for k, item in enumerate(accesses.items) if item.stmt is store and item.is_write)
    inputs = {item.buffer.data for item in accesses.items if item.stmt is store and not item.is_write}
    late = next((item for item in accesses.items[at:] if item.is_write and item.buffer.data in inputs), None)
    if late is not None:
        message = (
            f"compute_inline: buffer {late.buffer.name}, which block {site.block.name_hint} reads, is written later"
        )
        edit.refuse(site, message, help="inline it by itself")


def _require_inlinable(edit: Edit, site: BlockSite, scope: BlockSite, store: BufferStore, accesses: Accesses) -> None:
    name, buffer = site.block.name_hint, store.buffer
    used = accesses.of(buffer.data)
    writes = [item for item in used if item.is_write]
    if len(writes) != 1 or any(item.buffer is not buffer for item in used):
        message = f"compute_inline: buffer {buffer.name} has other writers than block {name}, or another name"
        edit.refuse(site, message, help="only what one block computes can be inlined")
    inputs = {item.buffer.data for item in accesses.items if item.stmt is store and not item.is_write}
    for read in (item for item in used if not item.is_write):
        sites = [site, *_reader(edit, scope, read)]
        require_closed(edit, site, shared(writes[0], read)[0])
        if not written_before(writes[0], read, scope.above):
            message = (
                f"compute_inline: it is not proved that block {name} has written every element of {buffer.name} "
                "that is read"
            )
            edit.refuse(sites, message, help="a reader must come after the whole of what it reads")
        for item in between(accesses, writes[0], read):
            if item.is_write and item.buffer.data in inputs:
                message = (
                    f"compute_inline: buffer {item.buffer.name}, which block {name} reads, is written before "
                    f"a reader of {buffer.name} is done"
                )
                edit.refuse(sites, message, help="the values would be computed from what is written later")
        if any(lanes_of(load.dtype) > 1 for load in _loads(read, buffer)):
            edit.refuse(
                sites, f"compute_inline: buffer {buffer.name} is read as a vector", help="inline before vectorizing"
            )


def _reader(edit: Edit, scope: BlockSite, read: Access) -> list[BlockSite]:
    line = {id(item) for item in read.above}
    sites = [site for site in edit.state.index(scope.function).blocks if id(site.stmt) in line and site.block.iter_vars]
    return sites[-1:]


def _loads(read: Access, buffer: Buffer) -> list[BufferLoad]:
    return [item for item in post_order(read.stmt) if isinstance(item, BufferLoad) and item.buffer is buffer]


class _Inliner(RegionRecomputer):
    """Puts values in the place of loads."""

    def __init__(self, store: BufferStore, axes: Sequence[Var | None], block: Block, named: bool) -> None:
        self.store, self.axes = store, axes
        self.points = {
            axis.var: axis.dom.min for axis in block.iter_vars if axis.var not in axes and axis.dom is not None
        }
        self.named = named and not any(map(is_if_then_else, post_order(store.value)))

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """An expression with loads replaced."""
        several = self._read_again(expr) if self.named else set()
        names: dict[StructuralKey, tuple[Var, PrimExpr]] = {}

        def change(item: PrimExpr) -> PrimExpr | None:
            if not isinstance(item, BufferLoad) or item.buffer is not self.store.buffer:
                return None
            place = StructuralKey(item.indices)
            if place not in several:
                return self._value(item)
            if place not in names:
                names[place] = (Var(self.store.buffer.name, item.dtype), self._value(item))
            return names[place][0]

        inlined = rewrite_expr(expr, change)
        for var, value in names.values():
            inlined = Let(var, value, inlined)
        return inlined

    def _read_again(self, expr: PrimExpr) -> set[StructuralKey]:
        """Places that an expression reads more than once, and at least once whatever its conditions say."""
        reads = self._reads(expr)
        count = Counter(StructuralKey(load.indices) for load in reads)
        computed = _computed(expr) if any(number > 1 for number in count.values()) else set()
        always = {StructuralKey(load.indices) for load in reads if id(load) in computed}
        return {place for place in always if count[place] > 1}

    def _reads(self, expr: PrimExpr) -> list[BufferLoad]:
        """Loads of the buffer; none where a place depends on another load of it, or on what is named inside."""
        parts = list(post_order(expr))
        uses = (*(child for item in parts for child in children(item)), expr)  # a load that is shared is used twice
        loads = [item for item in uses if isinstance(item, BufferLoad) and item.buffer is self.store.buffer]
        apart: set[int] = {id(item) for item in loads} | {id(item.var) for item in parts if isinstance(item, Let)}
        places = (part for load in loads for index in load.indices for part in post_order(index))
        return [] if any(id(part) in apart for part in places) else loads

    def _value(self, load: BufferLoad) -> PrimExpr:
        values: dict[Var, PrimExpr] = dict(self.points)
        for var, index in zip(self.axes, load.indices, strict=True):
            if var is not None:
                values[var] = index if index.dtype == var.dtype else cast(var.dtype, index)
        value = fresh_lets(self.store.value)
        return rewrite_expr(value, lambda part: values.get(part) if isinstance(part, Var) else None)


def _finished(work: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    """The scope without buffers."""
    assert isinstance(work, BlockRealize)
    block = work.block
    for buffer in buffers:
        block = without_buffer(block, buffer)
    return replace(work, block=with_recomputed_regions(block))


def _computed(expr: PrimExpr) -> set[int]:
    """By their ids the parts of an expression that are computed whenever it is: behind no condition."""
    found: set[int] = set()
    waiting: list[Node] = [expr]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found.add(id(part))
            waiting.extend(_computed_with(part))
    return found


def _computed_with(part: Node) -> Iterable[Node]:
    if isinstance(part, LogicalBinary):
        return (part.a,)
    return part.args[:1] if is_if_then_else(part) else children(part)
