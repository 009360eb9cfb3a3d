"""Sums of products of tensors, written with a letter per axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.topi.elementwise import cast
from eutectic.topi.shapes import is_one
from eutectic.topi.special_values import accumulator

_MOST_AT_ONCE: Final = 2  # operands that are always multiplied together
_LESS_WORK: Final = 1.3  # factor from which on tensors in between are worth their memory
_LIKELY: Final = 64  # what counts for a size that varies


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """Products of elements whose axes share letters, summed over the letters that the result lacks.

    Args:
        subscripts: A group of letters per operand, separated by commas, and optionally `->` and the letters of
            the result; without it these are the letters that occur once, sorted.
        operands: Tensors of one dtype; a size of one fits every other under the same letter.

    Returns:
        One axis per letter of the result; a stage `T_einsum` for all operands, or for a few at a time of three and
        more where that is much less work, and a cast of floats of 16 bits, which are summed in float32, and of bool,
        which is counted.

    Raises:
        ValueError: another number of operands or axes.

    Reference: numpy.einsum without ellipsis; TVM topi.einsum.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    groups = inputs.split(",")
    if [len(group) for group in groups] != [len(x.shape) for x in operands]:
        raise ValueError(f"einsum {subscripts!r} does not go with {', '.join(map(repr, operands))}")
    joined = "".join(groups)
    result = output if arrow else "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    dtype = operands[0].dtype
    wide = "int32" if dtype == "bool" else accumulator(dtype)
    sizes = _sizes(groups, operands)
    left = list(zip(groups, operands, strict=True))
    for places in _path(groups, result, sizes):
        taken = [left[place] for place in places]
        left = [item for place, item in enumerate(left) if place not in places]
        letters = _letters([letters for letters, _ in taken], [letters for letters, _ in left], result)
        left.append((letters, _sum_of_products(taken, letters, sizes, wide)))
    total = left[0][1]
    return cast(total, dtype) if wide != dtype else total


def _sizes(groups: Sequence[str], operands: Sequence[Tensor]) -> dict[str, PrimExpr]:
    sizes: dict[str, PrimExpr] = {}
    for group, x in zip(groups, operands, strict=True):
        for letter, size in zip(group, x.shape, strict=True):
            if letter not in sizes or is_one(sizes[letter]):
                sizes[letter] = size
    return sizes


def _path(groups: Sequence[str], result: str, sizes: Mapping[str, PrimExpr]) -> Sequence[tuple[int, ...]]:
    """Which operands are multiplied together: a few at a time where that is much less work than all at once.

    What they make comes last among the operands of the next step.

    Reference: D. G. A. Smith and J. Gray, opt_einsum, JOSS 2018, whose greedy order NumPy has.
    """
    at_once = tuple(range(len(groups)))
    if len(groups) <= _MOST_AT_ONCE:
        return [at_once]
    known = {letter: size.value if isinstance(size, IntImm) else _LIKELY for letter, size in sizes.items()}
    examples = [np.broadcast_to(np.float32(0), [known[letter] for letter in group]) for group in groups]
    path: list[tuple[int, ...]] = np.einsum_path(f"{','.join(groups)}->{result}", *examples, optimize="greedy")[0][1:]
    works = [_work(each, groups, result, known) for each in ([at_once], path)]
    return path if works[0] > _LESS_WORK * works[1] else [at_once]


def _letters(taken: Sequence[str], left: Sequence[str], result: str) -> str:
    """The axes of what some operands make, in the order of the result where it has them all."""
    wanted = {*result, *"".join(left)}
    letters = "".join(dict.fromkeys(letter for letter in "".join(taken) if letter in wanted))
    return "".join(letter for letter in result if letter in letters) if set(letters) <= set(result) else letters


def _work(path: Sequence[tuple[int, ...]], groups: Sequence[str], result: str, sizes: Mapping[str, int]) -> int:
    """How many multiplications there are."""
    left, work = [set(group) for group in groups], 0
    for places in path:
        taken = set().union(*(left[place] for place in places))
        left = [letters for place, letters in enumerate(left) if place not in places]
        left.append(taken & set(result).union(*left))
        work += (len(places) - 1) * prod(sizes[letter] for letter in taken)
    return work


def _sum_of_products(
    factors: Sequence[tuple[str, Tensor]], result: str, sizes: Mapping[str, PrimExpr], dtype: str
) -> Tensor:
    """A stage that multiplies tensors with letters for their axes, and sums over what the result lacks."""
    letters = dict.fromkeys(letter for group, _ in factors for letter in group)
    over = {letter: reduce_axis((0, sizes[letter]), f"r{letter}") for letter in letters if letter not in result}

    def element(*at: PrimExpr) -> Any:
        place: dict[str, Any] = {**dict(zip(result, at, strict=True)), **over}
        values = [x(*map(_index, x.shape, group, [place] * len(group))) for group, x in factors]
        value: PrimExpr = reduce(lambda a, b: a * b, (each.astype(dtype) for each in values))
        return te_sum(value, list(over.values())) if over else value

    def _index(size: PrimExpr, letter: str, place: dict[str, Any]) -> Any:
        return IntImm(size.dtype, 0) if is_one(size) and not is_one(sizes[letter]) else place[letter]

    shape = [sizes[letter] for letter in result]
    names = [f"ax{i}" for i in range(len(shape))]
    total: Tensor = compute(shape, lambda *at: element(*at), "T_einsum", "einsum", varargs_names=names)
    return total
