"""Small random tensor programs some of whose accesses leave their buffers, and what must become of them.

A program is refused when it is built, or its call fails, exactly where the reference interpreter says that it
touches what is outside; else it computes what the interpreter computes. It never touches what is outside.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.dtype import is_integer, to_numpy
from eutectic.ir.prim_expr import (
    EQ,
    LT,
    FloatImm,
    IntImm,
    PrimExpr,
    Ramp,
    Select,
    Var,
    broadcast,
    compare,
    floordiv,
    floormod,
    logical_and,
    logical_or,
    maximum,
    minimum,
)
from eutectic.support.errors import CallError, InternalError, OutOfBoundsError
from eutectic.target import Target
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.op import if_then_else
from eutectic.tir.stmt import Allocate, AssertStmt, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, Stmt, seq
from eutectic.tir.transform import (
    convert_ssa,
    lower_blocks,
    lower_init_block,
    plan_allocations,
    simplify_func,
    unroll_loop,
)

_KINDS: Final = ("serial", "serial", "serial", "parallel", "vectorized", "unrolled")
_MARGIN: Final = 64  # elements around an array that must stay as they are
_MARGIN_VALUE: Final = 77


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program.

    Attributes:
        kind: `refused`, `raised` (for some arguments), `equal`, or `wrong`.
        detail: What is wrong, or the message.
    """

    kind: str
    detail: str = ""


