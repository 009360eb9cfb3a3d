"""Where examples of names are collected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Example = Callable[[], object]
E = TypeVar("E", bound=Example)
EXAMPLES: dict[str, Example] = {}


def example(*paths: str) -> Callable[[E], E]:
    """The function uses these names of TVM (`tvm.ir.IRModule`), and checks what comes of it."""

    def collect(function: E) -> E:
        EXAMPLES.update(dict.fromkeys(paths, function))
        return function

    return collect
