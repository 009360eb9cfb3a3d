"""Parts that primitives which move computations share: what a scope holds, regions stated anew, blocks taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import Accesses, accesses_of, is_opaque
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.buffers import has_other_name
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, For, LetStmt, SeqStmt, Stmt, seq
from eutectic.tir.transform.statement_mutator import StmtMutator, updated


class Restating(StmtMutator):
    """A mutator that states the regions of blocks anew when something in them has changed.

    Blocks that state no regions, as the root of a function, are left so.
    """

    def block(self, block: Block) -> Block:
        """A block with what is inside of it."""
        made = super().block(block)
        return made if made is block else restated(made)


def restated(block: Block) -> Block:
    """A block with the regions that its body has; one that states none stays so."""
    if not block.reads and not block.writes:
        return block
    reads, writes = block_access(block)
    return updated(block, reads=reads, writes=writes)


def scope_of(edit: Edit, site: BlockSite) -> BlockSite:
    """The block around a block.

    Raises:
        ScheduleError: there is none.
    """
    scope = site.scope
    if scope is None:
        edit.refuse(
            site, f"{edit.name}: block {site.block.name_hint} has no block around it", help="choose a block inside"
        )
    found = site.site_of(scope)
    return BlockSite(found.function, scope, found.above)


def known_accesses(edit: Edit, scope: BlockSite) -> Accesses:
    """What a scope accesses, when all of it is known.

    Raises:
        ScheduleError: something in the scope has effects or uses memory through a pointer.
    """
    found = accesses_of(scope.stmt, scope.above)
    if found.opaque:
        name = scope.block.name_hint
        message = f"{edit.name}: what is accessed in block {name} is not known: it has effects, or uses a pointer"
        edit.refuse(scope, message, help="only programs whose accesses are all indexed can be transformed so")
    return found


def local_buffer(edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer) -> None:
    """Refuse a buffer that lives longer than the scope."""
    if buffer not in scope.block.alloc_buffers:
        message = f"{edit.name}: buffer {buffer.name} is not allocated in the block around {site.block.name_hint}"
        edit.refuse(site, message, help="only what is allocated there can go away")
    if has_other_name(scope.stmt, buffer):
        message = f"{edit.name}: buffer {buffer.name} has another name in a block"
        edit.refuse(site, message, help="only buffers without match_buffer can go away")


def elementwise(edit: Edit, site: BlockSite) -> BufferStore:
    """The store of a block that computes one element at each point, from nothing that it writes itself.

    Raises:
        ScheduleError: the block is not of this kind.
    """
    block, body = site.block, site.block.body
    why = None
    if block.init is not None or any(axis.iter_type != "data_par" for axis in block.iter_vars):
        why = "it is a reduction, or has axes that are not spatial"
    elif not isinstance(body, BufferStore) or block.alloc_buffers or block.match_buffers:
        why = "its body is more than one store"
    elif body.predicate is not None or any(isinstance(i, BufferLoad) for n in body.indices for i in post_order(n)):
        why = "its store has a predicate, or indices from memory"
    elif any(isinstance(i, BufferLoad) and i.buffer.data is body.buffer.data for i in post_order(body.value)):
        why = f"it reads {body.buffer.name}, which it writes"
    elif any(is_opaque(i) for i in post_order(body.value, enter=lambda n: not isinstance(n, Buffer))):
        why = "its value has effects"
    if why is not None or not isinstance(body, BufferStore):
        message = f"{edit.name}: block {block.name_hint} does not compute one element per point: {why}"
        edit.refuse(site, message, help="choose a block of the form B[i, j] = f(i, j)")
    return body


def axes_from_indices(edit: Edit, site: BlockSite, indices: Sequence[PrimExpr], what: str) -> list[Var | None]:
    """The axis that each index is; None for a constant.

    Raises:
        ScheduleError: an index is something else, or an axis of more than one point is missing or occurs twice.
    """
    block = site.block
    axes = {axis.var: axis for axis in block.iter_vars}
    found = [index if isinstance(index, Var) and index in axes else None for index in indices]
    given = [var for var in found if var is not None]
    constant = all(var is not None or not list(_variables(index)) for var, index in zip(found, indices, strict=True))
    missing = [
        axis.var.name
        for axis in block.iter_vars
        if axis.var not in given and not (axis.dom is not None and axis.dom.is_point)
    ]
    if not constant or len(set(given)) != len(given) or missing:
        listed = ", ".join(shown(index) for index in indices)
        message = f"{edit.name}: the indices [{listed}] {what} block {block.name_hint} are not its axes, each once"
        edit.refuse(site, message, help="each index must be an axis of the block, and each axis an index")
    return found


def _variables(expr: PrimExpr) -> list[Var]:
    return [item for item in post_order(expr) if isinstance(item, Var)]


def require_closed(edit: Edit, site: BlockSite, around: Sequence[Stmt]) -> None:
    """Refuse a block that uses what is bound around it, but not around the place that it is to be moved to.

    Args:
        edit: The call.
        site: The block.
        around: Statements around both places.

    Raises:
        ScheduleError: it uses a loop, a binding, or memory that is not there.
    """
    passed = [item for item in site.above if not any(item is x for x in around)]
    bound: set[object] = set()
    for item in passed:
        match item:
            case For():
                bound.add(item.loop_var)
            case LetStmt():
                bound.add(item.var)
            case Allocate():
                bound.add(item.buffer_var)
            case DeclBuffer():
                bound.add(item.buffer)
            case AttrStmt() if isinstance(item.node, IterVar):
                bound.add(item.node.var)
    used = {part for part in post_order(site.block) if isinstance(part, Var | Buffer) and part in bound}
    if used:
        names = ", ".join(sorted(part.name for part in used))
        message = f"{edit.name}: block {site.block.name_hint} uses {names}, which is bound outside of it"
        edit.refuse(site, message, help="a block that moves may use its own axes only")


def require_one_name_each(edit: Edit, site: BlockSite) -> None:
    """Refuse a block that knows one memory by several names, of which blocks around it declare some.

    Raises:
        ScheduleError: it does.
    """
    known: dict[Var, Var] = {}
    inner, outer = accesses_of(site.stmt), accesses_of(site.stmt, site.above)
    for inside, outside in zip(inner.items, outer.items, strict=True):
        name = known.setdefault(outside.buffer.data, inside.buffer.data)
        if name is not inside.buffer.data:
            message = (
                f"{edit.name}: block {site.block.name_hint} knows the memory of {outside.buffer.name} by several names"
            )
            edit.refuse(site, message, help="only blocks with one name for each memory can be moved")


# ---- taking out


def taken_out(edit: Edit, site: BlockSite) -> Mapping[Stmt, Stmt]:
    """The change that takes a block away, with the loops that have nothing else in them.

    Raises:
        ScheduleError: nothing would be left in the block around it.
    """
    gone: Stmt = site.stmt
    around = list(site.within_scope)
    while around and isinstance(around[-1], For):
        gone = around.pop()
    last = around[-1] if around else None
    if not isinstance(last, SeqStmt):
        message = f"{edit.name}: nothing would be left without block {site.block.name_hint}"
        edit.refuse(site, message, help="a scope must keep a block")
    return {last: seq(*(part for part in last.seq if part is not gone))}


def without_buffer(block: Block, buffer: Buffer) -> Block:
    """A block that does not allocate a buffer any more."""
    return replace(block, alloc_buffers=tuple(b for b in block.alloc_buffers if b is not buffer))
