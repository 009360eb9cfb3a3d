"""Expressions of all iterations of a loop at once: what differs becomes a vector, the rest stays scalar."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

from eutectic.ir.dtype import SIGNED, item_bytes
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
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
    LogicalBinary,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    add,
    broadcast,
    cast,
    element_dtype,
    lanes_of,
    logical_and,
    sub,
    with_lanes,
)
from eutectic.support.deep import deep
from eutectic.tir.analysis.conditions import conjuncts, variables
from eutectic.tir.analysis.index_facts import IndexFacts, reads_memory
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.statement_mutator import binary, operands_of, pair, with_operands
from eutectic.tir.transform.lane_memory import AccessLog, SerialOnly

T = TypeVar("T")
_lanes = functools.cache(lanes_of)
_DIVISIONS: Final = (FloorDiv, FloorMod, TruncDiv, TruncMod)
_FLIPPED: Final = {LT: GT, GT: LT, LE: GE, GE: LE}
# Intrinsics that work on each lane by itself.
_LANEWISE: Final = frozenset(
    f"tir.{name}"
    for name in (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sigmoid", "erf", "erfc"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("fabs", "floor", "ceil", "trunc", "round", "nearbyint", "isnan", "isinf", "isfinite"),
        *("atan2", "hypot", "copysign", "nextafter", "fmod", "pow", "ldexp", "fma", "popcount", "clz"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
    )
)
_SHIFTS: Final = ("tir.shift_left", "tir.shift_right")


def is_vector(expr: PrimExpr) -> bool:
    """Whether an expression has several lanes."""
    return _lanes(expr.dtype) > 1


class LaneExprs:
    """Makes vectors of expressions.

    Args:
        lanes: Number of iterations.
        facts: Ranges of all loops.
        log: Where accesses are remembered.
    """

    def __init__(self, lanes: int, facts: IndexFacts, log: AccessLog) -> None:
        self.lanes, self.facts, self.log = lanes, facts, log
        self.values: dict[Var, PrimExpr] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.private: set[Var] = set()  # memory that each iteration has of its own
        self.guard: PrimExpr | None = None  # lanes that take part; None for all
        self._memo: dict[tuple[int, int], tuple[PrimExpr, PrimExpr | None, PrimExpr]] = {}

    # ---- masks

    def guarded(self, condition: PrimExpr, make: Callable[[], T]) -> T:
        """What `make` gives where only the lanes take part that a condition holds for."""
        outer = self.guard
        self.guard = condition if outer is None else And(outer, condition)
        result = make()
        self.guard = outer
        return result

    def mask(self, predicate: PrimExpr | None) -> PrimExpr | None:
        """The lanes that take part and that a predicate holds for."""
        if predicate is None or self.guard is None:
            return self.guard if predicate is None else self.widened(predicate)
        return And(self.guard, self.widened(predicate))

    def widened(self, expr: PrimExpr) -> PrimExpr:
        """A vector: a scalar is repeated."""
        return expr if is_vector(expr) else broadcast(expr, self.lanes)

    # ---- expressions

    @deep
    def expr(self, expr: PrimExpr) -> PrimExpr:
        """The vector of an expression; the expression itself when it is the same in all lanes.

        Raises:
            SerialOnly: there is none.
        """
        key = (id(expr), id(self.guard))
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = (expr, self.guard, self._make(expr))  # kept, so that ids stay their own
        return known[2]

    def _make(self, expr: PrimExpr) -> PrimExpr:
        match expr:
            case Var():
                return self.values.get(expr, expr)
            case BufferLoad():
                return self._load(expr)
            case Call():
                return self._call(expr)
            case Select():
                return self._select(expr)
            case Let():
                return self._let(expr)
            case LogicalBinary():
                return self._connective(expr)
            case Ramp() | Broadcast() | Shuffle():
                raise SerialOnly
        operands = operands_of(expr)
        if not operands:
            return expr
        rewritten = [self.expr(part) for part in operands]
        if isinstance(expr, BinaryExpr) and isinstance(expr, _DIVISIONS):
            rewritten[1] = self._divisor(expr, *rewritten)
        if not any(map(is_vector, rewritten)):
            return expr if all(map(_same, rewritten, operands)) else with_operands(expr, rewritten)
        match expr:
            case BinaryExpr():
                return self._arithmetic(type(expr), rewritten[0], rewritten[1])
            case Comparison():
                return self._comparison(type(expr), rewritten[0], rewritten[1])
            case Not():
                return Not(rewritten[0])
            case Cast():
                return self._cast(expr.dtype, rewritten[0])
            case _:
                raise SerialOnly

    def _connective(self, expr: LogicalBinary) -> PrimExpr:
        """`and`, `or`: the second condition is computed only in lanes where the first does not decide."""
        conjunction = isinstance(expr, And)
        a = self.expr(expr.a)
        if isinstance(a, IntImm):
            return self.expr(expr.b) if bool(a.value) == conjunction else a
        if is_vector(a) or not variables(expr.b).isdisjoint(self.values):
            first = self.widened(a)
            b = self.guarded(first if conjunction else Not(first), lambda: self.expr(expr.b))
        else:
            b = self.expr(expr.b)
        if isinstance(b, IntImm):
            return a if bool(b.value) == conjunction else b
        if not is_vector(a) and not is_vector(b):
            return expr if a is expr.a and b is expr.b else pair(type(expr), a, b)
        return pair(type(expr), self.widened(a), self.widened(b))

    def _divisor(self, division: BinaryExpr, dividend: PrimExpr, divisor: PrimExpr) -> PrimExpr:
        """A divisor that harms nothing where no lane takes part; of indices that all lanes share, one for all of them.

        Where a lane takes part it is not zero. A lane's own would have each lane divide by itself.
        """
        are_shared = not is_vector(dividend) and not is_vector(divisor) and not reads_memory(division)
        if self.guard is None or isinstance(divisor, IntImm) or not are_shared or divisor.dtype not in SIGNED:
            return self._harmless(divisor, 1)
        return Select(EQ(divisor, IntImm(divisor.dtype, 0)), IntImm(divisor.dtype, 1), divisor)

    def _harmless(self, operand: PrimExpr, neutral: int) -> PrimExpr:
        """An operand that must not have any value, made neutral in lanes that do not take part."""
        if self.guard is None or isinstance(operand, IntImm) or element_dtype(operand.dtype)[0] not in "iu":
            return operand
        other = broadcast(IntImm(element_dtype(operand.dtype), neutral), self.lanes)
        return Select(self.guard, self.widened(operand), other)

    def _arithmetic(self, kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if element_dtype(a.dtype) in SIGNED and (isinstance(a, Ramp) or isinstance(b, Ramp)):
            ramp = self._ramp(kind, a, b)
            if ramp is not None:
                return ramp
        return pair(kind, self.widened(a), self.widened(b))

    def _ramp(self, kind: type[BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """Arithmetic that keeps steps of one size."""
        if kind in (Add, Sub) and all(isinstance(x, Ramp) or not is_vector(x) for x in (a, b)):
            base = binary(kind, _base(a), _base(b))
            return self.ramp(base, binary(kind, _stride(a), _stride(b)))
        if kind is Mul and not (is_vector(a) and is_vector(b)):
            ramp, factor = (a, b) if isinstance(a, Ramp) else (b, a)
            return self.ramp(binary(Mul, _base(ramp), factor), binary(Mul, _stride(ramp), factor))
        if kind in (FloorDiv, FloorMod) and isinstance(a, Ramp) and isinstance(b, IntImm) and b.value > 0:
            return self._divided(kind, a, b)
        return None

    def ramp(self, base: PrimExpr, stride: PrimExpr) -> PrimExpr:
        """A vector of equal steps; the scalar itself for steps of zero."""
        if isinstance(stride, IntImm) and stride.value == 0:
            return base
        return Ramp(base, stride, self.lanes)

    def _divided(self, kind: type[BinaryExpr], a: Ramp, b: IntImm) -> PrimExpr | None:
        if not isinstance(a.stride, IntImm) or a.stride.value <= 0:
            return None
        step, divisor, quotient = a.stride.value, b.value, kind is FloorDiv
        if step % divisor == 0:
            if quotient:
                return self.ramp(binary(FloorDiv, a.base, b), IntImm(b.dtype, step // divisor))
            return binary(FloorMod, a.base, b)
        known = self.facts.analyzer.modular_set(a.base)
        common = _gcd(known.coeff, divisor)
        if known.base % common + step * (self.lanes - 1) >= common:
            return None  # the lanes may fall on both sides of a multiple
        return binary(FloorDiv, a.base, b) if quotient else self.ramp(binary(FloorMod, a.base, b), a.stride)

    def _comparison(self, kind: type[Comparison], a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if is_vector(b) and not is_vector(a) and kind in _FLIPPED:
            kind, a, b = _FLIPPED[kind], b, a
        if isinstance(a, Ramp) and not is_vector(b) and kind in _FLIPPED and self._decided_by_first(kind, a, b):
            return pair(kind, a.base, b)
        return pair(kind, self.widened(a), self.widened(b))

    def _decided_by_first(self, kind: type[Comparison], a: Ramp, b: PrimExpr) -> bool:
        """Whether all lanes compare as the first does, because the bound is at the end of a vector."""
        if element_dtype(a.dtype) not in SIGNED or not isinstance(a.stride, IntImm) or a.stride.value <= 0:
            return False
        distance = sub(b, a.base)
        known = self.facts.analyzer.modular_set(distance if kind in (LT, GE) else add(distance, 1))
        reach = a.stride.value * (self.lanes - 1)
        if known.coeff == 0:
            return known.base <= 0 or known.base > reach
        return known.base == 0 and known.coeff > reach

    def _cast(self, dtype: str, value: PrimExpr) -> PrimExpr:
        if isinstance(value, Ramp) and dtype in ("int32", "int64") and element_dtype(value.dtype) in ("int32", "int64"):
            return Ramp(cast(dtype, value.base), cast(dtype, value.stride), self.lanes)
        return Cast(with_lanes(dtype, self.lanes), value)

    def _let(self, expr: Let) -> PrimExpr:
        value = self.expr(expr.value)
        var = expr.var
        if is_vector(value):
            var = Var(expr.var.name, value.dtype)
            self.values[expr.var] = var
        body = self.expr(expr.body)
        return expr if value is expr.value and body is expr.body else Let(var, value, body)

    # ---- choices and calls

    def _select(self, expr: Select) -> PrimExpr:
        condition, a, b = self.expr(expr.condition), self.expr(expr.true_value), self.expr(expr.false_value)
        if all(map(_same, (condition, a, b), operands_of(expr))):
            return expr
        if isinstance(condition, IntImm):
            return a if condition.value else b
        if any(map(is_vector, (condition, a, b))):
            a, b = self.widened(a), self.widened(b)
        return Select(condition, a, b)

    def _choice(self, expr: Call) -> PrimExpr:
        """`if_then_else`: where lanes differ both values are computed, each with masked accesses."""
        condition = self.expr(expr.args[0])
        if isinstance(condition, IntImm):
            return self.expr(expr.args[1] if condition.value else expr.args[2])
        if not is_vector(condition):
            a, b = self.expr(expr.args[1]), self.expr(expr.args[2])
            if is_vector(a) or is_vector(b):
                a, b = self.widened(a), self.widened(b)
            same = all(map(_same, (condition, a, b), expr.args))
            return expr if same else replace(expr, dtype=a.dtype, args=(condition, a, b))
        shared, own = self.parted(expr.args[0])
        constant = isinstance(expr.args[2], (IntImm, FloatImm))
        if constant and shared is not None:
            condition = own
        a = self.guarded(condition, lambda: self.expr(expr.args[1]))
        b = self.guarded(Not(condition), lambda: self.expr(expr.args[2]))
        choice = Select(condition, self.widened(a), self.widened(b))
        if not constant or shared is None:
            return choice
        return replace(expr, dtype=choice.dtype, args=(shared, choice, self.widened(expr.args[2])))

    def parted(self, condition: PrimExpr) -> tuple[PrimExpr | None, PrimExpr]:
        """What all lanes share of a condition that differs between them, and the rest, as vector."""
        shared: PrimExpr | None = None
        own: PrimExpr | None = None
        if reads_memory(condition):  # the first parts say where the others may read
            return None, self.expr(condition)
        for part in conjuncts(condition):
            rewritten = self.expr(part)
            if is_vector(rewritten):
                own = rewritten if own is None else And(own, rewritten)
            else:
                shared = rewritten if shared is None else logical_and(shared, rewritten)
        assert own is not None  # some part differs, else the whole would not
        return shared, own

    def _call(self, expr: Call) -> PrimExpr:
        name = expr.op.name if isinstance(expr.op, Op) else ""
        if name == "tir.if_then_else":
            return self._choice(expr)
        if name == "tir.likely":
            return self.expr(expr.args[0])
        if name == "tir.undef" and not expr.args:
            return expr
        if name == "tir.checked_index":
            return self._checked_index(expr)
        if name == "tir.checked":
            return self._checked(expr)
        known = name in _LANEWISE or (
            name == "tir.reinterpret"
            and item_bytes(element_dtype(expr.dtype)) == item_bytes(element_dtype(expr.args[0].dtype))
        )
        if not known or any(isinstance(arg, StringImm) for arg in expr.args):
            raise SerialOnly
        args = [self.expr(arg) for arg in expr.args]
        if name in _SHIFTS:
            args[1] = self._harmless(args[1], 0)
        if not any(map(is_vector, args)):
            return expr if all(map(_same, args, expr.args)) else replace(expr, args=tuple(args))
        dtype = with_lanes(expr.dtype, self.lanes)
        return Call(dtype, expr.op, tuple(map(self.widened, args)))

    def _checked_index(self, expr: Call) -> PrimExpr:
        """An index that is looked at; only the lanes that take part count."""
        index, extent, message, *masks = expr.args
        rewritten = self.expr(index)
        active = self.mask(self.expr(masks[0]) if masks else None)
        if active is None and not is_vector(rewritten):
            return expr if rewritten is index else replace(expr, args=(rewritten, extent, message))
        args = (self.widened(rewritten), extent, message)
        return Call(with_lanes(expr.dtype, self.lanes), expr.op, args if active is None else (*args, active))

    def _checked(self, expr: Call) -> PrimExpr:
        """A checked value; lanes that do not take part have nothing to hold."""
        value, condition = self.expr(expr.args[0]), self.expr(expr.args[1])
        if self.guard is not None:
            condition = Or(Not(self.guard), self.widened(condition))
        elif not is_vector(value) and not is_vector(condition):
            return replace(expr, args=(value, condition, expr.args[2]))
        return replace(
            expr,
            dtype=with_lanes(expr.dtype, self.lanes),
            args=(self.widened(value), self.widened(condition), expr.args[2]),
        )

    # ---- memory

    def index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The index of an access, in normal form.

        Raises:
            SerialOnly: there is more than one.
        """
        if len(indices) != 1 or is_vector(indices[0]) or _lanes(buffer.dtype) > 1:
            raise SerialOnly
        index = self.expr(indices[0])
        if buffer.data in self.private:
            index = self._own(index)
        if isinstance(index, Ramp):
            return Ramp(self.facts.simplify(index.base), self.facts.simplify(index.stride), self.lanes)
        return index if is_vector(index) else self.facts.simplify(index)

    def _own(self, index: PrimExpr) -> PrimExpr:
        """The place of a lane's own copy of an element."""
        dtype = element_dtype(index.dtype)
        count = IntImm(dtype, self.lanes)
        first = self._arithmetic(Mul, index, count) if is_vector(index) else binary(Mul, index, count)
        return self._arithmetic(Add, first, Ramp(IntImm(dtype, 0), IntImm(dtype, 1), self.lanes))

    def _load(self, expr: BufferLoad) -> PrimExpr:
        index = self.index(expr.buffer, expr.indices)
        predicate = None if expr.predicate is None else self.expr(expr.predicate)
        buffer = self.buffers.get(expr.buffer, expr.buffer)
        safe = predicate is None and (self.guard is None or self._inside(expr))
        self.log.load(buffer, index)
        if safe and not is_vector(index):
            return expr if index is expr.indices[0] and buffer is expr.buffer else BufferLoad(buffer, (index,))
        mask = None if safe else self.mask(predicate)
        if mask is None and not is_vector(index):
            return BufferLoad(buffer, (index,), predicate)
        return BufferLoad(buffer, (self.widened(index),), mask)

    def _inside(self, expr: BufferLoad) -> bool:
        """Whether an access is inside of its buffer in all lanes, so that it needs no mask."""
        size = expr.buffer.shape[0]
        if not isinstance(size, IntImm):
            return False
        interval = self.facts.analyzer.const_int_bound(expr.indices[0])
        return interval.lo >= 0 and interval.hi < size.value


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b


def _base(expr: PrimExpr) -> PrimExpr:
    return expr.base if isinstance(expr, Ramp) else expr


def _stride(expr: PrimExpr) -> PrimExpr:
    return expr.stride if isinstance(expr, Ramp) else IntImm(expr.dtype, 0)


def _gcd(coeff: int, divisor: int) -> int:
    """The common modulus; a constant is known modulo everything."""
    while coeff:
        divisor, coeff = coeff, divisor % coeff
    return divisor
