"""Vectors taken apart into narrower ones, and put together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from eutectic.backend.llvm.function_text import FunctionText
from eutectic.backend.llvm.types import vector


def cut(text: FunctionText, element: str, value: str, sizes: Sequence[int]) -> list[str]:
    """The lanes of a vector as vectors of so many each; of one lane as a scalar.

    Args:
        text: Where instructions go.
        element: LLVM type of a lane.
        value: Register of the vector.
        sizes: Lanes of each part, which are all lanes of the vector together.
    """
    if len(sizes) == 1:
        return [value]
    kind, parts = vector(element, sum(sizes)), []
    for end, size in zip(accumulate(sizes), sizes, strict=True):
        if size == 1:
            parts.append(text.assign(f"extractelement {kind} {value}, i64 {end - 1}"))
        else:
            places = _places(range(end - size, end))
            parts.append(text.assign(f"shufflevector {kind} {value}, {kind} poison, {places}"))
    return parts


def joined(text: FunctionText, element: str, parts: Sequence[str], sizes: Sequence[int]) -> str:
    """One vector of the lanes of several, none of which has more than the ones before it."""
    total, lanes = parts[0], sizes[0]
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        kind = vector(element, lanes)
        if size == 1:
            wider = text.assign(f"shufflevector {kind} {total}, {kind} poison, {_places(range(lanes), 1)}")
            total = text.assign(f"insertelement {vector(element, lanes + 1)} {wider}, {element} {part}, i64 {lanes}")
        else:
            equal = _longer(text, element, part, size, lanes)
            total = text.assign(f"shufflevector {kind} {total}, {kind} {equal}, {_places(range(lanes + size))}")
        lanes += size
    return total


def _longer(text: FunctionText, element: str, part: str, size: int, lanes: int) -> str:
    """A vector as the first lanes of one of more: a shuffle takes two of one kind."""
    if size == lanes:
        return part
    kind = vector(element, size)
    return text.assign(f"shufflevector {kind} {part}, {kind} poison, {_places(range(size), lanes - size)}")


def _places(lanes: Iterable[int], undefined: int = 0) -> str:
    places = [*(f"i32 {lane}" for lane in lanes), *["i32 poison"] * undefined]
    return f"<{len(places)} x i32> <{', '.join(places)}>"
