"""SavedModel: all that is kept of a compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eutectic.runtime.program import Program
from eutectic.runtime.signature import ArraySignature, ModelSignature
from eutectic.support.errors import LoadError


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A compiled model as data.

    Attributes:
        program: What runs.
        signature: How it is called.
        report: What became of its operators, as a tree that JSON can hold.
        text: The module it was made from, as text.
        threads: Threads of calls that Python makes of libraries; None takes what is available.
    """

    program: Program
    signature: ModelSignature | ArraySignature
    report: Mapping[str, Any]
    text: str
    threads: int | None = None

    def __post_init__(self) -> None:
        parts = (
            (self.program, Program),
            (self.signature, (ModelSignature, ArraySignature)),
            (self.report, Mapping),
            (self.text, str),
            (self.threads, (int, type(None))),
        )
        if not all(isinstance(value, kind) for value, kind in parts):
            raise LoadError("the model is damaged: a part of it is of another kind", help="write it again")
