"""Options that take one of some words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.support.errors import PassError
from eutectic.support.spelling import did_you_mean


def check_choice(refusal: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of some choices.

    Args:
        refusal: What is refused, with the value: the beginning of the message, which the choices follow.
        value: What was received.
        choices: What there is.

    Raises:
        PassError: it is none of them; the help names the nearest.
    """
    if not isinstance(value, str) or value not in choices:
        expected = " or ".join(map(repr, choices))
        raise PassError(f"{refusal}: expected {expected}", help=did_you_mean(str(value), choices))
