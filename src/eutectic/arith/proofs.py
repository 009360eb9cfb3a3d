"""Facts about integer expressions: a polynomial normal form, and proofs of equality from it.

An expression becomes a sum of integer multiples of products of atoms. Atoms are
variables, divisions, remainders, minima and maxima whose operands were
normalised first, and whatever else occurs, taken as it is. Two expressions are equal when their difference is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

from eutectic.ir.dtype import is_integer
from eutectic.ir.node import Node, fields_of
from eutectic.ir.prim_expr import (
    Add,
    Call,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
    add,
    floordiv,
    floormod,
    mul,
)
from eutectic.support.deep import deep

Atom: TypeAlias = tuple[object, ...]
Monomial: TypeAlias = tuple[Atom, ...]
Polynomial: TypeAlias = dict[Monomial, int]


class _Atoms:
    """Numbers atoms and remembers the expression of each, so that a normal form can be written back.

    Attributes:
        exprs: Expressions of atoms.
        quotients: What is divided, and by which positive number, for atoms that are such floor divisions.
    """

    def __init__(self) -> None:
        self.exprs: dict[Atom, PrimExpr] = {}
        self.quotients: dict[Atom, tuple[Polynomial, int]] = {}

    def variable(self, var: Var) -> Polynomial:
        return self.one(("var", id(var)), var)

    def one(self, key: Atom, expr: PrimExpr) -> Polynomial:
        self.exprs[key] = expr
        return {(key,): 1}


def simplify(expr: PrimExpr) -> PrimExpr:
    """An equal expression in a canonical form: like terms collected, constants folded.

    Expressions that are no integers are returned as they are: float arithmetic must not be reordered.
    """
    if not is_integer(expr.dtype):
        return expr
    atoms = _Atoms()
    return _write(_polynomial(expr, atoms), atoms, expr.dtype)


def prove_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether `a == b` for all values of the variables; False when it cannot be shown."""
    return (
        a is b
        or (a.dtype == b.dtype and not is_integer(a.dtype) and _identity(a) == _identity(b))
        or (is_integer(a.dtype) and is_integer(b.dtype) and not _difference(a, b))
    )


