"""The normal form of every kind of expression: a sum of atoms, made from the leaves up.

Integers become sums; conditions become the constant 0 or 1, or one atom;
anything else is one atom whose operands were normalised. Signed operations are
taken not to overflow; unsigned ones that may wrap around are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eutectic.arith.bounds import intrinsic_name
from eutectic.arith.comparison import Comparer
from eutectic.arith.division import Division
from eutectic.arith.facts import Facts
from eutectic.arith.interval import dtype_range
from eutectic.arith.polynomial import (
    MAX_TERMS,
    ONE,
    Atom,
    AtomTable,
    Polynomial,
    atom_key,
    constant,
    is_writable,
    number,
    plus,
    scaled,
    single,
    text_of,
    times,
    write,
)
from eutectic.ir.dtype import is_integer
from eutectic.ir.node import Node, fields_of
from eutectic.ir.prim_expr import (
    Add,
    And,
    BinaryExpr,
    Call,
    Cast,
    Comparison,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    cast,
)
from eutectic.ir.visit import map_fields, post_order
from eutectic.support.deep import deep

MAX_OPERANDS = 8  # operands of one flattened minimum or maximum
MAX_SHIFT = 62
BITWISE = ("tir.shift_left", "tir.shift_right", "tir.bitwise_and", "tir.bitwise_or", "tir.bitwise_xor")


@dataclass
class Normalizer:
    """Turns expressions into sums under fixed facts; what was done once is remembered.

    Attributes:
        table: Where atoms are made.
        facts: What is known; it must not change while this object is used.
    """

    table: AtomTable
    facts: Facts
    _forms: dict[int, Polynomial] = field(default_factory=dict)
    _alive: list[Node] = field(default_factory=list)
    _divisions: dict[str, Division] = field(default_factory=dict)

    @deep
    def form(self, expr: PrimExpr) -> Polynomial:
        """The sum that `expr` is."""
        if id(expr) not in self._forms:
            for item in post_order(expr, enter=lambda node: id(node) not in self._forms):
                if isinstance(item, PrimExpr) and id(item) not in self._forms:
                    try:
                        self._forms[id(item)] = self._normal(item)
                    except OverflowError:  # a constant that the dtype cannot hold: the operation stays as it is
                        self._forms[id(item)] = self._opaque(item)
                    self._alive.append(item)
        return self._forms[id(expr)]

    def division(self, dtype: str) -> Division:
        """The division rules of a dtype."""
        if dtype not in self._divisions:
            self._divisions[dtype] = Division(self.table, self.facts, dtype)
        return self._divisions[dtype]

    def comparer(self, dtype: str) -> Comparer:
        """The rules for comparisons of a dtype."""
        return Comparer(self.table, self.facts, self.division(dtype), dtype)

    def written(self, expr: PrimExpr) -> PrimExpr:
        """`expr` in its normal form."""
        form = self.form(expr)
        if is_integer(expr.dtype) or constant(form) is not None:
            return write(form, expr.dtype) if is_writable(form, expr.dtype) else expr
        atom = single(form)
        return expr if atom is None else atom.expr

    # ---- by kind of node

    def _normal(self, item: PrimExpr) -> Polynomial:
        match item:
            case IntImm():
                return number(item.value)
            case Var():
                return self._variable(item)
            case BinaryExpr() if is_integer(item.dtype):
                return self._arithmetic(item, self._forms[id(item.a)], self._forms[id(item.b)])
            case Comparison() if is_integer(item.a.dtype):
                a, b = self._forms[id(item.a)], self._forms[id(item.b)]
                return self._truth(self.comparer(item.a.dtype).compare(type(item), a, b))
            case And() | Or():
                return self._truth(self._connective(item))
            case Not():
                return self._truth(self._negation(item))
            case Select():
                return self._choice(item, item.condition, item.true_value, item.false_value)
            case Cast():
                return self._conversion(item)
            case Call():
                return self._call(item)
            case _:
                return self._truth(self._opaque(item))

    def _variable(self, var: Var) -> Polynomial:
        if var in self.facts.values:
            return self.facts.values[var]
        atom = self.table.make(("var", id(var)), "tir.Var", var, text=var.name, origin=var)
        value = self.facts.of_atom(atom).value if is_integer(var.dtype) else None
        return self._truth({(atom,): 1}) if value is None else number(value)

    def _truth(self, p: Polynomial) -> Polynomial:
        """The value of a condition that is known."""
        atom = single(p)
        return p if atom is None or atom not in self.facts.truths else number(int(self.facts.truths[atom]))

    def _arithmetic(self, item: BinaryExpr, a: Polynomial, b: Polynomial) -> Polynomial:
        division = self.division(item.dtype)
        polynomial: Polynomial | None = None
        match item:
            case Add() | Sub():
                polynomial = plus(a, b, 1 if isinstance(item, Add) else -1)
                polynomial = division.joined(polynomial) if len(polynomial) <= MAX_TERMS else polynomial
            case Mul():
                polynomial = times(a, b)
                polynomial = division.joined(polynomial) if polynomial is not None else None
            case FloorDiv() | FloorMod() if constant(b) != 0:
                return self._floor(item, a, b)
            case TruncDiv() | TruncMod() if constant(b) != 0:
                polynomial = self._truncated(item, a, b)
            case Min() | Max():
                return self._extreme(item, a, b)
        if polynomial is None or (item.dtype[0] == "u" and not self._fits(polynomial, item.dtype)):
            return self._opaque(item)
        return polynomial

    def _fits(self, p: Polynomial, dtype: str) -> bool:
        return dtype_range(dtype).covers(self.facts.interval(p))

    def _floor(self, item: BinaryExpr, a: Polynomial, b: Polynomial) -> Polynomial:
        division = self.division(item.dtype)
        polynomial = division.floordiv(a, b) if isinstance(item, FloorDiv) else division.floormod(a, b)
        return polynomial if item.dtype[0] != "u" or self._fits(polynomial, item.dtype) else self._opaque(item)

    def _truncated(self, item: BinaryExpr, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """Rounding towards zero is rounding down where both operands are not negative."""
        quotient = isinstance(item, TruncDiv)
        top, bottom = constant(a), constant(b)
        if top is not None and bottom is not None:
            size = abs(top) // abs(bottom) * (1 if (top < 0) == (bottom < 0) else -1)
            return number(size if quotient else top - size * bottom)
        if bottom in (1, -1) and bottom is not None:
            return scaled(a, bottom) if quotient else {}
        if self.facts.interval(a).lo >= 0 and self.facts.interval(b).lo >= 0:
            division = self.division(item.dtype)
            return division.floordiv(a, b) if quotient else division.floormod(a, b)
        return None

    def _extreme(self, item: BinaryExpr, a: Polynomial, b: Polynomial) -> Polynomial:
        """Minimum or maximum: nested ones are one set of operands, of which those that never win go."""
        operands: list[Polynomial] = []
        for p in (*self._operands(item.type_key, a), *self._operands(item.type_key, b)):
            if p not in operands:
                operands.append(p)
        if len(operands) > MAX_OPERANDS:
            operands = [a, b]
        sign = 1 if isinstance(item, Min) else -1
        kept: list[Polynomial] = []
        for index, p in enumerate(operands):
            others = (*kept, *operands[index + 1 :])
            if not any(self._beats(other, p, sign, item.dtype) for other in others):
                kept.append(p)
        if not all(is_writable(p, item.dtype) for p in kept):
            return self._opaque(item)
        kept.sort(key=_place)
        result = kept[0]
        for p in kept[1:]:
            key = (item.type_key, item.dtype, frozenset((frozenset(result.items()), frozenset(p.items()))))
            expr = (Min if isinstance(item, Min) else Max)(write(result, item.dtype), write(p, item.dtype))
            result = {(self.table.make(key, item.type_key, expr, (result, p)),): 1}
        return result

    def _operands(self, kind: str, p: Polynomial) -> list[Polynomial]:
        operands: list[Polynomial] = []
        while (atom := single(p)) is not None and atom.kind == kind and len(operands) < MAX_OPERANDS:
            operands.append(atom.operands[1])
            p = atom.operands[0]
        return [p, *reversed(operands)]

    def _beats(self, a: Polynomial, b: Polynomial, sign: int, dtype: str) -> bool:
        """Whether `a <= b` always, or the reverse for a negative sign."""
        division = self.division(dtype)
        return division.proves(division.joined(scaled(plus(b, a, -1), sign)))

    def _connective(self, item: And | Or) -> Polynomial:
        neutral = ONE if isinstance(item, And) else {}
        parts: list[Polynomial] = []
        for p in (self._forms[id(item.a)], self._forms[id(item.b)]):
            atom = single(p)
            parts += atom.operands if atom is not None and atom.kind == item.type_key else (p,)
        kept: list[Polynomial] = []
        for p in parts:
            value = constant(p)
            if value is not None and bool(value) != bool(neutral):
                return p
            if value is None and p not in kept:
                if self._negated(p) in kept:
                    return {} if neutral else ONE
                kept.append(p)
        if len(kept) < 2:
            return kept[0] if kept else neutral
        exprs = [atom.expr for p in kept if (atom := single(p)) is not None]
        expr = exprs[0]
        for other in exprs[1:]:
            expr = type(item)(expr, other)
        key = atom_key(item.type_key, "bool", ()), tuple(frozenset(p.items()) for p in kept)
        return {(self.table.make(key, item.type_key, expr, tuple(kept)),): 1}

    def _negation(self, item: Not) -> Polynomial:
        negation = self._negated(self._forms[id(item.a)])
        return self._opaque(item) if negation is None else negation

    def _negated(self, p: Polynomial) -> Polynomial | None:
        value, atom = constant(p), single(p)
        if value is not None:
            return number(1 - value)
        if atom is None:
            return None
        if atom.kind == "tir.Not" and atom.operands:
            return atom.operands[0]
        if isinstance(atom.expr, Comparison) and len(atom.operands) == 2:
            return self.comparer(atom.expr.a.dtype).opposite(atom)
        negation = Not(atom.expr)
        return {(self.table.make(atom_key("tir.Not", negation.dtype, (p,)), "tir.Not", negation, (p,)),): 1}

    def _choice(self, item: PrimExpr, condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> Polynomial:
        decided = constant(self._forms[id(condition)])
        if decided is not None:
            return self._forms[id(a if decided else b)]
        operands = tuple(self._forms[id(part)] for part in (condition, a, b))
        if operands[1] == operands[2]:
            return operands[1]
        return self._truth(self._opaque(item, operands if is_integer(item.dtype) else ()))

    def _conversion(self, item: Cast) -> Polynomial:
        p, source = self._forms[id(item.value)], item.value.dtype
        value = constant(p)
        if value is not None and is_integer(source):
            folded = cast(item.dtype, IntImm(source, value)) if value in dtype_range(source) else None
            return number(folded.value) if isinstance(folded, IntImm) else self._opaque(item)
        if item.dtype == source:
            return p
        if not (is_integer(source) and is_integer(item.dtype)):
            return self._truth(self._opaque(item))
        atom = single(p)
        if atom is not None and isinstance(atom.expr, Cast) and atom.operands:
            inner, first = atom.operands[0], atom.expr.value
            if dtype_range(source).covers(self.facts.interval(inner).intersect(dtype_range(first.dtype))):
                if first.dtype == item.dtype:
                    return inner
                return self._cast_atom(Cast(item.dtype, first), inner)
        return self._cast_atom(Cast(item.dtype, write(p, source)), p) if is_writable(p, source) else self._opaque(item)

    def _cast_atom(self, expr: Cast, operand: Polynomial) -> Polynomial:
        key = (atom_key("tir.Cast", expr.dtype, (operand,)), expr.value.dtype)
        return {(self.table.make(key, "tir.Cast", expr, (operand,)),): 1}

    # ---- calls and everything else

    def _call(self, item: Call) -> Polynomial:
        name = intrinsic_name(item)
        if name == "tir.if_then_else" and len(item.args) == 3:
            return self._choice(item, *item.args)
        if name not in BITWISE or not is_integer(item.dtype):
            return self._truth(self._opaque(item))
        a, b = (self._forms[id(x)] for x in item.args)
        shift = constant(b)
        division = self.division(item.dtype)
        if shift is not None and 0 <= shift <= MAX_SHIFT and name.startswith("tir.shift"):
            power = 2**shift
            shifted = scaled(a, power) if name == "tir.shift_left" else division.floordiv(a, number(power))
            if power in dtype_range(item.dtype) and (item.dtype[0] != "u" or self._fits(shifted, item.dtype)):
                return shifted
        if name == "tir.bitwise_and" and shift is not None and shift > 0 and shift & (shift + 1) == 0:
            in_range = shift + 1 in dtype_range(item.dtype)
            return division.floormod(a, number(shift + 1)) if in_range else self._opaque(item, (a, b))
        return self._opaque(item, (a, b) if name == "tir.bitwise_and" else ())

    def _opaque(self, item: PrimExpr, operands: tuple[Polynomial, ...] = ()) -> Polynomial:
        """The node with its operands in normal form, as one atom."""
        rewritten: Any = map_fields(item, self._child)
        key: object = (item.type_key, item.dtype, *(self._key(v) for _, role, v in fields_of(item) if role != "ignore"))
        if isinstance(item, Call) and intrinsic_name(item) not in (*BITWISE, "tir.bitwise_not", "tir.if_then_else"):
            key = ("call", id(item))
        kind = intrinsic_name(item) if isinstance(item, Call) else item.type_key
        if isinstance(item, FloorDiv | FloorMod):
            kind = f"opaque {kind}"  # the rules of division do not apply
        if not operands and isinstance(item, BinaryExpr) and is_integer(item.dtype):
            operands = (self._forms[id(item.a)], self._forms[id(item.b)])
        return {(self.table.make(key, kind or item.type_key, rewritten, operands, origin=item),): 1}

    def _child(self, part: Node) -> Node:
        return self.written(part) if isinstance(part, PrimExpr) and id(part) in self._forms else part

    @deep
    def _key(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(self._key(part) for part in value)
        if isinstance(value, PrimExpr) and id(value) in self._forms:
            return (value.dtype, frozenset(self._forms[id(value)].items()))
        return id(value) if isinstance(value, Node) else (type(value).__name__, repr(value))


def _place(p: Polynomial) -> tuple[object, ...]:
    """Where an operand of a minimum is written: nested ones first, constants last."""
    atom: Atom | None = single(p)
    nested = atom is not None and atom.kind in ("tir.Min", "tir.Max")
    return (constant(p) is not None, not nested, text_of(p))
