"""Batched matrix products, whichever operator spells them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.analysis.uses import is_call_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.op.einsum import EinsumAttrs
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.registry import attrs_of
from eutectic.relax.struct_info import TensorStructInfo


@dataclass(frozen=True)
class Operand:
    """A tensor, and the order in which a product takes its axes.

    Attributes:
        value: The tensor.
        axes: Those of the batch, then the last two.
    """

    value: Expr
    axes: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """Of the tensor; empty where it is not known."""
        info = self.value.struct_info
        return info.dtype if isinstance(info, TensorStructInfo) else ""

    @property
    def sizes(self) -> tuple[PrimExpr, ...]:
        """Of the axes, in their order; empty where they are not known."""
        info = self.value.struct_info
        dims = info.dims if isinstance(info, TensorStructInfo) else None
        return () if dims is None else tuple(dims[axis] for axis in self.axes)


@dataclass(frozen=True)
class Product:
    """`(..., i, k)` by `(..., k, j)`.

    Attributes:
        call: What gives it.
        left: The first operand.
        right: The second one.
        result: Which axis of `(..., i, j)` each axis of the result is.
    """

    call: Call
    left: Operand
    right: Operand
    result: tuple[int, ...]

    @property
    def is_in_order(self) -> bool:
        """Whether the result is `(..., i, j)`."""
        return self.result == tuple(range(len(self.result)))


def products_of(call: Call) -> Iterator[Product]:
    """What products a call is; `einsum` is one with its operands in either order."""
    if is_call_of(call, "relax.matmul"):
        ranks = [info.ndim for arg in call.args if isinstance(info := arg.struct_info, TensorStructInfo)]
        if ranks[0] == ranks[1] > 1:
            axes = tuple(range(ranks[0]))
            yield Product(call, Operand(call.args[0], axes), Operand(call.args[1], axes), axes)
    elif is_call_of(call, "relax.einsum") and isinstance(call.args[0], Tuple) and len(call.args[0].fields) == 2:
        yield from _contractions(call, call.args[0].fields)


def _contractions(call: Call, operands: Sequence[Expr]) -> Iterator[Product]:
    inputs, _, output = attrs_of(call, EinsumAttrs).subscripts.partition("->")
    pairs = list(zip(inputs.split(","), operands, strict=True))
    for (left, a), (right, b) in (pairs, pairs[::-1]):
        batch = [letter for letter in left if letter in right and letter in output]
        rows, columns = _rest(left, right), _rest(right, left)
        summed = [letter for letter in left if letter in right and letter not in output]
        letters = {*batch, *rows, *columns, *summed}
        is_plain = len(rows) == len(columns) == len(summed) == 1 and letters == {*left, *right}
        if not is_plain or len(letters) - 1 != len(output) or any(len({*g}) < len(g) for g in (left, right)):
            continue
        plain = [*batch, *rows, *columns]
        yield Product(
            call,
            Operand(a, tuple(map(left.index, [*batch, *rows, *summed]))),
            Operand(b, tuple(map(right.index, [*batch, *summed, *columns]))),
            tuple(map(plain.index, output)),
        )


def _rest(group: str, other: str) -> list[str]:
    return [letter for letter in group if letter not in other]


def in_order(value: Expr, axes: Sequence[int], span: Any = None) -> Expr:
    """A tensor with its axes in an order; itself where they are."""
    return value if list(axes) == sorted(axes) else permute_dims(value, tuple(axes), span=span)
