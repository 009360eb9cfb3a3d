"""What passes need of packages above them, in one place: each context has it, and passes ask nobody else.

The packages above say what they do by `register_validator`, `register_module_writer` and `register_global_func`; they
are imported when they are first asked (`support/registry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from eutectic.ir.module import IRModule
from eutectic.support.registry import get_global_func, load_providers

Validator: TypeAlias = Callable[[IRModule, IRModule, str], None]
ModuleWriter: TypeAlias = Callable[[IRModule, Path], Any]

_VALIDATORS: Final[list[Validator]] = []
_WRITERS: Final[list[ModuleWriter]] = []
_RUNNERS: Final = {True: "eutectic.run_prim_func", False: "eutectic.run_unscheduled"}  # by whether loops are scheduled


def register_validator(validator: Validator) -> None:
    """Add a comparison of a module with what a pass made of it, made under `PassContext(validate=True)`.

    It is called with the module before, the module after and the name of the pass, and raises when they differ.
    """
    _VALIDATORS.append(validator)


def register_module_writer(write: ModuleWriter) -> None:
    """Let a package above write modules, with their constants, as files that are read back."""
    _WRITERS[:] = [write]


@dataclass(frozen=True)
class Speeds:
    """What a processor was measured to do.

    Attributes:
        flops: Float32 operations of one thread in a nanosecond; a multiply-add counts two.
        shared: Bytes that all threads read and write in a nanosecond, in the cache that cores share.
        memory: The same in main memory.
    """

    flops: float
    shared: float
    memory: float


@dataclass(frozen=True)
class Measured:
    """What was measured for one processor and one number of threads, as far as compiling asks for it.

    Attributes:
        decisions: By the key of a workload, and then by choice point: what is best for it. The key of a tensor program
            is its digest, that of an operator of a graph a text with its sizes.
        speeds: What the processor can do; None when that was not measured.
    """

    decisions: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    speeds: Speeds | None = None


class Services:
    """The compiler as passes see it; a subclass answers otherwise, as for another machine or in a test.

    `PassContext(services=...)` takes one; this one finds what is registered.

    Args:
        measured: What was measured; None is nothing.

    Attributes:
        measured: As given.
    """

    measured: Measured = Measured()

    def __init__(self, measured: Measured | None = None) -> None:
        if measured is not None:
            self.measured = measured

    def program_runner(self, scheduled: bool = True) -> Callable[..., Any] | None:
        """What runs a tensor program on arrays, outputs last, as compiled code; None where there is no compiler.

        Args:
            scheduled: Whether loops may be scheduled first; otherwise they run as they are.
        """
        return get_global_func(_RUNNERS[scheduled], allow_missing=True)

    def codegen(self, target: str) -> Callable[..., Any] | None:
        """What compiles functions for a library, as TVM's `relax.ext.<target>`; None when nobody does.

        It takes functions, options by name and names of constants, and gives a module for each function.
        """
        load_providers("backends")
        return get_global_func(f"relax.ext.{target}", allow_missing=True)

    def region_layouts(self, target: str, region: Any) -> Sequence[Any]:
        """In which layouts a library can compute a region: `LayoutOffer`s, row-major where nobody knows more.

        Args:
            target: As for `codegen`.
            region: The graph function.
        """
        load_providers("backends")
        offers = get_global_func(f"relax.ext.{target}.layouts", allow_missing=True)
        return () if offers is None else tuple(offers(region))

    def validators(self) -> Sequence[Validator]:
        """The comparisons that are made after each pass of a context that validates."""
        load_providers("validators")
        return _VALIDATORS

    def write_module(self, mod: IRModule, path: Path) -> None:
        """Write a module to a file as text, with its constants beside it where somebody can do that."""
        load_providers("modules as files")
        if _WRITERS:
            _WRITERS[0](mod, path)
        else:
            path.write_text(mod.script(), encoding="utf-8")
