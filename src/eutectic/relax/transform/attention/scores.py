"""Scores of attention that a program spells out: a product, a factor, and perhaps a mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

import numpy as np

from eutectic.relax.analysis.uses import is_call_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant
from eutectic.relax.op.shapes import is_one, same
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.attention.products import Product, products_of

ReadOnce: TypeAlias = Callable[[Expr], Call | None]
_PLANE: Final = 2  # axes of all scores


@dataclass(frozen=True)
class Mask:
    """What a program does with scaled scores before the softmax.

    Attributes:
        value: Truth values, or what is added.
        hidden: What scores are that truth values hide; None of what is added.
        shows: Whether true keeps a score.
    """

    value: Expr
    hidden: float | None = None
    shows: bool = True

    @property
    def is_causal(self) -> bool:
        """Whether it is known to hide the keys behind a query, and nothing else, with scores of minus infinity."""
        if not isinstance(self.value, Constant):
            return False
        data = self.value.data
        if self.hidden is None:
            seen = data == 0
            is_hidden = bool(np.isneginf(data[~seen]).all())
        else:
            seen, is_hidden = data == self.shows, self.hidden == -math.inf
        is_one_plane = seen.ndim >= _PLANE and seen.size == prod(seen.shape[-2:])
        return is_one_plane and is_hidden and bool((seen == np.tri(*seen.shape[-2:], dtype=np.bool_)).all())


@dataclass(frozen=True)
class Scores:
    """Scores that a program spells out.

    Attributes:
        product: `(..., s, t)`, of queries and keys.
        factor: Of the product.
        mask: What is done with them after that.
        steps: All calls, in the order in which they are done.
    """

    product: Product
    factor: float
    mask: Mask | None
    steps: tuple[Call, ...]


def scores_of(expr: Expr, read_once: ReadOnce) -> Scores | None:
    """How an expression is computed; None where that is no way in which scores of attention are.

    Args:
        expr: What a softmax reads.
        read_once: The call whose result an expression is, provided that nobody else reads it.
    """
    last = read_once(expr)
    if last is None:
        return None
    plain = _scaled(last, read_once)
    if plain is not None:
        return plain
    for value, mask in _masked(last):
        inner = read_once(value)
        scaled = None if inner is None else _scaled(inner, read_once)
        if scaled is not None and _broadcasts(mask.value, scaled.product.call):
            return Scores(scaled.product, scaled.factor, mask, (*scaled.steps, last))
    return None


def _scaled(call: Call, read_once: ReadOnce) -> Scores | None:
    """Scores without a mask."""
    product = _product(call)
    if product is not None:
        return Scores(product, 1.0, None, (call,))
    for value, factor in _factors(call):
        inner = read_once(value)
        product = None if inner is None else _product(inner)
        if product is not None:
            return Scores(product, factor, None, (product.call, call))
    return None


def _product(call: Call) -> Product | None:
    return next((product for product in products_of(call) if product.is_in_order), None)


def _factors(call: Call) -> Iterator[tuple[Expr, float]]:
    """What a call multiplies by a number, and the number."""
    if is_call_of(call, "relax.multiply"):
        for value, factor in (call.args, call.args[::-1]):
            number = _number(factor)
            if number is not None:
                yield value, number
    elif is_call_of(call, "relax.divide"):
        number = _number(call.args[1])
        if number:
            yield call.args[0], 1 / number


def _masked(call: Call) -> Iterator[tuple[Expr, Mask]]:
    """What a call masks, and how; a sum has two ways."""
    if is_call_of(call, "relax.add"):
        yield from ((value, Mask(term)) for value, term in (call.args, call.args[::-1]))
    elif is_call_of(call, "relax.where"):
        truth, first, second = call.args
        for value, hidden, shows in ((first, second, True), (second, first, False)):
            number = _number(hidden)
            if number is not None:
                yield value, Mask(truth, number, shows)


def _number(expr: Expr) -> float | None:
    """The value of a constant that is one number."""
    if not isinstance(expr, Constant) or expr.data.size != 1 or expr.data.ndim > _PLANE:
        return None
    return float(expr.data.reshape(()))


def _broadcasts(mask: Expr, scores: Call) -> bool:
    """Whether a mask broadcasts to scores, and these need not broadcast to it."""
    infos = [x.struct_info for x in (mask, scores)]
    shapes = [info.dims for info in infos if isinstance(info, TensorStructInfo) and info.dims is not None]
    if len(shapes) < len(infos) or len(shapes[0]) > len(shapes[1]):
        return False
    pairs = zip(reversed(shapes[0]), reversed(shapes[1]), strict=False)
    return all(is_one(size) or same(size, whole) for size, whole in pairs)
