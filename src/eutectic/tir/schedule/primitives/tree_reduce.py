"""tree_reduce: partial results are combined by halves."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.dtype import is_float
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add
from eutectic.tir.access import block_access
from eutectic.tir.analysis.dependence import TRUE, context_of, writes_once
from eutectic.tir.analysis.program_order import part_of
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV
from eutectic.tir.schedule.legality.combiner import Combiner, combiner_of
from eutectic.tir.schedule.legality.scope import known_accesses, local_buffer, scope_of
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq


@dataclass(frozen=True, slots=True)
class _Row:
    """Partial results that are combined in one loop.

    Attributes:
        site: The block that combines them.
        loop: The loop around it.
        axis: The axis of the block that is bound to the loop.
        combiner: How it combines.
        term: The partial result.
    """

    site: BlockSite
    loop: For
    axis: IterVar
    combiner: Combiner
    term: BufferLoad


@primitive
def tree_reduce(edit: Edit, block: BlockLike) -> list[BlockRV]:
    """Combine partial results, such as those that `rfactor` makes, by halves: each step adds one half to the other.

    Integers are kept bit for bit. Floats are combined in another order, which is what was asked for, and `debug_mask`
    does not compare results then.

    Args:
        edit: The call.
        block: A reduction of partial results that nobody else reads, in a loop of 2^k iterations from zero on.

    Returns:
        The blocks that combine halves, the largest half first. The block itself is left with one partial result.

    Raises:
        ScheduleError: the block is gone; it is not a sum, product, maximum or minimum of elements of one buffer along
            one axis; the axis is not bound to the innermost loop, or that has not 2^k iterations; the buffer is not
            allocated in the block around, has other readers, or its elements could be read more than once.

    before: for i, k in T.grid(8, 4): C[i] = C[i] + P[i, k]
    after tree_reduce(C):
        for i:
            for k in range(2): P[i, k] = P[i, k] + P[i, k + 2]
            for k in range(1): P[i, k] = P[i, k] + P[i, k + 1]
            for k in range(1): C[i] = C[i] + P[i, k]
    """
    row = _row(edit, edit.block(block))
    _require_own_elements(edit, row)
    size = row.loop.static_extent or 1
    halves = [_half(edit, row, size >> step) for step in range(1, size.bit_length())]
    one = Range(min=0, extent=IntImm(row.axis.var.dtype, 1))
    axes = tuple(replace(axis, dom=one) if axis is row.axis else axis for axis in row.site.block.iter_vars)
    last = replace(row.site.block, iter_vars=axes)
    body = replace(row.loop, extent=IntImm(row.loop.loop_var.dtype, 1), body=replace(row.site.stmt, block=last))
    edit.replace(row.site.function, {row.loop: seq(*(nest for nest, _ in halves), body)})
    edit.keeps_results = edit.keeps_results and not is_float(row.term.dtype)
    return [edit.block_rv(row.site.function, half) for _, half in halves]


def _row(edit: Edit, site: BlockSite) -> _Row:
    block, name, update = site.block, site.block.name_hint, site.block.body
    reduced = [(a, v) for a, v in zip(block.iter_vars, site.stmt.iter_values, strict=True) if a.iter_type != "data_par"]
    combiner = combiner_of(update) if isinstance(update, BufferStore) and block.init is not None else None
    term = None if combiner is None else combiner.term
    if combiner is None or not isinstance(term, BufferLoad) or term.dtype != combiner.result.dtype:
        message = f"tree_reduce: block {name} is not a sum, product, maximum or minimum of elements of one buffer"
        edit.refuse(site, message, help="call rfactor first, and give the block that reduces its results")
    loop = site.above[-1] if site.above else None
    if len(reduced) != 1 or not isinstance(loop, For) or reduced[0][1] is not loop.loop_var:
        message = f"tree_reduce: block {name} does not reduce along one axis that is bound to the innermost loop"
        edit.refuse(site, message, help="reorder the loops, and leave one axis to be reduced")
    axis = reduced[0][0]
    size = loop.static_extent or 0
    plain = loop.kind == "serial" and not loop.annotations and site.stmt.always_runs
    if not plain or not _is_range(loop.min, 0) or size < 2 or size & (size - 1) or not _covers(axis, size):
        message = f"tree_reduce: loop {loop.loop_var.name} is not plain, or has not 2, 4, 8, ... iterations from 0 on"
        edit.refuse(site, message, help="split the loop so that the inner one has 2^k iterations before rfactor")
    if [index for index in term.indices if index is axis.var] != [axis.var]:
        message = f"tree_reduce: axis {axis.var.name} of block {name} is no index of {term.buffer.name}"
        edit.refuse(site, message, help="give the block that reduces the results of rfactor")
    return _Row(site, loop, axis, combiner, term)


def _is_range(low: PrimExpr, value: int) -> bool:
    return isinstance(low, IntImm) and low.value == value


def _covers(axis: IterVar, size: int) -> bool:
    return axis.dom is not None and _is_range(axis.dom.min, 0) and _is_range(axis.dom.extent, size)


def _require_own_elements(edit: Edit, row: _Row) -> None:
    """Nobody else needs the elements, so that they may hold sums of each other."""
    scope, buffer, name = scope_of(edit, row.site), row.term.buffer, row.site.block.name_hint
    local_buffer(edit, row.site, scope, buffer)
    used = known_accesses(edit, scope).of(buffer.data)
    own = [item for item in used if item.stmt is row.site.block.body]
    parts = parts_of(scope.block.body)
    place = part_of(parts, own[0])
    others = [item for item in used if item not in own]
    if any(item.buffer is not buffer for item in used) or any(part_of(parts, item) >= place for item in others):
        message = f"tree_reduce: buffer {buffer.name} is used by others than block {name} in its loops or after them"
        edit.refuse(row.site, message, help="only partial results that nobody else needs can be combined in place")
    reads = [item for item in own if not item.is_write]
    if not writes_once(reads[0], assumption=context_of(scope.above)):
        message = f"tree_reduce: it is not proved that block {name} reads each element of {buffer.name} once"
        edit.refuse(row.site, message, help="every axis of the block must be an index of the partial results")


def _half(edit: Edit, row: _Row, half: int) -> tuple[Stmt, Block]:
    """The nest that adds the upper half of what is left to the lower one."""
    block, dtype = row.site.block, row.loop.loop_var.dtype
    var = Var(row.loop.loop_var.name, dtype)
    axes, bound, values = [], [], dict[Var, PrimExpr]()
    for axis, value in zip(block.iter_vars, row.site.stmt.iter_values, strict=True):
        fresh = Var(axis.var.name, axis.var.dtype)
        values[axis.var] = fresh
        mine = axis is row.axis
        dom = Range(min=0, extent=IntImm(dtype, half)) if mine else axis.dom
        axes.append(IterVar(dom, fresh, "data_par"))
        bound.append(var if mine else value)
    low = tuple(with_values(index, values) for index in row.term.indices)
    high = tuple(add(index, half) if index is values[row.axis.var] else index for index in low)
    buffer = row.term.buffer
    value = row.combiner.combined(BufferLoad(buffer, low), BufferLoad(buffer, high))
    name = edit.free_block_name(row.site.function, f"{block.name_hint}_half_{half}")
    new_block = Block(tuple(axes), (), (), name, BufferStore(buffer, value, low))
    reads, writes = block_access(new_block)
    new_block = replace(new_block, reads=reads, writes=writes)
    realize = BlockRealize(tuple(bound), TRUE, new_block)
    return For(var, IntImm(dtype, 0), IntImm(dtype, half), "serial", realize), new_block
