"""Equations of einsum with a letter for each axis, also for those that torch writes as an ellipsis."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Final

_DOTS: Final = "..."


def spelled_out(equation: str, ranks: Sequence[int]) -> str | None:
    """An equation without ellipsis.

    Args:
        equation: As torch takes it. Axes of ellipses are matched from behind; without an arrow they go before the
            letters that occur once.
        ranks: How many axes each operand has.

    Returns:
        None when there are not enough letters.

    Reference: torch.einsum.
    """
    text = equation.replace(" ", "")
    if _DOTS not in text:
        return text
    inputs, arrow, output = text.partition("->")
    groups = inputs.split(",")
    counts = [
        rank - len(group) + len(_DOTS) if _DOTS in group else 0 for group, rank in zip(groups, ranks, strict=True)
    ]
    free, longest = [letter for letter in ascii_letters if letter not in text], max(counts)
    if longest > len(free):
        return None
    given = output if arrow else _DOTS + _occurring_once(inputs)
    spelled = [_with(group, free[longest - count : longest]) for group, count in zip(groups, counts, strict=True)]
    return f"{','.join(spelled)}->{_with(given, free[:longest])}"


def _occurring_once(inputs: str) -> str:
    return "".join(sorted(letter for letter in set(inputs) if letter.isalpha() and inputs.count(letter) == 1))


def _with(group: str, letters: Sequence[str]) -> str:
    return group.replace(_DOTS, "".join(letters))
