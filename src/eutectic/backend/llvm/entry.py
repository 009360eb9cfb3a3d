"""The native function of a plan: checks its arguments, has the arena, and runs the kernels with the team.

It has the calling convention of tvm-ffi, `int32 (ptr self, ptr args, int32 count, ptr result)`, with
inputs, then outputs, then the integers that are no sizes of an input. A wrong
argument is reported through `eutectic_raise(kind, message)` and the result -1.

Reference: https://tvm.apache.org/ffi, stable C ABI; layout of DLTensor in DLPack 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.plan import (
    LIBRARY_TABLE,
    CopyStep,
    KernelStep,
    LibraryStep,
    Plan,
    Step,
    Tensor,
    arena_tensors,
    needs_barrier,
    sizes_text,
)
from eutectic.backend.llvm.requirements import size_flags, symbolic_sizes
from eutectic.backend.llvm.types import register_type
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.runtime.library import OTHER_THREAD, SPECIAL_VALUES
from eutectic.runtime.native import OtherThread, SpecialValues
from eutectic.runtime.native_code import RAISE
from eutectic.runtime.team import BARRIER, RUN

_CODES: Final = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}  # DLDataTypeCode
_TENSOR_POINTER, _TENSOR_OBJECT, _INTEGER = 7, 70, 1  # type indices of tvm-ffi
_OBJECT_HEADER: Final = 24


@dataclass(frozen=True)
class Bounds:
    """Least and largest value of a symbolic size; None where there is no limit."""

    low: int = 0
    high: int | None = None


def entry_symbol(name: str) -> str:
    """The symbol under which tvm-ffi finds a function."""
    return f"__tvm_ffi_{name}"


def entry_text(plan: Plan, machine: Machine, bounds: Mapping[ScalarVar, Bounds]) -> str:
    """The LLVM module of a plan.

    It has variables that are set when it is loaded: `constants`, an array of pointers; `libraries`, for each library
    kernel the function and its first argument, unless a call is given such a table because their sizes vary; `team`,
    the team's record; `threads`, how many threads a call uses.
    """
    writer = _Entry(plan, machine, bounds)
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
        *writer.messages,
        "",
        "declare ptr @aligned_alloc(i64, i64)",
        "declare void @free(ptr)",
        f"declare void @{RAISE}(ptr, ptr)",
        f"declare ptr @{RUN}(ptr, ptr, ptr, i64)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        *writer.declared().values(),
        "",
        "; Frees the memory that is kept for the next call.",
        "define void @release() nounwind {",
        "  %kept = atomicrmw xchg ptr @spare, ptr null acquire",
        "  %none = icmp eq ptr %kept, null",
        "  br i1 %none, label %done, label %drop",
        "drop:",
        "  %base = getelementptr i8, ptr %kept, i64 -64",
        "  call void @free(ptr %base)",
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
        *writer.works,
        f"define i32 @{entry_symbol(plan.name)}(ptr %self, ptr %args, i32 %count, ptr %result) nounwind {{",
        checks,
        "}",
        "",
    ]
    return "\n".join(lines)


class _Entry:
    """The frame is an array of words: pointers of inputs, of outputs, of the arena, then values of symbols."""

    def __init__(self, plan: Plan, machine: Machine, bounds: Mapping[ScalarVar, Bounds]) -> None:
        self.plan, self.machine, self.bounds = plan, machine, bounds
        self.work_text, self.entry_text = FunctionText(), FunctionText()
        self.works: list[str] = []  # the functions that the team's threads run
        self._work_declared: dict[str, str] = {}
        self.messages: list[str] = []
        self.symbols = [*self._defined(), *plan.integers]
        self._strings: dict[str, str] = {}

    def _defined(self) -> list[ScalarVar]:
        """Symbols that are sizes of an input."""
        found: dict[ScalarVar, None] = {}
        for tensor in self.plan.inputs:
            for size in tensor.dims:
                if isinstance(size, ScalarVar):
                    found[size] = None
        return list(found)

    def declared(self) -> dict[str, str]:
        """Declarations of the functions that are called."""
        return {**self._work_declared, **self.entry_text.declared}

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
                text.call("void", BARRIER, [("ptr", "%team"), ("i64", "%threads")])
                waiting = []
            waiting.append(step)
            if isinstance(step, CopyStep):
                self._alone(emitter, partial(self._copy, emitter, step, arena))
            elif step.kernel.parallel:
                self._call(emitter, step, arena)
            else:
                self._alone(emitter, partial(self._call, emitter, step, arena))
        text.do("ret void")
        name = f"@work{len(self.works)}"
        head = f"define internal void {name}(ptr %frame, i64 %thread, i64 %threads, ptr %team) nounwind {{"
        self.works.append("\n".join([head, text.body(), "}", ""]))
        self._work_declared.update(text.declared)
        return name

    def _alone(self, emitter: ExprEmitter, emit: Callable[[], None]) -> None:
        text = self.work_text
        mine, after = text.fresh("alone"), text.fresh("together")
        text.branch(text.assign("icmp eq i64 %thread, 0"), mine, after)
        text.start(mine)
        emitter.forget()
        emit()
        text.jump(after)
        text.start(after)
        emitter.forget()

    def _word(self, text: FunctionText, number: int, kind: str, frame: str = "%frame") -> str:
        at = text.assign(f"getelementptr inbounds i64, ptr {frame}, i64 {number}")
        return text.assign(f"load {kind}, ptr {at}, align 8")

    def _pointer(self, emitter: ExprEmitter, tensor: Tensor, arena: str) -> str:
        """A pointer to a tensor, in the team's work; made anew at each use, as not every block dominates the next."""
        return self._frame_pointer(emitter, "%frame", tensor, arena)

    def _frame_pointer(self, emitter: ExprEmitter, frame: str, tensor: Tensor, arena: str) -> str:
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

    def _call(self, emitter: ExprEmitter, step: KernelStep, arena: str) -> None:
        args = [("ptr", self._pointer(emitter, tensor, arena)) for tensor in step.tensors]
        for value in step.scalars:
            kind = register_type(value.dtype)
            args.append((kind, emitter.index(value) if kind == "i64" else emitter.value(value)))
        args += [("i64", emitter.index(value)) for value in step.shapes]
        args += [("ptr", self._pointer(emitter, tensor, arena)) for tensor in step.workspaces]
        team = [("i64", "%thread"), ("i64", "%threads"), ("ptr", "%team")]
        self.work_text.call("void", step.kernel.symbol, [*args, *team])
        emitter.forget()

    # ---- the way in

    def entry(self) -> str:
        """Body of the function with the calling convention of tvm-ffi."""
        text, plan = self.entry_text, self.plan
        emitter = ExprEmitter(text, self.machine.lanes())
        emitter.wraps = True  # sizes may be any numbers until they were looked at
        tensors = [*plan.inputs, *plan.outputs]
        count = len(tensors) + len(plan.integers)
        self._require(f"icmp eq i32 %count, {count}", f"{plan.name} takes {count} arguments: inputs, then outputs")
        records = [self._tensor_argument(i, tensor) for i, tensor in enumerate(tensors)]
        for i, symbol in enumerate(plan.integers):
            emitter.indices[symbol] = self._integer_argument(len(tensors) + i, symbol)
        for record, tensor in zip(records, tensors, strict=True):
            self._bind_symbols(emitter, record, tensor)
        for record, tensor in zip(records, tensors, strict=True):
            self._check_shape(emitter, record, tensor)
        self._check_sizes(emitter)
        words = [self._data(record) for record in records]
        words.append(self._arena(emitter))
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
        text = self.entry_text
        for is_library, steps in groupby(self.plan.steps, lambda step: isinstance(step, LibraryStep)):
            if is_library:
                for step in steps:
                    assert isinstance(step, LibraryStep)
                    self._library(emitter, frame, step, arena)
            else:
                self._together([step for step in steps if not isinstance(step, LibraryStep)], frame, arena)
        self._give_back(arena)
        text.do("ret i32 0")

    def _together(self, steps: Sequence[KernelStep | CopyStep], frame: str, arena: str) -> None:
        text = self.entry_text
        work = self._work(steps)
        team, threads = text.assign("load ptr, ptr @team, align 8"), text.assign("load i64, ptr @threads, align 8")
        said = text.assign(f"call ptr @{RUN}(ptr {team}, ptr {work}, ptr {frame}, i64 {threads})")
        fine, bad = text.fresh("fine"), text.fresh("failed")
        text.branch(text.assign(f"icmp eq ptr {said}, null"), fine, bad)
        text.start(bad)
        self._give_back(arena)
        text.do(f"call void @{RAISE}(ptr {self._string('IndexError')}, ptr {said})")
        text.do("ret i32 -1")
        text.start(fine)

    def _library(self, emitter: ExprEmitter, frame: str, step: LibraryStep, arena: str) -> None:
        text = self.entry_text
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
        self._give_back(arena)
        kind = self._string("RuntimeError")
        for number, error in ((SPECIAL_VALUES, SpecialValues), (OTHER_THREAD, OtherThread)):
            is_this = text.assign(f"icmp eq i32 {status}, {number}")
            kind = text.assign(f"select i1 {is_this}, ptr {self._string(error.__name__)}, ptr {kind}")
        text.do(f"call void @{RAISE}(ptr {kind}, ptr {self._string(step.name)})")
        text.do("ret i32 -1")
        text.start(fine)

    def _string(self, value: str) -> str:
        if value not in self._strings:
            name = f"@text{len(self._strings)}"
            data = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in value)
            self.messages.append(f'{name} = internal constant [{len(data) + 1} x i8] c"{data}\\00"')
            self._strings[value] = name
        return self._strings[value]

    def _require(self, condition: str, message: str, kind: str = "ValueError") -> None:
        text = self.entry_text
        good, bad = text.fresh("good"), text.fresh("bad")
        text.branch(text.assign(condition), good, bad)
        text.start(bad)
        text.do(f"call void @{RAISE}(ptr {self._string(kind)}, ptr {self._string(message)})")
        text.do("ret i32 -1")
        text.start(good)

    def _field(self, base: str, offset: int, kind: str) -> str:
        text = self.entry_text
        at = text.assign(f"getelementptr inbounds i8, ptr {base}, i64 {offset}") if offset else base
        return text.assign(f"load {kind}, ptr {at}, align {4 if kind == 'i32' else 8}")

    def _tensor_argument(self, number: int, tensor: Tensor) -> str:
        """A pointer to the DLTensor of an argument, after its kind, device, dtype and rank were checked."""
        text = self.entry_text
        kind = self._field("%args", 16 * number, "i32")
        value = self._field("%args", 16 * number + 8, "ptr")
        plain = text.assign(f"icmp eq i32 {kind}, {_TENSOR_POINTER}")
        wrapped = text.assign(f"icmp eq i32 {kind}, {_TENSOR_OBJECT}")
        what = f"{self.plan.name}: argument {number} ({tensor.name})"
        self._require(f"or i1 {plain}, {wrapped}", f"{what} must be a tensor", "TypeError")
        inner = text.assign(f"getelementptr inbounds i8, ptr {value}, i64 {_OBJECT_HEADER}")
        record = text.assign(f"select i1 {plain}, ptr {value}, ptr {inner}")
        device = self._field(record, 8, "i32")
        cpu = text.assign(f"icmp eq i32 {device}, 1")
        pinned = text.assign(f"icmp eq i32 {device}, 3")
        self._require(f"or i1 {cpu}, {pinned}", f"{what} must be in the memory of the CPU")
        given = self._field(record, 20, "i32")
        matches = text.assign(f"icmp eq i32 {given}, {_dlpack_dtype(tensor.dtype)}")
        if tensor.dtype == "bfloat16":  # NumPy hands its bits over as integers
            bits = text.assign(f"icmp eq i32 {given}, {_dlpack_dtype('uint16')}")
            matches = text.assign(f"or i1 {matches}, {bits}")
        self._require(f"icmp eq i1 {matches}, true", f"{what} must be {tensor.dtype}", "TypeError")
        self._require(
            f"icmp eq i32 {self._field(record, 16, 'i32')}, {len(tensor.dims)}",
            f"{what} must have {len(tensor.dims)} axes",
        )
        return record

    def _integer_argument(self, number: int, symbol: ScalarVar) -> str:
        kind = self._field("%args", 16 * number, "i32")
        self._require(
            f"icmp eq i32 {kind}, {_INTEGER}", f"{self.plan.name}: {symbol.name} must be an integer", "TypeError"
        )
        return self._field("%args", 16 * number + 8, "i64")

    def _size(self, record: str, axis: int) -> str:
        return self._field(self._field(record, 24, "ptr"), 8 * axis, "i64")

    def _bind_symbols(self, emitter: ExprEmitter, record: str, tensor: Tensor) -> None:
        if tensor.home != "input":
            return
        for axis, size in enumerate(tensor.dims):
            if isinstance(size, ScalarVar) and size not in emitter.indices:
                given = emitter.indices[size] = self._size(record, axis)
                limits = self.bounds.get(size, Bounds())
                top = "more" if limits.high is None else str(limits.high)
                message = (
                    f"{self.plan.name}: {tensor.name} has a size on axis {axis} outside of the range of {size.name}, "
                    f"{limits.low} to {top}"
                )
                self._require(f"icmp sge i64 {given}, {limits.low}", message)
                if limits.high is not None:
                    self._require(f"icmp sle i64 {given}, {limits.high}", message)

    def _check_shape(self, emitter: ExprEmitter, record: str, tensor: Tensor) -> None:
        """Sizes, and that elements lie one after another."""
        text = self.entry_text
        what = f"{self.plan.name}: {tensor.name} must have shape ({sizes_text(tensor.dims)})"
        for axis, size in enumerate(tensor.dims):
            self._require(f"icmp eq i64 {self._size(record, axis)}, {emitter.index(size)}", what)
        if not tensor.dims:
            return
        strides = self._field(record, 32, "ptr")
        look, done = text.fresh("strides"), text.fresh("compact")
        text.branch(text.assign(f"icmp eq ptr {strides}, null"), done, look)
        text.start(look)
        known = emitter.remembered()
        empty = "false"  # where there are no elements, strides say nothing
        for size in tensor.dims:
            none = text.assign(f"icmp eq i64 {emitter.index(size)}, 0")
            empty = text.assign(f"or i1 {empty}, {none}")
        expected = "1"
        for axis in reversed(range(len(tensor.dims))):
            extent = emitter.index(tensor.dims[axis])
            same = text.assign(f"icmp eq i64 {self._field(strides, 8 * axis, 'i64')}, {expected}")
            single = text.assign(f"icmp sle i64 {extent}, 1")
            fits = text.assign(f"or i1 {same}, {single}")
            self._require(f"or i1 {fits}, {empty}", f"{self.plan.name}: {tensor.name} must be C-contiguous")
            expected = emitter.fold("mul", expected, extent)
        text.jump(done)
        text.start(done)
        emitter.restore(known)

    def _data(self, record: str) -> str:
        text = self.entry_text
        offset = self._field(record, 40, "i64")
        return text.assign(f"getelementptr inbounds i8, ptr {self._field(record, 0, 'ptr')}, i64 {offset}")

    def _check_sizes(self, emitter: ExprEmitter) -> None:
        """That sizes agree, and that all memory has one."""
        name = self.plan.name
        for item in self.plan.agreements:
            given, wanted = emitter.index(item.given), emitter.index(item.wanted)
            self._require(f"icmp eq i64 {given}, {wanted}", f"{name}: {item.message}")
        for size in symbolic_sizes(tensor.bytes for tensor in arena_tensors(self.plan)):
            fits, right = size_flags(emitter, size)
            self._require(f"icmp eq i1 {fits}, true", f"{name}: not enough memory for intermediates", "MemoryError")
            self._require(f"icmp eq i1 {right}, true", f"{name}: an intermediate has a size that no memory has")

    def _arena(self, emitter: ExprEmitter) -> str:
        """Memory for intermediates: that of an earlier call when it is free and large enough."""
        text = self.entry_text
        if isinstance(self.plan.arena_bytes, IntImm) and self.plan.arena_bytes.value == 0:
            return "null"
        size = emitter.index(self.plan.arena_bytes)
        found = text.assign("atomicrmw xchg ptr @spare, ptr null acquire")
        names = [text.fresh(hint) for hint in ("spare", "small", "fresh", "ready")]
        text.branch(text.assign(f"icmp eq ptr {found}, null"), names[2], names[0])
        text.start(names[0])  # its size is in the words before it
        have = text.assign(f"load i64, ptr {text.assign(f'getelementptr i8, ptr {found}, i64 -64')}, align 8")
        text.branch(text.assign(f"icmp sge i64 {have}, {size}"), names[3], names[1])
        text.start(names[1])
        text.do(f"call void @free(ptr {text.assign(f'getelementptr i8, ptr {found}, i64 -64')})")
        text.jump(names[2])
        text.start(names[2])
        whole = emitter.fold("add", size, "64")
        rounded = text.assign(f"and i64 {text.assign(f'add i64 {whole}, 63')}, -64")
        base = text.assign(f"call ptr @aligned_alloc(i64 64, i64 {rounded})")
        self._require(
            f"icmp ne ptr {base}, null", f"{self.plan.name}: not enough memory for intermediates", "MemoryError"
        )
        text.do(f"store i64 {size}, ptr {base}, align 8")
        made = text.assign(f"getelementptr inbounds i8, ptr {base}, i64 64")
        block = text.block
        text.jump(names[3])
        text.start(names[3])
        return text.assign(f"phi ptr [ {found}, %{names[0]} ], [ {made}, %{block} ]")

    def _give_back(self, arena: str) -> None:
        if arena == "null":
            return
        text = self.entry_text
        other = text.assign(f"atomicrmw xchg ptr @spare, ptr {arena} release")
        drop, kept = text.fresh("drop"), text.fresh("kept")
        text.branch(text.assign(f"icmp eq ptr {other}, null"), kept, drop)
        text.start(drop)
        text.do(f"call void @free(ptr {text.assign(f'getelementptr i8, ptr {other}, i64 -64')})")
        text.jump(kept)
        text.start(kept)


def _dlpack_dtype(dtype: str) -> int:
    """The four bytes of a DLDataType as a little-endian integer."""
    if dtype == "bool":
        return _CODES["bool"] | 8 << 8 | 1 << 16
    kind = dtype.rstrip("0123456789")
    return _CODES[kind] | int(dtype[len(kind) :]) << 8 | 1 << 16
