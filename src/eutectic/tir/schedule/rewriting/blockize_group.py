"""A block around several blocks that follow each other."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import GT, PrimExpr, Var, compare
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.access import block_access
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import TRUE
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.scope import child_blocks, known_accesses, scope_of
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.stmt import For, SeqStmt, Stmt, seq


def outer_of_group(edit: Edit, sites: Sequence[BlockSite]) -> tuple[dict[Stmt, Stmt], Block]:
    """A block around several blocks, whose axes are the loops around all of them.

    The statements run in the same order as before: a loop around all of them binds an axis, which they use
    in its place.

    Args:
        edit: The call.
        sites: The blocks.

    Returns:
        The change of the sequence that they are parts of, and the new block.

    Raises:
        ScheduleError: there are none, or not in one scope; they are not all the blocks of parts that follow each
            other; or a reduction among them would not store its initial values where it has no terms.
    """
    around, parts = _parts(edit, sites)
    loops = [item for item in around if isinstance(item, For)]
    used = {item for part in parts for item in post_order(part) if isinstance(item, Var)}
    kept = [loop for loop in loops if loop.loop_var in used]
    for loop in kept:
        if (variables(loop.min) | variables(loop.extent)) & {other.loop_var for other in loops}:
            message = f"{edit.name}: the bounds of loop {loop.loop_var.name} depend on another loop"
            edit.refuse(sites, message, help="only loops over a box can be axes of a block")
    _require_terms(edit, sites, loops)
    axes = [_axis(sites, loop) for loop in kept]
    values: dict[Var, PrimExpr] = {loop.loop_var: axis.var for loop, axis in zip(kept, axes, strict=True)}
    body = rewrite(seq(*parts), lambda item: values.get(item) if isinstance(item, Var) else None)
    assert isinstance(body, Stmt)
    name = "_".join(["outer", *(site.block.name_hint for site in sites), ""])
    block = Block(tuple(axes), (), (), edit.free_block_name(sites[0].function, name), body)
    reads, writes = block_access(block)
    block = replace(block, reads=reads, writes=writes)
    last = around[-1]
    assert isinstance(last, SeqStmt)
    outer = BlockRealize(tuple(loop.loop_var for loop in kept), TRUE, block)
    first = next(k for k, part in enumerate(last.seq) if part is parts[0])
    fresh = seq(*last.seq[:first], outer, *last.seq[first + len(parts) :])
    return {last: fresh}, block


def _parts(edit: Edit, sites: Sequence[BlockSite]) -> tuple[list[Stmt], list[Stmt]]:
    """What is within the scope around all of the blocks, and the parts that they are in."""
    if not sites:
        edit.refuse(None, f"{edit.name}: no block is given", help="give a loop, or a list of blocks")
    scope = scope_of(edit, sites[0])
    names = ", ".join(site.block.name_hint for site in sites)
    if any(site.scope is not scope.stmt for site in sites) or len({site.stmt for site in sites}) != len(sites):
        edit.refuse(sites, f"{edit.name}: blocks {names} are not different blocks of one scope")
    known_accesses(edit, scope)
    lines = [(*site.within_scope, site.stmt) for site in sites]
    depth = next(k for k, row in enumerate(zip(*lines, strict=False)) if any(item is not row[0] for item in row))
    around = list(lines[0][:depth])
    last = around[-1] if around else None
    if not isinstance(last, SeqStmt) or not all(isinstance(item, For | SeqStmt) for item in around):
        message = f"{edit.name}: there is a condition or a binding around blocks {names}"
        edit.refuse(sites, message, help="only loops may be there")
    places = [next(k for k, part in enumerate(last.seq) if part is line[depth]) for line in lines]
    parts = list(last.seq[min(places) : max(places) + 1])
    inside = [b for b in child_blocks(edit, scope) if any(item is p for p in parts for item in (*b.above, b.stmt))]
    others = [block for block in inside if not any(block.stmt is site.stmt for site in sites)]
    if others or len(set(places)) != len(parts):
        listed = ", ".join(block.block.name_hint for block in others) or "another statement"
        message = f"{edit.name}: {listed} is between blocks {names}"
        edit.refuse([*sites, *others], message, help="give all blocks from the first to the last")
    return around, parts


def _require_terms(edit: Edit, sites: Sequence[BlockSite], loops: Sequence[For]) -> None:
    """A reduction over a loop outside of the new block stores its initial values in the loop."""
    for site in sites:
        analyzer = analyzer_for(site)
        for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True):
            if site.block.init is None or axis.iter_type != "comm_reduce":
                continue
            for loop in (loop for loop in loops if loop.loop_var in variables(value)):
                if not analyzer.can_prove(compare(GT, loop.extent, 0)):
                    message = (
                        f"{edit.name}: the reduction of block {site.block.name_hint} over loop {loop.loop_var.name} "
                        "could have no terms"
                    )
                    edit.refuse(site, message, help="decompose_reduction first")


def _axis(sites: Sequence[BlockSite], loop: For) -> IterVar:
    kinds = {
        axis.iter_type
        for site in sites
        for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True)
        if loop.loop_var in variables(value)
    }
    kind = kinds.pop() if len(kinds) == 1 else "opaque"
    return IterVar(Range(min=loop.min, extent=loop.extent), Var(f"v{loop.loop_var.name}", loop.loop_var.dtype), kind)
