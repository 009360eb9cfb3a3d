"""What is fuzzed: families of cases. A case is a number, and always the same program for the same number.

A case returns what became of its program, `equal` or `refused`, with the reason. It raises `AssertionError`
where a result is wrong; whatever else it raises is a fault too, and so is the end of its process.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Final, TypeAlias

from eutectic.support.errors import EutecticError, InternalError

Case: TypeAlias = Callable[[int], str]

# Name of a family -> the module that has its `case`, imported where the cases run.
FAMILIES: Final[dict[str, str]] = {
    "accesses": "tests.fuzz.accesses",
    "models": "tests.fuzz.models",
    "operators": "tests.fuzz.operators",
    "schedules": "tests.fuzz.schedules",
    "texts": "tests.fuzz.texts",
}


def case_of(family: str) -> Case:
    """The function that runs a case of a family."""
    found: Case = import_module(FAMILIES[family]).case
    return found


def outcome(family: str, number: int) -> str:
    """What becomes of a case: `equal`, or `refused: ` and the first line of the reason.

    Raises:
        Exception: anything, when there is a fault.
    """
    random.seed(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return case_of(family)(number)
        except InternalError:
            raise
        except EutecticError as error:
            return f"refused: {error.message.splitlines()[0]}"
