"""Expressions to LLVM instructions: arithmetic as the reference interpreter defines it, lane by lane.

Indices are computed in 64 bits without wrap-around, whatever their dtype: so LLVM
can combine them into addresses, and buffers may have more than 2^31 elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eutectic.backend.llvm import arithmetic, casts
from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.lane_masks import lanes_and_bound, lanes_before
from eutectic.backend.llvm.types import constant, register_type, splat, vector
from eutectic.ir.prim_expr import (
    Add,
    And,
    BinaryExpr,
    Broadcast,
    Call,
    Cast,
    Comparison,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    element_dtype,
    lanes_of,
)
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.expr import Let

INDEX_DTYPES: Final = ("int32", "int64")
_OPAQUE: Final = ("tir.call_extern", "tir.call_pure_extern", "tir.checked_index")
Intrinsic = Callable[["ExprEmitter", Call], str]
_INTRINSICS: Final[dict[str, Intrinsic]] = {}
Load = Callable[["ExprEmitter", BufferLoad], str]
_LOAD: list[Load] = []


def intrinsic(*names: str) -> Callable[[Intrinsic], Intrinsic]:
    """Decorator: the function emits calls of these operators (names without `tir.`)."""

    def register(function: Intrinsic) -> Intrinsic:
        for name in names:
            _INTRINSICS[name] = function
        return function

    return register


def loads_with(function: Load) -> Load:
    """Decorator: the function emits loads."""
    _LOAD[:] = [function]
    return function


class ExprEmitter:
    """Emits expressions into a function.

    Attributes:
        text: Where instructions go.
        indices: 64-bit registers of scalar int32 and int64 variables.
        values: Registers of all other variables.
        pointers: Registers of the memory that buffers' data variables point to.
        extents: Number of elements behind a data variable, as a 64-bit register; for checks.
        items: Bytes of one of these elements.
        from_data: Variables whose values come from memory.
        machine_lanes: Elements of 32 bits in one vector register.
        fence: The constraint of inline assembly for vector registers; empty where there is none.
        wraps: Whether indices may be any numbers, so that their arithmetic wraps around.
    """

    def __init__(self, text: FunctionText, machine_lanes: int, fence: str = "") -> None:
        self.wraps = False
        self.text, self.machine_lanes, self.fence = text, machine_lanes, fence
        self.indices: dict[Var, str] = {}
        self.values: dict[Var, str] = {}
        self.pointers: dict[Var, str] = {}
        self.extents: dict[Var, str] = {}
        self.items: dict[Var, int] = {}
        self.from_data: set[Var] = set()
        self._memo: dict[int, tuple[PrimExpr, str]] = {}
        self._index_memo: dict[int, tuple[PrimExpr, str]] = {}

    # ---- scopes of what is known already

    def forget(self) -> None:
        """Forget registers of subexpressions: memory may have changed, or they do not dominate what follows."""
        self._memo.clear()
        self._index_memo.clear()

    def remembered(self) -> tuple[dict[int, tuple[PrimExpr, str]], dict[int, tuple[PrimExpr, str]]]:
        """What is known now, to come back to after a branch."""
        return dict(self._memo), dict(self._index_memo)

    def restore(self, known: tuple[dict[int, tuple[PrimExpr, str]], dict[int, tuple[PrimExpr, str]]]) -> None:
        """Go back to what was known before a branch."""
        self._memo, self._index_memo = dict(known[0]), dict(known[1])

    def report_unless(self, condition: str, message: str | None = None) -> None:
        """Report a failure of the running kernel unless the condition, an i1, holds; execution goes on.

        Args:
            condition: A register or constant.
            message: What is said; None for an index that is outside of its buffer.
        """
        raise CodegenError("a run-time check is not possible here")

    def is_from_data(self, expr: PrimExpr) -> bool:
        """Whether a value depends on what is in memory, so that no proof says how large it is."""
        for part in post_order(expr) if expr.child_fields else (expr,):
            if isinstance(part, Var):
                if part in self.from_data:
                    return True
            elif isinstance(part, BufferLoad) or (isinstance(part, Call) and getattr(part.op, "name", "") in _OPAQUE):
                return True
        return False

    # ---- values

    @deep
    def value(self, expr: PrimExpr) -> str:
        """The register or constant with the value of an expression, of type `register_type(expr.dtype)`."""
        match expr:
            case IntImm() | FloatImm():
                return constant(expr.dtype, expr.value)
            case Var() if expr in self.values:
                return self.values[expr]
        known = self._memo.get(id(expr))
        if known is None:
            known = self._memo[id(expr)] = (expr, self._make(expr))
        return known[1]

    def know(self, expr: PrimExpr, register: str) -> None:
        """Take a register for the value of an expression."""
        self._memo[id(expr)] = (expr, register)

    def _make(self, expr: PrimExpr) -> str:
        match expr:
            case Var():
                return self._variable(expr)
            case BufferLoad():
                return _LOAD[0](self, expr)
            case BinaryExpr():
                kind = register_type(expr.dtype)
                a, b = self.value(expr.a), self.value(expr.b)
                divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
                known = divisor.value if isinstance(divisor, IntImm) else None
                return arithmetic.binary(self.text, type(expr), expr.dtype, kind, a, b, known)
            case Comparison():
                return self._compare(expr)
            case And() | Or():
                return self._logical(expr)
            case Not():
                kind = register_type(expr.dtype)
                return self.text.assign(f"xor {kind} {self.value(expr.a)}, {splat('i1', 'true', lanes_of(expr.dtype))}")
            case Select():
                return self._select(expr)
            case Cast():
                return casts.cast(self.text, expr.value.dtype, expr.dtype, self.value(expr.value))
            case Let():
                self.bind(expr.var, expr.value)
                return self.value(expr.body)
            case Ramp() | Broadcast() | Shuffle():
                return self._vector(expr)
            case Call():
                return self._call(expr)
            case _:
                raise CodegenError(f"{type(expr).__name__} cannot be compiled as an expression")

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Give a variable its value."""
        if self.is_from_data(value):
            self.from_data.add(var)
        if var.dtype in INDEX_DTYPES:
            self.indices[var] = self.index(value)
        else:
            self.values[var] = self.value(value)

    def _variable(self, var: Var) -> str:
        if var in self.indices:
            wide = self.indices[var]
            return wide if var.dtype == "int64" else self.text.assign(f"trunc i64 {wide} to i32")
        if var in self.pointers:
            return self.pointers[var]
        raise CodegenError(f"variable {var.name} has no value here")

    def _compare(self, expr: Comparison) -> str:
        a, b = expr.a, expr.b
        lanes = lanes_and_bound(expr)
        if lanes is not None and not has_load(a) and not has_load(b):
            return self._compare_lanes(*lanes)
        if a.dtype in INDEX_DTYPES and not has_load(a) and not has_load(b):
            return arithmetic.compare(self.text, type(expr), "int64", "i64", self.index(a), self.index(b))
        kind = register_type(a.dtype)
        return arithmetic.compare(self.text, type(expr), element_dtype(a.dtype), kind, self.value(a), self.value(b))

    def _compare_lanes(self, word: str, ramp: Ramp, bound: PrimExpr) -> str:
        kind = vector("i32", ramp.lanes)
        before = lanes_before(self.text, ramp.lanes, self.index(ramp.base), self.index(bound))
        numbers = ", ".join(f"i32 {lane}" for lane in range(ramp.lanes))
        return self.text.assign(f"icmp {word} {kind} <{numbers}>, {self.broadcast(kind, ramp.lanes, before)}")

    def _logical(self, expr: And | Or) -> str:
        kind = register_type(expr.dtype)
        if lanes_of(expr.dtype) > 1 or not has_load(expr.b):
            word = "and" if isinstance(expr, And) else "or"
            return self.text.assign(f"{word} {kind} {self.value(expr.a)}, {self.value(expr.b)}")
        first = self.value(expr.a)
        if isinstance(expr, And):
            return self.choose(first, kind, lambda: self.value(expr.b), lambda: "false")
        return self.choose(first, kind, lambda: "true", lambda: self.value(expr.b))

    def choose(self, condition: str, kind: str, yes: Callable[[], str], no: Callable[[], str]) -> str:
        """One of two values, of which only that one is computed."""
        text, known = self.text, self.remembered()
        names = [text.fresh(hint) for hint in ("then", "else", "join")]
        text.branch(condition, names[0], names[1])
        results = []
        for label, make in zip(names, (yes, no), strict=False):
            text.start(label)
            self.restore(known)
            results.append((make(), text.block))
            text.jump(names[2])
        text.start(names[2])
        self.restore(known)
        return text.assign(f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in results))

    def _select(self, expr: Select) -> str:
        lanes, kind = lanes_of(expr.dtype), register_type(expr.dtype)
        yes, no = self._arm(expr.true_value), self._arm(expr.false_value)
        condition = self.value(expr.condition)
        chooser = register_type(expr.condition.dtype)
        if lanes_of(expr.condition.dtype) > 1 and lanes_of(expr.true_value.dtype) == 1:
            lanes = lanes_of(expr.condition.dtype)
            kind = vector(kind, lanes)
            yes, no = self.broadcast(kind, lanes, yes), self.broadcast(kind, lanes, no)
        return self.text.assign(f"select {chooser} {condition}, {kind} {yes}, {kind} {no}")

    def _arm(self, expr: PrimExpr) -> str:
        """A value to choose.

        LLVM sees through the widening of a float16, compares the narrow values instead, and then takes -0.0 for
        0.0; behind a fence it does not. The comparison gets the same register, so that both are one instruction.
        """
        value = self.value(expr)
        if isinstance(expr, Cast) and element_dtype(expr.value.dtype) == "float16" and value.startswith("%"):
            kind = register_type(expr.dtype)
            if kind.endswith(("float", "float>")):
                value = self.text.call(kind, f"llvm.arithmetic.fence.{arithmetic.overload(kind)}", [(kind, value)])
                self.know(expr, value)
        return value

    def _call(self, call: Call) -> str:
        name = str(getattr(call.op, "name", getattr(call.op, "name_hint", "?")))
        emit = _INTRINSICS.get(name.removeprefix("tir."))
        if emit is None:
            raise CodegenError(f"{name} cannot be compiled for a CPU")
        return emit(self, call)

    # ---- vectors

    def _vector(self, expr: Ramp | Broadcast | Shuffle) -> str:
        if isinstance(expr, Shuffle):
            return self._shuffle(expr)
        lanes, kind = lanes_of(expr.dtype), register_type(expr.dtype)
        if isinstance(expr, Broadcast):
            inner = lanes_of(expr.value.dtype)
            if inner == 1:
                return self.broadcast(kind, lanes, self.value(expr.value))
            source = register_type(expr.value.dtype)
            mask = ", ".join(f"i32 {i % inner}" for i in range(lanes))
            value = self.value(expr.value)
            return self.text.assign(f"shufflevector {source} {value}, {source} poison, <{lanes} x i32> <{mask}>")
        element = register_type(element_dtype(expr.dtype))
        steps = "<" + ", ".join(f"{element} {i}" for i in range(lanes)) + ">"
        base = self.broadcast(kind, lanes, self.value(expr.base))
        if not (isinstance(expr.stride, IntImm) and expr.stride.value == 1):
            steps = self.text.assign(f"mul {kind} {steps}, {self.broadcast(kind, lanes, self.value(expr.stride))}")
        return self.text.assign(f"add {kind} {base}, {steps}")

    def broadcast(self, kind: str, lanes: int, value: str) -> str:
        """A scalar in all lanes of the vector type `kind`."""
        if lanes == 1:
            return value
        element = kind[kind.index(" x ") + 3 : -1]
        if not value.startswith("%"):
            return splat(element, value, lanes)
        one = self.text.assign(f"insertelement {kind} poison, {element} {value}, i64 0")
        return self.text.assign(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def _shuffle(self, expr: Shuffle) -> str:
        element = register_type(element_dtype(expr.dtype))
        lanes: list[str] = []
        for part in expr.vectors:
            value, width, kind = self.value(part), lanes_of(part.dtype), register_type(part.dtype)
            lanes += (
                [self.text.assign(f"extractelement {kind} {value}, i64 {i}") for i in range(width)]
                if width > 1
                else [value]
            )
        chosen = []
        for index in expr.indices:
            if not isinstance(index, IntImm):
                raise CodegenError("a shuffle whose lanes are not constants cannot be compiled for a CPU")
            chosen.append(lanes[index.value])
        return chosen[0] if len(chosen) == 1 else self.gather_lanes(element, chosen)

    def gather_lanes(self, element: str, lanes: list[str]) -> str:
        """Scalars as one vector."""
        kind, gathered = f"<{len(lanes)} x {element}>", "poison"
        for i, lane in enumerate(lanes):
            gathered = self.text.assign(f"insertelement {kind} {gathered}, {element} {lane}, i64 {i}")
        return gathered

    # ---- indices

    @deep
    def index(self, expr: PrimExpr) -> str:
        """The value of a scalar integer expression in 64 bits."""
        match expr:
            case IntImm():
                return str(expr.value)
            case Var() if expr in self.indices:
                return self.indices[expr]
        known = self._index_memo.get(id(expr))
        if known is None:
            known = self._index_memo[id(expr)] = (expr, self._make_index(expr))
        return known[1]

    def _make_index(self, expr: PrimExpr) -> str:
        if expr.dtype in INDEX_DTYPES:
            match expr:
                case Add() | Sub() | Mul():
                    word = {Add: "add", Sub: "sub", Mul: "mul"}[type(expr)]
                    a, b = self.index(expr.a), self.index(expr.b)
                    if self.is_from_data(expr):  # any number, so the result may wrap around
                        return self.text.assign(f"{word} i64 {a}, {b}")
                    return self.fold(word, a, b)
                case FloorDiv() | FloorMod() | TruncDiv() | TruncMod() | Max() | Min():
                    known = expr.b.value if isinstance(expr.b, IntImm) else None
                    a, b = self.index(expr.a), self.index(expr.b)
                    return arithmetic.binary(self.text, type(expr), "int64", "i64", a, b, known)
                case Cast() if expr.value.dtype in INDEX_DTYPES and (expr.dtype == "int64" or not has_load(expr.value)):
                    return self.index(expr.value)
                case Select():
                    yes, no = self.index(expr.true_value), self.index(expr.false_value)
                    return self.text.assign(f"select i1 {self.value(expr.condition)}, i64 {yes}, i64 {no}")
                case Let():
                    self.bind(expr.var, expr.value)
                    return self.index(expr.body)
        value, kind = self.value(expr), register_type(expr.dtype)
        if kind == "i64":
            return value
        word = "sext" if expr.dtype.startswith("int") else "zext"
        return self.text.assign(f"{word} {kind} {value} to i64")

    def at_least_zero(self, size: str) -> str:
        """A number of elements; a negative one counts as none."""
        if not size.startswith("%"):
            return str(max(int(size), 0))
        return self.text.call("i64", "llvm.smax.i64", [("i64", size), ("i64", "0")])

    def fold(self, word: str, a: str, b: str) -> str:
        """`add`, `sub` or `mul` of indices; what is known at compile time is not emitted."""
        if not a.startswith("%") and not b.startswith("%"):
            x, y = int(a), int(b)
            return str(x + y if word == "add" else x - y if word == "sub" else x * y)
        if (b == "0" and word != "mul") or (b == "1" and word == "mul"):
            return a
        if (a == "0" and word == "add") or (a == "1" and word == "mul"):
            return b
        return self.text.assign(f"{word} {'' if self.wraps else 'nsw '}i64 {a}, {b}")


def has_load(expr: PrimExpr) -> bool:
    """Whether computing an expression reads memory or calls something."""
    return any(isinstance(part, (BufferLoad, Call)) for part in post_order(expr))
