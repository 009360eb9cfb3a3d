"""parallel, vectorize, unroll, bind: how the iterations of a loop are run."""

from __future__ import annotations

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import Var
from eutectic.tir.analysis.accesses import accesses_of
from eutectic.tir.analysis.dependence import carried
from eutectic.tir.analysis.private_memory import are_apart, private_buffers
from eutectic.tir.iter_var import IterVar
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import LoopRV
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.refusals import refuse_conflict
from eutectic.tir.schedule.state import LoopSite, walk
from eutectic.tir.stmt import For


@primitive
def parallel(edit: Edit, loop: LoopRV) -> None:
    """Run the iterations of a loop at once, in threads.

    Args:
        edit: The call.
        loop: A serial loop whose iterations do not depend on each other: none writes what another reads or writes.
            Of buffers within the function of which each iteration reads only what it wrote itself, each has its own.

    Raises:
        ScheduleError: the loop is gone, or not serial; or iterations depend on each other, or cannot be shown not to.
    """
    _at_once(edit, edit.loop(loop), "parallel")


@primitive
def vectorize(edit: Edit, loop: LoopRV) -> None:
    """Run the iterations of a loop at once, as the lanes of vectors.

    Args:
        edit: The call.
        loop: A serial loop of constant extent whose iterations do not depend on each other.

    Raises:
        ScheduleError: the loop is gone, not serial, or of unknown extent; or iterations depend on each
            other, or cannot be shown not to.
    """
    site = edit.loop(loop)
    edit.require_constant(site, "so it has no number of lanes")
    _at_once(edit, site, "vectorized")


@primitive
def unroll(edit: Edit, loop: LoopRV) -> None:
    """Write the iterations of a loop one after another.

    Args:
        edit: The call.
        loop: A serial loop of constant extent.

    Raises:
        ScheduleError: the loop is gone, not serial, or of unknown extent.
    """
    site = edit.loop(loop)
    edit.require_constant(site, "so it cannot be written out")
    old = _serial(edit, site)
    edit.replace(site.function, {old: replace(old, kind="unrolled")})


@primitive
def bind(edit: Edit, loop: LoopRV, thread_axis: str | IterVar) -> None:
    """Run the iterations of a loop at once, as threads of a hardware axis.

    Args:
        edit: The call.
        loop: A serial loop whose iterations do not depend on each other. A reduction over threads is refused.
        thread_axis: `blockIdx.x`, `threadIdx.y`, `vthread.x` and the like.

    Raises:
        ScheduleError: the loop is gone, or not serial; the axis is unknown, or bound to a loop around or
            inside already, or to one of another extent beside it in the same nest; or iterations depend on
            each other, or cannot be shown not to.
    """
    site = edit.loop(loop)
    tag = thread_axis.thread_tag if isinstance(thread_axis, IterVar) else thread_axis
    old = _serial(edit, site)
    kind, _, letter = str(tag).partition(".")
    if kind not in ("blockIdx", "threadIdx", "vthread") or (
        letter not in ("x", "y", "z") and (kind != "vthread" or letter)
    ):
        edit.refuse(
            site, f"bind: {tag!r} is no thread axis", help="use blockIdx.x, threadIdx.y, vthread.z and the like"
        )
    _require_free_axis(edit, site, str(tag))
    old = replace(old, kind="thread_binding", thread_binding=str(tag))
    own = _require_independent(edit, site, f"bound to {tag}", old)
    accesses = accesses_of(old)
    for access in accesses.items:
        if access.buffer.data not in accesses.private | own and are_apart(access.buffer.scope(), str(tag)):
            message = (
                f"bind: threads of {tag} would not share buffer {access.buffer.name} in {access.buffer.scope()} memory"
            )
            edit.refuse(site, message, help="allocate it within the loop, or put it into other memory first")
    edit.replace(site.function, {site.stmt: old})


def _at_once(edit: Edit, site: LoopSite, kind: str) -> None:
    old = _serial(edit, site)
    changed = replace(old, kind=kind)
    _require_independent(edit, site, kind, changed)
    edit.replace(site.function, {old: changed})


def _serial(edit: Edit, site: LoopSite) -> For:
    loop = site.stmt
    if loop.kind != "serial":
        edit.refuse(
            site, f"{edit.name}: loop {loop.loop_var.name} is {loop.kind} already", help="choose one kind per loop"
        )
    return loop


def _require_independent(edit: Edit, site: LoopSite, becomes: str, changed: For) -> frozenset[Var]:
    """Refuse a loop whose iterations depend on each other.

    Returns:
        Memory that each iteration has for itself, when that was needed.
    """
    conflict = carried(site.stmt, site.above)
    if conflict is None:
        return frozenset()
    own = own_memory(changed, site)
    if own:
        conflict = carried(site.stmt, site.above, own)
    if conflict is not None:
        name = site.stmt.loop_var.name
        message = f"{edit.name}: loop {name} cannot be {becomes}, its iterations depend on each other"
        refuse_conflict(edit, [site], conflict, message, help="choose a loop over whose iterations nothing is carried")
    edit.relies.add((site.function, site.stmt.loop_var))
    return own


def own_memory(loop: For, site: LoopSite) -> frozenset[Var]:
    """Memory allocated around a loop that its iterations, run at once, have each for themselves.

    Args:
        loop: The loop, of its new kind.
        site: Its place.
    """
    if loop.kind == "vectorized":
        return frozenset()
    axis = loop.thread_binding
    buffers = private_buffers(site.stmt, site.above)
    return frozenset(buffer.data for buffer in buffers if axis is None or are_apart(buffer.scope(), axis.thread_tag))


def require_still_independent(edit: Edit) -> None:
    """Refuse a step after which iterations that run at once, with memory of their own, would depend on each other."""
    for function, var in sorted(edit.relies, key=lambda item: (item[0], item[1].name)):
        site = edit.state.index(function).loops.get(var)
        if site is None or site.stmt.kind == "serial":
            edit.relies.discard((function, var))
            continue
        conflict = carried(site.stmt, site.above, own_memory(site.stmt, site))
        if conflict is not None:
            message = (
                f"{edit.name}: iterations of the {site.stmt.kind} loop {var.name}, which have memory of their own, "
                "would depend on each other"
            )
            refuse_conflict(
                edit, [site], conflict, message, help="do this before the loop is run at once, or outside of it"
            )


def _require_free_axis(edit: Edit, site: LoopSite, tag: str) -> None:
    top = next((item for item in site.above if isinstance(item, For)), site.stmt)
    index = edit.state.index(site.function)
    for stmt, _ in walk(top):
        if not isinstance(stmt, For) or stmt.thread_binding is None or stmt.thread_binding.thread_tag != tag:
            continue
        other = index.loops[stmt.loop_var]
        nested = any(item is stmt for item in site.above) or any(item is site.stmt for item in other.above)
        if nested:
            edit.refuse([other, site], f"bind: loop {stmt.loop_var.name} of the same nest is bound to {tag} already")
        if stmt.static_extent is None or stmt.static_extent != site.stmt.static_extent:
            message = f"bind: loop {stmt.loop_var.name} of the same launch is bound to {tag} with another extent"
            edit.refuse([other, site], message, help="split both to one extent first")
