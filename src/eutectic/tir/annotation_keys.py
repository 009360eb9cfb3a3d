"""What annotations of loops and blocks are known, what each says, and which values it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from eutectic.support.spelling import did_you_mean
from eutectic.tir.block import DETECT_ACCESS

ALIGNMENT: Final = "buffer_dim_align"
"""Annotation of a block: a list of (index of a written buffer, axis, factor, offset) per alignment."""

PREFETCH: Final = "prefetch"
"""Annotation of a loop: a list of (name of a buffer, iterations ahead), each with `SPREAD` behind it or not."""

SPREAD: Final = "spread"
"""In a prefetch: iterations of the loop around, which read the same elements, each ask for a part of them."""

OWN_PREFIX: Final = "user."
"""Begins the keys that users may choose; nothing here reads them."""


@dataclass(frozen=True, slots=True)
class AnnotationKey:
    """A key that something reads.

    Attributes:
        name: The key.
        holder: What has it.
        meaning: What it says.
        takes: Its values, in words.
        accepts: Whether a value is one of these.
    """

    name: str
    holder: Literal["loop", "block"]
    meaning: str
    takes: str
    accepts: Callable[[Any], bool]


def _is_list_of(item: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, tuple) and bool(value) and all(map(item, value))


def _is_alignment(value: Any) -> bool:
    numbers = isinstance(value, tuple) and len(value) == 4 and all(type(item) is int for item in value)
    return numbers and value[0] >= 0 and value[1] >= 0 and value[2] > 0


def _is_prefetch(value: Any) -> bool:
    known = isinstance(value, tuple) and len(value) >= 2 and value[2:] in ((), (SPREAD,)) and isinstance(value[0], str)
    return known and type(value[1]) is int and value[1] > 0


KEYS: Final[dict[str, AnnotationKey]] = {
    key.name: key
    for key in (
        AnnotationKey(
            ALIGNMENT,
            "block",
            "strides of written buffers that are allocated in the function; storage_align writes it",
            "a list of [index of a written buffer, axis, factor, offset]",
            _is_list_of(_is_alignment),
        ),
        AnnotationKey(
            PREFETCH,
            "loop",
            "what is asked for from memory some iterations before it is read; prefetch writes it",
            f'a list of [name of a buffer, iterations ahead] or [..., "{SPREAD}"]',
            _is_list_of(_is_prefetch),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Objection:
    """Why an annotation is not one.

    Attributes:
        message: What is wrong.
        help: What to do.
    """

    message: str
    help: str | None


def objection(key: object, value: object, holder: str) -> Objection | None:
    """Why a loop or block cannot have an annotation; None when it can.

    Args:
        key: The key.
        value: The value, with tuples for lists.
        holder: `loop` or `block`.
    """
    if not isinstance(key, str):
        return Objection(f"a key is a string, got {type(key).__name__}", None)
    if key == DETECT_ACCESS:
        return Objection(f"{key} says which regions a block leaves out", "use another key")
    if key.startswith(OWN_PREFIX) and key != OWN_PREFIX:
        return None
    known = KEYS.get(key)
    if known is None:
        listed = ", ".join(sorted(KEYS))
        near = did_you_mean(key, KEYS) or f"a key of your own begins with {OWN_PREFIX}, as {OWN_PREFIX}{key}"
        return Objection(f"nothing reads annotation {key!r}; known keys: {listed}", near)
    if known.holder != holder:
        return Objection(f"{key} is an annotation of a {known.holder}, not of a {holder}", f"it says: {known.meaning}")
    if not known.accepts(value):
        return Objection(f"{key} takes {known.takes}, got {value!r}", None)
    return None
