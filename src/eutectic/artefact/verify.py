"""Programs that were read: whether all they refer to is there, before anything of them is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from eutectic.runtime.encoding import damaged
from eutectic.runtime.instructions import (
    Check,
    Evaluate,
    Filled,
    HostCall,
    Instruction,
    Literal,
    Put,
    Reshape,
    RunLibrary,
    RunNative,
    RunProgram,
    Take,
)
from eutectic.runtime.native_code import NativeCode
from eutectic.runtime.params import AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam
from eutectic.runtime.program import Program
from eutectic.runtime.team import MOST_THREADS
from eutectic.support.deep import deep

MOST_SLOTS: Final = 1 << 24
_PARAMS: Final = (AnyParam, ScalarParam, ShapeParam, TensorParam, TupleParam)


@deep
def check_program(program: Program) -> None:
    """Refuse a program that refers to slots or parts that it does not have.

    Raises:
        LoadError: says which part is wrong.
    """
    if not len(program.params) <= program.slot_count <= MOST_SLOTS:
        raise damaged(f"a program of {len(program.params)} parameters has {program.slot_count} slots")
    if not all(isinstance(param, _PARAMS) for param in program.params):
        raise damaged("a parameter is of another kind")
    slots = range(program.slot_count)
    _check_slots(program.constants, slots, "a constant")
    _check_slots((*program.results, *program.copied), slots, "a result")
    for step in program.instructions:
        _check_slots([*_written(step), *_read(step)], slots, f"instruction {str(step.name)[:40]}")
        _check_parts(step)
    if program.otherwise is not None:
        check_program(program.otherwise)


def _check_slots(used: Iterable[int], slots: range, what: str) -> None:
    for slot in used:
        if slot not in slots:
            raise damaged(f"{what} refers to slot {slot} of {len(slots)}")


def _written(step: Instruction) -> Iterator[int]:
    match step:
        case Filled():
            if len(step.slots) != len(step.outputs):
                raise damaged(
                    f"instruction {step.name[:40]} has {len(step.outputs)} results for {len(step.slots)} slots"
                )
            yield from step.slots
        case Check() | Evaluate() | HostCall() | Put() | Reshape() | Take():
            yield step.slot
        case _:
            raise damaged(f"a {type(step).__name__} is no instruction")


def _read(step: Instruction) -> Iterator[int]:
    match step:
        case Filled():
            yield from _slots_of(step.inputs)
        case HostCall():
            yield from _slots_of(step.operands)
        case Put() | Reshape() | Check():
            yield from _slots_of(step.source)
        case Take():
            yield from _slots_of(step.whole)


@deep
def _slots_of(operand: Any) -> list[int]:
    if isinstance(operand, tuple):
        return [slot for part in operand for slot in _slots_of(part)]
    if isinstance(operand, Literal):
        return []
    if type(operand) is not int:
        raise damaged(f"an operand is a {type(operand).__name__}")
    return [operand]


def _check_parts(step: Instruction) -> None:
    match step:
        case RunNative():
            _check_code(step.code)
        case RunProgram():
            check_program(step.program)
        case Check() if not isinstance(step.want, _PARAMS):
            raise damaged("a check is for another kind of value")


def _check_code(code: NativeCode) -> None:
    if not 1 <= code.threads <= MOST_THREADS:
        raise damaged(f"native code for {code.threads} threads")
    if len(code.workspaces) != len(code.libraries) or min(code.workspaces, default=0) < 0:
        raise damaged(f"native code with {len(code.workspaces)} workspaces for {len(code.libraries)} libraries")


@deep
def features_of(program: Program) -> frozenset[str]:
    """What the processor must have, by LLVM's names, for all native code of a program."""
    needed: set[str] = set(features_of(program.otherwise)) if program.otherwise is not None else set()
    for step in program.instructions:
        if isinstance(step, RunNative):
            needed.update(step.code.features)
        elif isinstance(step, RunProgram):
            needed.update(features_of(step.program))
    return frozenset(needed)


@deep
def libraries_of(program: Program) -> frozenset[str]:
    """Names of the libraries whose kernels a program calls."""
    names: set[str] = set()
    for step in program.instructions:
        if isinstance(step, RunNative):
            names.update(kernel.library for kernel in step.code.libraries)
        elif isinstance(step, RunLibrary):
            names.add(step.kernel.library)
        elif isinstance(step, RunProgram):
            names.update(libraries_of(step.program))
    return frozenset(names)


@deep
def threads_of(program: Program) -> int | None:
    """Threads of a call of the program's native code; None when it has none."""
    codes = [step.code.threads for step in program.instructions if isinstance(step, RunNative)]
    inner = [threads_of(step.program) for step in program.instructions if isinstance(step, RunProgram)]
    return max([*codes, *(count for count in inner if count is not None)], default=None)
