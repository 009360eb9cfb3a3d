"""The loop before which the initial values of a reduction can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile
from typing import TypeGuard

from eutectic.arith.sets import Region, is_injective
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import late
from eutectic.tir.analysis.first_points import FirstPoints, first_points, variables_by_kind
from eutectic.tir.analysis.index_facts import expressions, statements
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import BufferStore, For, LetStmt, SeqStmt, Stmt


def loop_after_init(stmt: BlockRealize, chain: Sequence[For | SeqStmt]) -> For | None:
    """The loop before which the initial values of a reduction are stored, wherever the program runs.

    Args:
        stmt: A block with an `init`.
        chain: The loops and sequences around it, outermost first, from the last other statement on.

    Returns:
        The outermost loop of the reduction; None when initial values are stored at the first points instead.
    """
    return loop_after_init_at(first_points(stmt, [item for item in chain if isinstance(item, For)]), chain)


def loop_after_init_at(points: FirstPoints, chain: Sequence[For | SeqStmt]) -> For | None:
    """As `loop_after_init`, from the first points of the block."""
    stmt, init = points.stmt, points.stmt.block.init
    if init is None or uses_own_buffers(stmt.block):
        return None
    if any(axis.iter_type not in ("data_par", "comm_reduce") for axis in stmt.block.iter_vars):
        return None
    spatial, used = variables_by_kind(stmt)
    loops = [item for item in chain if isinstance(item, For)]
    inside = list(dropwhile(lambda loop: loop.loop_var not in used, loops))
    if not inside or spatial & used or not used <= {loop.loop_var for loop in loops} or not points.begins:
        return None
    if not _is_alone(points, init, chain, inside[0]):
        return None
    copied = [loop for loop in inside if loop.loop_var not in used]
    if any(_is_bound_elsewhere(loop, spatial, inside) for loop in copied):
        return None
    return inside[0] if _are_apart(stmt, init, chain, inside) else None


def _is_bound_elsewhere(loop: For, spatial: set[Var], inside: Sequence[For]) -> bool:
    """Whether a loop cannot be repeated before the reduction."""
    repeats = loop.loop_var not in spatial and not (isinstance(loop.extent, IntImm) and loop.extent.value == 1)
    bounds = variables(loop.min) | variables(loop.extent)
    return repeats or loop.kind == "thread_binding" or any(other.loop_var in bounds for other in inside)


def uses_own_buffers(block: Block) -> bool:
    """Whether initial values cannot be stored outside of a block, because they use what exists in it only."""
    init = block.init
    if init is None or touched(init) & {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}:
        return True
    blocks = [stmt.block for stmt in statements(init) if isinstance(stmt, BlockRealize)]
    return any(item.init is not None or item.alloc_buffers or item.match_buffers for item in blocks)


def _are_apart(stmt: BlockRealize, init: Stmt, chain: Sequence[For | SeqStmt], inside: Sequence[For]) -> bool:
    """Whether no instance touches the initial values of another one that comes later, but inside of the same loop.

    Args:
        stmt: The block.
        init: Its initial values.
        chain: The loops and sequences around it.
        inside: The loops from the outermost one of the reduction on.
    """
    used = variables_by_kind(stmt)[1]
    copied = {loop.loop_var: (loop.min, loop.extent) for loop in inside if loop.loop_var not in used}
    if not copied:
        return True
    axes = dict(zip((axis.var for axis in stmt.block.iter_vars), stmt.iter_values, strict=True))
    body = stmt.block.body
    if isinstance(init, BufferStore) and not any(isinstance(part, BlockRealize) for part in statements(body)):
        parts = [*statements(body), *expressions(body), *expressions(init)]
        uses = [part for part in parts if isinstance(part, BufferStore | BufferLoad)]
        own = [part.indices for part in uses if part.buffer.data is init.buffer.data]
        at = tuple(axes[index] for index in init.indices if isinstance(index, Var) and index in axes)
        alone = all(part.buffer.data is not init.buffer.data or part.buffer is init.buffer for part in uses)
        same = all(all(map(structural_equal, indices, init.indices)) for indices in own)
        if alone and same and not stmt.block.match_buffers and is_injective(Region(at, copied)):
            return True
    outermost = inside[0]
    above = list(takewhile(lambda item: item is not outermost, chain))
    accesses = accesses_of(outermost, above)
    mine = {id(part) for part in statements(init)}
    return not accesses.opaque and not any(
        late(item, other, inside, above)
        for item in accesses.items
        if id(item.stmt) in mine
        for other in accesses.items
        if other.buffer.data is item.buffer.data and (item.is_write or other.is_write)
    )


def _is_alone(points: FirstPoints, init: Stmt, chain: Sequence[For | SeqStmt], outermost: For) -> bool:
    """Whether nothing in the outermost reduction loop writes what `init` reads, nor others touch what it writes."""
    block = points.stmt.block
    needed = [*points.guards, *points.stmt.iter_values]
    read = {part.buffer.data for part in expressions(init) if isinstance(part, BufferLoad)}
    read |= {part.buffer.data for expr in needed for part in post_order(expr) if isinstance(part, BufferLoad)}
    if read & stored_memory(block.body):
        return False
    position = next(i for i, item in enumerate(chain) if item is outermost)
    if not any(isinstance(item, SeqStmt) for item in chain[position:]):
        return True
    written = {stmt.buffer.data for stmt in statements(init) if isinstance(stmt, BufferStore)}
    if any(isinstance(stmt, LetStmt) for stmt in statements(init)):
        return False
    below = [*chain[position + 1 :]]
    for index, item in enumerate(below):
        if isinstance(item, SeqStmt):
            inner: Stmt | None = below[index + 1] if index + 1 < len(below) else None
            for part in item.seq:
                holds = part is inner or (inner is None and _has_init(part, init))
                if not holds and (written & {buffer.data for buffer in touched(part)} or read & stored_memory(part)):
                    return False
    return True


def _has_init(stmt: Stmt, init: Stmt) -> TypeGuard[BlockRealize]:
    return isinstance(stmt, BlockRealize) and stmt.block.init is init


def stored_memory(stmt: Stmt) -> set[Var]:
    """Memory that a statement writes."""
    memory = {part.buffer.data for part in statements(stmt) if isinstance(part, BufferStore)}
    for part in statements(stmt):
        if isinstance(part, BlockRealize):
            memory |= {region.buffer.data for region in part.block.writes}
            memory |= {match.source.buffer.data for match in part.block.match_buffers}
    return memory


def touched(stmt: Stmt) -> set[Buffer]:
    """Buffers that a statement reads or writes."""
    buffers = {part.buffer for part in statements(stmt) if isinstance(part, BufferStore)}
    for part in statements(stmt):
        if isinstance(part, BlockRealize):
            buffers |= {region.buffer for region in (*part.block.reads, *part.block.writes)}
            buffers |= {match.source.buffer for match in part.block.match_buffers}
    return buffers | {part.buffer for part in expressions(stmt) if isinstance(part, BufferLoad)}
