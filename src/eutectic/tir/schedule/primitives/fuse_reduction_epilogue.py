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
    epilogue = epilogue_of(edit, reduction, block)
    if mode == "per_iteration":
        edit.keeps_results = edit.keeps_sums = False
        _step_by_step(edit, epilogue)
    elif _begins_with_term(epilogue, reassociate):
        edit.keeps_results = is_integer(epilogue.result.dtype)
        term = bias_of(epilogue.store.value, epilogue.result)
        assert term is not None
        _without_epilogue(edit, epilogue, _stored_in(epilogue, epilogue.in_reduction(term)), keep=False)
    else:
        _after_the_loops(edit, epilogue)


def _begins_with_term(epilogue: Epilogue, reassociate: bool) -> bool:
    """Whether the sum may begin with what the epilogue adds."""
    dtype = epilogue.result.dtype
    allowed = dtype in _REASSOCIATED if is_float(dtype) and reassociate else is_integer(dtype) and dtype != "bool"
    added = (
        is_sum_from_zero(epilogue.init, epilogue.update) and bias_of(epilogue.store.value, epilogue.result) is not None
    )
    return allowed and added and _goes_away(epilogue)


def _goes_away(epilogue: Epilogue) -> bool:
    """Whether the buffer of the epilogue can hold the sum, and that of the sum can go away."""
    result, target = epilogue.result, epilogue.store.buffer
    aligned = "buffer_dim_align" in epilogue.reduction.block.annotations  # a demand on the layout of the sum
    alike = result.dtype == target.dtype and result.scope() == target.scope()
    return alike and not aligned and epilogue.is_local and epilogue.is_alone


# ---- the epilogue after the loops of the reduction


def _after_the_loops(edit: Edit, epilogue: Epilogue) -> None:
    goes = _goes_away(epilogue)
    place = epilogue.place
    block, reduction = epilogue.block.block, epilogue.reduction.block
    if goes:
        here = BufferLoad(epilogue.store.buffer, epilogue.store.indices)
        value = _with_result(epilogue.store.value, epilogue.result, here)
        block = with_recomputed_regions(replace(block, body=replace(epilogue.store, value=value)))
        reduction = _stored_in(epilogue, epilogue.init.value)
    values = tuple(with_values(epilogue.values[axis.var], place.values) for axis in block.iter_vars)
    moved: Stmt = BlockRealize(values, place.predicate, block)
    for loop in reversed(place.loops):
        moved = replace(loop, body=moved)
    work = replaced(epilogue.scope.stmt, taken_out(edit, epilogue.block))
    work = replaced(work, {place.after: seq(place.after, moved)})
    if goes:
        work = replaced(work, {}, {epilogue.reduction.block: reduction})
    _finish(edit, epilogue, work, keep=not goes)


def _with_result(value: PrimExpr, result: Buffer, here: PrimExpr) -> PrimExpr:
    """A value with something else in the place of the sum."""
    return rewrite_expr(value, lambda item: here if isinstance(item, BufferLoad) and item.buffer is result else None)


# ---- the epilogue within the steps of the reduction


def _step_by_step(edit: Edit, epilogue: Epilogue) -> None:
    why = not_fusible(epilogue)
    if why is not None:
        name = epilogue.block.block.name_hint
        message = f"fuse_reduction_epilogue: block {name} has no form at every step: {why}"
        edit.refuse(
            [epilogue.reduction, epilogue.block], message, help='mode="exact" takes every epilogue of one element'
        )
    steps = steps_of(epilogue.in_reduction(epilogue.store.value), epilogue.result)
    assert steps is not None
    _without_epilogue(edit, epilogue, _stored_in(epilogue, steps.first, steps.step), keep=True)


def _stored_in(epilogue: Epilogue, first: PrimExpr, step: Callable[[PrimExpr], PrimExpr] = lambda x: x) -> Block:
    """The reduction in the buffer of the epilogue.

    Args:
        epilogue: Both blocks.
        first: What it begins with.
        step: What becomes of each updated value.
    """
    target = epilogue.store.buffer
    indices = tuple(epilogue.in_reduction(index) for index in epilogue.store.indices)
    value = _with_result(epilogue.update.value, epilogue.result, BufferLoad(target, indices))
    block = replace(
        epilogue.reduction.block,
        init=BufferStore(target, first, indices, span=epilogue.init.span),
        body=BufferStore(target, step(value), indices, span=epilogue.update.span),
    )
    return with_recomputed_regions(block)


def _without_epilogue(edit: Edit, epilogue: Epilogue, reduction: Block, *, keep: bool) -> None:
    work = replaced(epilogue.scope.stmt, taken_out(edit, epilogue.block))
    _finish(edit, epilogue, replaced(work, {}, {epilogue.reduction.block: reduction}), keep=keep)


def _finish(edit: Edit, epilogue: Epilogue, work: Stmt, *, keep: bool) -> None:
    """Put the new scope in the place of the old one, with or without the buffer of the sum."""
    assert isinstance(work, BlockRealize)
    block = work.block if keep else without_buffer(work.block, epilogue.result)
    edit.replace(epilogue.scope.function, {epilogue.scope.stmt: replace(work, block=with_recomputed_regions(block))})
