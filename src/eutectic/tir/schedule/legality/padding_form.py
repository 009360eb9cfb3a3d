"""Blocks that pad: elements within a box, a value of the border outside of it."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.interval import Interval
from eutectic.ir.prim_expr import (
    NE,
    PrimExpr,
    Select,
    Var,
    compare,
    logical_not,
)
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.accesses import Access, accesses_of
from eutectic.tir.analysis.dependence import TRUE, conjunction, context_of, in_bounds, may_meet
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.legality.elementwise import elementwise
from eutectic.tir.schedule.legality.padding_box import Box, box_of
from eutectic.tir.schedule.legality.scope import require_closed, require_one_name_each
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.legality.speculatable import why_not_speculatable
from eutectic.tir.schedule.state import BlockSite, LoopSite
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, SeqStmt


@dataclass(frozen=True, slots=True)
class Padding:
    """A block that pads.

    Attributes:
        site: The block.
        around: The loop that the border is filled before.
        loops: The loops from that one inwards.
        store: What the block does.
        inner: The value of the elements that are copied.
        border: The value of the others.
        box: Where elements are copied.
    """

    site: BlockSite
    around: LoopSite
    loops: tuple[For, ...]
    store: BufferStore
    inner: PrimExpr
    border: PrimExpr
    box: Box

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.site.block.name_hint


def padding_of(edit: Edit, site: BlockSite, around: LoopSite) -> Padding:
    """A block as one that pads.

    Args:
        edit: The call.
        site: The block.
        around: A loop around it.

    Raises:
        ScheduleError: the block is of another form; conditions are more than bounds of axes; the loop is not around it;
            there is more than loops between them, or they depend on memory; or an element could be both copied and
            filled.
    """
    store = elementwise(edit, site)
    name, value = site.block.name_hint, store.value
    if is_if_then_else(value):
        condition, inner, border = value.args
    elif isinstance(value, Select):
        condition, inner, border = value.condition, value.true_value, value.false_value
    else:
        message = f"{edit.name}: block {name} does not choose between elements and a border"
        edit.refuse(site, message, help="its value must be T.if_then_else(inside, value, border)")
    if not any(item is around.stmt for item in site.loops):
        message = f"{edit.name}: loop {around.stmt.loop_var.name} is not around block {name}"
        edit.refuse([site, around], message, help="choose one of get_loops(block)")
    between = site.above[len(around.above) :]
    if not all(isinstance(item, For | SeqStmt) for item in between):
        message = f"{edit.name}: there is a condition or a binding between the loop and block {name}"
        edit.refuse([site, around], message, help="only loops may be there")
    loops = tuple(item for item in between if isinstance(item, For))
    used = [site.stmt.predicate, *site.stmt.iter_values, *(end for item in loops for end in (item.min, item.extent))]
    if any(map(reads_memory, used)):
        message = f"{edit.name}: loops around block {name}, its predicate or its axes depend on memory"
        edit.refuse([site, around], message, help="only sizes may be in them")
    box = box_of(condition, {axis.var: axis for axis in site.block.iter_vars}, knowing_sizes(edit, site))
    if isinstance(box, PrimExpr):
        message = f"{edit.name}: `{shown(box)}` is not a bound of an axis of block {name}"
        edit.refuse(site, message, help="conditions such as `1 <= i and i < n + 1` say which elements are copied")
    require_closed(edit, site, around.above)
    require_one_name_each(edit, site)
    _require_disjoint(edit, site, condition)
    return Padding(site, around, loops, store, inner, border, box)


def _require_disjoint(edit: Edit, site: BlockSite, condition: PrimExpr) -> None:
    """No element is both copied at one point and filled at another, where the later one counted."""
    whole = BlockRealize(tuple(axis.var for axis in site.block.iter_vars), TRUE, site.block)
    write = next(item for item in accesses_of(whole, site.above).items if item.is_write)
    copied, filled = ({axis.var: Var(axis.var.name, axis.var.dtype) for axis in site.block.iter_vars} for _ in range(2))
    conditions = [with_values(condition, copied), logical_not(with_values(condition, filled))]
    for axis in site.block.iter_vars:
        if axis.dom is not None:
            conditions += [in_bounds(at[axis.var], (axis.dom.min, axis.dom.extent)) for at in (copied, filled)]
    if may_meet(write, write, dict(copied), dict(filled), conjunction(conditions)):
        message = (
            f"{edit.name}: an element of {write.buffer.name} could be copied at one point of block "
            f"{site.block.name_hint}, and filled at another"
        )
        edit.refuse(site, message, help="each element must belong to one point")


def knowing_sizes(edit: Edit, site: BlockSite) -> Analyzer:
    """An analyzer that knows the loops and axes around, and that sizes of the caller's buffers are not negative."""
    analyzer = analyzer_for(site)
    func = edit.state.function(site.function)
    for size in _sizes(func):
        analyzer.bind(size, Interval(lo=0))
    return analyzer