def program_with_accesses(rng: random.Random) -> PrimFunc:
    """A random program of a few statements, on buffers `A` and `I`, which it reads, and `B`, which it writes.

    Args:
        rng: Where choices come from; equal states give equal programs.
    """
    return _Maker(rng).program()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.index = rng.choice(("int32", "int32", "int64"))
        shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 2))]
        self.size = Var("m", self.index) if rng.random() < 0.25 else None
        self.a = Buffer("A", self.sizes(shape))
        self.b = Buffer("B", self.sizes([rng.randint(1, 6) for _ in range(rng.randint(1, 2))]))
        self.i = Buffer("I", self.sizes([rng.randint(1, 6)]), "int32")
        self.n = Var("n", self.index) if rng.random() < 0.4 else None
        self.loops: list[tuple[Var, int]] = []
        self.names: list[Var] = []
        self.readable = [self.a]
        self.count = 0

    def sizes(self, shape: Sequence[int]) -> list[Any]:
        out: list[Any] = [IntImm(self.index, size) for size in shape]
        if self.size is not None and self.rng.random() < 0.5:
            out[self.rng.randrange(len(out))] = self.size
        return out

    def program(self) -> PrimFunc:
        body = seq(*(self.statement(self.rng.randint(1, 3)) for _ in range(self.rng.randint(1, 2))))
        params = [self.a, self.i, self.b, *([] if self.n is None else [self.n])]
        known = {size for buffer in (self.a, self.i, self.b) for size in buffer.shape if isinstance(size, Var)}
        if self.size is not None and self.size not in known:
            params.append(Buffer("M", (self.size,)))
        return complete(PrimFunc(tuple(params), body))  # type: ignore[arg-type]  # the node takes buffers, too

    def fresh(self, hint: str) -> Var:
        self.count += 1
        return Var(f"{hint}{self.count}", self.index)

    # ---- statements

    def statement(self, depth: int) -> Stmt:
        makers: list[Callable[[int], Stmt]] = [self.loop, self.loop, self.loop, self.branch, self.let]
        if not self.loops:
            return self.loop(depth)
        if depth <= 0:
            return self.rng.choice((self.store, self.store, self.vector, self.block))()
        return self.rng.choice((*makers, self.memory, self.region, self.checked))(depth)

    def loop(self, depth: int) -> Stmt:
        var, extent = self.fresh("i"), self.rng.randint(1, 6)
        low = self.rng.choice((0, 0, 0, 1, -1))
        bound: Any = IntImm(self.index, extent)
        if self.size is not None and self.rng.random() < 0.3:
            bound = self.size
        self.loops.append((var, extent))
        body = self.statement(depth - 1)
        self.loops.pop()
        return For(var, IntImm(self.index, low), bound, self.rng.choice(_KINDS), body)

    def branch(self, depth: int) -> Stmt:
        other = self.statement(depth - 1) if self.rng.random() < 0.3 else None
        return IfThenElse(self.condition(), self.statement(depth - 1), other)

    def checked(self, depth: int) -> Stmt:
        var, extent = self.loops[-1]
        holds = compare(LT, var, IntImm(self.index, extent + 2))
        return AssertStmt(holds, "never", self.statement(depth - 1))  # type: ignore[arg-type]  # takes texts

    def let(self, depth: int) -> Stmt:
        var, value = self.fresh("v"), self.expr(2)
        self.names.append(var)
        body = self.statement(depth - 1)
        self.names.pop()
        return LetStmt(var, value, body)

    def memory(self, depth: int) -> Stmt:
        """A part of memory under another name, or memory of its own."""
        size = self.rng.randint(1, 5)
        if self.rng.random() < 0.5:
            own = Buffer("own", (IntImm(self.index, size),))
            fill = self.fresh("f")
            first = For(
                fill,
                IntImm(self.index, 0),
                IntImm(self.index, size),
                "serial",
                BufferStore(own, FloatImm("float32", 1.0), (fill,)),
            )
            self.readable.append(own)
            body = DeclBuffer(own, seq(first, self.statement(depth - 1)))
            self.readable.pop()
            return Allocate(own.data, "float32", own.shape, IntImm("bool", 1), body)
        offset = IntImm(self.index, self.rng.randint(0, 2))
        view = Buffer("view", (IntImm(self.index, size),), "float32", self.a.data, elem_offset=offset)
        self.readable.append(view)
        body = DeclBuffer(view, self.statement(depth - 1))
        self.readable.pop()
        return body

    def region(self, depth: int) -> Stmt:
        """A block with a name for a region."""
        extents = [self.rng.randint(1, 3) for _ in self.a.shape]
        part = Buffer("part", [IntImm(self.index, size) for size in extents], offset_factor=1)
        ranges = [Range(min=self.expr(1), extent=IntImm(self.index, size)) for size in extents]
        match = MatchBufferRegion(part, BufferRegion(self.a, tuple(ranges)))
        self.readable.append(part)
        body = self.statement(0)
        self.readable.pop()
        block = Block((), (), (), f"part{self.count}", body, match_buffers=(match,))
        return BlockRealize((), IntImm("bool", 1), block)

    def block(self) -> Stmt:
        axes = [(IterVar(Range(-1, extent + 9), self.fresh("ax"), "opaque"), var) for var, extent in self.loops]
        kept, names, self.names = self.loops, self.names, []
        self.loops = [(axis.var, extent) for (axis, _), (_, extent) in zip(axes, kept, strict=True)]
        self.count += 1
        inside = Block(tuple(axis for axis, _ in axes), (), (), f"block{self.count}", self.store())
        self.loops, self.names = kept, names
        predicate = self.condition() if self.rng.random() < 0.5 else IntImm("bool", 1)
        return BlockRealize(tuple(var for _, var in axes), predicate, inside)

    def store(self) -> Stmt:
        return BufferStore(self.b, self.value(), self.indices(self.b))

    def vector(self) -> Stmt:
        lanes = self.rng.choice((2, 4))
        mask = None
        if self.rng.random() < 0.5:
            lane = Ramp(IntImm(self.index, 0), IntImm(self.index, 1), lanes)
            mask = compare(LT, lane, broadcast(self.expr(1), lanes))
        stride = IntImm(self.index, self.rng.choice((1, 1, 2, 1000000)))

        def at(buffer: Buffer) -> tuple[PrimExpr, ...]:
            *outer, last = self.indices(buffer)
            return (*outer, Ramp(last, stride, lanes))

        source = self.rng.choice(self.readable)
        return BufferStore(self.b, BufferLoad(source, at(source), mask), at(self.b), mask)

    # ---- expressions

    def value(self) -> PrimExpr:
        load = self.load()
        match self.rng.randrange(5):
            case 0:
                return if_then_else(self.condition(), load, FloatImm("float32", 0.5))
            case 1:
                return Select(self.condition(), load, self.load())
            case 2:
                return load + self.load()
            case _:
                return load

    def load(self) -> PrimExpr:
        source = self.rng.choice(self.readable)
        return BufferLoad(source, self.indices(source))

    def condition(self) -> PrimExpr:
        left = compare(self.rng.choice((LT, LT, EQ)), self.expr(1), self.expr(1))
        match self.rng.randrange(4):
            case 0:
                return logical_and(left, compare(LT, self.expr(1), self.expr(1)))
            case 1:
                at = minimum(maximum(self.expr(1), 0), 0)
                return logical_or(left, compare(LT, BufferLoad(self.i, (at,)), IntImm("int32", 2)))
            case _:
                return left

    def indices(self, buffer: Buffer) -> tuple[PrimExpr, ...]:
        return tuple(self.subscript(size) for size in buffer.shape)

    def subscript(self, size: PrimExpr) -> PrimExpr:
        """An index of an axis, inside of it more often than not."""
        index = self.expr(2)
        match self.rng.randrange(8):
            case 0 | 1 | 2:
                return minimum(maximum(index, 0), size - 1)
            case 3 if isinstance(size, IntImm):
                return floormod(index, size)
            case 4:
                return self.rng.choice(self.loops)[0]
            case _:
                return index

    def expr(self, depth: int) -> PrimExpr:
        leaves: list[PrimExpr] = [*(var for var, _ in self.loops), *self.names]
        if depth <= 0 or self.rng.random() < 0.3:
            pick = self.rng.random()
            if pick < 0.15 or not leaves:
                return IntImm(self.index, self.rng.randint(-2, 6))
            if pick < 0.25 and self.n is not None:
                return self.n
            return self.rng.choice(leaves)
        a, b = self.expr(depth - 1), self.expr(depth - 1)
        constant = IntImm(self.index, self.rng.randint(1, 3))
        match self.rng.randrange(9):
            case 0 | 1:
                return a + b
            case 2:
                return a - b
            case 3:
                return a * constant
            case 4:
                return floordiv(a, constant)
            case 5:
                return floormod(a, constant)
            case 6:
                return minimum(a, b) if self.rng.random() < 0.5 else maximum(a, b)
            case 7:
                place = BufferLoad(self.i, (self.subscript(self.i.shape[0]),))
                return place if self.index == "int32" else place.astype(self.index)
            case _:
                return a


