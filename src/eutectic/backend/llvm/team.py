"""Kernels that a team of threads runs together.

Every thread of the team calls the kernel with its number. The iterations of an outermost
parallel loop are taken by whichever thread runs, and what is outside of parallel loops is
a loop of one iteration; threads wait for iterations, never for each other (`loop_text.py`).
So a whole network is one entry into the team, and a parallel loop costs a meeting instead
of a fork and a join.

Every thread goes through the code around the loops, and late ones do when others have gone
on. So numbers that decide there and are read from memory are read by one thread, which
tells them to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from eutectic.backend.kernel import Workspace
from eutectic.backend.llvm import ahead
from eutectic.backend.llvm import intrinsics as _intrinsics  # noqa: F401 - fills the table of intrinsics
from eutectic.backend.llvm.expr import INDEX_DTYPES
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.pieces import pieces_worth
from eutectic.backend.llvm.shared_loop import can_be_told, meet, share_iterations, tell, told
from eutectic.backend.llvm.statements import StatementEmitter
from eutectic.backend.llvm.term_groups import METADATA, PLAIN
from eutectic.backend.llvm.types import memory_bytes, register_type
from eutectic.ir.dtype import is_integer
from eutectic.ir.node import children
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, floordiv, mul
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.support.errors import OTHERWISE, CodegenError
from eutectic.tir.analysis.index_facts import has_checks
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Allocate, AttrStmt, DeclBuffer, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt

MESSAGE_AT = 128  # where the team's record has the pointer to the message of a failed check


@dataclass(frozen=True)
class Kernel:
    """A kernel as LLVM text, and how it is called.

    The C signature is `void name(ptr per buffer..., per scalar..., int64 per shape variable..., ptr per workspace...,
    int64 thread, int64 threads, ptr team, ptr ahead, int64 ahead_bytes)`; buffers and scalars in the order of the
    function's parameters. `ahead` is memory that is read next, which the kernel may ask for.

    Attributes:
        name: Its symbol.
        function: What was compiled.
        shape_vars: Variables of buffers' shapes, whose values are passed.
        workspaces: Memory to be passed.
        parallel: Whether more than one thread has something to do.
        text: The LLVM module.
    """

    name: str
    function: PrimFunc
    shape_vars: tuple[Var, ...]
    workspaces: tuple[Workspace, ...]
    parallel: bool
    text: str


def kernel_of(func: PrimFunc, name: str, machine: Machine) -> Kernel:
    """Compile a lowered function to LLVM text.

    Args:
        func: Flat loops, as `tir.transform.lower` makes them.
        name: Symbol of the kernel.
        machine: What the code is for.

    Raises:
        CodegenError: something in it cannot be compiled.
    """
    return _TeamEmitter(func, name, machine).run()


def shape_variables(func: PrimFunc) -> tuple[Var, ...]:
    """Variables of buffers' shapes and strides that are no parameters, in order of appearance."""
    variables: list[Var] = []
    params = {id(param) for param in func.params}
    for buffer in func.buffer_map.values():
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for item in (*buffer.shape, *buffer.strides, *offset):
            for part in post_order(item):
                if isinstance(part, Var) and id(part) not in params:
                    params.add(id(part))
                    variables.append(part)
    return tuple(variables)