def _sizes(func: PrimFunc) -> list[Var]:
    sizes = [size for buffer in func.buffer_map.values() for size in buffer.shape if isinstance(size, Var)]
    return list(dict.fromkeys(sizes))


def require_alone(edit: Edit, padding: Padding) -> None:
    """Nothing else in the loop accesses what the block writes, and each thread writes elements of its own."""
    site, around = padding.site, padding.around
    inside = accesses_of(around.stmt, around.above)
    if inside.opaque:
        message = f"{edit.name}: something in loop {around.stmt.loop_var.name} has effects"
        edit.refuse([site, around], message, help="only loops whose accesses are all indexed can be changed so")
    write = next(item for item in inside.items if item.stmt is padding.store and item.is_write)
    for item in inside.of(write.buffer.data):
        if item is not write:
            message = (
                f"{edit.name}: {write.buffer.name} is accessed in loop {around.stmt.loop_var.name} outside of block "
                f"{padding.name}"
            )
            edit.refuse([site, around], message, help="choose a loop with nothing else of this buffer in it")
    line = [*around.above, *padding.loops]
    for loop in (item for item in line if isinstance(item, For) and item.kind not in ("serial", "unrolled")):
        outside = any(item is loop for item in around.above)
        if (outside or loop.kind == "thread_binding") and _races(edit, padding, loop):
            message = (
                f"{edit.name}: iterations of the {loop.kind} loop {loop.loop_var.name} could write one element of "
                f"{write.buffer.name}"
            )
            where = edit.state.index(site.function).loops[loop.loop_var]
            edit.refuse([site, where], message, help="one would fill what another has copied already")


def _races(edit: Edit, padding: Padding, loop: For) -> bool:
    """Whether two iterations of a loop that is run at once could write one element."""
    site = edit.state.index(padding.site.function).loops[loop.loop_var]
    known = accesses_of(loop, site.above)
    write: Access = next(item for item in known.items if item.stmt is padding.store and item.is_write)
    if write.buffer.data in known.private:
        return False
    p, q = (Var(name, loop.loop_var.dtype) for name in "pq")
    bounds = (loop.min, loop.extent)
    context = conjunction([context_of(site.above), in_bounds(p, bounds), in_bounds(q, bounds), compare(NE, p, q)])
    return may_meet(write, write, {loop.loop_var: p}, {loop.loop_var: q}, context)


def require_safe_border(edit: Edit, padding: Padding) -> None:
    """The value of the border can be computed everywhere, and is the same before the loop."""
    why = why_not_speculatable(padding.border)
    if any(isinstance(item, BufferLoad) for item in post_order(padding.border)):
        why = "it reads memory"
    if why is not None:
        message = (
            f"{edit.name}: the value of the border in block {padding.name} would be computed everywhere, but {why}"
        )
        edit.refuse(padding.site, message, help="a constant can be stored anywhere")
