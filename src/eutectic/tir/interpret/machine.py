"""What all parts of the reference interpreter share: the environment, and the state of one run."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.tir.buffer import Buffer
from eutectic.tir.interpret.memory import View

Env: TypeAlias = dict[Any, Any]
Code: TypeAlias = Callable[[Env], Any]
Step: TypeAlias = Callable[[Env], None]
AccessTrace: TypeAlias = Callable[[Buffer, tuple[int, ...], bool], None]


@dataclass
class Machine:
    """What all functions of one run share.

    Attributes:
        order: Order of the iterations of parallel and vectorized loops: `forward`, `reverse` or `shuffle`.
        check: Whether reading what was never written is an error.
        access_trace: Called with each access of an element.
        random: Where `shuffle` takes its orders from.
        module: Functions that can be called.
        call: Runs a function of the module on evaluated arguments.
        threads: Threads at each moment: tag with index and extent.
    """

    order: str
    check: bool
    access_trace: AccessTrace | None
    random: random.Random
    module: IRModule | None
    call: Callable[[str, Sequence[Any]], Any]
    threads: dict[str, tuple[int, int]] = field(default_factory=dict)


class ReturnSignal(Exception):
    """Leaves a function from within; not an error."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def excerpt(item: Node, lines: int = 8) -> str:
    """The first lines of a node's text."""
    text = item.script(declare=False).splitlines()
    return "\n".join(text if len(text) <= lines else [*text[: lines - 1], "..."])


class Compiler(Protocol):
    """What makes functions of expressions."""

    machine: Machine

    def code(self, expr: Node) -> Code:
        """The function of an expression."""

    def codes(self, exprs: Sequence[Node]) -> list[Code]:
        """The functions of several expressions."""

    def declare(self, buffer: Buffer) -> Code:
        """The function that lays a buffer over the memory that its data points to."""

    def view(self, env: Env, buffer: Buffer) -> View:
        """A buffer that is visible, or that names memory which is."""


def as_lanes(value: Any) -> tuple[Any, ...]:
    """The lanes of a value; a scalar is one."""
    return value if isinstance(value, tuple) else (value,)