# ---- what becomes of them


def check(func: PrimFunc, seed: int = 0, threads: int = 2) -> Outcome:
    """Build a program and run it, next to the interpreter.

    Args:
        func: A program such as `program_with_accesses` makes; it must not write what another thread reads or writes.
        seed: Of the arguments.
        threads: Threads of a call.
    """
    rng = random.Random(seed)
    calls = [_arguments(func, rng, number) for number in range(4)]
    expected = [_interpreted(func, args) for args in calls]
    try:
        native = NativePrimFunc(func, Target("llvm"), threads)
    except OutOfBoundsError as error:
        of_access = error.message.startswith("index ")  # names that leave their memory are refused, used or not
        fine = of_access and not _is_conditional(func) and all(message is None for message, _ in expected)
        return Outcome("wrong", f"refused, but it is fine: {error}") if fine else Outcome("refused", str(error))
    raised = ""
    for args, (message, results) in zip(calls, expected, strict=True):
        margined = [_Margined(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        try:
            native(*(arg.array if isinstance(arg, _Margined) else arg for arg in margined))
            said = None
        except CallError as error:
            said = raised = str(error)
        if not all(arg.is_whole() for arg in margined if isinstance(arg, _Margined)):
            return Outcome("wrong", f"memory around an array changed: {message}")
        if said is not None and "of its memory" in said:
            continue  # so does a call: the declaration is looked at, be the memory used or not
        if said is None and message is not None:
            if "T.Select" in func.script():
                continue  # compiled code may leave out a value that is not chosen, and what it reads
            message, results = _interpreted(_without_blocks(func), args)  # so may it what decides nothing
        if (said is None) != (message is None):
            return Outcome("wrong", f"the interpreter says {message!r}, native code {said!r}")
        if said is None and not _has_order(func):
            for arg, want in zip(margined, results, strict=True):
                if isinstance(arg, _Margined) and not np.array_equal(arg.array, want, equal_nan=True):
                    return Outcome("wrong", f"results differ: {arg.array} instead of {want}")
    return Outcome("raised", raised) if raised else Outcome("equal")


def _without_blocks(func: PrimFunc) -> PrimFunc:
    """The program as it is when accesses still have an index per axis, and conditions are simplified."""
    for step in (convert_ssa, plan_allocations, lower_init_block, lower_blocks, unroll_loop, simplify_func):
        func = step(func)
    return func


def _is_conditional(func: PrimFunc) -> bool:
    """Whether some statements are not executed by every call, so that an access that always leaves may not happen."""
    text = func.script()
    return any(word in text for word in ("if ", "T.where", "if_then_else", "predicate=", " m)", "+ m)"))


def _has_order(func: PrimFunc) -> bool:
    """Whether the order of iterations is left open, so that results need not be those of the interpreter."""
    text = func.script()
    return "T.parallel" in text or "T.vectorized" in text


def _arguments(func: PrimFunc, rng: random.Random, number: int) -> list[Any]:
    size = rng.randint(1, 7)
    out: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            out.append(rng.choice((0, 1, 2, -1, 5, 10**6, -(10**6))) if number else 0)
            continue
        shape = [extent.value if isinstance(extent, IntImm) else size for extent in buffer.shape]
        if is_integer(buffer.dtype):
            values = [rng.choice((0, 1, 2, 3, 3, 9, -1) if number > 1 else (0, 1)) for _ in range(int(np.prod(shape)))]
            out.append(np.array(values, to_numpy(buffer.dtype)).reshape(shape))
        else:
            out.append(np.arange(int(np.prod(shape)), dtype=to_numpy(buffer.dtype)).reshape(shape))
    return out


def _interpreted(func: PrimFunc, args: Sequence[Any]) -> tuple[str | None, list[Any]]:
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    try:
        run(func, *copies)
    except (InternalError, CallError) as error:
        return error.message, copies
    return None, copies


class _Margined:
    """An array within a larger one that must stay as it is around it."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._whole = np.full(values.size + 2 * _MARGIN, _MARGIN_VALUE, values.dtype)
        self.array = self._whole[_MARGIN : _MARGIN + values.size].reshape(values.shape)
        self.array[...] = values

    def is_whole(self) -> bool:
        """Whether nothing was written beside the array."""
        around = (self._whole[:_MARGIN], self._whole[_MARGIN + self.array.size :])
        return all(bool((part == _MARGIN_VALUE).all()) for part in around)
