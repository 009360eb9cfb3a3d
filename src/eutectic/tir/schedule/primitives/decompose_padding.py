"""decompose_padding: a block of its own fills the border of a padding; can_decompose_padding: whether it could."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import (
    LE,
    LT,
    IntImm,
    PrimExpr,
    Var,
    add,
    compare,
    logical_or,
    maximum,
    sub,
)
from eutectic.tir.access import block_access
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import conjunction
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, LoopRV
from eutectic.tir.schedule.legality.padding_form import (
    Padding,
    knowing_sizes,
    padding_of,
    require_alone,
    require_safe_border,
)
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import Performs, primitive
from eutectic.tir.schedule.trial import is_possible
from eutectic.tir.statement_mutator import rewrite_expr, with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, seq
from eutectic.tir.substitute import substitute


@primitive
def decompose_padding(edit: Edit, block: BlockLike, loop: LoopRV, border_only: bool = False) -> BlockRV:
    """Fill what a block writes with the value of the border before a loop, and let the block copy the inner elements.

    A loop from the given one inwards that is an axis of its own is trimmed to the copied elements, and the axis with
    it; where loops were split or fused before, or are bound to threads, the block gets a predicate instead.

    Args:
        edit: The call.
        block: A block `B[i, j] = T.if_then_else(inside, value, border)`, with spatial axes; `inside` bounds axes.
        loop: A loop around it.
        border_only: Whether only the border is filled, by a predicate, instead of everything before it is copied over.

    Returns:
        The block that fills, `<name>_pad_const`; handles of `block` are those of the block that copies.

    Raises:
        ScheduleError: the block or loop is gone; the block is of another form; `inside` is more than bounds of axes;
            the border's value reads memory, or could fail where it was not computed before; the loop is not around
            the block, or there is more than loops between them; loops or predicates read memory; something
            else in the loop accesses what the block writes; or iterations of a loop that is run at once would write
            one element.

    before: for i in range(6): B[i] = T.if_then_else(i >= 1 and i < 5, A[i - 1], 0)
    after decompose_padding(block, i):
        for i in range(6): B[i] = 0
        for i in range(4): B[i + 1] = A[i]
    """
    padding = padding_of(edit, edit.block(block), edit.loop(loop))
    require_alone(edit, padding)
    require_safe_border(edit, padding)
    filler = _filler(edit, padding)
    if border_only:
        filler = replace(filler, predicate=conjunction([filler.predicate, _outside(padding)]))
    copier, loops = _copier(edit, padding)
    fill: Stmt = filler
    for item in reversed(padding.loops):
        fill = replace(item, body=fill, thread_binding=_tag(item))
    fill = substitute(fill, {}, rename=True)
    inner = fill
    while isinstance(inner, For):
        inner = inner.body
    assert isinstance(inner, BlockRealize)
    edit.replace(padding.site.function, {padding.site.stmt: copier})
    _trim(edit, padding, loops)
    again = edit.state.index(padding.site.function).loops[padding.around.stmt.loop_var].stmt
    edit.replace(padding.site.function, {again: seq(fill, again)})
    return edit.block_rv(padding.site.function, inner.block)


def can_decompose_padding(schedule: Performs, block: BlockLike, loop: LoopRV) -> bool:
    """Whether `decompose_padding` would do it. Nothing changes, and the trace does not tell of it.

    Args:
        schedule: The schedule.
        block: As for `decompose_padding`.
        loop: As for `decompose_padding`.
    """
    return is_possible(schedule, decompose_padding, block, loop)


# ---- what comes of it


def _filler(edit: Edit, padding: Padding) -> BlockRealize:
    """The block that fills, at the same points as the one there is; its axes are the old ones."""
    block = padding.site.block
    name = edit.free_block_name(padding.site.function, f"{padding.name}_pad_const")
    fresh = [IterVar(axis.dom, Var(axis.var.name, axis.var.dtype), axis.iter_type) for axis in block.iter_vars]
    values: Mapping[Var, PrimExpr] = {old.var: new.var for old, new in zip(block.iter_vars, fresh, strict=True)}
    body = substitute(replace(padding.store, value=padding.border), values)
    filler = Block(tuple(fresh), (), (), name, body)
    return replace(padding.site.stmt, block=_with_regions(filler))


def _outside(padding: Padding) -> PrimExpr:
    """Whether an element belongs to the border."""
    ends: list[PrimExpr] = []
    for axis, value in zip(padding.site.block.iter_vars, padding.site.stmt.iter_values, strict=True):
        low, high = padding.box.low.get(axis.var), padding.box.high.get(axis.var)
        ends += [] if low is None else [compare(LT, value, low)]
        ends += [] if high is None else [compare(LE, high, value)]
    return reduce(logical_or, ends)


def _copier(edit: Edit, padding: Padding) -> tuple[BlockRealize, dict[Var, PrimExpr]]:
    """The block that copies, and the number of iterations of the loops that are trimmed."""
    site, analyzer = padding.site, knowing_sizes(edit, padding.site)
    axes: list[IterVar] = []
    values: list[PrimExpr] = []
    moved: dict[Var, PrimExpr] = {}
    extents: dict[Var, PrimExpr] = {}
    conditions: list[PrimExpr] = []
    for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True):
        low, high = padding.box.low.get(axis.var), padding.box.high.get(axis.var)
        loop = _own_loop(padding, axis, value)
        if low is None and high is None:
            axes.append(axis)
            values.append(value)
        elif loop is not None:
            assert axis.dom is not None
            low = axis.dom.min if low is None else low
            end = add(axis.dom.min, axis.dom.extent) if high is None else high
            size = analyzer.simplify(sub(end, low))
            if not analyzer.can_prove_greater_equal(size, IntImm(size.dtype, 0)):
                size = maximum(size, IntImm(size.dtype, 0))
            axes.append(replace(axis, dom=Range(min=IntImm(size.dtype, 0), extent=size)))
            values.append(loop.loop_var)
            moved[axis.var] = add(axis.var, low)
            extents[loop.loop_var] = size
        else:
            axes.append(axis)
            values.append(value)
            conditions += [item for item in _bounds(value, low, high) if not analyzer.can_prove(item)]
    with analyzer.constraint_scope(conjunction(conditions)):  # the bounds of a tail are known from these, mostly
        known = [part for part in conjuncts(site.stmt.predicate) if not analyzer.can_prove(part)]
    predicate = conjunction([*known, *(analyzer.simplify(item) for item in conditions)])
    body = BufferStore(
        padding.store.buffer,
        _moved(padding.inner, moved, analyzer),
        tuple(analyzer.simplify(_moved(index, moved, analyzer)) for index in padding.store.indices),
        span=padding.store.span,
    )
    block = _with_regions(replace(site.block, iter_vars=tuple(axes), body=body))
    return BlockRealize(tuple(values), predicate, block), extents


def _bounds(value: PrimExpr, low: PrimExpr | None, high: PrimExpr | None) -> list[PrimExpr]:
    at_least = [] if low is None else [compare(LT, low, add(value, 1))]
    return at_least + ([] if high is None else [compare(LT, value, high)])


def _own_loop(padding: Padding, axis: IterVar, value: PrimExpr) -> For | None:
    """The loop that runs through an axis and does nothing else, when it can be trimmed."""
    loop = next((item for item in padding.loops if item.loop_var is value), None)
    if loop is None or axis.dom is None or loop.kind == "thread_binding":
        return None  # a thread must fill the elements that it copies
    place = next(k for k, item in enumerate(padding.site.above) if item is loop)
    inner = padding.site.above[place + 1 :]
    if not all(isinstance(item, For) for item in inner):
        return None  # other statements run as often as before
    site, var = padding.site, loop.loop_var
    used = [site.stmt.predicate, *(v for v in site.stmt.iter_values if v is not value)]
    used += [end for item in inner if isinstance(item, For) for end in (item.min, item.extent)]
    if any(var in variables(expr) for expr in used) or sum(v is value for v in site.stmt.iter_values) > 1:
        return None
    analyzer = analyzer_for(padding.site)
    same = analyzer.can_prove_equal(loop.min, axis.dom.min) and analyzer.can_prove_equal(loop.extent, axis.dom.extent)
    return loop if same else None


def _moved(expr: PrimExpr, moved: Mapping[Var, PrimExpr], analyzer: Analyzer) -> PrimExpr:
    """An expression with axes that begin at zero; indices are simplified."""
    if not moved:
        return expr
    shifted = with_values(expr, moved)

    def change(item: PrimExpr) -> PrimExpr | None:
        if not isinstance(item, BufferLoad):
            return None
        return replace(item, indices=tuple(i if reads_memory(i) else analyzer.simplify(i) for i in item.indices))

    return rewrite_expr(shifted, change)


def _with_regions(block: Block) -> Block:
    reads, writes = block_access(block)
    return replace(block, reads=reads, writes=writes)


def _trim(edit: Edit, padding: Padding, extents: Mapping[Var, PrimExpr]) -> None:
    for loop in reversed(padding.loops):
        if loop.loop_var in extents:
            now = edit.state.index(padding.site.function).loops[loop.loop_var].stmt
            extent = extents[loop.loop_var]
            edit.replace(padding.site.function, {now: replace(now, min=IntImm(extent.dtype, 0), extent=extent)})


def _tag(loop: For) -> str | None:
    """The tag makes an axis of its own, as each loop has to have."""
    return None if loop.thread_binding is None else loop.thread_binding.thread_tag
