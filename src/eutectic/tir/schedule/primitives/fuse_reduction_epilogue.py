"""fuse_reduction_epilogue: what is done to the result of a reduction is done where the result is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.epilogue import Epilogue, epilogue_of
from eutectic.tir.schedule.legality.per_iteration import bias_of, is_sum_from_zero, not_fusible, steps_of
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.rewriting.removal import taken_out, without_buffer
from eutectic.tir.schedule.state import replaced
from eutectic.tir.statement_mutator import rewrite_expr, with_values
from eutectic.tir.stmt import BufferStore, Stmt, seq

MODES: Final = ("exact", "per_iteration")
_REASSOCIATED: Final = ("float32", "float64")  # sums of narrower floats would stop growing at a large bias


@primitive
def fuse_reduction_epilogue(
    edit: Edit,
    reduction_block: BlockLike,
    epilogue_block: BlockLike,
    mode: str = "exact",
    reassociate: bool = False,
) -> None:
    """Apply a block to each element of a reduction's result as soon as all terms of the element are there.

    In mode `exact` the program computes the same bits. The epilogue, which may be any expression, runs right after
    the outermost loop of the reduction, once per element, also where there are no terms. It keeps its name
    and axes; handles of it stay. Where nothing else needs the sum and the dtypes agree, terms are added up in the
    epilogue's own buffer, and the buffer of the sum goes away. A sum of integers from zero to which
    the epilogue adds a term begins with that term instead; additions that wrap around may be reordered.

    With `reassociate` sums of float32 and float64 begin with the term as well. This changes the order of additions:
    with K products p and a term c the two results differ by at most `2 g (|c| + sum |p|)`, where
    `g = (K + 1) u / (1 - (K + 1) u)` and `u` is the rounding unit, as long as nothing overflows; the sign of a zero may
    differ too.

    Mode `per_iteration` is a different function of the inputs: a relu or clip changes the sum after every term, as
    TVM's primitive of this name does. For terms -1 and 1 it gives relu(-1 + 1) = 1. The buffer of the sum
    stays allocated, and nothing writes it any more, also where other blocks read it. No rule of ours chooses this mode.

    Args:
        edit: The call.
        reduction_block: A block `R[i] = R[i] + f(i, k)` with an init; any operation in the place of the sum.
        epilogue_block: A block `D[i] = g(R[i], ...)` after it; it reads `R` at its axes, each once, in any order.
        mode: `exact` or `per_iteration`.
        reassociate: Whether the additions of a sum of floats may be reordered.

    Raises:
        ScheduleError: a block is gone or of another form; the two do not run over the same elements, each once; or
            something that the epilogue reads is written from the reduction on; the mode is unknown; or the epilogue has
            no form at every step.

    before: for i, j, k: R[i, j] = R[i, j] + A[i, k] * B[k, j];  for i, j: D[i, j] = max(R[i, j] + C[j], 0)
    after:  for i, j: for k: D[i, j] = D[i, j] + A[i, k] * B[k, j];  D[i, j] = max(D[i, j] + C[j], 0)
    """
    reduction, block = edit.block(reduction_block), edit.block(epilogue_block)
    if mode not in MODES:
        message = f"fuse_reduction_epilogue: mode {mode!r} is unknown"
        edit.refuse(None, message, help=f"choose one of: {', '.join(MODES)}")
    if mode != "exact" and reassociate:
        edit.refuse(None, f"fuse_reduction_epilogue: mode {mode!r} does not take reassociate")
    edit.unsaid |= {name for name, usual in (("mode", mode == "exact"), ("reassociate", not reassociate)) if usual}
    found = epilogue_of(edit, reduction, block)
    if mode == "per_iteration":
        edit.keeps_results = edit.keeps_sums = False
        _step_by_step(edit, found)
    elif _begins_with_term(found, reassociate):
        edit.keeps_results = is_integer(found.result.dtype)
        term = bias_of(found.store.value, found.result)
        assert term is not None
        _without_epilogue(edit, found, _stored_in(found, found.in_reduction(term)), keep=False)
    else:
        _after_the_loops(edit, found)


def _begins_with_term(found: Epilogue, reassociate: bool) -> bool:
    """Whether the sum may begin with what the epilogue adds."""
    dtype = found.result.dtype
    allowed = dtype in _REASSOCIATED if is_float(dtype) and reassociate else is_integer(dtype) and dtype != "bool"
    added = is_sum_from_zero(found.init, found.update) and bias_of(found.store.value, found.result) is not None
    return allowed and added and _goes_away(found)


def _goes_away(found: Epilogue) -> bool:
    """Whether the buffer of the epilogue can hold the sum, and that of the sum can go away."""
    result, target = found.result, found.store.buffer
    aligned = "buffer_dim_align" in found.reduction.block.annotations  # a demand on the layout of the sum
    alike = result.dtype == target.dtype and result.scope() == target.scope()
    return alike and not aligned and found.is_local and found.is_alone


# ---- the epilogue after the loops of the reduction


def _after_the_loops(edit: Edit, found: Epilogue) -> None:
    goes = _goes_away(found)
    place = found.place
    epilogue, reduction = found.block.block, found.reduction.block
    if goes:
        here = BufferLoad(found.store.buffer, found.store.indices)
        value = _with_result(found.store.value, found.result, here)
        epilogue = with_recomputed_regions(replace(epilogue, body=replace(found.store, value=value)))
        reduction = _stored_in(found, found.init.value)
    values = tuple(with_values(found.values[axis.var], place.values) for axis in epilogue.iter_vars)
    moved: Stmt = BlockRealize(values, place.predicate, epilogue)
    for loop in reversed(place.loops):
        moved = replace(loop, body=moved)
    work = replaced(found.scope.stmt, taken_out(edit, found.block))
    work = replaced(work, {place.after: seq(place.after, moved)})
    if goes:
        work = replaced(work, {}, {found.reduction.block: reduction})
    _finish(edit, found, work, keep=not goes)


def _with_result(value: PrimExpr, result: Buffer, here: PrimExpr) -> PrimExpr:
    """A value with something else in the place of the sum."""
    return rewrite_expr(value, lambda item: here if isinstance(item, BufferLoad) and item.buffer is result else None)


# ---- the epilogue within the steps of the reduction


def _step_by_step(edit: Edit, found: Epilogue) -> None:
    why = not_fusible(found)
    if why is not None:
        name = found.block.block.name_hint
        message = f"fuse_reduction_epilogue: block {name} has no form at every step: {why}"
        edit.refuse([found.reduction, found.block], message, help='mode="exact" takes every epilogue of one element')
    steps = steps_of(found.in_reduction(found.store.value), found.result)
    assert steps is not None
    _without_epilogue(edit, found, _stored_in(found, steps.first, steps.step), keep=True)


def _stored_in(found: Epilogue, first: PrimExpr, step: Callable[[PrimExpr], PrimExpr] = lambda x: x) -> Block:
    """The reduction in the buffer of the epilogue.

    Args:
        found: Both blocks.
        first: What it begins with.
        step: What becomes of each updated value.
    """
    target = found.store.buffer
    indices = tuple(found.in_reduction(index) for index in found.store.indices)
    value = _with_result(found.update.value, found.result, BufferLoad(target, indices))
    made = replace(
        found.reduction.block,
        init=BufferStore(target, first, indices, span=found.init.span),
        body=BufferStore(target, step(value), indices, span=found.update.span),
    )
    return with_recomputed_regions(made)


def _without_epilogue(edit: Edit, found: Epilogue, reduction: Block, *, keep: bool) -> None:
    work = replaced(found.scope.stmt, taken_out(edit, found.block))
    _finish(edit, found, replaced(work, {}, {found.reduction.block: reduction}), keep=keep)


def _finish(edit: Edit, found: Epilogue, work: Stmt, *, keep: bool) -> None:
    """Put the new scope in the place of the old one, with or without the buffer of the sum."""
    assert isinstance(work, BlockRealize)
    block = work.block if keep else without_buffer(work.block, found.result)
    edit.replace(found.scope.function, {found.scope.stmt: replace(work, block=with_recomputed_regions(block))})
