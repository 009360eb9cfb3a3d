"""Constant bounds and residue classes of integer expressions, by one walk from the leaves up.

An infinite bound means that nothing but the dtype limits a value. Finite bounds
that leave the dtype mean that the operation may overflow: the result is then
any value of the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from eutectic.arith.interval import INF, Interval, ModularSet, dtype_range
from eutectic.ir.dtype import integer_bits, is_integer
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    LogicalBinary,
    Max,
    Min,
    Mul,
    Not,
    PrimExpr,
    Select,
    SizeVar,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from eutectic.ir.visit import post_order

Ranges: TypeAlias = Mapping[Var, "tuple[int, int] | Interval"]

_ARITHMETIC: Final[dict[type[PrimExpr], Callable[[Interval, Interval], Interval]]] = {
    Add: Interval.__add__,
    Sub: Interval.__sub__,
    Mul: Interval.__mul__,
    FloorDiv: Interval.floordiv,
    FloorMod: Interval.floormod,
    TruncDiv: Interval.truncdiv,
    TruncMod: Interval.truncmod,
    Min: Interval.minimum,
    Max: Interval.maximum,
}
_MAX_SHIFT: Final = 128  # shifts beyond any dtype are not computed


def bounds(expr: PrimExpr, ranges: Ranges | None = None) -> Interval:
    """The smallest interval, as far as it is found, around all values of an expression.

    Args:
        expr: An integer expression or a condition (0 or 1).
        ranges: First and last value of variables; a variable without an entry
            has any value of its dtype, a `SizeVar` any that is not negative.

    Returns:
        An interval with every value; operations that overflow count as any value
        of their dtype, divisions by zero do not count.
    """
    memo: dict[int, Interval] = {}
    for item in post_order(expr):
        if isinstance(item, PrimExpr):
            memo[id(item)] = _bounds_of(item, memo, ranges or {})
    return memo[id(expr)]


def exact_bounds(expr: PrimExpr, ranges: Ranges | None = None) -> Interval | None:
    """The same, where no operation leaves its dtype or divides by zero; None where one may.

    Only of such expressions the value is the same in wider arithmetic. What is read from memory has any value of
    its dtype; how its place is computed does not count.
    """
    memo: dict[int, Interval] = {}
    for item in post_order(expr, enter=_is_arithmetic):
        if not isinstance(item, PrimExpr):
            continue
        interval = _bounds_of(item, memo, ranges or {})
        limits = dtype_range(item.dtype) if is_integer(item.dtype) else Interval()
        match item:
            case BinaryExpr() if type(item) in _ARITHMETIC and is_integer(item.dtype):
                a, b = memo[id(item.a)], memo[id(item.b)]
                if isinstance(item, FloorDiv | FloorMod | TruncDiv | TruncMod) and 0 in b:
                    return None
                if not limits.covers(_ARITHMETIC[type(item)](a, b)):
                    return None
            case Var() if ranges is not None and item in ranges:
                pass  # as its owner says, who may know that it is beyond its dtype
            case Cast() if is_integer(item.dtype) and not limits.covers(memo[id(item.value)]):
                return None
            case _:
                interval = interval.intersect(limits) if not interval.intersect(limits).is_empty else limits
        memo[id(item)] = interval
    return memo[id(expr)]


def _is_arithmetic(item: Node) -> bool:
    """Whether what is below an expression is part of how its value is computed from variables and memory."""
    if isinstance(item, Call):
        return item.dtype == "bool" or is_integer(item.dtype)
    return isinstance(item, BinaryExpr | Comparison | LogicalBinary | Not | Select | Cast)


def bounds_of_variable(var: Var, ranges: Ranges) -> Interval:
    """The interval of a variable: its entry in `ranges`, else what its class and dtype say."""
    interval = ranges.get(var)
    if interval is None:
        return unknown(var.dtype).intersect(Interval(0, INF)) if isinstance(var, SizeVar) else unknown(var.dtype)
    return interval if isinstance(interval, Interval) else Interval(*interval)


def unknown(dtype: str) -> Interval:
    """The interval of a value of which only the dtype is known; signed integers have no finite bound."""
    return dtype_range(dtype) if dtype == "bool" or dtype[0] == "u" else Interval()


def fitted(interval: Interval, dtype: str) -> Interval:
    """`interval`, or every value of the dtype when a finite bound leaves it."""
    limits = dtype_range(dtype)
    inside = (interval.lo >= limits.lo or interval.lo == -INF) and (interval.hi <= limits.hi or interval.hi == INF)
    if inside and (interval.lo != -INF or limits.lo != 0):
        return interval
    return limits


def converted(interval: Interval, source: str, target: str) -> Interval:
    """The interval of values of `source` after conversion to `target`."""
    if target == "bool":
        return Interval(0, 1)
    if not (is_integer(source) or source == "bool"):
        return unknown(target)
    interval, limits = interval.intersect(dtype_range(source)), dtype_range(target)
    return interval if limits.covers(interval) else limits


def intrinsic_name(call: Call) -> str:
    """Name of the intrinsic that is called, or an empty string for a function."""
    return call.op.name if isinstance(call.op, Op) else ""


def _bounds_of(item: PrimExpr, memo: Mapping[int, Interval], ranges: Ranges) -> Interval:
    match item:
        case IntImm():
            return Interval.point(item.value)
        case Var():
            return bounds_of_variable(item, ranges)
        case Select():
            condition = memo[id(item.condition)].value
            if condition is not None:
                return memo[id(item.true_value if condition else item.false_value)]
            return memo[id(item.true_value)].union(memo[id(item.false_value)])
        case Cast():
            return converted(memo[id(item.value)], item.value.dtype, item.dtype)
        case Comparison():
            return decided(type(item), memo[id(item.a)], memo[id(item.b)])
        case LogicalBinary():
            a, b = memo[id(item.a)], memo[id(item.b)]
            return a.minimum(b) if isinstance(item, And) else a.maximum(b)
        case Not():
            return Interval.point(1) - memo[id(item.a)]
        case BinaryExpr() if type(item) in _ARITHMETIC and is_integer(item.dtype):
            return fitted(_ARITHMETIC[type(item)](memo[id(item.a)], memo[id(item.b)]), item.dtype)
        case Call():
            return _bounds_of_call(item, memo)
        case _:
            return unknown(item.dtype)


def decided(kind: type[Comparison], a: Interval, b: Interval) -> Interval:
    """The interval of a comparison: 0, 1, or both when the operands do not decide it."""
    less, more = Interval(int(a.hi < b.lo), int(a.lo < b.hi)), Interval(int(b.hi < a.lo), int(b.lo < a.hi))
    same = Interval(int(a.value is not None and a.value == b.value), int(not a.intersect(b).is_empty))
    one = Interval.point(1)
    answers: dict[type[Comparison], Interval] = {
        LT: less,
        GT: more,
        GE: one - less,
        LE: one - more,
        EQ: same,
        NE: one - same,
    }
    return answers[kind]


def _bounds_of_call(call: Call, memo: Mapping[int, Interval]) -> Interval:
    anything = unknown(call.dtype)
    if not is_integer(call.dtype):
        return anything
    operands = [memo.get(id(a), Interval()) for a in call.args]
    match intrinsic_name(call):
        case "tir.shift_left" | "tir.shift_right" as name if operands[1].lo >= 0 and operands[1].hi <= _MAX_SHIFT:
            powers = Interval(2 ** int(operands[1].lo), 2 ** int(operands[1].hi))
            interval = operands[0] * powers if name == "tir.shift_left" else operands[0].floordiv(powers)
        case "tir.bitwise_and" if any(o.lo >= 0 for o in operands):
            interval = Interval(0, min(o.hi for o in operands if o.lo >= 0))
        case "tir.bitwise_or" | "tir.bitwise_xor" if all(o.lo >= 0 and o.hi < INF for o in operands):
            interval = Interval(0, 2 ** int(max(o.hi for o in operands)).bit_length() - 1)
        case "tir.bitwise_not" if call.dtype[0] == "i":
            interval = Interval.point(-1) - operands[0]
        case "tir.if_then_else" if len(operands) == 3:
            interval = operands[1].union(operands[2])
        case _:
            interval = anything
    return fitted(interval, call.dtype)


def modular_set(
    expr: PrimExpr, known: Mapping[Var, ModularSet] | None = None, ranges: Ranges | None = None
) -> ModularSet:
    """The residue class of an integer expression.

    Args:
        expr: An integer expression. Signed operations are taken not to overflow;
            unsigned ones and conversions wrap around where `ranges` allow it.
        known: Residue classes of variables.
        ranges: First and last value of variables, as for `bounds`.
    """
    limits: dict[int, Interval] = {}
    memo: dict[int, ModularSet] = {}
    for item in post_order(expr):
        if isinstance(item, PrimExpr):
            limits[id(item)] = _bounds_of(item, limits, ranges or {})
            residue = _modular_of(item, memo, limits, known or {})
            constant = limits[id(item)].value
            memo[id(item)] = residue if constant is None else ModularSet(0, constant)
    return memo[id(expr)]


def _modular_of(
    item: PrimExpr,
    memo: Mapping[int, ModularSet],
    limits: Mapping[int, Interval],
    known: Mapping[Var, ModularSet],
) -> ModularSet:
    match item:
        case Var():
            return known.get(item, ModularSet())
        case Add() | Sub() | Mul() if is_integer(item.dtype):
            a, b = memo[id(item.a)], memo[id(item.b)]
            exact = a * b if isinstance(item, Mul) else a + (b.scaled(-1) if isinstance(item, Sub) else b)
            return exact if not may_wrap(item, limits) else exact.congruent(2 ** integer_bits(item.dtype))
        case FloorDiv() | FloorMod() | TruncDiv() | TruncMod() if is_integer(item.dtype):
            divisor = limits[id(item.b)].value
            return _modular_division(item, memo[id(item.a)], divisor) if divisor else ModularSet()
        case Min() | Max() if is_integer(item.dtype):
            return memo[id(item.a)].union(memo[id(item.b)])
        case Select() if is_integer(item.dtype):
            return memo[id(item.true_value)].union(memo[id(item.false_value)])
        case Cast() if is_integer(item.dtype) and is_integer(item.value.dtype):
            inside = dtype_range(item.dtype).covers(limits[id(item.value)].intersect(dtype_range(item.value.dtype)))
            residue = memo[id(item.value)]
            return residue if inside else residue.congruent(2 ** integer_bits(item.dtype))
        case _:
            return ModularSet()


def may_wrap(item: BinaryExpr, limits: Mapping[int, Interval]) -> bool:
    """Whether an unsigned operation may leave its dtype; signed ones are taken not to.

    Args:
        item: An operation of `_ARITHMETIC`.
        limits: Intervals of its operands, by `id`.
    """
    if item.dtype[0] != "u":
        return False
    exact = _ARITHMETIC[type(item)](limits[id(item.a)], limits[id(item.b)])
    return not dtype_range(item.dtype).covers(exact)


def _modular_division(item: BinaryExpr, dividend: ModularSet, divisor: int) -> ModularSet:
    match item:
        case FloorDiv():
            return dividend.floordiv(divisor)
        case TruncDiv():
            return dividend.truncdiv(divisor)
        case FloorMod():
            return dividend.floormod(divisor)
        case _:
            return dividend.congruent(divisor)
