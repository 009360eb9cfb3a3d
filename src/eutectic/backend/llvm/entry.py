"""The native function of a plan: checks its arguments, has the arena, and runs the kernels with the team.

It has the calling convention of tvm-ffi, `int32 (ptr self, ptr args, int32 count, ptr result)`, with
inputs, then outputs, then the integers that are no sizes of an input. A wrong
argument is reported through `eutectic_raise(kind, message)` and the result -1.

Reference: https://tvm.apache.org/ffi, stable C ABI; layout of DLTensor in DLPack 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby

from eutectic.backend.llvm.ahead import next_constant
from eutectic.backend.llvm.entry_arena import RELEASE_TEXT, give_back_arena, take_arena
from eutectic.backend.llvm.entry_arguments import CheckedText, EntryArguments
from eutectic.backend.llvm.entry_stamps import stamp, stamp_by_first, stamps_text
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.shared_loop import meet, share_iterations
from eutectic.backend.llvm.types import register_type
from eutectic.backend.plan import (
    LIBRARY_TABLE,
    Bounds,
    CopyStep,
    KernelStep,
    LibraryStep,
    Plan,
    Step,
    Tensor,
    needs_barrier,
)
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.runtime.library import OTHER_THREAD, SPECIAL_VALUES
from eutectic.runtime.native import OtherThread
from eutectic.runtime.native_code import RAISE
from eutectic.runtime.team import RUN
from eutectic.support.errors import OTHERWISE, SpecialValues


def entry_symbol(name: str) -> str:
    """The symbol under which tvm-ffi finds a function."""
    return f"__tvm_ffi_{name}"


def entry_text(plan: Plan, machine: Machine, bounds: Mapping[ScalarVar, Bounds], timed: bool = False) -> str:
    """The LLVM module of a plan.

    It has variables that are set when it is loaded: `constants`, an array of pointers; `libraries`, for each library
    kernel the function and its first argument, unless a call is given such a table because their sizes vary; `team`,
    the team's record; `threads`, how many threads a call uses. Where it is timed, one step begins when the last one
    has ended, and the variable `stamps` has the times at which that was.
    """
    writer = _Entry(plan, machine, bounds, timed)
    checks = writer.entry()
    constants, libraries = max(len(plan.constants), 1), max(2 * len(plan.libraries), 1)
    lines = [
        f'target triple = "{machine.triple}"',
        "",
        f"@constants = global [{constants} x ptr] zeroinitializer",
        f"@libraries = global [{libraries} x ptr] zeroinitializer",
        "@team = global ptr null",
        "@threads = global i64 1",
        "@spare = internal global ptr null",
        *writer.out.messages,
        "",
        "declare ptr @aligned_alloc(i64, i64)",
        "declare void @free(ptr)",
        f"declare void @{RAISE}(ptr, ptr)",
        f"declare ptr @{RUN}(ptr, ptr, ptr, i64)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        *writer.declared().values(),
        "",
        *RELEASE_TEXT,
        *(stamps_text(len(plan.timed)) if timed else ()),
        *writer.works,
        f"define i32 @{entry_symbol(plan.name)}(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {{",
        checks,
        "}",
        "",
    ]
    return "\n".join(lines)


class _Entry:
    """The frame is an array of words: pointers of inputs, of outputs, of the arena, then values of symbols."""

    def __init__(self, plan: Plan, machine: Machine, bounds: Mapping[ScalarVar, Bounds], timed: bool) -> None:
        self.plan, self.machine, self.out = plan, machine, CheckedText()
        self.timed, self.ended = timed, 0  # whether times are taken, and the steps so far that have one
        self.arguments = EntryArguments(plan, bounds, self.out)
        self.work_text = FunctionText()
        self.works: list[str] = []  # the functions that the team's threads run
        self._work_declared: dict[str, str] = {}
        self.symbols = [*self._defined(), *plan.integers]

    def _defined(self) -> list[ScalarVar]:
        """Symbols that are sizes of an input."""
        symbols: dict[ScalarVar, None] = {}
        for tensor in self.plan.inputs:
            for size in tensor.dims:
                if isinstance(size, ScalarVar):
                    symbols[size] = None
        return list(symbols)

    def declared(self) -> dict[str, str]:
        """Declarations of the functions that are called."""
        return {**self._work_declared, **self.out.text.declared}

    # ---- the work of one thread

    def _work(self, steps: Sequence[KernelStep | CopyStep]) -> str:
        """Write the function that each thread of the team runs for some steps; gives its name."""
        text = self.work_text = FunctionText()
        plan = self.plan
        emitter = ExprEmitter(text, self.machine.lanes())
        emitter.wraps = True  # sizes may be any numbers until they were looked at
        for i, symbol in enumerate(self.symbols):
            emitter.indices[symbol] = self._word(text, len(plan.inputs) + len(plan.outputs) + 1 + i, "i64")
        arena = self._word(text, len(plan.inputs) + len(plan.outputs), "ptr")
        waiting: list[Step] = []
        for step in steps:
            if needs_barrier(waiting, step):
                meet(text)
                waiting = []
            waiting.append(step)
            if isinstance(step, CopyStep):
                self._alone(emitter, partial(self._copy, emitter, step, arena))
            elif step.kernel.parallel:
                self._call(emitter, step, arena, self._constant_after(step))
            else:
                self._alone(emitter, partial(self._call, emitter, step, arena, None))
            if self.timed:
                meet(text)
                waiting = []
                stamp_by_first(text, self._ended(step))
        text.do("ret void")
        name = f"@work{len(self.works)}"
        head = f"define internal void {name}(ptr %frame, i64 %thread, i64 %threads, ptr %team) nounwind {{"
        self.works.append("\n".join([head, text.body(), "}", ""]))
        self._work_declared.update(text.declared)
        return name

    def _constant_after(self, step: KernelStep) -> Tensor | None:
        """What is worth asking for during a step; at the end of a call that is what the next call begins with."""
        steps = self.plan.steps
        place = next(i for i, other in enumerate(steps, 1) if other is step)
        return next_constant([*steps[place:], *steps[:place]])

    def _ended(self, step: Step) -> int:
        """Which time is that of the end of a step."""
        self.ended += not isinstance(step, CopyStep)
        return self.ended

    def _alone(self, emitter: ExprEmitter, emit: Callable[[], None]) -> None:
        """What one thread does, whichever."""
        share_iterations(emitter, "1", 1, lambda _begin, _end: emit())

    def _word(self, text: FunctionText, number: int, kind: str, frame: str = "%frame") -> str:
        at = text.assign(f"getelementptr inbounds i64, ptr {frame}, i64 {number}")
        return text.assign(f"load {kind}, ptr {at}, align 8")

    def _pointer(self, emitter: ExprEmitter, tensor: Tensor, arena: str) -> str:
        """A pointer to a tensor, in the team's work; made anew at each use, as not every block dominates the next."""
        return self._frame_pointer(emitter, "%frame", tensor, arena)

    def _frame_pointer(self, emitter: ExprEmitter, frame: str, tensor: Tensor, arena: str) -> str:
        whole, start = tensor.memory
        begin = self._beginning(emitter, frame, whole, arena)
        return emitter.text.assign(f"getelementptr inbounds i8, ptr {begin}, i64 {start}") if start else begin

    def _beginning(self, emitter: ExprEmitter, frame: str, tensor: Tensor, arena: str) -> str:
        """A pointer to a tensor that has memory of its own."""
        text, plan = emitter.text, self.plan
        if tensor.home == "input":
            return self._word(text, tensor.number, "ptr", frame)
        if tensor.home == "output":
            return self._word(text, len(plan.inputs) + tensor.number, "ptr", frame)
        if tensor.home == "constant":
            at = text.assign(f"getelementptr inbounds ptr, ptr @constants, i64 {tensor.number}")
            return text.assign(f"load ptr, ptr {at}, align 8")
        assert tensor.offset is not None
        return text.assign(f"getelementptr inbounds i8, ptr {arena}, i64 {emitter.index(tensor.offset)}")

    def _copy(self, emitter: ExprEmitter, step: CopyStep, arena: str) -> None:
        source, target = (self._pointer(emitter, tensor, arena) for tensor in step.tensors)
        size = emitter.index(step.source.elements * item_bytes(step.source.dtype))
        self.work_text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def _call(self, emitter: ExprEmitter, step: KernelStep, arena: str, ahead: Tensor | None) -> None:
        args = [("ptr", self._pointer(emitter, tensor, arena)) for tensor in step.tensors]
        for value in step.scalars:
            kind = register_type(value.dtype)
            args.append((kind, emitter.index(value) if kind == "i64" else emitter.value(value)))
        args += [("i64", emitter.index(value)) for value in step.shapes]
        args += [("ptr", self._pointer(emitter, tensor, arena)) for tensor in step.workspaces]
        team = [("i64", "%thread"), ("i64", "%threads"), ("ptr", "%team")]
        after = [("ptr", "@constants"), ("i64", "0")]
        if ahead is not None:
            after = [("ptr", self._pointer(emitter, ahead, arena)), ("i64", emitter.index(ahead.bytes))]
        self.work_text.call("void", step.kernel.symbol, [*args, *team, *after])
        emitter.forget()

    # ---- the way in

    def entry(self) -> str:
        """Body of the function with the calling convention of tvm-ffi."""
        text, plan = self.out.text, self.plan
        emitter = ExprEmitter(text, self.machine.lanes())
        emitter.wraps = True  # sizes may be any numbers until they were looked at
        tensors = [*plan.inputs, *plan.outputs]
        count = len(tensors) + len(plan.integers)
        self.out.require(f"icmp eq i32 %count, {count}", f"{plan.name} takes {count} arguments: inputs, then outputs")
        records = [self.arguments.tensor_argument(i, tensor) for i, tensor in enumerate(tensors)]
        for i, symbol in enumerate(plan.integers):
            emitter.indices[symbol] = self.arguments.integer_argument(len(tensors) + i, symbol)
        for record, tensor in zip(records, tensors, strict=True):
            self.arguments.bind_symbols(emitter, record, tensor)
        for record, tensor in zip(records, tensors, strict=True):
            self.arguments.check_shape(emitter, record, tensor)
        self.arguments.check_sizes(emitter)
        pairs = zip(records, tensors, strict=True)
        words = [self.arguments.data(emitter, record, tensor) for record, tensor in pairs]
        words.append(take_arena(self.out, emitter, plan))
        words += [emitter.indices[symbol] for symbol in self.symbols]
        frame = text.alloca("i64", len(words))
        for i, word in enumerate(words):
            kind = "ptr" if i <= len(tensors) else "i64"
            text.do(
                f"store {kind} {word}, ptr {text.assign(f'getelementptr inbounds i64, ptr {frame}, i64 {i}')}, align 8"
            )
        self._steps(emitter, frame, words[len(tensors)])
        return text.body()

    def _steps(self, emitter: ExprEmitter, frame: str, arena: str) -> None:
        """Everything in order: what the team does is one call for neighbouring steps, libraries are called between."""
        text = self.out.text
        if self.timed:
            stamp(text, 0)
        for is_library, steps in groupby(self.plan.steps, lambda step: isinstance(step, LibraryStep)):
            if is_library:
                for step in steps:
                    assert isinstance(step, LibraryStep)
                    self._library(emitter, frame, step, arena)
                    if self.timed:
                        stamp(text, self._ended(step))
            else:
                self._together([step for step in steps if not isinstance(step, LibraryStep)], frame, arena)
        give_back_arena(self.out.text, arena)
        text.do("ret i32 0")

    def _together(self, steps: Sequence[KernelStep | CopyStep], frame: str, arena: str) -> None:
        text = self.out.text
        work = self._work(steps)
        team = text.assign("load ptr, ptr @team, align 8")
        threads = text.assign("load i64, ptr @threads, align 8") if _is_shared(steps) else "1"
        said = text.assign(f"call ptr @{RUN}(ptr {team}, ptr {work}, ptr {frame}, i64 {threads})")
        fine, bad = text.fresh("fine"), text.fresh("failed")
        text.branch(text.assign(f"icmp eq ptr {said}, null"), fine, bad)
        text.start(bad)
        give_back_arena(self.out.text, arena)
        first = text.assign(f"load i8, ptr {said}, align 1")  # other messages begin with the word "kernel"
        is_other = text.assign(f"icmp eq i8 {first}, {ord(OTHERWISE[0])}")
        kinds = (self.out.string(kind.__name__) for kind in (SpecialValues, IndexError))
        kind = text.assign("select i1 {}, ptr {}, ptr {}".format(is_other, *kinds))
        text.do(f"call void @{RAISE}(ptr {kind}, ptr {said})")
        text.do("ret i32 -1")
        text.start(fine)

    def _library(self, emitter: ExprEmitter, frame: str, step: LibraryStep, arena: str) -> None:
        text = self.out.text
        table = text.alloca("ptr", len(step.tensors))
        for i, tensor in enumerate(step.tensors):
            at = text.assign(f"getelementptr inbounds ptr, ptr {table}, i64 {i}")
            text.do(f"store ptr {self._frame_pointer(emitter, frame, tensor, arena)}, ptr {at}, align 8")
        space = self._frame_pointer(emitter, frame, step.workspaces[0], arena) if step.workspaces else "null"
        known = "@libraries"
        if self.plan.prepared:
            known = text.assign(f"inttoptr i64 {emitter.indices[LIBRARY_TABLE]} to ptr")
        run, own = (
            text.assign(f"load ptr, ptr {text.assign(f'getelementptr ptr, ptr {known}, i64 {number}')}, align 8")
            for number in (2 * step.number, 2 * step.number + 1)
        )
        status = text.assign(f"call i32 {run}(ptr {own}, ptr {table}, ptr {space})")
        fine, bad = text.fresh("fine"), text.fresh("failed")
        text.branch(text.assign(f"icmp eq i32 {status}, 0"), fine, bad)
        text.start(bad)
        give_back_arena(self.out.text, arena)
        kind = self.out.string("RuntimeError")
        for number, error in ((SPECIAL_VALUES, SpecialValues), (OTHER_THREAD, OtherThread)):
            is_this = text.assign(f"icmp eq i32 {status}, {number}")
            kind = text.assign(f"select i1 {is_this}, ptr {self.out.string(error.__name__)}, ptr {kind}")
        text.do(f"call void @{RAISE}(ptr {kind}, ptr {self.out.string(step.name)})")
        text.do("ret i32 -1")
        text.start(fine)


def _is_shared(steps: Sequence[KernelStep | CopyStep]) -> bool:
    """Whether there is work for several threads; calling them takes part of a microsecond."""
    copies = sum(isinstance(step, CopyStep) for step in steps)
    return copies > 1 or any(isinstance(step, KernelStep) and step.kernel.parallel for step in steps)
