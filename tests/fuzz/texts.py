"""Programs as text with random mistakes: a refusal with a place, or a module that prints and parses back."""

from __future__ import annotations

import random
import re
from functools import cache

from tests.property.test_random_graphs import build
from tests.tir.schedule.test_random_all import PROGRAMS

from eutectic.ir.module import IRModule
from eutectic.relax.analysis import problems_of
from eutectic.script import from_source
from eutectic.support.errors import EutecticError
from eutectic.testing.round_trip import check_round_trip

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
# Texts that stand where others stood.
OTHERS = ("0", "-1", "2147483648", "9223372036854775808", "1e309", "nan", '"float32"', '"x"', "None", "True", "[]", "(")
OTHERS = (*OTHERS, ")", "{", ":", ",", "=", "*", "**", "//", "@", "T", "R", "i", "lambda x: x", "x.shape", "\n", "    ")


@cache
def sources() -> tuple[str, ...]:
    """Programs that parse."""
    rng = random.Random(0)
    graphs = [build([rng.randint(0, 40) for _ in range(12)], 1) for _ in range(6)]
    programs = [IRModule({"main": make()}) for make in PROGRAMS.values()]
    return tuple(mod.script() for mod in (*graphs, *programs))


def mistaken(text: str, rng: random.Random) -> str:
    """A text with some tokens left out, put twice, swapped, or replaced."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(6):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] = tokens[at] * 2
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4:
                tokens[at] = rng.choice(OTHERS)
            case _:
                first, last = sorted((at, other))
                tokens[first : min(last, first + 20)] = []
                tokens = tokens or [""]
    return "".join(tokens)


def case(number: int) -> str:
    """One text."""
    rng = random.Random(number)
    text = mistaken(rng.choice(sources()), rng)
    try:
        mod = from_source(text)
    except EutecticError as error:
        if error.at is None and not error.facts:
            raise AssertionError(f"no place is named: {error}\n{text}") from error
        raise
    if isinstance(mod, IRModule) and not problems_of(mod):
        check_round_trip(mod)
    return "equal"
