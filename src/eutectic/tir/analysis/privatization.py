"""Privatization: iterations can have memory of their own when each reads of it only what it wrote itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eutectic.arith.sets import Ends, Region, covers_together
from eutectic.ir.prim_expr import EQ, PrimExpr, Var, as_prim, compare, logical_and, logical_or
from eutectic.tir.analysis.accesses import Access
from eutectic.tir.analysis.dependence import conjunction, context_of, in_bounds, lexicographic, region_of
from eutectic.tir.analysis.program_order import fixed_loops, shared, written_before
from eutectic.tir.block import BlockRealize
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import For, Stmt


def is_privatizable(own: Sequence[Access], above: Sequence[Stmt]) -> bool:
    """Whether all that is read of a buffer is proved to have been written before, by the same run of a statement.

    Args:
        own: Accesses of the buffer in the statement, in the order of the program.
        above: Statements around it.
    """
    writes = [item for item in own if item.is_write and item.exact and None not in item.indices]
    return all(_is_written(read, writes, above) for read in own if not read.is_write)


def _is_written(read: Access, writes: Sequence[Access], above: Sequence[Stmt]) -> bool:
    """Whether writes, one of them or several together, reach each element that is read before it is read."""
    if any(written_before(write, read, above) for write in writes):
        return True
    if None in read.indices:
        return False
    around = [*above, *read.above]
    wanted, context = region_of(read, fixed_loops(around)), context_of(around)
    parts = [_written_before(write, read) for write in writes if write.buffer is read.buffer]
    return covers_together(parts, wanted, context)


def _written_before(write: Access, read: Access) -> Region:
    """What a write has reached when one iteration of all loops around a read begins.

    That is what it reached in earlier iterations of loops around both, such as the first of a sum, and in this one
    where it comes first. Of loops whose iterations are run at once it is the same iteration.
    """
    around, first, second = shared(write, read)
    loops = [item for item in around if isinstance(item, For) and item.kind in ("serial", "unrolled")]
    earlier = {loop.loop_var: Var(f"p{k}", loop.loop_var.dtype) for k, loop in enumerate(loops)}
    before = [earlier[loop.loop_var] for loop in loops]
    now: list[PrimExpr] = [loop.loop_var for loop in loops]
    order = lexicographic(before, now)
    if 0 <= first < second or _is_first_value(write, read, around):
        order = logical_or(order, conjunction([compare(EQ, a, b) for a, b in zip(before, now, strict=True)]))
    return _at(write, loops, {**fixed_loops(around), **earlier}, order)


def _is_first_value(write: Access, read: Access, around: Sequence[Stmt]) -> bool:
    """Whether a write is in the `init` of the block that a read is in the body of."""
    block = around[-1].block if around and isinstance(around[-1], BlockRealize) else None
    if block is None or block.init is None:
        return False
    lines = [(*item.above, item.stmt) for item in (write, read)]
    return [any(part is block.init for part in line) for line in lines] == [True, False]


def _at(write: Access, loops: Sequence[For], at: Mapping[Var, PrimExpr], order: PrimExpr) -> Region:
    """What a write reaches in the iterations of some loops for which a condition holds."""
    region = region_of(write, at)
    bounds: dict[Var, Ends] = {}
    inside: list[PrimExpr] = []
    for loop in loops:
        var = at[loop.loop_var]
        assert isinstance(var, Var)
        first, count = (with_values(end, at) for end in (loop.min, loop.extent))  # those of loops outside may differ
        bounds[var] = (first, count)
        inside.append(in_bounds(var, (first, count)))
    predicate = logical_and(order, conjunction(inside))
    return Region(region.indices, {**bounds, **region.iters}, logical_and(as_prim(region.predicate, "bool"), predicate))
