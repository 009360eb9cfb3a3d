"""Quick proofs about sets of index tuples; what they prove, isl proves, and most of what is asked they prove.

Where loops are tiled and a tuple has one digit for each loop, equations between indices fall apart into equations of
digits, and the points of one set can be computed from the tuples of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from eutectic.arith.linear_form import NotLinearError, Parameters, Reader
from eutectic.arith.linear_system import Atom, LinearSystem, Sum, plus, scaled
from eutectic.ir.prim_expr import PrimExpr, Var


@dataclass(frozen=True, slots=True)
class Tuples:
    """The index tuples that a loop nest reaches.

    Attributes:
        indices: One expression per axis.
        ends: First value and number of values of each loop variable.
        conditions: Only where all of these hold.
    """

    indices: tuple[PrimExpr, ...]
    ends: Mapping[Var, tuple[PrimExpr, PrimExpr]]
    conditions: tuple[PrimExpr, ...]


Question: TypeAlias = Callable[[LinearSystem, Parameters, Sequence[Tuples]], bool]


def proves(question: Question, sets: Sequence[Tuples], assumption: PrimExpr) -> bool:
    """Whether a question of this module is answered with yes; no says nothing.

    Args:
        question: One of the functions below.
        sets: What it is about.
        assumption: A condition that holds.
    """
    system = LinearSystem()
    parameters = Parameters(system, frozenset(var for item in sets for var in item.ends))
    try:
        try:
            system.add(Reader(parameters).conjunction(assumption))
        except NotLinearError:  # it could be about loop variables, and holds of those of each set then
            sets = [replace(item, conditions=(*item.conditions, assumption)) for item in sets]
        return question(system, parameters, sets)
    except NotLinearError:
        return False


def is_empty(system: LinearSystem, parameters: Parameters, sets: Sequence[Tuples]) -> bool:
    """There is no tuple."""
    reader = _points(system, parameters, sets[0])
    for index in sets[0].indices:
        reader.total(index)
    return system.is_contradictory()


def disjoint(system: LinearSystem, parameters: Parameters, sets: Sequence[Tuples]) -> bool:
    """Two sets have no tuple in common."""
    first, second = (_points(system, parameters, item) for item in sets)
    system.add(_equal(first, sets[0], second, sets[1]))
    return system.is_contradictory()


def is_injective(system: LinearSystem, parameters: Parameters, sets: Sequence[Tuples]) -> bool:
    """Different iterations reach different tuples."""
    (one,) = sets
    first, second = _points(system, parameters, one), _points(system, parameters, one)
    system.add(_equal(first, one, second, one))
    different: list[list[Atom]] = []
    for var in one.ends:
        gap = plus(first.values[var], second.values[var], -1)
        different += [[(">=", plus(gap, {0: 1}, -1))], [(">=", plus(scaled(gap, -1), {0: 1}, -1))]]
    system.add([("or", different)])
    return system.is_contradictory()


def covers(system: LinearSystem, parameters: Parameters, sets: Sequence[Tuples]) -> bool:
    """Each tuple of the second set is one of the first: an iteration that reaches it can be computed from it."""
    wide, narrow = sets
    inside = _points(system, parameters, narrow)
    wanted = [inside.total(index) for index in narrow.indices]
    witness = _Witness(system, parameters, wide).find(wanted)
    if witness is None:
        return False
    if system.is_contradictory():
        return True
    needed = [plus(witness.total(index), goal, -1) for index, goal in zip(wide.indices, wanted, strict=True)]
    wrong: list[list[Atom]] = [atoms for gap in needed for atoms in _nonzero(gap)]
    for var, (low, extent) in wide.ends.items():
        begin = witness.total(low)
        offset = plus(witness.values[var], begin, -1)
        wrong.append([(">=", plus(scaled(offset, -1), {0: 1}, -1))])
        wrong.append([(">=", plus(offset, witness.total(extent), -1))])
    wrong += [witness.conjunction(condition, False) for condition in wide.conditions]
    return all(system.contradicts(atoms) for atoms in wrong)


def _nonzero(gap: Sum) -> list[list[Atom]]:
    if not gap:
        return []
    return [[(">=", plus(gap, {0: 1}, -1))], [(">=", plus(scaled(gap, -1), {0: 1}, -1))]]


def _points(system: LinearSystem, parameters: Parameters, item: Tuples) -> Reader:
    """Numbers for the loop variables of a set, with their bounds and conditions."""
    reader = Reader(parameters)
    later: list[tuple[int, PrimExpr, PrimExpr]] = []
    for var, (low, extent) in item.ends.items():
        first, count = _constant(low), _constant(extent)
        if first is None or count is None:
            number = system.variable()
            later.append((number, low, extent))
        else:
            number = system.variable(first, first + count - 1)
        reader.values[var] = {number: 1}
    for number, low, extent in later:
        offset = plus({number: 1}, reader.total(low), -1)
        system.add([(">=", offset), (">=", plus(plus(reader.total(extent), offset, -1), {0: 1}, -1))])
    for condition in item.conditions:
        system.add(reader.conjunction(condition))
    return reader


def _constant(expr: PrimExpr) -> int | None:
    value = getattr(expr, "value", None)
    return value if type(value) is int else None


def _equal(first: Reader, a: Tuples, second: Reader, b: Tuples) -> list[Atom]:
    pairs = zip(a.indices, b.indices, strict=True)
    return [("=", plus(first.total(left), second.total(right), -1)) for left, right in pairs]


class _Witness:
    """An iteration that reaches a tuple, in terms of the tuple; whether it is one is to be proved by others.

    Args:
        system: Where quotients are added.
        parameters: What else the set depends on.
        wide: The set.
    """

    def __init__(self, system: LinearSystem, parameters: Parameters, wide: Tuples) -> None:
        self.system, self.parameters, self.wide = system, parameters, wide
        self.names = {var: system.variable() for var in wide.ends}
        self.known: dict[int, Sum] = {}
        self.reader = Reader(parameters, {var: {number: 1} for var, number in self.names.items()})

    def find(self, wanted: Sequence[Sum]) -> Reader | None:
        """A reader to whom the loop variables of the set are sums; None when there is no obvious iteration."""
        todo = [plus(self.reader.total(index), goal, -1) for index, goal in zip(self.wide.indices, wanted, strict=True)]
        for condition in self.wide.conditions:
            todo += [atom[1] for atom in self.reader.conjunction(condition) if atom[0] == "="]
        for var, (low, extent) in self.wide.ends.items():
            if _constant(extent) == 1:
                self.known[self.names[var]] = self.reader.total(low)
        while len(self.known) < len(self.names):
            todo = [self._replaced(total) for total in todo]
            ready = min((total for total in todo if self._open(total)), key=lambda x: len(self._open(x)), default=None)
            if ready is None:
                self._begin()
            elif not self._solve(ready):
                return None
        values = {var: self._final({number: 1}) for var, number in self.names.items()}
        return None if None in values.values() else Reader(self.parameters, values)  # type: ignore[arg-type]

    def _open(self, total: Sum) -> list[int]:
        return [number for number in self.names.values() if number in total and number not in self.known]

    def _replaced(self, total: Sum) -> Sum:
        for number in self.names.values():
            if number in total and number in self.known:
                factor = total[number]
                total = plus({key: value for key, value in total.items() if key != number}, self.known[number], factor)
        return total

    def _final(self, total: Sum) -> Sum | None:
        for _ in self.names:
            total = self._replaced(total)
        return total if not any(number in total for number in self.names.values()) else None

    def _begin(self) -> None:
        """Loops that no index depends on: their first iterations."""
        for var, number in self.names.items():
            if number not in self.known:
                self.known[number] = self.reader.total(self.wide.ends[var][0])

    def _solve(self, total: Sum) -> bool:
        """The digits of a number, from an equation."""
        unknown = sorted(self._open(total), key=lambda number: -abs(total[number]))
        rest = {key: value for key, value in total.items() if key not in unknown}
        if len(unknown) == 1 and abs(total[unknown[0]]) == 1:
            self.known[unknown[0]] = scaled(rest, -total[unknown[0]])
            return True
        if any(total[number] < 0 for number in unknown):
            if any(total[number] > 0 for number in unknown):
                return False
            total, rest = scaled(total, -1), scaled(rest, -1)
        lows = {number: self.reader.total(self.wide.ends[var][0]) for var, number in self.names.items()}
        left = scaled(rest, -1)
        for number in unknown:
            left = plus(left, lows[number], -total[number])
        if any(number in left for number in self.names.values()):
            return False
        for number in unknown:
            digit, left = self._digit(left, total[number])
            self.known[number] = plus(lows[number], digit)
        return True

    def _digit(self, left: Sum, base: int) -> tuple[Sum, Sum]:
        if base == 1:
            return left, {}
        quotient, remainder = self.parameters.division(left, base)
        return {quotient: 1}, {remainder: 1}