def prove_unequal(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether `a != b` for all values of the variables, when both differ by a known constant."""
    if not (is_integer(a.dtype) and is_integer(b.dtype)):
        return False
    difference = _difference(a, b)
    return set(difference) == {()} and difference[()] != 0


def _difference(a: PrimExpr, b: PrimExpr) -> Polynomial:
    atoms = _Atoms()
    return _sum(_polynomial(a, atoms), _scaled(_polynomial(b, atoms), -1))


@deep
def _polynomial(expr: PrimExpr, atoms: _Atoms) -> Polynomial:
    match expr:
        case IntImm():
            return {(): expr.value} if expr.value else {}
        case Var():
            return atoms.variable(expr)
        case Add():
            return _sum(_polynomial(expr.a, atoms), _polynomial(expr.b, atoms))
        case Sub():
            return _sum(_polynomial(expr.a, atoms), _scaled(_polynomial(expr.b, atoms), -1))
        case Mul():
            return _product(_polynomial(expr.a, atoms), _polynomial(expr.b, atoms))
        case FloorDiv() | FloorMod():
            return _division(expr, atoms)
        case Min() | Max():
            left, right = _polynomial(expr.a, atoms), _polynomial(expr.b, atoms)
            if not _sum(left, _scaled(right, -1)):
                return left
            parts = (_write(left, atoms, expr.dtype), _write(right, atoms, expr.dtype))
            return atoms.one((expr.type_key, *sorted(map(_key, (left, right)))), type(expr)(*parts))
        case _:
            return atoms.one(_identity(expr), expr)


@deep
def _identity(item: object) -> Atom:
    """A key that only expressions of one value share; a call equals itself alone, as it may have effects."""
    if isinstance(item, tuple):
        return ("tuple", *map(_identity, item))
    if not isinstance(item, Node):
        return (type(item).__name__, repr(item))
    if item.is_variable or isinstance(item, Call):
        return (item.type_key, id(item))
    return (item.type_key, *(_identity(value) for _, role, value in fields_of(item) if role != "ignore"))


def _division(expr: FloorDiv | FloorMod, atoms: _Atoms) -> Polynomial:
    """Split off the part that the divisor divides: `(d*q + r) // d = q + r // d` and `% d = r % d`.

    Divisions by positive numbers become one where one follows the other: `(p // b + q) // d = (p + b*q) // (b*d)`.
    """
    top, bottom = _polynomial(expr.a, atoms), _polynomial(expr.b, atoms)
    if set(bottom) == {()}:
        d = bottom[()]
        if isinstance(expr, FloorDiv) and d > 0:
            return _quotient(expr, top, d, atoms)
        whole = {m: c // d for m, c in top.items() if c // d}
        rest = {m: c % d for m, c in top.items() if c % d}
        if not rest:
            return whole if isinstance(expr, FloorDiv) else {}
        if set(rest) == {()} and d > 0:
            return rest
        inner = _atom_of_division(expr, rest, bottom, atoms)
        return _sum(whole, inner) if isinstance(expr, FloorDiv) else inner
    if top and top == bottom:
        return {(): 1} if isinstance(expr, FloorDiv) else {}
    exact = _exact_quotient(top, bottom)
    if exact is not None:
        return exact if isinstance(expr, FloorDiv) else {}
    return _atom_of_division(expr, top, bottom, atoms)


def _quotient(expr: FloorDiv, top: Polynomial, divisor: int, atoms: _Atoms) -> Polynomial:
    """A floor division by a positive number."""
    total: Polynomial = {}
    while True:
        total = _sum(total, {m: c // divisor for m, c in top.items() if c // divisor})
        rest = {m: c % divisor for m, c in top.items() if c % divisor}
        if set(rest) <= {()}:
            return total
        inner = [monomial for monomial, c in rest.items() if c == 1 and monomial and monomial[0] in atoms.quotients]
        if len(inner) != 1 or len(inner[0]) != 1:
            break
        divided, by = atoms.quotients[inner[0][0]]
        others = {monomial: c for monomial, c in rest.items() if monomial != inner[0]}
        top, divisor = _sum(divided, _scaled(others, by)), by * divisor
    division = _atom_of_division(expr, rest, {(): divisor}, atoms)
    ((atom,),) = division
    atoms.quotients[atom] = rest, divisor
    return _sum(total, division)


def _exact_quotient(top: Polynomial, bottom: Polynomial) -> Polynomial | None:
    """The quotient when the divisor is one term that divides every term (sizes are not zero)."""
    if len(bottom) != 1:
        return None
    ((factors, scale),) = bottom.items()
    out: Polynomial = {}
    for monomial, coefficient in top.items():
        left = list(monomial)
        for factor in factors:
            if factor not in left:
                return None
            left.remove(factor)
        if coefficient % scale:
            return None
        out[tuple(left)] = coefficient // scale
    return out


def _atom_of_division(expr: FloorDiv | FloorMod, top: Polynomial, bottom: Polynomial, atoms: _Atoms) -> Polynomial:
    make = floordiv if isinstance(expr, FloorDiv) else floormod
    division = make(_write(top, atoms, expr.dtype), _write(bottom, atoms, expr.dtype))
    return atoms.one((type(expr).type_key, _key(top), _key(bottom)), division)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    out = dict(a)
    for monomial, coefficient in b.items():
        out[monomial] = out.get(monomial, 0) + coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def _scaled(a: Polynomial, factor: int) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in a.items()}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            key = tuple(sorted((*left, *right), key=repr))
            out[key] = out.get(key, 0) + x * y
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def _key(p: Polynomial) -> str:
    return repr(sorted(p.items(), key=repr))


def _write(p: Polynomial, atoms: _Atoms, dtype: str) -> PrimExpr:
    constant = p.get((), 0)
    total: PrimExpr = IntImm(dtype, 0)
    for monomial, coefficient in sorted(((m, c) for m, c in p.items() if m), key=lambda item: _order(item[0], atoms)):
        term = reduce(mul, (atoms.exprs[atom] for atom in monomial))
        total = (
            total - mul(term, -coefficient)
            if coefficient < 0 and total is not None
            else add(total, mul(term, coefficient))
        )
    return add(total, IntImm(dtype, constant)) if constant >= 0 else total - (-constant)


def _order(monomial: Monomial, atoms: _Atoms) -> tuple[int, str]:
    names = [expr.name if isinstance(expr := atoms.exprs[atom], Var) else expr.type_key for atom in monomial]
    return (-len(monomial), " ".join(names))


@deep
def lower_bound(expr: PrimExpr) -> int | None:
    """The smallest value, counting every `SizeVar` and shape variable as at least zero; None when unknown."""
    match expr:
        case IntImm():
            return expr.value
        case SizeVar():
            return 0
        case Add():
            return _both(lower_bound(expr.a), lower_bound(expr.b), int.__add__)
        case Max():
            known = [bound for bound in (lower_bound(expr.a), lower_bound(expr.b)) if bound is not None]
            return max(known, default=None)
        case Min():
            return _both(lower_bound(expr.a), lower_bound(expr.b), min)
        case _:
            return None


def _both(a: int | None, b: int | None, f: Callable[[int, int], int]) -> int | None:
    return None if a is None or b is None else f(a, b)
