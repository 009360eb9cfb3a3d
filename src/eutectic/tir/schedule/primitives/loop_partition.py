"""loop_partition: one loop becomes several that follow each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from eutectic.arith.sets import Region, is_empty
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import GT, LT, Call, IntImm, PrimExpr, Var, add, compare, sub
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.dependence import conjunction, context_of
from eutectic.tir.analysis.index_facts import expressions, loops_of, reads_memory, statements
from eutectic.tir.analysis.private_memory import private_buffers
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import ExprRV, LoopRV
from eutectic.tir.schedule.legality.natural_sizes import natural_sizes
from eutectic.tir.schedule.legality.reduction_init import has_terms, loop_of_reduction_init, require_same_reduction_init
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.legality.whole_iterations import whole_iterations
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.block_copy import BlockCopier
from eutectic.tir.schedule.rewriting.buffers import like, with_buffers
from eutectic.tir.schedule.rewriting.index_rewrite import reindexed
from eutectic.tir.schedule.rewriting.loop_trim import Trimming, WithoutConditions, iterations_reached
from eutectic.tir.schedule.rewriting.regions import RegionRecomputer, with_recomputed_regions
from eutectic.tir.schedule.state import BlockSite, LoopSite, replaced
from eutectic.tir.statement_mutator import is_zero
from eutectic.tir.stmt import AttrStmt, Evaluate, For, Stmt, seq

_WHOLE: Final = "whole"


@primitive
def loop_partition(
    edit: Edit, loop: LoopRV, factors: Sequence[int | ExprRV | str | None], preserve_unit_iters: bool = True
) -> list[LoopRV]:
    """Replace a loop by loops that follow each other, each over some of its values, in the same order.

    Each loop has a copy of what was in the loop. Handles and names of blocks are those of the first copy;
    blocks of the others are called `<name>_partition_<k>`. Axes keep their domains, so that a reduction over the
    loop begins in the first one, and the others add to it; a copy that never begins a reduction has no init. Buffers
    that each iteration has for itself are others in each copy. Loops inside end before iterations in which, in this
    part, none of their blocks runs, so that the tail of a loop that was split has no condition left.

    Args:
        edit: The call.
        loop: A serial loop without annotations.
        factors: Iterations of the new loops, in order. At most one may be None: it gets what is left of the extent.
            When they are fewer than the extent, one more loop gets the rest. The first one may be `"whole"`: the
            iterations in which the conditions of all blocks inside hold at every point, such as the whole tiles of a
            loop that was split, whose extent need not be known. Alone it leaves out the rest where nothing runs in it.
        preserve_unit_iters: Taken as TVM does; loops of one iteration stay loops anyway.

    Returns:
        One handle per loop, in the order of the program.

    Raises:
        ScheduleError: the loop is gone, or not plain; a factor is not positive; two are None; they are more than the
            extent, or could be; or something in the loop cannot be copied.

    before: for i in range(10): B[i] = f(i)
    after loop_partition(i, [2, None]):
        for i_0 in range(2): B[i_0] = f(i_0)
        for i_1 in range(2, 10): B[i_1] = f(i_1)
    """
    site = edit.loop(loop)
    extents = _whole_extents(edit, site, factors) if _WHOLE in factors else _given_extents(edit, site, factors)
    _require_copyable(edit, site)
    old = site.stmt
    func = edit.state.function(site.function)
    rest = func.with_body(replaced(func.body, {old: Evaluate(IntImm("int32", 0))}))
    outside = {item for item in post_order(rest) if isinstance(item, Var)}
    taken = {block.block.name_hint for block in edit.state.index(site.function).blocks}
    begin = old.min
    own = private_buffers(old, site.above)
    parts: list[For] = []
    copies: list[dict[Buffer, Buffer]] = []
    for number, extent in enumerate(extents):
        part = For(Var(f"{old.loop_var.name}_{number}", old.loop_var.dtype), begin, extent, "serial", old.body)
        is_whole = number == 0 and _WHOLE in factors
        runs = WithoutConditions(old.loop_var).stmt(old.body) if is_whole else old.body
        body = reindexed(runs, {old.loop_var: part.loop_var}, site, [part])
        body = Trimming(site, part).stmt(_WithoutLateInits(site, part, body).stmt(body))
        if number:
            copier = BlockCopier({}, partial(_copy_name, number, taken), outside)
            fresh = {buffer: like(buffer, f"{buffer.name}_partition_{number}", buffer.scope()) for buffer in own}
            body = with_buffers(copier.stmt(body), fresh)
            copies.append(fresh)
            _rely_on_copies(edit, site.function, copier)
        parts.append(replace(part, body=body, span=old.span))
        begin = analyzer_for(site).simplify(add(begin, extent))
    before = _blocks_under(edit, site)
    edit.replace(site.function, {old: seq(*parts)})
    _allocate(edit, site.function, own, copies)
    loops = edit.state.index(site.function).loops
    for part in parts:
        after = _blocks_under(edit, loops[part.loop_var])
        _require_reduction_init(edit, site, before, after)
        for whole, some in zip(before, after, strict=True):
            if some.block.init is not None:
                require_same_reduction_init(edit, whole, some, {old.loop_var: (part.min, part.extent)})
    return [edit.loop_rv(site.function, item) for item in parts]


def _allocate(edit: Edit, function: str, own: Sequence[Buffer], copies: Sequence[Mapping[Buffer, Buffer]]) -> None:
    """Memory for the buffers of the copies, where that of the first part is."""
    for buffer in own if copies else ():
        home = next(site for site in edit.state.index(function).blocks if buffer in site.block.alloc_buffers)
        allocated = (*home.block.alloc_buffers, *(fresh[buffer] for fresh in copies))
        edit.replace(function, {}, {home.block: replace(home.block, alloc_buffers=allocated)})


def _rely_on_copies(edit: Edit, function: str, copier: BlockCopier) -> None:
    """What has to hold of loops that are run at once has to hold of their copies."""
    for name, var in list(edit.relies):
        copy = copier.values.get(var)
        if name == function and isinstance(copy, Var):
            edit.relies.add((name, copy))


def _blocks_under(edit: Edit, site: LoopSite) -> list[BlockSite]:
    """The blocks in a loop, without those that store initial values for others."""
    blocks = edit.state.index(site.function).blocks
    return [block for block in blocks if any(item is site.stmt for item in block.above) and not _is_in_init(block)]


def _is_in_init(site: BlockSite) -> bool:
    line = (*site.above, site.stmt)
    return any(isinstance(a, BlockRealize) and a.block.init is b for a, b in pairwise(line))


def _require_reduction_init(
    edit: Edit, site: LoopSite, before: Sequence[BlockSite], after: Sequence[BlockSite]
) -> None:
    """Where a reduction has no terms, its initial values are stored as before."""
    for old, new in zip(before, after, strict=True):
        if new.block.init is None or (has_terms(old) and has_terms(new)):
            continue
        if (loop_of_reduction_init(old) is None) != (loop_of_reduction_init(new) is None):
            message = (
                f"loop_partition: it is not proved that the reduction of block {old.block.name_hint} has terms, and "
                "without any its initial values would be stored where they were not, or not where they were"
            )
            edit.refuse(new, message, help="decompose_reduction first")


class _WithoutLateInits(RegionRecomputer):
    """Takes away the initial values of reductions that begin elsewhere.

    Args:
        site: The loop that was there.
        part: The one that is there now.
        body: What is in it.
    """

    def __init__(self, site: LoopSite, part: For, body: Stmt) -> None:
        self.analyzer = analyzer_for(site, part, *loops_of(body))

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block."""
        for axis in stmt.block.iter_vars:
            if axis.dom is not None:
                self.analyzer.bind(axis.var, axis.dom)
        realize = super().visit_realize(stmt)
        assert isinstance(realize, BlockRealize)
        block = realize.block
        if block.init is None or not any(
            self.is_late(*pair) for pair in zip(block.iter_vars, realize.iter_values, strict=True)
        ):
            return realize
        return replace(realize, block=with_recomputed_regions(replace(block, init=None)))

    def is_late(self, axis: IterVar, value: PrimExpr) -> bool:
        """Whether an axis of a reduction is never at its first value."""
        if axis.iter_type != "comm_reduce" or axis.dom is None or reads_memory(value):
            return False
        return self.analyzer.can_prove_less(axis.dom.min, value)


