"""Statements of the reference interpreter: each becomes a Python function that acts on the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Var, lanes_of
from eutectic.support.deep import deep
from eutectic.support.errors import CallError, CodegenError, EutecticError, InternalError
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.interpret.block import axes_of, buffers_of
from eutectic.tir.interpret.expr import ExprCompiler
from eutectic.tir.interpret.machine import Code, Env, Machine, Step, excerpt
from eutectic.tir.interpret.memory import Memory, Pointer
from eutectic.tir.interpret.reduction_init import Beginning, blocks_in_scope, without_iterations
from eutectic.tir.iter_var import IterVar
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

_REORDERED: Final = ("parallel", "vectorized")
_THREAD_KEYS: Final = ("thread_extent", "virtual_thread")


class StmtCompiler:
    """Makes functions of statements.

    Args:
        machine: The run that the functions belong to.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.exprs = ExprCompiler(machine)
        self.scope: tuple[For, ...] = ()  # the loops around, from the last block on
        self.beginnings: dict[BlockRealize, Beginning] = {}
        self.inits: dict[BlockRealize, Step] = {}  # what stores those of a block, where nothing else is done

    @deep
    def step(self, stmt: Stmt) -> Step:
        """The function of a statement; errors within name the innermost statement."""
        act, height = self.exprs.measured(lambda: self._make(stmt))
        self.exprs.height = max(self.exprs.height, height)
        if isinstance(stmt, SeqStmt):
            return act

        def guarded(env: Env) -> None:
            try:
                act(env)
            except EutecticError as error:
                _locate(error, stmt)
                raise

        return guarded

    def _make(self, stmt: Stmt) -> Step:
        match stmt:
            case BufferStore():
                return self._store(stmt)
            case Evaluate():
                return self.exprs.code(stmt.value)
            case SeqStmt():
                return self._sequence(stmt)
            case For():
                return self._loop(stmt)
            case While():
                return self._while(stmt)
            case IfThenElse():
                return self._if(stmt)
            case BlockRealize():
                return self._realize(stmt)
            case LetStmt() | Allocate() | DeclBuffer() | AssertStmt() | AttrStmt():
                return self._wrapper(stmt)
            case _:
                raise CodegenError(f"{type(stmt).__name__} cannot be interpreted as a statement")

    # ---- stores

    def _store(self, stmt: BufferStore) -> Step:
        buffer, trace, exprs = stmt.buffer, self.machine.access_trace, self.exprs
        vector = any(lanes_of(index.dtype) > 1 for index in stmt.indices)
        if vector or stmt.predicate is not None or lanes_of(buffer.dtype) > 1:
            return self._store_vector(stmt)
        value, indices = exprs.code(stmt.value), exprs.codes(stmt.indices)

        def store(env: Env) -> None:
            fresh = value(env)
            at = tuple([index(env) for index in indices])
            view = env.get(buffer) or exprs.view(env, buffer)
            view.write(view.position(at), fresh)
            if trace is not None:
                trace(buffer, at, True)

        return store

    def _store_vector(self, stmt: BufferStore) -> Step:
        buffer, trace, exprs = stmt.buffer, self.machine.access_trace, self.exprs
        value, places = exprs.code(stmt.value), exprs.places(stmt.indices, stmt.predicate)

        def store(env: Env) -> None:
            stored = value(env)
            lanes = iter(stored if isinstance(stored, tuple) else (stored,))
            view = exprs.view(env, buffer)
            for at, active in places(env):
                part = [next(lanes) for _ in range(view.lanes)]
                if not active:
                    continue
                where = view.position(at)
                for lane, fresh in enumerate(part):
                    view.write(where + lane, fresh)
                if trace is not None:
                    trace(buffer, at, True)

        return store

    # ---- control

    def _sequence(self, stmt: SeqStmt) -> Step:
        steps = [self.step(part) for part in stmt.seq]

        def run(env: Env) -> None:
            for step in steps:
                step(env)

        return run

    def _loop(self, stmt: For) -> Step:
        outer, self.scope = self.scope, (*self.scope, stmt)
        var, body = stmt.loop_var, self.step(stmt.body)
        self.scope = outer
        begins, empty = self._of_reductions(stmt)
        first, count = self.exprs.code(stmt.min), self.exprs.code(stmt.extent)
        reordered = stmt.kind in _REORDERED and self.machine.order != "forward"
        tag = None if stmt.thread_binding is None else stmt.thread_binding.thread_tag

        def run(env: Env) -> None:
            begin, extent = first(env), count(env)
            for item in begins:
                item.begun.clear()
            if extent <= 0:
                for step in empty:
                    step(env)
            values: Sequence[int] = range(begin, begin + extent)
            if reordered:
                values = self._reordered(values)
            outer = self.machine.threads.get(tag) if tag else None
            for index in values:
                env[var] = index
                if tag:
                    self.machine.threads[tag] = (index, extent)
                body(env)
            env.pop(var, None)
            if tag:
                self._leave(tag, outer)

        return run

    def _of_reductions(self, loop: For) -> tuple[list[Beginning], list[Step]]:
        """Reductions of which a loop is the outermost one, and what they do when it has no iterations."""
        outermost: list[Beginning] = []
        empty: list[Step] = []
        if not any(loop in begin.reduced for begin in self.beginnings.values()):
            return outermost, empty  # most loops; the search would make nests take time cubic in their depth
        for stmt, inside, straight in blocks_in_scope(loop.body):
            begin = self.beginnings.get(stmt)
            if begin is None or loop not in begin.reduced:
                continue
            if loop is begin.reduced[0]:
                outermost.append(begin)
            if straight:
                empty.append(without_iterations(self.exprs, loop, inside, begin, self.inits[stmt]))
        return outermost, empty

    def _reordered(self, values: Sequence[int]) -> Sequence[int]:
        if self.machine.order == "reverse":
            return values[::-1]
        return self.machine.random.sample(values, len(values))

    def _leave(self, tag: str, outer: tuple[int, int] | None) -> None:
        self.machine.threads.pop(tag, None)
        if outer is not None:
            self.machine.threads[tag] = outer

    def _while(self, stmt: While) -> Step:
        condition, body = self.exprs.code(stmt.condition), self.step(stmt.body)

        def run(env: Env) -> None:
            while condition(env):
                body(env)

        return run

    def _if(self, stmt: IfThenElse) -> Step:
        condition, yes = self.exprs.code(stmt.condition), self.step(stmt.then_case)
        no = None if stmt.else_case is None else self.step(stmt.else_case)

        def run(env: Env) -> None:
            if condition(env):
                yes(env)
            elif no is not None:
                no(env)

        return run

    # ---- what stands around a body

    def _wrapper(self, stmt: LetStmt | Allocate | DeclBuffer | AssertStmt | AttrStmt) -> Step:
        if isinstance(stmt, AttrStmt):
            return self._remark(stmt)
        body = self.step(stmt.body)
        match stmt:
            case LetStmt():
                return self._bound(stmt.var, self.exprs.code(stmt.value), body)
            case Allocate():
                return self._bound(stmt.buffer_var, self._memory(stmt), body)
            case DeclBuffer():
                return self._bound(stmt.buffer, self.exprs.declare(stmt.buffer), body)
            case AssertStmt():
                condition, message = self.exprs.code(stmt.condition), stmt.message.value

                def check(env: Env) -> None:
                    if not condition(env):
                        raise CallError(f"assertion failed: {message}")
                    body(env)

                return check

    @staticmethod
    def _bound(name: Var | Buffer, value: Code, body: Step) -> Step:
        def run(env: Env) -> None:
            env[name] = value(env)
            body(env)
            env.pop(name, None)

        return run

    def _memory(self, stmt: Allocate) -> Code:
        name, dtype, check = stmt.buffer_var.name, stmt.dtype, self.machine.check
        extents, needed = self.exprs.codes(stmt.extents), self.exprs.code(stmt.condition)

        def allocate(env: Env) -> Pointer:
            count = 1 if needed(env) else 0
            for extent in extents:
                count *= extent(env)
            return Pointer(Memory.fresh(name, dtype, count, check))

        return allocate

    def _remark(self, stmt: AttrStmt) -> Step:
        about = stmt.node
        if not (isinstance(about, IterVar) and stmt.attr_key in _THREAD_KEYS):
            return self.step(stmt.body)
        tag, var, body, count = about.thread_tag, about.var, self.step(stmt.body), self.exprs.code(stmt.value)
        shared = stmt.attr_key == "thread_extent" and not tag.startswith("vthread")

        def launch(env: Env) -> None:
            extent, outer = count(env), self.machine.threads.get(tag)
            if outer is not None and shared:  # the same threads again, not more of them
                if extent != outer[1]:
                    raise InternalError(f"{tag} is launched with {extent} threads among {outer[1]} of them")
                env[var] = outer[0]
                body(env)
                return
            for index in range(extent):
                env[var] = index
                self.machine.threads[tag] = (index, extent)
                body(env)
            env.pop(var, None)
            self._leave(tag, outer)

        return launch

    # ---- blocks

    def _realize(self, stmt: BlockRealize) -> Step:
        block = stmt.block
        enter = buffers_of(self.exprs, block)
        bind = axes_of(self.exprs, stmt, reduced_may_be_empty=block.init is not None)
        begin = None if block.init is None else Beginning(self.exprs, stmt, self.scope)
        outer, self.scope = self.scope, ()
        body, init = self.step(block.body), None if block.init is None else self.step(block.init)
        self.scope = outer
        runs = None if stmt.always_runs else self.exprs.code(stmt.predicate)
        local: list[Node] = [axis.var for axis in block.iter_vars]
        local += [name for buffer in block.alloc_buffers for name in (buffer, buffer.data)]

        def perform(env: Env, *steps: Step) -> None:
            bind(env)
            bound = enter(env)
            for step in steps:
                step(env)
            for name in (*local, *bound):
                env.pop(name, None)

        def run(env: Env) -> None:
            if runs is None or runs(env):
                perform(env, body)

        if begin is None or init is None:
            return run
        self.beginnings[stmt], self.inits[stmt] = begin, lambda env: perform(env, init)

        def reduce(env: Env) -> None:
            steps = (init,) if begin.here(env) else ()
            if runs is None or runs(env):
                steps = (*steps, body)
            if steps:
                perform(env, *steps)

        return reduce


def _locate(error: EutecticError, stmt: Stmt) -> None:
    """Say which statement failed, unless one within has said so."""
    if any(fact.startswith("in the statement") for fact in error.facts):
        return
    lines = excerpt(stmt).splitlines()
    error.with_note("in the statement\n" + "\n".join("      " + line for line in lines))
    if error.at is None and stmt.span is not None:
        error.at = stmt.span.excerpt()
