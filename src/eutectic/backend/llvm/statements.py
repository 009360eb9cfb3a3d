"""Statements to LLVM instructions: loops, branches, memory.

A statement is emitted *alone*, by one thread that runs all of it; how the threads of a
team share the outermost loops is the matter of `team.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from eutectic.backend.llvm import lockstep, memory, transposition
from eutectic.backend.llvm.ahead import Ahead, ask, is_steady
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.prefetch import prefetch
from eutectic.backend.llvm.term_groups import PLAIN, WITHIN, TermGroup, term_group
from eutectic.backend.llvm.types import memory_bytes, memory_type
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError
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

STACK_BYTES: Final = 32 * 1024  # more than that in one allocation is not put on a thread's stack
Allocator = Callable[[Allocate], str]


class StatementEmitter(ExprEmitter):
    """Emits statements into a function."""

    ahead: Ahead | None = None  # what is asked for in steady loops

    def __init__(self, text: FunctionText, machine_lanes: int, fence: str = "") -> None:
        super().__init__(text, machine_lanes, fence)
        self._around: list[For] = []  # loops that are being written, from the outside in

    def big_allocation(self, stmt: Allocate) -> str:
        """A pointer to memory that is too large, or of unknown size, for the stack."""
        raise CodegenError(f"memory {stmt.buffer_var.name} is too large for the stack")

    @deep
    def statement(self, stmt: Stmt) -> None:
        """Emit a statement for one thread."""
        match stmt:
            case SeqStmt():
                for part, columns in transposition.parts(self, stmt.seq):
                    if columns:
                        self._across(part, columns)
                    else:
                        self._in_order(part)
            case For():
                self.loop(stmt)
            case BufferStore():
                self.forget()
                memory.store(self, stmt)
                self.forget()
            case IfThenElse():
                self._if(stmt)
            case LetStmt():
                self.bind(stmt.var, stmt.value)
                self.statement(stmt.body)
            case Allocate():
                self.allocate(stmt)
                self.statement(stmt.body)
            case DeclBuffer() | AttrStmt():
                self.statement(stmt.body)
            case Evaluate():
                self.forget()
                if not isinstance(stmt.value, IntImm):
                    self.value(stmt.value)
                self.forget()
            case While():
                self._while(stmt)
            case AssertStmt():
                self._assert(stmt)
            case _:
                raise CodegenError(f"{type(stmt).__name__} cannot be compiled", help="lower the function first")

    def _in_order(self, statements: Sequence[Stmt]) -> None:
        for run in lockstep.runs(self, statements):
            if len(run) > 1:
                self.forget()
                self._in_step(run)
                self.forget()
            else:
                self.statement(run[0])

    def _across(self, stores: Sequence[Stmt], columns: Sequence[transposition.Columns]) -> None:
        """Stores that read parts of matrices across, and do not read what one of them writes."""
        self.forget()
        transposition.read(self, columns)
        for run in lockstep.runs(self, stores):
            self._in_step(run)
        self.forget()

    def _in_step(self, stores: Sequence[Stmt]) -> None:
        """Stores that compute the same of other data, and do not read what one of them writes."""
        if len(stores) > 1:
            lockstep.compute(self, stores)
        for store in stores:
            assert isinstance(store, BufferStore)
            memory.store(self, store)

    def loop(self, stmt: For) -> None:
        """A loop over all of its iterations."""
        low, extent = self.index(stmt.min), self.index(stmt.extent)
        high, group = self.fold("add", low, extent), term_group(stmt, self.machine_lanes)
        self.loop_over(stmt.loop_var, low, high, lambda: self._iterations_of(stmt, group), group.size, group.note)

    def _iterations_of(self, stmt: For, group: TermGroup) -> None:
        """An iteration, or some that are written out together, and before it what it asks for."""
        prefetch(self, stmt, self._around, group.size)
        if self.ahead is not None and is_steady(stmt, group):
            ask(self.text, self.ahead)
        self._around.append(stmt)
        if group.size == 1:
            self.statement(stmt.body)
        else:
            self._written_out(stmt, group.size)
        self._around.pop()

    def _written_out(self, stmt: For, count: int) -> None:
        """Some iterations, by a loop that LLVM writes out."""
        first, within = self.indices[stmt.loop_var], Var(stmt.loop_var.name, "int64")

        def one() -> None:
            self.indices[stmt.loop_var] = self.fold("add", first, self.indices[within])
            self.statement(stmt.body)

        self.loop_over(within, "0", str(count), one, note=WITHIN)

    def loop_over(
        self, var: Var, low: str, high: str, body: Callable[[], None], step: int = 1, note: str = PLAIN
    ) -> None:
        """`for var in range(low, high, step): body`; both bounds are 64-bit registers or constants.

        Args:
            var: Stands for the register that counts.
            low: The first value.
            high: What is behind the last one; as many steps from `low` as there are iterations.
            body: Emits an iteration.
            step: From one value to the next.
            note: What LLVM is told of the loop.
        """
        text = self.text
        self.forget()
        begin, done = text.fresh("loop"), text.fresh("done")
        constant = not low.startswith("%") and not high.startswith("%")
        if constant and int(high) <= int(low):
            return
        if constant and int(high) == int(low) + step:
            self.indices[var] = low
            body()
            self.forget()
            return
        if not constant:
            some = text.assign(f"icmp slt i64 {low}, {high}")
            ahead = text.fresh("enter")
            text.branch(some, ahead, done)
            text.start(ahead)
        before = text.block
        text.jump(begin)
        text.start(begin)
        counter, following = f"%{text.fresh('i')}", f"%{text.fresh('next')}"
        place = text.reserve()
        self.indices[var] = counter
        body()
        unsigned = " nuw" if low == "0" else ""
        text.do(f"{following} = add{unsigned} nsw i64 {counter}, {step}")
        text.fill(place, f"{counter} = phi i64 [ {low}, %{before} ], [ {following}, %{text.block} ]")
        more = text.assign(f"icmp slt i64 {following}, {high}")
        text.do(f"br i1 {more}, label %{begin}, label %{done}, !llvm.loop {note}")
        text.start(done)
        self.forget()

    def _if(self, stmt: IfThenElse) -> None:
        text = self.text
        self.forget()
        condition = self.value(stmt.condition)
        yes, after = text.fresh("if"), text.fresh("endif")
        no = text.fresh("else") if stmt.else_case is not None else after
        text.branch(condition, yes, no)
        for label, part in ((yes, stmt.then_case), (no, stmt.else_case)):
            if part is not None:
                text.start(label)
                self.forget()
                self.statement(part)
                text.jump(after)
        text.start(after)
        self.forget()

    def _assert(self, stmt: AssertStmt) -> None:
        """What follows is not done when the condition does not hold, as it may rely on it."""
        text = self.text
        self.forget()
        condition = self.value(stmt.condition)
        self.report_unless(condition, stmt.message.value)
        holds, after = text.fresh("holds"), text.fresh("asserted")
        text.branch(condition, holds, after)
        text.start(holds)
        self.forget()
        self.statement(stmt.body)
        text.jump(after)
        text.start(after)
        self.forget()

    def _while(self, stmt: While) -> None:
        text = self.text
        head, body, done = text.fresh("while"), text.fresh("body"), text.fresh("done")
        self.forget()
        text.jump(head)
        text.start(head)
        text.branch(self.value(stmt.condition), body, done)
        text.start(body)
        self.forget()
        self.statement(stmt.body)
        text.jump(head)
        text.start(done)
        self.forget()

    def allocate(self, stmt: Allocate) -> None:
        """Give memory to a pointer: on the stack when it is small."""
        self.extents[stmt.buffer_var] = self.elements(stmt)
        self.items[stmt.buffer_var] = memory_bytes(stmt.dtype)
        count = self.extents[stmt.buffer_var]
        if count.startswith("%") or int(count) * memory_bytes(stmt.dtype) > STACK_BYTES:
            self.pointers[stmt.buffer_var] = self.big_allocation(stmt)
        else:
            self.pointers[stmt.buffer_var] = self.text.alloca(memory_type(stmt.dtype), int(count))

    def elements(self, stmt: Allocate) -> str:
        """Number of elements of an allocation."""
        count = "1"
        for extent in stmt.extents:
            count = self.fold("mul", count, self.index(extent))
        return self.at_least_zero(count)
