"""rfactor: the iterations of a loop of a reduction become partial results of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from eutectic.ir.dtype import is_float
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, logical_and
from eutectic.ir.structural import structural_equal
from eutectic.tir.access import block_access
from eutectic.tir.analysis.accesses import Access, Accesses, accesses_of
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import TRUE, conjunction, context_of, late, region_of, writes_all, writes_once
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.op import if_then_else
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockRV, LoopRV
from eutectic.tir.schedule.legality.combiner import Combiner, combiner_of
from eutectic.tir.schedule.legality.scope import known_accesses, scope_of
from eutectic.tir.schedule.legality.scopes import require_shared
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.state import BlockSite, LoopSite, replaced
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, seq


@dataclass(frozen=True, slots=True)
class _Factored:
    """A reduction and the loop that is taken out of it.

    Attributes:
        site: The block.
        loop: The loop.
        nest: The loops that have only the block in them, outermost first.
        combiner: How it reduces.
        init: Its first store.
        update: Its other store.
        reduced: Variables of the loops of the reduction.
    """

    site: BlockSite
    loop: LoopSite
    nest: tuple[For, ...]
    combiner: Combiner
    init: BufferStore
    update: BufferStore
    reduced: frozenset[Var]

    @property
    def var(self) -> Var:
        return self.loop.stmt.loop_var

    @property
    def sites(self) -> list[BlockSite | LoopSite]:
        return [self.site, self.loop]


@primitive
def rfactor(edit: Edit, loop: LoopRV, factor_axis: int) -> BlockRV:
    """Compute a partial result for each iteration of a loop of a reduction, and reduce these afterwards.

    Where some partial results could have no terms, as behind the end of a loop that was split unevenly, the terms that
    are missing are the neutral element of the operation, and the conditions of the block choose them.

    Integers are kept bit for bit, as sums and products wrap around. Floats are not: terms are combined in another
    order, which is what was asked for, and `debug_mask` does not compare results then. Of maxima and
    minima only the sign of a zero and the bits of a NaN may change.

    Args:
        edit: The call.
        loop: A serial loop from zero on, of a reduction that is all that is in it.
        factor_axis: Which axis of the partial results the loop becomes; negative from the last on.

    Returns:
        The block of the partial results, `<name>_rf`; handles of the block are those of the final reduction.

    Raises:
        ScheduleError: the loop is gone or not plain; there is not one block with an init in it, which reduces into one
            element per point by a sum, product, maximum or minimum; the loop is not one of the reduction, or spatial
            axes use it too; a loop around what has only this block in it is one of the reduction; there is no such
            axis; bounds depend on loops in the nest; or it is not proved that initial values are stored once, before
            each update, and that each partial result is stored and used.

    before: for i, k: C[i] = C[i] + A[i, k]
    after rfactor(k, 0):
        for i, k: C_rf[k, i] = C_rf[k, i] + A[i, k]
        for i, k: C[i] = C[i] + C_rf[k, i]
    """
    factored = _legal(edit, edit.loop(loop))
    scope = scope_of(edit, factored.site)
    known_accesses(edit, scope)
    axis = _axis(edit, factored, factor_axis)
    buffer = factored.update.buffer
    shape = list(buffer.shape)
    shape.insert(axis, factored.loop.stmt.extent)
    partial = Buffer(f"{buffer.name}_rf", tuple(shape), buffer.dtype, scope=buffer.scope())
    first, second = _partial_block(edit, factored, partial, axis), _final_block(factored, partial, axis)
    last = _with_loops_of_its_own(_nest(second, [x for x in factored.nest if _stays(factored, x)]))
    _require_reduction_init(edit, factored)
    if not _are_partial_results(factored, partial, _nest(first, factored.nest), last):
        first = _without_gaps(factored, first)
        if not _are_partial_results(factored, partial, _nest(first, factored.nest), last):
            _refuse_partial_results(edit, factored)
    new = _nest(first, factored.nest)
    body = replaced(scope.stmt, {factored.nest[0]: seq(new, last)})
    assert isinstance(body, BlockRealize)
    block = with_recomputed_regions(replace(body.block, alloc_buffers=(*body.block.alloc_buffers, partial)))
    new_scope = replace(body, block=block)
    require_shared(edit, factored.site, accesses_of(new_scope), partial, partial.scope())
    edit.replace(scope.function, {scope.stmt: new_scope})
    edit.follow(scope.function, factored.site.block, second.block)
    edit.keeps_results = edit.keeps_results and not is_float(buffer.dtype)
    return edit.block_rv(scope.function, first.block)


# ---- what is legal


def _legal(edit: Edit, loop: LoopSite) -> _Factored:
    edit.require_plain(loop)
    site, nest = _only_block(edit, loop)
    block, name = site.block, site.block.name_hint
    init, update = block.init, block.body
    why = None
    if any(axis.iter_type not in ("data_par", "comm_reduce") or axis.dom is None for axis in block.iter_vars):
        why = "it has axes that are neither spatial nor reduced"
    elif not isinstance(init, BufferStore) or not isinstance(update, BufferStore):
        why = "it has no init, or its init or body is more than one store"
    elif block.alloc_buffers or block.match_buffers:
        why = "it has buffers of its own"
    elif init.buffer is not update.buffer or not all(map(structural_equal, init.indices, update.indices)):
        why = "its init stores another element than its body"
    elif init.predicate is not None or update.predicate is not None:
        why = "its stores have predicates"
    if why is not None or not isinstance(init, BufferStore) or not isinstance(update, BufferStore):
        edit.refuse([site, loop], f"rfactor: block {name} is not a reduction of one value: {why}")
    combiner = combiner_of(update)
    if combiner is None:
        message = f"rfactor: block {name} does not reduce by a sum, product, maximum or minimum"
        edit.refuse([site, loop], message, help="write the body as C[i] = C[i] + term, or with *, max or min")
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == "comm_reduce"}
    if any(variables(index) & reduced for index in update.indices) or variables(init.value) & reduced:
        edit.refuse(
            [site, loop], f"rfactor: block {name} stores an element, or a initial value, by an axis it reduces over"
        )
    return _with_roles(edit, site, loop, nest, combiner, init, update)


def _only_block(edit: Edit, loop: LoopSite) -> tuple[BlockSite, tuple[For, ...]]:
    """The block in a loop, and the loops that have only this block in them."""
    inner: Stmt = loop.stmt
    while isinstance(inner, For):
        inner = inner.body
    if not isinstance(inner, BlockRealize):
        message = f"rfactor: there is not just one block under loop {loop.stmt.loop_var.name}"
        edit.refuse(loop, message, help="choose a loop of one reduction")
    site = next(site for site in edit.state.index(loop.function).blocks if site.stmt is inner)
    nest: list[For] = []
    for item in reversed(site.within_scope):
        if not isinstance(item, For):
            break
        nest.insert(0, item)
    return site, tuple(nest)


def _with_roles(
    edit: Edit,
    site: BlockSite,
    loop: LoopSite,
    nest: tuple[For, ...],
    combiner: Combiner,
    init: BufferStore,
    update: BufferStore,
) -> _Factored:
    """Which loops are of the reduction; the given one must be, with bounds of its own."""
    spatial: set[Var] = set()
    reduced: set[Var] = set()
    for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True):
        (reduced if axis.iter_type == "comm_reduce" else spatial).update(variables(value))
    var, name = loop.stmt.loop_var, loop.stmt.loop_var.name
    inside = {item.loop_var for item in nest}
    if var not in reduced:
        message = f"rfactor: loop {name} is not one of the reduction of block {site.block.name_hint}"
        edit.refuse([site, loop], message, help="choose a loop that its reduced axes are bound to")
    if spatial & reduced:
        names = ", ".join(sorted(item.name for item in spatial & reduced))
        message = f"rfactor: loop {names} is of spatial and of reduced axes of block {site.block.name_hint}"
        edit.refuse([site, loop], message, help="do not fuse loops of both")
    if not reduced & {item.loop_var for item in site.loops} <= inside:
        message = f"rfactor: block {site.block.name_hint} is not all that is in the loops of its reduction"
        edit.refuse([site, loop], message, help="the whole reduction must be a nest of its own")
    zero = isinstance(loop.stmt.min, IntImm) and loop.stmt.min.value == 0
    bounds = {item.loop_var: variables(item.min) | variables(item.extent) for item in nest}
    around = {item.loop_var for item in site.loops}
    if not zero or bounds[var] & around or any(bounds[v] & reduced for v in bounds):
        message = f"rfactor: the bounds of loop {name} or of others depend on loops, or it does not begin at zero"
        edit.refuse([site, loop], message, help="only reductions over a box can be split so")
    return _Factored(site, loop, nest, combiner, init, update, frozenset(reduced))


def _axis(edit: Edit, factored: _Factored, factor_axis: int) -> int:
    count = len(factored.update.indices) + 1
    if not -count <= factor_axis < count:
        message = f"rfactor: partial results of {count} axes have no axis {factor_axis}"
        edit.refuse(factored.sites, message, help=f"choose one of {-count} to {count - 1}")
    return factor_axis % count


# ---- the new blocks


def _partial_block(edit: Edit, factored: _Factored, partial: Buffer, axis: int) -> BlockRealize:
    """The block that stores partial results: the loop is a spatial axis, the first one."""
    bounds = {item.loop_var: Range(min=item.min, extent=item.extent) for item in factored.nest}

    def axis_for(var: Var, kind: str) -> IterVar:
        return IterVar(bounds[var], Var(f"v{var.name}", var.dtype), kind)

    own = {factored.var: axis_for(factored.var, "data_par")}
    axes, bound = [own[factored.var]], [factored.var]
    values: dict[Var, PrimExpr] = {}
    for old, value in zip(factored.site.block.iter_vars, factored.site.stmt.iter_values, strict=True):
        if old.iter_type == "data_par" or factored.var not in variables(value):
            fresh = IterVar(old.dom, Var(old.var.name, old.var.dtype), old.iter_type)
            axes.append(fresh)
            bound.append(value)  # type: ignore[arg-type]  # variables are expressions
            values[old.var] = fresh.var
            continue
        for var in (item.loop_var for item in factored.nest if item.loop_var in variables(value)):
            if var not in own:
                own[var] = axis_for(var, "comm_reduce")
                axes.append(own[var])
                bound.append(var)
        values[old.var] = with_values(value, {var: own_axis.var for var, own_axis in own.items()})
    at = _indices(factored, values, own[factored.var].var, axis)
    first = factored.combiner.first(factored.init.value)
    term = with_values(factored.combiner.term, values)
    result = BufferLoad(partial, at)
    body = BufferStore(partial, factored.combiner.combined(result, term), at, span=factored.update.span)
    name = f"{factored.site.block.name_hint}_rf"
    block = _stated(
        Block(
            tuple(axes),
            (),
            (),
            edit.free_block_name(factored.site.function, name),
            body,
            BufferStore(partial, first, at),
        )
    )
    return BlockRealize(tuple(bound), factored.site.stmt.predicate, block)


def _final_block(factored: _Factored, partial: Buffer, axis: int) -> BlockRealize:
    """The block that reduces partial results: the loop is its only axis of the reduction, the first one."""
    loop = factored.loop.stmt
    over = IterVar(
        Range(min=loop.min, extent=loop.extent), Var(f"v{factored.var.name}", factored.var.dtype), "comm_reduce"
    )
    axes, bound = [over], [factored.var]
    values: dict[Var, PrimExpr] = {}
    for old, value in zip(factored.site.block.iter_vars, factored.site.stmt.iter_values, strict=True):
        if old.iter_type == "data_par":
            fresh = IterVar(old.dom, Var(old.var.name, old.var.dtype), old.iter_type)
            axes.append(fresh)
            bound.append(value)  # type: ignore[arg-type]  # variables are expressions
            values[old.var] = fresh.var
    at = tuple(with_values(index, values) for index in factored.update.indices)
    buffer = factored.update.buffer
    term = BufferLoad(partial, _indices(factored, values, over.var, axis))
    body = BufferStore(buffer, factored.combiner.combined(BufferLoad(buffer, at), term), at, span=factored.update.span)
    init = BufferStore(buffer, with_values(factored.init.value, values), at, span=factored.init.span)
    predicate: PrimExpr = TRUE
    for part in conjuncts(factored.site.stmt.predicate):
        if not variables(part) & factored.reduced - {factored.var}:
            predicate = logical_and(predicate, part)
    block = _stated(replace(factored.site.block, iter_vars=tuple(axes), body=body, init=init))
    return BlockRealize(tuple(bound), predicate, block)


def _stated(block: Block) -> Block:
    reads, writes = block_access(block)
    return replace(block, reads=reads, writes=writes)


def _indices(factored: _Factored, values: Mapping[Var, PrimExpr], var: Var, axis: int) -> tuple[PrimExpr, ...]:
    indices = [with_values(index, values) for index in factored.update.indices]
    return (*indices[:axis], var, *indices[axis:])


def _stays(factored: _Factored, loop: For) -> bool:
    """Whether a loop is around the final reduction: the chosen one, and those of spatial axes."""
    spatial = {
        var
        for axis, value in zip(factored.site.block.iter_vars, factored.site.stmt.iter_values, strict=True)
        if axis.iter_type == "data_par"
        for var in variables(value)
    }
    return loop.loop_var is factored.var or loop.loop_var in spatial


def _nest(inner: Stmt, loops: Sequence[For]) -> Stmt:
    for loop in reversed(loops):
        inner = replace(loop, body=inner)
    return inner


def _with_loops_of_its_own(nest: Stmt) -> Stmt:
    """A nest whose loops have new variables, as a second nest in the program needs."""
    if not isinstance(nest, For):
        return nest
    names: dict[Var, PrimExpr] = {}
    loops: list[For] = []
    inner: Stmt = nest
    while isinstance(inner, For):
        fresh = Var(inner.loop_var.name, inner.loop_var.dtype)
        low, extent = with_values(inner.min, names), with_values(inner.extent, names)
        # the tag makes an axis of its own, as each loop has to have
        binding = None if inner.thread_binding is None else inner.thread_binding.thread_tag
        loops.append(replace(inner, loop_var=fresh, min=low, extent=extent, thread_binding=binding))
        names[inner.loop_var] = fresh
        inner = inner.body
    assert isinstance(inner, BlockRealize)
    values = tuple(with_values(value, names) for value in inner.iter_values)
    return _nest(replace(inner, iter_values=values, predicate=with_values(inner.predicate, names)), loops)


# ---- proofs


def _loops_of(nest: Stmt) -> list[For]:
    loops: list[For] = []
    while isinstance(nest, For):
        loops.append(nest)
        nest = nest.body
    return loops


def _pair(accesses: Accesses, buffer: Buffer) -> tuple[Access, Access]:
    """The writes of a buffer by an init and by an update."""
    first, second = (item for item in accesses.of(buffer.data) if item.is_write)
    return first, second


def _begins_well(init: Access, update: Access, loops: Sequence[For], above: Sequence[Stmt]) -> bool:
    """Whether each element that is updated has its initial value before, and only once."""
    context = context_of(above)
    return (
        writes_once(init, assumption=context)
        and None not in update.indices
        and writes_all(init, region_of(update), assumption=context)
        and not late(init, update, loops, above)
    )


def _above(factored: _Factored) -> Sequence[Stmt]:
    top = next(k for k, item in enumerate(factored.site.above) if item is factored.nest[0])
    return factored.site.above[:top]


def _require_reduction_init(edit: Edit, factored: _Factored) -> None:
    init, update = _pair(accesses_of(factored.nest[0]), factored.update.buffer)
    if not _begins_well(init, update, factored.nest, _above(factored)):
        message = (
            f"rfactor: it is not proved that block {factored.site.block.name_hint} stores each initial value once, "
            "before its updates"
        )
        edit.refuse(factored.sites, message, help="loops must run through the reduction once, from its first point on")


def _are_partial_results(factored: _Factored, partial: Buffer, new: Stmt, last: Stmt) -> bool:
    """Whether the same elements get first values, and each partial result is stored, complete, and used once."""
    above = _above(factored)
    context = context_of(above)
    old_init, _ = _pair(accesses_of(factored.nest[0]), factored.update.buffer)
    init, update = _pair(accesses_of(new), partial)
    used = accesses_of(last)
    final_init, final = _pair(used, factored.update.buffer)
    read = next(item for item in used.of(partial.data))
    same = writes_all(final_init, region_of(old_init), assumption=context) and writes_all(
        old_init, region_of(final_init), assumption=context
    )
    return (
        same
        and _begins_well(init, update, _loops_of(new), above)
        and _begins_well(final_init, final, _loops_of(last), above)
        and writes_once(read, assumption=context)
        and writes_all(init, region_of(read), assumption=context)
        and writes_all(read, region_of(update), assumption=context)
    )


def _refuse_partial_results(edit: Edit, factored: _Factored) -> NoReturn:
    message = (
        f"rfactor: it is not proved that there would be one partial result for each iteration of loop "
        f"{factored.var.name} and each element of {factored.update.buffer.name}"
    )
    edit.refuse(
        factored.sites,
        message,
        help="each partial result needs its first term: choose the outer loop of a split, or even factors",
    )


def _without_gaps(factored: _Factored, block: BlockRealize) -> BlockRealize:
    """The block of partial results with neutral terms where conditions on loops of the reduction do not hold."""
    inside = block.block
    bound = zip(inside.iter_vars, block.iter_values, strict=True)
    axes = {value: axis.var for axis, value in bound if isinstance(value, Var)}
    moved: list[PrimExpr] = []
    kept: list[PrimExpr] = []
    for part in conjuncts(block.predicate):
        over = variables(part) & factored.reduced
        (moved if over and over <= axes.keys() else kept).append(part)
    init, update = inside.init, inside.body
    if not moved or not isinstance(init, BufferStore) or not isinstance(update, BufferStore):
        return block
    condition = conjunction([with_values(part, axes) for part in moved])
    combiner = combiner_of(update)
    assert combiner is not None
    term = if_then_else(condition, combiner.term, init.value)
    body = replace(update, value=combiner.combined(combiner.result, term))
    return BlockRealize(block.iter_values, conjunction(kept), _stated(replace(inside, body=body)))
