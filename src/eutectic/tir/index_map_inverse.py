"""Inverses of index maps made of splits, fuses and permutations, found where the box must be padded too.

What is found is a guess: `MapOnBox.is_inverse` proves it. So extents that are not constants can stand for some
constants here, and divisions that do not come out even for those of a larger box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm, prod
from typing import Final, TypeAlias

from eutectic.arith.analyzer import Analyzer
from eutectic.arith.interval import Interval
from eutectic.arith.iter_map import IterMap, detect_iter_map, inverse_affine_iter_map, iter_sum_to_expr
from eutectic.ir.prim_expr import Add, FloorDiv, FloorMod, IntImm, PrimExpr, Sub, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.index_map_box import MapOnBox, variables_of
from eutectic.tir.statement_mutator import rewrite_expr

_MANY: Final = 1009  # stands for a number of blocks that is not known
_ROUNDS: Final = 64
Box: TypeAlias = "dict[Var, tuple[int, int]]"  # first value and extent


@dataclass
class _Number:
    """What is divided: a variable, or a sum of several that make one number.

    Attributes:
        core: The variable or the sum.
        periods: Distance of the places where quotients of it change, and what is added to it before, per division.
    """

    core: PrimExpr
    periods: list[tuple[int, int]] = field(default_factory=list)


def inverse_of(space: MapOnBox, variables: Sequence[Var]) -> list[PrimExpr] | None:
    """The inputs of a map from its outputs, at all points of the box; None when none was found and proved.

    Args:
        space: The map.
        variables: One variable per output.
    """
    for simple in (False, True):  # simplifying may hide a fused number, or bring out a digit
        outputs = [space.analyzer.simplify(item) if simple else item for item in space.outputs]
        guess = _guess(space, outputs, variables)
        if guess is not None and space.is_inverse(variables, guess):
            return guess
    return None


def _guess(space: MapOnBox, outputs: Sequence[PrimExpr], variables: Sequence[Var]) -> list[PrimExpr] | None:
    numbers = _numbers(outputs, set(space.inputs))
    if numbers is None:
        return None
    by_var = {item.core: item for item in numbers if isinstance(item.core, Var)}
    box: Box = {}
    for var, size in zip(space.inputs, space.shape, strict=True):
        steps = [period for period, _ in by_var[var].periods] if var in by_var else []
        known = size.value if isinstance(size, IntImm) and size.value > 0 else None
        box[var] = (0, known if known is not None else lcm(*steps) * _MANY)
    inner: dict[Var, IterMap] = {}  # of numbers made of several variables
    replaced: dict[int, Var] = {}
    for item in numbers:
        if not isinstance(item.core, Var):
            fused = _fused(item, box)
            if fused is None:
                return None
            var = replaced[id(item)] = Var("number", item.core.dtype)
            inner[var] = fused
    outer = [_with_numbers(output, [item for item in numbers if id(item) in replaced], replaced) for output in outputs]
    return _inverted(outer, box, inner, [*by_var.values(), *_renamed(numbers, replaced)], variables, space)


def _renamed(numbers: Sequence[_Number], replaced: Mapping[int, Var]) -> list[_Number]:
    return [_Number(replaced[id(item)], item.periods) for item in numbers if id(item) in replaced]


def _inverted(
    outputs: Sequence[PrimExpr],
    box: Box,
    inner: Mapping[Var, IterMap],
    numbers: Sequence[_Number],
    variables: Sequence[Var],
    space: MapOnBox,
) -> list[PrimExpr] | None:
    """Invert the outer map on a box that all divisions come out even on, and then the numbers in it."""
    used = {var for output in outputs for var in variables_of(output)}
    ranges = {var: box[var] for var in space.inputs if var in used or not _is_within(var, inner)}
    for var, part in inner.items():
        size = prod(extent for _, extent in part.input_iters.values())
        ranges[var] = (part.indices[0].base, size)
    padded = _padded(ranges, numbers)
    for attempt in (ranges, padded):
        if attempt is None:
            continue
        iter_map = detect_iter_map(outputs, attempt)
        if isinstance(iter_map, IterMap):
            known = Analyzer()
            for var, item in zip(variables, iter_map.indices, strict=True):
                known.bind(var, Interval(item.base, item.base + item.extent - 1))
            values = dict(inverse_affine_iter_map(iter_map, list(variables)))
            for var, part in inner.items():
                _, count = attempt[var]
                values.update(inverse_affine_iter_map(_longer(part, count), [values[var]]))
            return [known.simplify(values[var]) for var in space.inputs]
    return None


def _longer(iter_map: IterMap, count: int) -> IterMap:
    """The map of several variables to one number, where the first of them goes on until there are `count` numbers."""
    item = iter_map.indices[0]
    top = item.args[0].source.source if item.args else None
    if not isinstance(top, Var):
        return iter_map
    low, extent = iter_map.input_iters[top]
    step = item.extent // extent
    longer = detect_iter_map(
        [iter_sum_to_expr(item, iter_map.input_iters, top.dtype)],
        {**iter_map.input_iters, top: (low, -(-count // step))},
    )
    return longer if isinstance(longer, IterMap) else iter_map


def _is_within(var: Var, inner: Mapping[Var, IterMap]) -> bool:
    return any(var in part.input_iters for part in inner.values())


def _padded(ranges: Box, numbers: Sequence[_Number]) -> Box | None:
    """A box around another at whose ends all quotients change."""
    out = dict(ranges)
    for item in numbers:
        assert isinstance(item.core, Var)
        if item.core not in out:
            return None
        low, extent = out[item.core]
        first, last = _down(low, item.periods), _up(low + extent, item.periods)
        if first is None or last is None:
            return None
        out[item.core] = (first, last - first)
    return out


def _down(value: int, periods: Sequence[tuple[int, int]]) -> int | None:
    for _ in range(_ROUNDS):
        rest = max(((value + offset) % period for period, offset in periods), default=0)
        if rest == 0:
            return value
        value -= rest
    return None


def _up(value: int, periods: Sequence[tuple[int, int]]) -> int | None:
    for _ in range(_ROUNDS):
        rest = max((-(value + offset) % period for period, offset in periods), default=0)
        if rest == 0:
            return value
        value += rest
    return None


def _fused(item: _Number, box: Box) -> IterMap | None:
    """The map from several variables to the number that they make."""
    inside = {var: ends for var, ends in box.items() if var in variables_of(item.core)}
    iter_map = detect_iter_map([item.core], inside)
    return iter_map if isinstance(iter_map, IterMap) else None


def _with_numbers(output: PrimExpr, numbers: Sequence[_Number], replaced: Mapping[int, Var]) -> PrimExpr:
    def change(item: PrimExpr) -> PrimExpr | None:
        return next((replaced[id(n)] for n in numbers if structural_equal(n.core, item)), None)

    return rewrite_expr(output, change)


def _numbers(outputs: Sequence[PrimExpr], inputs: set[Var]) -> list[_Number] | None:
    """What the outputs divide; None when a sum of several variables is divided that shares one with another."""
    numbers: list[_Number] = []
    for item in _divisions(outputs):
        core, period, offset = _core(item)
        if not variables_of(core) <= inputs:
            return None
        known = next((n for n in numbers if structural_equal(n.core, core)), None)
        if known is None:
            known = _Number(core)
            numbers.append(known)
        known.periods.append((period, offset))
    seen: set[Var] = set()
    for number in numbers:
        mine = variables_of(number.core)
        if mine & seen:
            return None
        seen |= mine
    return numbers


def _divisions(outputs: Sequence[PrimExpr]) -> Iterator[FloorDiv | FloorMod]:
    """The outermost divisions come last."""
    for output in outputs:
        for item in post_order(output):
            if isinstance(item, FloorDiv | FloorMod) and isinstance(item.b, IntImm) and item.b.value > 0:
                yield item


def _core(expr: PrimExpr) -> tuple[PrimExpr, int, int]:
    """What is divided in the end, and by how much, with what is added to it: `(core + offset) // period`."""
    layers: list[PrimExpr] = []
    while True:
        match expr:
            case FloorDiv() | FloorMod() if isinstance(expr.b, IntImm) and expr.b.value > 0:
                layers.append(expr)
                expr = expr.a
            case Add() | Sub() if isinstance(expr.b, IntImm) and layers:
                layers.append(expr)
                expr = expr.a
            case Add() if isinstance(expr.a, IntImm) and layers:
                layers.append(expr)
                expr = expr.b
            case _:
                break
    period, offset = 1, 0
    for layer in reversed(layers):
        if isinstance(layer, FloorDiv):
            assert isinstance(layer.b, IntImm)
            period *= layer.b.value
        elif isinstance(layer, Add | Sub):
            number = layer.b if isinstance(layer.b, IntImm) else layer.a
            assert isinstance(number, IntImm)
            offset += (number.value if isinstance(layer, Add) else -number.value) * period
    if isinstance(layers[0], FloorMod):
        assert isinstance(layers[0].b, IntImm)
        period *= layers[0].b.value
    return expr, period, offset