class _TeamEmitter(StatementEmitter):
    def __init__(self, func: PrimFunc, name: str, machine: Machine) -> None:
        super().__init__(FunctionText(), machine.lanes(), machine.vector_constraint)
        self.func, self.name, self.machine = func, name, machine
        self.workspaces: list[Workspace] = []
        self.parallel = _with_parallel_loops(func.body)
        self.together = id(func.body) in self.parallel
        self.shared_by_team = self.together  # whether the statement at hand is outside of parallel loops
        self.messages: dict[str, str] = {}  # by text
        self.wraps = has_checks(func.body)

    def run(self) -> Kernel:
        parameters = self._parameters()
        shapes = shape_variables(self.func)
        for var in shapes:
            parameters.append(("i64", f"%s{len(parameters)}"))
            self.indices[var] = parameters[-1][1]
        for buffer in self.func.buffer_map.values():
            self.extents[buffer.data] = self.index(_span(buffer))
            self.items[buffer.data] = memory_bytes(buffer.dtype)
        asks = ahead.steady_asks(self.func.body, self.machine_lanes)
        self.ahead = ahead.begin(self.text, asks) if asks else None
        if self.together:
            self.uniform(self.func.body, last=True)
        else:
            self.statement(self.func.body)  # by the thread that calls it
        self.text.do("ret void")
        parameters += [("ptr noalias", f"%w{i}") for i in range(len(self.workspaces))]
        parameters += [("i64", "%thread"), ("i64", "%threads"), ("ptr", "%team"), *ahead.PARAMETERS]
        return Kernel(self.name, self.func, shapes, tuple(self.workspaces), self.together, self._module(parameters))

    def _parameters(self) -> list[tuple[str, str]]:
        parameters: list[tuple[str, str]] = []
        noalias = " noalias" if self.func.attr("tir.noalias") else ""
        for param in self.func.params:
            buffer = self.func.buffer_map.get(param)
            name = f"%p{len(parameters)}"
            if buffer is not None:
                parameters.append((f"ptr{noalias}", name))
                self.pointers[buffer.data] = name
            elif param.dtype == "handle":
                raise CodegenError(f"parameter {param.name} of {self.name} is a pointer without a buffer")
            else:
                kind = register_type(param.dtype)
                parameters.append((kind, name))
                if param.dtype == "int64":
                    self.indices[param] = name
                elif param.dtype == "int32":
                    self.indices[param] = self.text.assign(f"sext i32 {name} to i64")
                else:
                    self.values[param] = name
        buffers = [item for item in parameters if item[0].startswith("ptr")]
        return [*buffers, *(item for item in parameters if not item[0].startswith("ptr"))]

    def _module(self, parameters: list[tuple[str, str]]) -> str:
        signature = ", ".join(f"{kind} {name}" for kind, name in parameters)
        lines = [f'target triple = "{self.machine.triple}"', "", *self.messages.values()]
        lines += [f"define void @{self.name}({signature}) nounwind {{", self.text.body(), "}", ""]
        lines += [
            *self.text.declared.values(),
            "",
            *METADATA,
            "",
        ]
        return "\n".join(lines)

    # ---- what the team does together

    @deep
    def uniform(self, stmt: Stmt, last: bool) -> None:
        """Emit a statement that every thread of the team comes to; `last` if nothing follows that depends on it."""
        if id(stmt) not in self.parallel:
            self._alone(lambda: self.statement(stmt))
            self._meet(last)
            return
        match stmt:
            case SeqStmt():
                for i, part in enumerate(stmt.seq):
                    self.uniform(part, last and i + 1 == len(stmt.seq))
            case For() if stmt.kind == ForKind.PARALLEL:
                self._with_same([stmt.min, stmt.extent], lambda low, extent: self._share(stmt, low, extent))
                self._meet(last)
            case For():
                self._with_same([stmt.min, stmt.extent], lambda low, extent: self._repeat(stmt, low, extent))
            case LetStmt() if self._can_be_told(stmt.value):
                self._with_same([stmt.value], lambda value: self._let(stmt, value, last))
            case Allocate():
                self.allocate(stmt)
                self.uniform(stmt.body, last)
            case DeclBuffer() | AttrStmt():
                self.uniform(stmt.body, last)
            case IfThenElse():
                self._with_same([stmt.condition], lambda condition: self._uniform_if(stmt, condition))
            case _:
                self._alone(lambda: self.statement(stmt))
                self._meet(last)

    def _with_same(self, exprs: Sequence[PrimExpr], emit: Callable[..., None]) -> None:
        """Emit code with values that are the same in all threads; one that comes too late for them passes it by.

        Args:
            exprs: Numbers; integers of 32 or 64 bits are given in 64.
            emit: Takes their registers.
        """
        passed = self.text.fresh("passed")
        emit(*(self._same(expr, passed) if self.is_from_data(expr) else self._plain(expr) for expr in exprs))
        if any(map(self.is_from_data, exprs)):
            self.text.jump(passed)
            self.text.start(passed)
            self.forget()

    def _plain(self, expr: PrimExpr) -> str:
        return self.index(expr) if expr.dtype in INDEX_DTYPES else self.value(expr)

    def _same(self, expr: PrimExpr, passed: str) -> str:
        """A value that one thread computes and tells the others; who does not get to know it goes to a label."""
        kind = _same_kind(expr)
        self._alone(lambda: tell(self.text, kind, self._plain(expr)))
        self._meet(last=False)
        return told(self.text, kind, passed)

    def _can_be_told(self, value: PrimExpr) -> bool:
        return not self.is_from_data(value) or can_be_told(_same_kind(value))

    def _let(self, stmt: LetStmt, value: str, last: bool) -> None:
        """A variable whose value is the same in all threads."""
        if self.is_from_data(stmt.value):
            self.from_data.add(stmt.var)
        (self.indices if stmt.var.dtype in INDEX_DTYPES else self.values)[stmt.var] = value
        self.uniform(stmt.body, last)

    def _repeat(self, stmt: For, low: str, extent: str) -> None:
        """A serial loop around parallel ones."""
        high = self.fold("add", low, extent)
        self.loop_over(stmt.loop_var, low, high, lambda: self.uniform(stmt.body, last=False))

    def _uniform_if(self, stmt: IfThenElse, condition: str) -> None:
        """Every thread takes the same branch."""
        text = self.text
        yes, no, after = (text.fresh(hint) for hint in ("if", "else", "endif"))
        text.branch(condition, yes, no)
        for label, part in ((yes, stmt.then_case), (no, stmt.else_case)):
            text.start(label)
            self.forget()
            if part is not None:
                self.uniform(part, last=False)
            text.jump(after)
        text.start(after)
        self.forget()

    def _share(self, stmt: For, low: str, extent: str) -> None:
        """A parallel loop, whose iterations are taken by whoever runs."""

        def run(begin: str, end: str) -> None:
            first, behind = self.fold("add", low, begin), self.fold("add", low, end)
            self.loop_over(stmt.loop_var, first, behind, lambda: self.statement(stmt.body))

        self._iterations(extent, pieces_worth(stmt), run)

    def _alone(self, emit: Callable[[], None]) -> None:
        """What one thread does, whichever: a loop of one iteration."""
        self._iterations("1", 1, lambda _begin, _end: emit())

    def _iterations(self, extent: str, worth: int, run: Callable[[str, str], None]) -> None:
        shared, self.shared_by_team = self.shared_by_team, False
        share_iterations(self, extent, worth, run, PLAIN)
        self.shared_by_team = shared

    def _meet(self, last: bool) -> None:
        if not last:
            meet(self.text)
            self.forget()

    # ---- memory and checks

    def allocate(self, stmt: Allocate) -> None:
        """Memory that the threads share comes from the caller; each thread's own is on its stack when small."""
        if self.shared_by_team:
            self.extents[stmt.buffer_var] = self.elements(stmt)
            self.items[stmt.buffer_var] = memory_bytes(stmt.dtype)
            self.pointers[stmt.buffer_var] = self._workspace(stmt, per_thread=False)
        else:
            super().allocate(stmt)

    def big_allocation(self, stmt: Allocate) -> str:
        """Memory from the caller; each thread has its part."""
        base = self._workspace(stmt, per_thread=True)
        if not self.together:
            return base
        offset = self.text.assign(f"mul nsw i64 {self.index(self.workspaces[-1].bytes)}, %thread")
        return self.text.assign(f"getelementptr inbounds i8, ptr {base}, i64 {offset}")

    def _workspace(self, stmt: Allocate, per_thread: bool) -> str:
        count: PrimExpr = IntImm("int64", memory_bytes(stmt.dtype))
        for extent in stmt.extents:
            count = mul(count, _as_int64(extent))
        known = {id(var) for var in (*self.func.params, *shape_variables(self.func))}
        if any(isinstance(part, Var) and id(part) not in known for part in post_order(count)):
            raise CodegenError(
                f"memory {stmt.buffer_var.name} of {self.name} has a size that depends on a loop",
                help="give it a constant size",
            )
        rounded = mul(floordiv(add(count, 63), 64), 64)
        if isinstance(count, IntImm):
            rounded = IntImm("int64", -(-count.value // 64) * 64)
        self.workspaces.append(Workspace(rounded, per_thread and self.together))
        return f"%w{len(self.workspaces) - 1}"

    def report_unless(self, condition: str, message: str | None = None) -> None:
        """Leave a message in the team's record unless the condition holds."""
        text = self.text
        symbol = self._message(message or "an index computed from data is outside of its buffer")
        bad, good = text.fresh("outside"), text.fresh("inside")
        text.branch(condition, good, bad)
        text.start(bad)
        at = text.assign(f"getelementptr inbounds i8, ptr %team, i64 {MESSAGE_AT}")
        text.do(f"store atomic ptr {symbol}, ptr {at} monotonic, align 8")
        text.jump(good)
        text.start(good)

    def _message(self, message: str) -> str:
        """The global with a text, which other strings of the program share."""
        words = f"kernel {self.func.attr('global_symbol') or self.name}: {message}"
        words = message if message.startswith(OTHERWISE) else words
        if words not in self.messages:
            data = "".join(
                char if char.isascii() and char.isprintable() and char not in '"\\' else "?" for char in words
            )
            symbol = f"@message{len(self.messages)}"
            self.messages[words] = f'{symbol} = internal constant [{len(data) + 1} x i8] c"{data}\\00"'
        return self.messages[words].split(" ", 1)[0]


def _same_kind(expr: PrimExpr) -> str:
    """The LLVM type in which the threads are told a value."""
    return "i64" if expr.dtype in INDEX_DTYPES else register_type(expr.dtype)


def _span(buffer: Buffer) -> PrimExpr:
    """How many elements a parameter's memory has, from its first element on."""
    one: PrimExpr = IntImm("int64", 1)
    shape = [_as_int64(extent) for extent in buffer.shape]
    if not buffer.strides:
        return reduce(mul, shape, one)
    steps = [mul(add(extent, -1), _as_int64(stride)) for extent, stride in zip(shape, buffer.strides, strict=True)]
    return reduce(add, steps, one)


def _with_parallel_loops(body: Stmt) -> set[int]:
    """The ids of the statements of a program that are parallel loops or contain any."""
    ids: set[int] = set()
    for part in post_order(body):
        is_parallel = isinstance(part, For) and part.kind == ForKind.PARALLEL
        if is_parallel or any(id(child) in ids for child in children(part)):
            ids.add(id(part))
    return ids


def _as_int64(value: PrimExpr) -> PrimExpr:
    if not is_integer(value.dtype):
        raise CodegenError(f"a size of dtype {value.dtype}: expected an integer")
    if isinstance(value, IntImm):
        return IntImm("int64", value.value)
    return value if value.dtype == "int64" else value.astype("int64")
