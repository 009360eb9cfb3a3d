"""Blocks that compute the same wherever they stand: complete ones, and reductions with their initial values.

The points of the spatial axes of such a block can run in any order, and again: each stores elements of its
own, and reads nothing that others of them store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.arith.sets import Region, covers, is_empty, is_injective
from eutectic.ir.prim_expr import EQ, NE, PrimExpr, Var, compare, logical_or
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.dependence import FALSE, TRUE, conjunction, in_bounds, lexicographic, may_meet
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.legality.natural_sizes import natural_sizes
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import rewrite_expr
from eutectic.tir.stmt import For, Stmt


@dataclass(frozen=True, slots=True)
class Complete:
    """What is known of a block that computes the same wherever it stands.

    Attributes:
        accesses: What it accesses at one point of its axes, in terms of these.
        results: The buffers that it writes.
    """

    accesses: Accesses
    results: tuple[Buffer, ...]

    @property
    def inputs(self) -> list[Access]:
        """Reads of what it does not write."""
        own = {buffer.data for buffer in self.results} | self.accesses.private
        return [item for item in self.accesses.items if not item.is_write and item.buffer.data not in own]


def require_complete(edit: Edit, site: BlockSite, loops: Sequence[For], context: PrimExpr) -> Complete:
    """A block whose spatial points can run in any order, as often as one likes.

    Args:
        edit: The call.
        site: The block; only loops and sequences are around it.
        loops: The loops around it that are to be replaced, outermost first.
        context: What holds of the variables of other loops.

    Raises:
        ScheduleError: it has axes that are neither spatial nor reduced, or reduced ones and no init; it reads what
            other points write; two points could write one element; or a reduction does not run once through all
            points of its axes, in their order.
    """
    block, name = site.block, site.block.name_hint
    if any(axis.iter_type not in ("data_par", "comm_reduce") or axis.dom is None for axis in block.iter_vars):
        edit.refuse(site, f"{edit.name}: block {name} has axes that are neither spatial nor reduced")
    if block.init is None and _reduced(block):
        message = f"{edit.name}: block {name} is a reduction without its initial values"
        edit.refuse(site, message, help="move it before decompose_reduction")
    accesses = accesses_of(BlockRealize(tuple(axis.var for axis in block.iter_vars), TRUE, block), site.above)
    results = {item.buffer for item in accesses.items if item.is_write and item.buffer.data not in accesses.private}
    listed = tuple(dict.fromkeys(item.buffer for item in accesses.items if item.buffer in results))
    for buffer in listed:
        _require_own_elements(edit, site, accesses.of(buffer.data))
    if block.init is not None:
        sizes = natural_sizes(edit.state.function(site.function))
        _require_order(edit, site, loops, conjunction([context, sizes]), accesses)
    return Complete(accesses, listed)


def _reduced(block: Block) -> list[IterVar]:
    return [axis for axis in block.iter_vars if axis.iter_type == "comm_reduce"]


def _require_own_elements(edit: Edit, site: BlockSite, used: Sequence[Access]) -> None:
    block, name = site.block, used[0].buffer.name
    reduced = {axis.var for axis in _reduced(block)}
    for item in used:
        if not item.is_write and (block.init is None or item.indices is not used[0].indices):
            message = f"{edit.name}: block {block.name_hint} reads {name}, which it writes"
            edit.refuse(site, message, help="choose a block that reads only what others compute")
        if any(index is None or variables(index) & reduced for index in item.indices):
            message = (
                f"{edit.name}: the elements of {name} that block {block.name_hint} writes are not those of a point"
            )
            edit.refuse(site, message, help="indices must be affine, of spatial axes")
    spatial = [axis for axis in block.iter_vars if axis.iter_type == "data_par"]
    first = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in spatial}
    second = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in spatial}
    different = FALSE
    bounds: list[PrimExpr] = []
    for axis in spatial:
        assert axis.dom is not None
        p, q = first[axis.var], second[axis.var]
        different = logical_or(different, compare(NE, p, q))
        bounds += [in_bounds(v, (axis.dom.min, axis.dom.extent)) for v in (p, q)]
    context = conjunction([*bounds, different])
    writes = list({id(item.indices): item for item in used if item.is_write}.values())
    for k, a in enumerate(writes):
        for b in writes[k:]:
            if spatial and may_meet(_always(a), _always(b), dict(first), dict(second), context):
                message = f"{edit.name}: two points of block {block.name_hint} could write one element of {name}"
                edit.refuse(site, message, help="each element must belong to one point of the spatial axes")


def _always(access: Access) -> Access:
    """An access without its conditions, which the same indices may have others of elsewhere."""
    return Access(access.buffer, access.indices, access.iters, (), access.is_write, access.stmt, access.above)


def _require_order(edit: Edit, site: BlockSite, loops: Sequence[For], context: PrimExpr, accesses: Accesses) -> None:
    """A reduction runs once through each point, for each spatial point in the order of its axes."""
    block, name = site.block, site.block.name_hint
    runs = Region(site.stmt.iter_values, {v.loop_var: (v.min, v.extent) for v in loops}, site.stmt.predicate)
    whole = Region.box([(axis.dom.min, axis.dom.extent) for axis in block.iter_vars if axis.dom is not None])
    if not (is_injective(runs, context) and covers(whole, runs, context)):
        message = f"{edit.name}: it is not proved that block {name} adds each point of the reduction once"
        edit.refuse(site, message, help="loops that repeat the reduction, or a predicate that is not affine, forbid it")
    if not is_empty(_exchanged(site, loops, accesses), context):
        message = f"{edit.name}: block {name} does not run through its reduction in the order of the axes"
        edit.refuse(site, message, help="the loops of the reduction would be one per axis; reorder them so before")


def _exchanged(site: BlockSite, loops: Sequence[For], accesses: Accesses) -> Region:
    """Two iterations for one spatial point, of which the later one has the earlier point of the reduction."""
    stmt = site.stmt
    names = [{v.loop_var: Var(v.loop_var.name, v.loop_var.dtype) for v in loops} for _ in range(2)]

    def at(expr: PrimExpr, which: int) -> PrimExpr:
        return rewrite_expr(expr, lambda item: names[which].get(item) if isinstance(item, Var) else None)

    pairs = list(zip(site.block.iter_vars, stmt.iter_values, strict=True))
    first, second = ([at(v, k) for axis, v in pairs if axis.iter_type == "comm_reduce"] for k in (0, 1))
    order = lexicographic(*([names[k][loop.loop_var] for loop in loops] for k in (0, 1)))
    if _is_exchangeable(site.block, accesses):
        begin = [axis.dom.min for axis in _reduced(site.block) if axis.dom is not None]
        turned = conjunction([compare(EQ, value, least) for value, least in zip(second, begin, strict=True)])
    else:
        turned = lexicographic(second, first)
    iters = {names[k][v.loop_var]: (at(v.min, k), at(v.extent, k)) for k in (0, 1) for v in loops}
    same = [compare(EQ, at(v, 0), at(v, 1)) for axis, v in pairs if axis.iter_type == "data_par"]
    return Region((), iters, conjunction([at(stmt.predicate, 0), at(stmt.predicate, 1), *same, order, turned]))


def _is_exchangeable(block: Block, accesses: Accesses) -> bool:
    """Whether all updates of the results are of integers, so that their order makes no difference."""
    init: Stmt | None = block.init
    inside = [item for item in accesses.items if item.is_write and item.buffer.data not in accesses.private]
    updates = [item for item in inside if item.stmt is not init and not any(x is init for x in item.above)]
    return all(item.update is not None for item in updates)
