"""A whole tensor program: stages, what is inlined, which rule each stage gets."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.backend.llvm.machine import Machine, machine_of
from eutectic.backend.llvm.rules.elementwise import elementwise
from eutectic.backend.llvm.rules.epilogue import with_epilogues
from eutectic.backend.llvm.rules.flat import FlatBuffers, collapse, flatten
from eutectic.backend.llvm.rules.group import Group, groups_of
from eutectic.tir.schedule.rules.producers import inline
from eutectic.backend.llvm.rules.loops import parallel_over
from eutectic.backend.llvm.rules.pack import pack
from eutectic.backend.llvm.rules.reduction import reduction
from eutectic.tir.schedule.rules.stage import Stage, loads, stages_of
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.support.errors import ScheduleError
from eutectic.target import Target
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.cpu import schedule_by_rules
from eutectic.tir.schedule.rules.registry import register_scheduler
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, Stmt, parts_of, seq
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.lower_tir import is_lowered
from eutectic.tir.transform.schedule_for_target import SCHEDULED


def schedule_for_cpu(func: PrimFunc, machine: Machine) -> PrimFunc:
    """A tensor program with loops that suit a processor.

    A program that is scheduled already, by a user, or is not of the form that
    `stages_of` reads, keeps its loops; of the latter the outermost ones are shared by threads where
    that is safe.

    Args:
        func: What to schedule.
        machine: The processor.
    """
    if func.attr(SCHEDULED) or is_lowered(func) or _has_kinds(func):
        return func
    made = _by_rules(func, machine)
    if made is not None:
        return made
    found = stages_of(func)
    if found is None:
        return _outer_parallel(func)
    stages, intermediates = found
    stages, copies = pack(with_epilogues(func, inline(stages, intermediates), intermediates))
    intermediates = (*intermediates, *copies)
    groups = groups_of(stages, intermediates)
    buffers = FlatBuffers([*intermediates, *(row for group in groups for row in group.rows)])
    body = seq(*(_group_body(group, buffers, machine) for group in groups))
    made: PrimFunc = func.with_body(_declared(body, groups, intermediates, buffers)).with_attr(SCHEDULED, True)
    return made


def _log(e, t):
    import os
    with open(os.environ["RULELOG"]+e,"a") as f: f.write(t)


def _by_rules(func: PrimFunc, machine: Machine) -> PrimFunc | None:
    import os
    if os.environ.get("OLD"): return None
    try:
        sch = schedule_by_rules(func, machine)
    except ScheduleError as error:
        if os.environ.get("RULELOG"):
            import traceback
            from eutectic.support.errors import EutecticError
            tb=traceback.extract_tb(error.__traceback__)
            where=[f"{f.filename.split('/')[-1]}:{f.lineno}" for f in tb if "rules/" in f.filename][-1:]
            _log("",f"FAIL {func.attr('global_symbol')} {where} {str(error)[:200]!r}\n")
            _log(".txt",f"#### {where} {str(error)[:300]!r}\n{func.script()}\n")
        return None
    if os.environ.get("RULELOG"):
        _log("","none\n" if sch is None else "ok\n")
        if sch is None: _log(".txt",f"#### NONE\n{func.script()}\n")
    return None if sch is None else sch.func.with_attr(SCHEDULED, True)


def _has_kinds(func: PrimFunc) -> bool:
    return any(isinstance(part, For) and part.kind != ForKind.SERIAL for part in post_order(func.body))


def _group_body(group: Group, buffers: FlatBuffers, machine: Machine) -> Stmt:
    if not group.shared:
        return _stage_body(group.stages[0], buffers, machine, parallel=True)
    env: dict[Var, PrimExpr] = {}

    def row() -> Stmt:
        body = seq(*(_stage_body(stage, buffers, machine, parallel=False) for stage in group.stages))
        for buffer in group.rows:
            view = buffers.of(buffer)
            body = Allocate(buffer.data, buffer.dtype, view.shape, IntImm("bool", 1), DeclBuffer(view, body))
        return body

    made = parallel_over(group.shared, env, row, True)
    return _bound(made, env)


def _bound(stmt: Stmt, env: dict[Var, PrimExpr]) -> Stmt:
    return Substituter(env).stmt(stmt)


def _stage_body(stage: Stage, buffers: FlatBuffers, machine: Machine, parallel: bool) -> Stmt:
    flat = collapse(flatten(stage, buffers))
    if flat.acc is None:
        return elementwise(flat, machine, parallel)
    return reduction(flat, machine, parallel)


def _declared(body: Stmt, groups: Sequence[Group], intermediates: Sequence[Buffer], buffers: FlatBuffers) -> Stmt:
    """The body with views of parameters declared and remaining intermediates allocated."""
    rows = {id(buffer) for group in groups for buffer in group.rows}
    used = {id(stage.result) for group in groups for stage in group.stages}
    used |= {id(load.buffer) for group in groups for stage in group.stages for load in stage.reads()}
    for original, view in list(buffers.views.values()):
        if id(original) in rows:
            continue
        body = DeclBuffer(view, body)
    for buffer in intermediates:
        if id(buffer) in used:
            view = buffers.of(buffer)
            body = Allocate(buffer.data, buffer.dtype, view.shape, IntImm("bool", 1), body)
    return body


def _outer_parallel(func: PrimFunc) -> PrimFunc:
    """Threads share the outermost loops that are bound to spatial axes of all blocks inside."""
    body = func.body
    if not isinstance(body, BlockRealize):
        return func
    root = body.block
    made = seq(*(_shared(part) for part in parts_of(root.body)))
    return func.with_body(replace(body, block=replace(root, body=made)))


def _shared(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, For) or stmt.kind != ForKind.SERIAL:
        return stmt
    inner = stmt.body
    while isinstance(inner, For):
        inner = inner.body
    if not isinstance(inner, BlockRealize):
        return stmt
    return replace(stmt, kind=ForKind.PARALLEL) if _is_spatial(inner, stmt.loop_var) else stmt


def _is_spatial(realize: BlockRealize, var: Var) -> bool:
    """Whether a loop variable is one spatial axis, and no other axis depends on it, and stores are apart."""
    block = realize.block
    bound = [(axis, value) for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)]
    mine = [axis for axis, value in bound if value is var]
    others = [value for _, value in bound if value is not var]
    if len(mine) != 1 or mine[0].iter_type != "data_par":
        return False
    if any(part is var for value in others for part in post_order(value)):
        return False
    return _stores_apart(block, mine[0].var)


def _stores_apart(block: Block, var: Var) -> bool:
    stores = [part for part in post_order(block) if isinstance(part, BufferStore)]
    own = {id(buffer) for buffer in block.alloc_buffers}
    written = {id(store.buffer) for store in stores}
    for store in stores:
        if id(store.buffer) not in own and not any(index is var for index in store.indices):
            return False
    reads = loads(block)  # also those of conditions and indices
    return all(any(i is var for i in load.indices) for load in reads if id(load.buffer) in written - own)


def _schedule(func: PrimFunc, target: Target) -> PrimFunc:
    return schedule_for_cpu(func, machine_of(target))


register_scheduler("llvm", _schedule)
