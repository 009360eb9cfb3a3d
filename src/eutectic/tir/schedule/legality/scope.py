"""The block around a block: what it holds and accesses, and what may leave it."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import Var
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Accesses, accesses_of
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.buffers import has_other_name
from eutectic.tir.schedule.state import BlockSite, Site
from eutectic.tir.stmt import Allocate, AttrStmt, DeclBuffer, For, LetStmt, Stmt


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
    place = site.site_of(scope)
    return BlockSite(place.function, scope, place.above)


def known_accesses(edit: Edit, scope: BlockSite) -> Accesses:
    """What a scope accesses, when all of it is known.

    Raises:
        ScheduleError: something in the scope has effects or uses memory through a pointer.
    """
    accesses = accesses_of(scope.stmt, scope.above)
    if accesses.opaque:
        name = scope.block.name_hint
        message = f"{edit.name}: what is accessed in block {name} is not known: it has effects, or uses a pointer"
        edit.refuse(scope, message, help="only programs whose accesses are all indexed can be transformed so")
    return accesses


def local_buffer(edit: Edit, site: BlockSite, scope: BlockSite, buffer: Buffer) -> None:
    """Refuse a buffer that lives longer than the scope."""
    if buffer not in scope.block.alloc_buffers:
        message = f"{edit.name}: buffer {buffer.name} is not allocated in the block around {site.block.name_hint}"
        edit.refuse(site, message, help="only what is allocated there can go away")
    if has_other_name(scope.stmt, buffer):
        message = f"{edit.name}: buffer {buffer.name} has another name in a block"
        edit.refuse(site, message, help="only buffers without match_buffer can go away")


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


def child_blocks(edit: Edit, site: Site) -> Sequence[BlockSite]:
    """Places of the blocks directly inside a block or loop."""
    depth = len(site.above)
    return [
        other
        for other in edit.state.index(site.function).blocks
        if len(other.above) > depth
        and other.above[depth] is site.stmt
        and not any(isinstance(item, BlockRealize) for item in other.above[depth + 1 :])
    ]


def siblings(edit: Edit, site: BlockSite) -> Sequence[BlockSite]:
    """Places of the other blocks of the same scope."""
    scope = site.scope
    if scope is None:
        return []
    return [other for other in child_blocks(edit, site.site_of(scope)) if other.stmt is not site.stmt]