def _copy_name(number: int, taken: set[str], name: str) -> str:
    """A name for the copy of a block in a part."""
    free, other = f"{name}_partition_{number}", 0
    while free in taken:
        other += 1
        free = f"{name}_partition_{number}_{other}"
    taken.add(free)
    return free


def _whole_extents(edit: Edit, site: LoopSite, factors: Sequence[int | ExprRV | str | None]) -> list[PrimExpr]:
    """Whole iterations, and the others."""
    loop = edit.require_plain(site)
    if list(factors) not in ([_WHOLE], [_WHOLE, None]):
        message = f"loop_partition: factors {list(factors)} are more than the whole iterations and the others"
        edit.refuse(site, message, help='give ["whole", None]')
    count = whole_iterations(site)
    if count is None:
        message = f"loop_partition: loop {loop.loop_var.name} has no condition inside that tells its whole iterations"
        edit.refuse(site, message, help="split a loop first, and partition the outer one of both")
    if not _is_among(edit, site, count):
        message = f"loop_partition: {shown(count)} whole iterations are not proved to be among the {shown(loop.extent)}"
        edit.refuse(site, message, help="give the number of iterations")
    reached = None if loop.static_extent is None else iterations_reached(site, (), loop, of_tiles=False)
    rest = analyzer_for(site).simplify(sub(loop.extent if reached is None else reached, count))
    return [count] if list(factors) == [_WHOLE] and is_zero(rest) else [count, rest]


