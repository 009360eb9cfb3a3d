"""Index maps made of splits and fuses: recognised, checked for overlap and cover, inverted.

An index is a sum of digits. A digit, `IterSplit`, is `source // lower_factor %
extent * scale` of an `IterMark`: an input variable, counted from zero, or a
compact sum of digits that was fused to one number. Extents are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal, TypeAlias

from eutectic.arith.analyzer import Analyzer, RangeLike
from eutectic.arith.interval import Interval
from eutectic.ir.prim_expr import Add, Cast, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var, as_prim
from eutectic.support.deep import deep

Check: TypeAlias = Literal["bijective", "surjective", "none"]
IterRange: TypeAlias = "RangeLike | tuple[int, int]"  # a tuple is (min, extent)
CHECKS: Final = ("bijective", "surjective", "none")


@dataclass(frozen=True, slots=True)
class IterMark:
    """A number from 0 to `extent - 1` that digits are taken from."""

    source: Var | IterSum
    extent: int


@dataclass(frozen=True, slots=True)
class IterSplit:
    """`source // lower_factor % extent * scale`; `lower_factor * extent` divides the extent of the source."""

    source: IterMark
    lower_factor: int
    extent: int
    scale: int


@dataclass(frozen=True, slots=True)
class IterSum:
    """The sum of `args`, largest scale first, and `base`."""

    args: tuple[IterSplit, ...]
    base: int

    @property
    def extent(self) -> int:
        """Number of values of a compact sum."""
        return prod(split.extent for split in self.args)


@dataclass(frozen=True, slots=True)
class IterMap:
    """A recognised index map.

    Attributes:
        indices: One sum per index.
        input_iters: First value and extent of each input variable.
        check: What was checked: `bijective` (onto the box of the index extents), `surjective`, or `none`.
    """

    indices: tuple[IterSum, ...]
    input_iters: Mapping[Var, tuple[int, int]]
    check: Check


@dataclass(frozen=True, slots=True)
class IterRefusal:
    """Why an index map was not recognised.

    Attributes:
        why: One sentence.
        kind: `not affine`, `overlap`, `not covered`, `extent` or `predicate`.
        index: Number of the index, or None when it concerns no single one.
    """

    why: str
    kind: str
    index: int | None = None


class _NotRecognisedError(Exception):
    """Carries a refusal out of the walk; never leaves this module."""

    def __init__(self, why: str, kind: str) -> None:
        super().__init__(why)
        self.why, self.kind = why, kind


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, IterRange],
    predicate: PrimExpr | bool = True,
    check: Check = "bijective",
    analyzer: Analyzer | None = None,
) -> IterMap | IterRefusal:
    """Recognise indices as splits and fuses of the input variables.

    Args:
        indices: Index expressions.
        input_iters: Range of each input variable; all variables run over the full box.
        predicate: Condition on the inputs; it must follow from the ranges.
        check: `bijective`: every input gives another tuple of indices, and every
            tuple within the extents is hit; `surjective`: every tuple is hit;
            `none`: the indices are only recognised.
        analyzer: Facts about other variables.

    Returns:
        The map, or the reason why it was not recognised, which does not mean that
        the property fails, only that it was not shown.
    """
    ranges = _ranges(input_iters, analyzer)
    if isinstance(ranges, IterRefusal):
        return ranges
    under = _under(ranges, analyzer)
    if not under.can_prove(as_prim(predicate, "bool")):
        return IterRefusal("the predicate does not follow from the ranges", "predicate")
    written = _recognised(indices, ranges, check)
    if isinstance(written, IterMap):
        return written
    return _recognised([under.simplify(index) for index in indices], ranges, check)


def _recognised(
    indices: Sequence[PrimExpr], ranges: Mapping[Var, tuple[int, int]], check: Check
) -> IterMap | IterRefusal:
    """The map of the indices as they are written: simplifying may hide a fused number, or bring out a digit."""
    sums: list[IterSum] = []
    for number, index in enumerate(indices):
        try:
            parsed = _parse(index, ranges)
            sums.append(parsed if check == "none" else _compact(parsed, unit=True))
        except _NotRecognisedError as refused:
            return IterRefusal(f"index {number}: {refused.why}", refused.kind, number)
    if check != "none":
        try:
            _check_cover(sums, ranges, bijective=check == "bijective")
        except _NotRecognisedError as refused:
            return IterRefusal(refused.why, refused.kind)
    return IterMap(tuple(sums), ranges, check)


def normalize_to_iter_sum(
    index: PrimExpr, input_iters: Mapping[Var, IterRange], analyzer: Analyzer | None = None
) -> IterSum | IterRefusal:
    """One index as a sum of digits, which need not be compact."""
    iter_map = detect_iter_map([index], input_iters, check="none", analyzer=analyzer)
    return iter_map if isinstance(iter_map, IterRefusal) else iter_map.indices[0]


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, IterRange],
    predicate: PrimExpr | bool = True,
    check: Check = "none",
    analyzer: Analyzer | None = None,
) -> list[PrimExpr]:
    """The indices as sums of digits where they are recognised, else simplified under the ranges."""
    ranges = _ranges(input_iters, analyzer)
    if isinstance(ranges, IterRefusal):
        return [(analyzer or Analyzer()).simplify(index) for index in indices]
    under = _under(ranges, analyzer)
    whole = detect_iter_map(indices, input_iters, predicate, check, analyzer)
    if isinstance(whole, IterRefusal):
        return [under.simplify(index) for index in indices]
    pairs = zip(whole.indices, indices, strict=True)
    return [under.simplify(iter_sum_to_expr(item, ranges, index.dtype)) for item, index in pairs]


@deep
def iter_sum_to_expr(item: IterSum, input_iters: Mapping[Var, tuple[int, int]], dtype: str) -> PrimExpr:
    """A sum of digits as an expression."""
    total: PrimExpr = IntImm(dtype, item.base)
    for split in item.args:
        source = split.source.source
        if isinstance(source, Var):
            value: PrimExpr = source - input_iters[source][0]
        else:
            value = iter_sum_to_expr(source, input_iters, dtype)
        if split.lower_factor != 1:
            value = value // split.lower_factor
        if split.lower_factor * split.extent != split.source.extent:
            value = value % split.extent
        total = total + value * split.scale
    return total


def inverse_affine_iter_map(iter_map: IterMap, outputs: Sequence[PrimExpr]) -> dict[Var, PrimExpr]:
    """The inputs of a bijective map from its outputs.

    Args:
        iter_map: A map that was checked to be bijective.
        outputs: One expression per index, within the extent of that index.

    Raises:
        ValueError: the map was not checked to be bijective, or the number of outputs is wrong.
    """
    if iter_map.check != "bijective" or len(outputs) != len(iter_map.indices):
        raise ValueError(
            f"a {iter_map.check} map of {len(iter_map.indices)} indices has no inverse at {len(outputs)} outputs"
        )
    values: dict[IterMark, PrimExpr] = {}
    pending = [(item, output - item.base) for item, output in zip(iter_map.indices, outputs, strict=True)]
    used: dict[IterMark, int] = {}
    while pending:
        item, number = pending.pop()
        for split in item.args:
            digit = number // split.scale % split.extent * split.lower_factor
            values[split.source] = values[split.source] + digit if split.source in values else digit
            used[split.source] = used.get(split.source, 1) * split.extent
            inner = split.source.source
            if isinstance(inner, IterSum) and used[split.source] == split.source.extent:
                pending.append((inner, values[split.source] - inner.base))
    inverse: dict[Var, PrimExpr] = {}
    for var, (low, extent) in iter_map.input_iters.items():
        inverse[var] = Analyzer().simplify(values.get(IterMark(var, extent), IntImm(var.dtype, 0)) + low)
    return inverse


def subspace_divide(iter_map: IterMap, sub_iters: Sequence[Var]) -> list[tuple[IterSum, IterSum]] | IterRefusal:
    """Take each index apart as `outer * extent of inner + inner`, where only `inner` uses `sub_iters`.

    Args:
        iter_map: A map that was checked to be bijective or surjective.
        sub_iters: Input variables of the inner space.

    Returns:
        Outer and inner sum per index, the outer one in units of the inner extent.
    """
    if iter_map.check == "none":
        return IterRefusal("the map was not checked to cover its indices", "not covered")
    inner_vars = set(sub_iters)
    pairs: list[tuple[IterSum, IterSum]] = []
    for number, item in enumerate(iter_map.indices):
        kinds = [_kind(split.source, inner_vars) for split in item.args]
        cut = kinds.index({True}) if {True} in kinds else len(kinds)
        if any(len(kind) > 1 for kind in kinds) or {False} in kinds[cut:]:
            why = f"index {number}: inner and outer variables are mixed"
            return IterRefusal(why, "overlap", number)
        inner = IterSum(item.args[cut:], 0)
        outer = tuple(replace(split, scale=split.scale // inner.extent) for split in item.args[:cut])
        pairs.append((IterSum(outer, 0), replace(inner, base=item.base)))
    return pairs


@deep
def _kind(mark: IterMark, inner: set[Var]) -> set[bool]:
    if isinstance(mark.source, Var):
        return {mark.source in inner}
    return set().union(*(_kind(split.source, inner) for split in mark.source.args))


# ---- reading expressions


def _ranges(
    input_iters: Mapping[Var, IterRange], analyzer: Analyzer | None
) -> dict[Var, tuple[int, int]] | IterRefusal:
    under = analyzer or Analyzer()
    ranges: dict[Var, tuple[int, int]] = {}
    for var, iter_range in input_iters.items():
        ends = iter_range if isinstance(iter_range, tuple) else (iter_range.min, iter_range.extent)
        low, extent = (under.simplify(as_prim(end, var.dtype)) for end in ends)
        if not (isinstance(low, IntImm) and isinstance(extent, IntImm) and extent.value > 0):
            return IterRefusal(f"the range of {var.name} is not constant and positive", "extent")
        ranges[var] = (low.value, extent.value)
    return ranges


def _under(ranges: Mapping[Var, tuple[int, int]], analyzer: Analyzer | None) -> Analyzer:
    under = Analyzer() if analyzer is None else analyzer.copy()
    for var, (low, extent) in ranges.items():
        under.bind(var, Interval(low, low + extent - 1))
    return under


@deep
def _parse(expr: PrimExpr, ranges: Mapping[Var, tuple[int, int]]) -> IterSum:
    match expr:
        case IntImm():
            return IterSum((), expr.value)
        case Var() if expr in ranges:
            low, extent = ranges[expr]
            return _sum([IterSplit(IterMark(expr, extent), 1, extent, 1)], low)
        case Add() | Sub():
            a, b = _parse(expr.a, ranges), _parse(expr.b, ranges)
            b = _scaled(b, -1) if isinstance(expr, Sub) else b
            return _sum([*a.args, *b.args], a.base + b.base)
        case Mul() if isinstance(expr.b, IntImm):
            return _scaled(_parse(expr.a, ranges), expr.b.value)
        case FloorDiv() | FloorMod() if isinstance(expr.b, IntImm) and expr.b.value > 0:
            return _divided(_parse(expr.a, ranges), expr.b.value, quotient=isinstance(expr, FloorDiv))
        case Cast() if expr.widens:
            return _parse(expr.value, ranges)
        case _:
            what = f"variable {expr.name}, which is no input" if isinstance(expr, Var) else type(expr).__name__
            raise _NotRecognisedError(f"{what} is not affine in the inputs", "not affine")


def _scaled(item: IterSum, factor: int) -> IterSum:
    return _sum([replace(split, scale=split.scale * factor) for split in item.args], item.base * factor)


def _sum(splits: Sequence[IterSplit], base: int) -> IterSum:
    """Equal digits added up; those that are always zero go."""
    scales: dict[tuple[IterMark, int, int], int] = {}
    for split in splits:
        key = (split.source, split.lower_factor, split.extent)
        scales[key] = scales.get(key, 0) + split.scale
    kept = [IterSplit(*key, scale) for key, scale in scales.items() if scale and key[2] > 1]
    return IterSum(tuple(sorted(kept, key=lambda split: -split.scale)), base)


def _compact(item: IterSum, *, unit: bool = False) -> IterSum:
    """`item`, checked to be the number whose digits its splits are."""
    expected = item.args[-1].scale if item.args else 1
    if unit and expected > 1:
        raise _NotRecognisedError(f"values between multiples of {expected} are not hit", "not covered")
    if expected < 0:
        raise _NotRecognisedError("a digit is subtracted", "not affine")
    for split in reversed(item.args):
        if split.scale != expected:
            kind = "overlap" if split.scale < expected else "not covered"
            raise _NotRecognisedError(f"a digit has factor {split.scale} where {expected} makes it compact", kind)
        expected *= split.extent
    return item


def _divided(item: IterSum, d: int, *, quotient: bool) -> IterSum:
    if not item.args:
        return IterSum((), item.base // d if quotient else item.base % d)
    whole = _compact(item)
    unit = whole.args[-1].scale
    if unit % d == 0:
        return _scaled_down(whole, d) if quotient else IterSum((), whole.base % d)
    if d % unit or not 0 <= whole.base < unit:
        raise _NotRecognisedError(f"division by {d} of multiples of {unit} with offset {whole.base}", "not affine")
    if len(whole.args) == 1:
        split = replace(whole.args[0], scale=1)
    else:
        digits = IterSum(tuple(replace(s, scale=s.scale // unit) for s in whole.args), 0)
        split = IterSplit(IterMark(digits, digits.extent), 1, digits.extent, 1)
    size = d // unit
    if size >= split.extent:
        return IterSum((), 0) if quotient else whole
    if split.extent % size:
        raise _NotRecognisedError(f"{size} does not divide the extent {split.extent}", "not affine")
    if quotient:
        lower, extent = split.lower_factor * size, split.extent // size
        return _sum([IterSplit(split.source, lower, extent, 1)], 0)
    return _sum([replace(split, extent=size, scale=unit)], whole.base)


def _scaled_down(item: IterSum, d: int) -> IterSum:
    return IterSum(tuple(replace(split, scale=split.scale // d) for split in item.args), item.base // d)


# ---- overlap and cover


def _check_cover(sums: Sequence[IterSum], ranges: Mapping[Var, tuple[int, int]], *, bijective: bool) -> None:
    """Digits of one source do not overlap, and cover it when the map must be bijective."""
    used: dict[IterMark, list[IterSplit]] = {}
    pending = [split for item in sums for split in item.args]
    while pending:
        split = pending.pop()
        inner = split.source.source
        if split.source not in used and isinstance(inner, IterSum):
            pending += inner.args
        used.setdefault(split.source, []).append(split)
    for mark, splits in used.items():
        name = mark.source.name if isinstance(mark.source, Var) else "a fused index"
        reached = 1
        for split in sorted(splits, key=lambda split: split.lower_factor):
            if split.lower_factor % reached:
                raise _NotRecognisedError(f"digits of {name} overlap", "overlap")
            if bijective and split.lower_factor != reached:
                raise _NotRecognisedError(f"a digit of {name} is not used", "not covered")
            reached = split.lower_factor * split.extent
        if bijective and reached != mark.extent:
            raise _NotRecognisedError(f"a digit of {name} is not used", "not covered")
    for var, (_, extent) in ranges.items():
        if bijective and extent > 1 and IterMark(var, extent) not in used:
            raise _NotRecognisedError(f"{var.name} is not used", "not covered")
