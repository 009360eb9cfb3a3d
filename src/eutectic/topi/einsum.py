"""Sums of products of tensors, written with a letter per axis."""

from __future__ import annotations

from functools import reduce
from typing import Any

from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.topi.elementwise import cast
from eutectic.topi.shapes import is_one
from eutectic.topi.special_values import accumulator


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """Products of elements whose axes share letters, summed over the letters that the result lacks.

    Args:
        subscripts: A group of letters per operand, separated by commas, and optionally `->` and the letters of
            the result; without it these are the letters that occur once, sorted.
        operands: Tensors of one dtype; a size of one fits every other under the same letter.

    Returns:
        One axis per letter of the result; a stage `T_einsum`, and a cast of floats of 16 bits, which are summed
        in float32, and of bool, which is counted.

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
    sizes: dict[str, PrimExpr] = {}
    for group, x in zip(groups, operands, strict=True):
        for letter, size in zip(group, x.shape, strict=True):
            if letter not in sizes or is_one(sizes[letter]):
                sizes[letter] = size
    over = {c: reduce_axis((0, sizes[c]), f"r{c}") for c in dict.fromkeys(joined) if c not in result}
    dtype = operands[0].dtype
    wide = "int32" if dtype == "bool" else accumulator(dtype)

    def element(*at: PrimExpr) -> Any:
        place: dict[str, Any] = {**dict(zip(result, at, strict=True)), **over}
        factors = [
            x(*map(_index, x.shape, group, [place] * len(group))) for x, group in zip(operands, groups, strict=True)
        ]
        value: PrimExpr = reduce(lambda a, b: a * b, (factor.astype(wide) for factor in factors))
        return te_sum(value, list(over.values())) if over else value

    def _index(size: PrimExpr, letter: str, place: dict[str, Any]) -> Any:
        return IntImm(size.dtype, 0) if is_one(size) and not is_one(sizes[letter]) else place[letter]

    shape = [sizes[letter] for letter in result]
    total: Tensor = compute(
        shape, lambda *at: element(*at), "T_einsum", "einsum", varargs_names=[f"ax{i}" for i in range(len(shape))]
    )
    return cast(total, dtype) if wide != dtype else total