def _is_among(edit: Edit, site: LoopSite, count: PrimExpr) -> bool:
    """Whether a number of iterations is from none to all of a loop, whatever the sizes of buffers are."""
    context = conjunction([context_of(site.above), natural_sizes(edit.state.function(site.function))])
    wrong = (compare(LT, count, 0), compare(GT, count, site.stmt.extent))
    return all(is_empty(Region((count,), {}), conjunction([context, condition])) for condition in wrong)


def _given_extents(edit: Edit, site: LoopSite, factors: Sequence[int | ExprRV | str | None]) -> list[PrimExpr]:
    counts: list[int | None] = []
    for factor in factors:
        if isinstance(factor, str):
            edit.refuse(site, f"loop_partition: factor {factor!r} is unknown", help='give numbers, None, or "whole"')
        counts.append(None if factor is None else edit.number(factor))
    return _legal_extents(edit, site, counts)


def _legal_extents(edit: Edit, site: LoopSite, factors: Sequence[int | None]) -> list[PrimExpr]:
    loop = edit.require_plain(site)
    numbers = [f for f in factors if f is not None]
    name, dtype, total = loop.loop_var.name, loop.loop_var.dtype, sum(numbers)
    if not factors or any(f <= 0 for f in numbers):
        message = f"loop_partition: factors {list(factors)} are not all positive"
        edit.refuse(site, message, help="give at least one, all positive")
    if len(factors) - len(numbers) > 1:
        message = f"loop_partition: two of the factors {list(factors)} are None"
        edit.refuse(site, message, help="leave out at most one")
    analyzer = analyzer_for(site)
    left = analyzer.simplify(sub(loop.extent, total))
    if not analyzer.can_prove_greater_equal(left, 0):
        message = (
            f"loop_partition: {total} iterations are not proved to be among the {shown(loop.extent)} of loop {name}"
        )
        edit.refuse(site, message, help="give fewer")
    rest = list(factors)
    if None not in rest and not analyzer.can_prove_equal(left, 0):
        rest.append(None)
    return [left if f is None else IntImm(dtype, f) for f in rest]


def _require_copyable(edit: Edit, site: LoopSite) -> None:
    name = site.stmt.loop_var.name
    calls = [item for item in expressions(site.stmt) if isinstance(item, Call)]
    launches = any(
        isinstance(stmt, AttrStmt) and stmt.attr_key in ("thread_extent", "virtual_thread")
        for stmt in statements(site.stmt)
    )
    if launches or not all(isinstance(arg, PrimExpr) for call in calls for arg in call.args):
        message = f"loop_partition: loop {name} has a launch of threads or a call that takes a buffer in it"
        edit.refuse(site, message, help="partition before")
