"""SavedModel: all that is kept of a compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eutectic.runtime.packed_array import PackedArray
from eutectic.runtime.program import Program
from eutectic.runtime.signature import ArraySignature, ModelSignature


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A compiled model as data.

    Attributes:
        program: What runs.
        signature: How it is called.
        report: What became of its operators, as a tree that JSON can hold.
        text: The module it was made from, as text.
        threads: Threads of calls that Python makes of libraries; None takes what is available.
        constants: Values that the text refers to, by kind and number.
        target: What it was compiled for.
        precision: What libraries were allowed to take, as `compile` is told.
        state: What its buffers begin as that calls read and write, in the order of the signature.
    """

    program: Program
    signature: ModelSignature | ArraySignature
    report: Mapping[str, Any]
    text: str
    threads: int | None = None
    constants: Mapping[str, tuple[np.ndarray[Any, Any] | PackedArray, ...]] = field(default_factory=dict)
    target: str = "llvm"
    precision: str = "default"
    state: tuple[np.ndarray[Any, Any], ...] = ()
