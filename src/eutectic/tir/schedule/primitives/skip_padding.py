"""skip_padding: sums leave out the terms that multiply padding; can_skip_padding, padding_share: whether, how many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final

from eutectic.ir.dtype import is_integer
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Cast, IntImm, Mul, PrimExpr, Var, evaluate
from eutectic.ir.structural import structural_equal
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.dependence import conjunction
from eutectic.tir.analysis.index_facts import reads_memory
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function_attributes import FINITE_PARAMS, finite_params
from eutectic.tir.op import is_if_then_else
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, LoopRV
from eutectic.tir.schedule.legality.buffers import has_other_name, read_buffer
from eutectic.tir.schedule.legality.combiner import combiner_of
from eutectic.tir.schedule.legality.per_iteration import is_zero
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import Performs, primitive
from eutectic.tir.schedule.state import BlockSite, LoopSite
from eutectic.tir.schedule.trial import found_by, is_possible
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For

_MOST_ITERATIONS: Final = 4096  # that are looked at one by one


@primitive
def skip_padding(edit: Edit, block: BlockLike, read_buffer_index: int, loop: LoopRV) -> None:
    """Let a sum leave out terms whose operand is padding, where that is known before the loops within a loop.

    The block gets a predicate, of the conditions under which the operand is copied and not filled, as far as they
    depend on loops down to the given one. Terms that are left out are products with zero of numbers that are known to
    be finite, and sums begin with 0.0: the results have the same bits.

    Args:
        edit: The call.
        block: A block that adds products to sums which other blocks begin, `C[i] = C[i] + A[i + k] * B[k]`.
        read_buffer_index: The factor that is padding in places: blocks write it as
            `A[j] = T.if_then_else(inside, value, 0)`.
        loop: The innermost loop around the block that conditions may depend on.

    Raises:
        ScheduleError: the block or loop is gone, or the loop is not around it; the block does something else, or also
            begins the sums; what writes the operand is of another form; the other factors are not parameters that
            the attribute `tir.finite_params` names, nor integers; sums do not begin with 0; or nothing is padding as
            far as these loops tell.

    before: for i, k in T.grid(8, 3): C[i] = C[i] + A[i + k] * B[k]          # A[0] and A[9] are 0
    after skip_padding(block, 1, k):
            for i, k in T.grid(8, 3): [where 1 <= i + k and i + k < 9: C[i] = C[i] + A[i + k] * B[k]]
    """
    site, known = _to_ask(edit, block, read_buffer_index, loop)
    predicate = conjunction([*conjuncts(site.stmt.predicate), *known])
    edit.replace(site.function, {site.stmt: replace(site.stmt, predicate=predicate)})


def can_skip_padding(schedule: Performs, block: BlockLike, read_buffer_index: int, loop: LoopRV) -> bool:
    """Whether `skip_padding` would do it. Nothing changes, and the trace does not tell of it.

    Args:
        schedule: The schedule.
        block: As for `skip_padding`.
        read_buffer_index: As for `skip_padding`.
        loop: As for `skip_padding`.
    """
    return is_possible(schedule, skip_padding, block, read_buffer_index, loop)


def padding_share(schedule: Performs, block: BlockLike, read_buffer_index: int, loop: LoopRV, window: LoopRV) -> float:
    """What part of its terms a sum would leave out thanks to the conditions of `skip_padding` on one loop.

    Nothing changes, and the trace does not tell of it.

    Args:
        schedule: The schedule.
        block: As for `skip_padding`.
        read_buffer_index: As for `skip_padding`.
        loop: As for `skip_padding`.
        window: A loop, such as that along the taps of a window.

    Returns:
        From 0 to 1; 0 also where `skip_padding` refuses, where sizes are not constants, and where too many iterations
        would have to be looked at.
    """

    def share(edit: Edit, *args: Any) -> float:
        site, known = _to_ask(edit, *args)
        return _share(site, edit.loop(window).stmt, known)

    return found_by(schedule, skip_padding, share, block, read_buffer_index, loop) or 0.0


def _share(site: BlockSite, window: For, conditions: Sequence[PrimExpr]) -> float:
    """Part of the iterations of the loops around a block at which conditions on one of them do not hold."""
    asked = conjunction([part for part in conditions if window.loop_var in variables(part)])
    used = variables(asked)
    loops = {stmt.loop_var: _iterations(stmt) for stmt in site.loops if stmt.loop_var in used}
    ranges = [values for values in loops.values() if values]
    if len(ranges) < len(used) or prod(map(len, ranges)) > _MOST_ITERATIONS:
        return 0.0
    places = [dict(zip(loops, place, strict=True)) for place in product(*ranges)]
    return 1 - sum(evaluate(asked, place) for place in places) / len(places)


def _iterations(stmt: For) -> range | None:
    """The values of a loop variable, where they are constants."""
    first, extent = stmt.min, stmt.static_extent
    return range(first.value, first.value + extent) if isinstance(first, IntImm) and extent else None


def _to_ask(edit: Edit, block: BlockLike, read_buffer_index: int, loop: LoopRV) -> tuple[BlockSite, list[PrimExpr]]:
    """The block, and the conditions that it is to ask; see `skip_padding`."""
    site, place = edit.block(block), edit.loop(loop)
    if not any(item is place.stmt for item in site.loops):
        message = f"skip_padding: loop {place.stmt.loop_var.name} is not around block {site.block.name_hint}"
        edit.refuse([site, place], message, help="choose one of get_loops(block)")
    operand = read_buffer(edit, site, read_buffer_index)
    load = _product(edit, site, operand)
    _require_zero_at_first(edit, site)
    known = _known(edit, site, place, _inside(edit, site, load))
    if not known:
        message = f"skip_padding: no {operand.name} is padding as far as loops around {place.stmt.loop_var.name} tell"
        edit.refuse(site, message, help="choose a loop further in, or leave the block as it is")
    return site, known


def _product(edit: Edit, site: BlockSite, operand: Buffer) -> BufferLoad:
    """The load of the operand, which is one factor of all that a block adds, the others being finite."""
    name, body = site.block.name_hint, site.block.body
    combiner = combiner_of(body) if isinstance(body, BufferStore) else None
    if combiner is None or combiner.kind != "sum" or site.block.init is not None:
        message = f"skip_padding: block {name} does not only add to sums"
        edit.refuse(site, message, help="decompose_reduction gives their first values a block of their own")
    factors = _factors(combiner.term)
    loads = [item for item in factors if isinstance(item, BufferLoad) and item.buffer is operand]
    others = [item for item in factors if item is not (loads[0] if loads else None)]
    if not loads or len(others) > 1 or not all(_is_finite(edit, site, item) for item in others):  # two may overflow
        message = (
            f"skip_padding: what block {name} adds is not {operand.name} times numbers that are known to be finite"
        )
        edit.refuse(site, message, help=f"0 times infinity is NaN: `{FINITE_PARAMS}` names parameters without such")
    return loads[0]


def _factors(term: PrimExpr) -> list[PrimExpr]:
    """What is multiplied, without casts to where every number has its place."""
    factors: list[PrimExpr] = []
    left = [term]
    while left:
        item = left.pop()
        if isinstance(item, Cast) and _holds_all(item.dtype, item.value.dtype):
            left.append(item.value)
        elif isinstance(item, Mul):
            left += [item.b, item.a]
        else:
            factors.append(item)
    return factors


def _holds_all(dtype: str, other: str) -> bool:
    """Whether no number of another dtype becomes infinite in a dtype."""
    return dtype == "float64" or (dtype == "float32" and other != "float64") or is_integer(dtype)


def _is_finite(edit: Edit, site: BlockSite, factor: PrimExpr) -> bool:
    """Whether a factor is an integer, or an element of a parameter without infinities and NaN."""
    if not isinstance(factor, BufferLoad):
        return False
    func = edit.state.function(site.function)
    known = finite_params(func)
    finite = [func.buffer_map[param] for place, param in enumerate(func.params) if place in known]
    return is_integer(factor.dtype) or any(factor.buffer is buffer for buffer in finite)


def _writers(edit: Edit, site: BlockSite, buffer: Buffer) -> list[tuple[BlockSite, BufferStore]]:
    """The other blocks that write a buffer, each a store of one element; refuses what else does.

    Raises:
        ScheduleError: something else writes it, such as the caller, or it has another name somewhere.
    """
    blocks = edit.state.index(site.function).blocks
    is_ours = any(buffer in other.block.alloc_buffers for other in blocks)
    found = [
        (other, other.block.body)
        for other in blocks
        if other.block is not site.block and any(region.buffer.data is buffer.data for region in other.block.writes)
    ]
    leaves = [(other, body) for other, body in found if isinstance(body, BufferStore) and body.buffer is buffer]
    around = [other for other, _ in found if any(inner.above and other.stmt in inner.above for inner, _ in leaves)]
    is_renamed = any(has_other_name(other.stmt, buffer) for other in blocks)
    if not is_ours or not leaves or len(leaves) + len(around) != len(found) or is_renamed:
        message = f"skip_padding: what writes {buffer.name} is not known"
        edit.refuse(site, message, help="it must belong to the program, and blocks must store its elements one by one")
    return leaves


def _require_zero_at_first(edit: Edit, site: BlockSite) -> None:
    """Sums begin with 0: with -0.0 the terms that are left out would have made it 0.0."""
    assert isinstance(site.block.body, BufferStore)
    for other, store in _writers(edit, site, site.block.body.buffer):
        if not is_zero(store.value) or other.block.init is not None:
            names = f"block {other.block.name_hint} begins the sums of {site.block.name_hint}"
            edit.refuse([site, other], f"skip_padding: {names} with another number than 0.0")


def _inside(edit: Edit, site: BlockSite, load: BufferLoad) -> list[PrimExpr]:
    """The conditions under which an element that a block reads is no padding, in terms of the axes of the block."""
    found: list[list[PrimExpr]] = []
    for other, store in _writers(edit, site, load.buffer):
        value, axes = store.value, [axis.var for axis in other.block.iter_vars]
        places = [index for index in store.indices if not isinstance(index, IntImm)]
        by_axis = all(isinstance(index, Var) and index in axes for index in places) and len(set(places)) == len(places)
        if not is_if_then_else(value) or not is_zero(value.args[2]) or not by_axis or other.block.init is not None:
            message = f"skip_padding: block {other.block.name_hint} does not pad {load.buffer.name} with zeros"
            edit.refuse([site, other], message, help="it must store T.if_then_else(inside, value, 0)")
        at = {index: here for index, here in zip(store.indices, load.indices, strict=True) if isinstance(index, Var)}
        parts = [part for part in conjuncts(value.args[0]) if not reads_memory(part) and variables(part) <= set(at)]
        found.append([with_values(part, at) for part in parts])
    return [part for part in found[0] if all(_has(part, parts) for parts in found[1:])]


def _has(part: PrimExpr, parts: Sequence[Node]) -> bool:
    return any(structural_equal(part, other) for other in parts)


def _known(edit: Edit, site: BlockSite, place: LoopSite, conditions: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Conditions on axes of a block as those on loops down to one, without those that always hold."""
    axes = {axis.var: value for axis, value in zip(site.block.iter_vars, site.stmt.iter_values, strict=True)}
    unknown = {item.loop_var for item in site.above[len(place.above) + 1 :] if isinstance(item, For)}
    analyzer = analyzer_for(site)
    known = [analyzer.simplify(with_values(part, axes)) for part in conditions]
    return [part for part in known if not variables(part) & unknown and not analyzer.can_prove(part)]
