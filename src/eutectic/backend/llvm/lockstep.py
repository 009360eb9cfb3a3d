"""Vector code of functions for several registers at a time, a step of all of them after the other.

A polynomial is a chain of products that wait for each other, four or five cycles each, and a processor looks ahead far
enough for one or two such chains. So a value of several registers is computed in all of them together, and so are
values of stores that follow each other and have the same functions, such as those of a tile of a product with gelu:
what their functions give is computed before the first of them. On a Zen 1, per vector of 256 bits: gelu 53 cycles one
by one, 31 by fours; tanh 57 and 40, exp 35 and 27, sigmoid 44 and 33, log 44 and 42.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.llvm.lane_parts import cut, joined
from eutectic.backend.llvm.vector_float import VectorFloat
from eutectic.backend.llvm.vector_functions import FUNCTIONS
from eutectic.ir.node import Node, children
from eutectic.ir.prim_expr import Call, Var, element_dtype, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.expr import Let
from eutectic.tir.stmt import BufferStore, Stmt

AT_A_TIME: Final = 4  # registers; of 16, four for each leave some for constants, and six were hardly faster
_ORDERED: Final = ("tir.call_extern", "tir.if_then_else")  # what happens where it stands, or not at all
_Step: TypeAlias = "Let | Call"


def of_values(emitter: ExprEmitter, name: str, lanes: int, values: Sequence[Sequence[str]]) -> list[str]:
    """A function of float32 values of so many lanes each, a few registers at a time.

    Args:
        emitter: Of the statement.
        name: The function.
        lanes: Of each value.
        values: For each call its operands.
    """
    text, width = emitter.text, _register_lanes(emitter, lanes)
    sizes = [width] * (lanes // width)
    operands = [
        [part for value in each for part in cut(text, "float", value, sizes)] for each in zip(*values, strict=True)
    ]
    fence = emitter.fence if width in (1, 4, 8, 16) else ""  # lanes that fill a register; of others there may be none
    results: list[str] = []
    count = len(sizes)
    for first in range(0, count * len(values), AT_A_TIME):
        registers = [VectorFloat(text, width, parts[first : first + AT_A_TIME], fence) for parts in operands]
        results += FUNCTIONS[name](*registers).names
    return [joined(text, "float", results[first : first + count], sizes) for first in range(0, len(results), count)]


def _register_lanes(emitter: ExprEmitter, lanes: int) -> int:
    """Lanes of a register, if a value is several whole ones."""
    return emitter.machine_lanes if emitter.fence and lanes % emitter.machine_lanes == 0 else lanes


def runs(emitter: ExprEmitter, statements: Sequence[Stmt]) -> Iterator[Sequence[Stmt]]:
    """Statements in order, stores that are computed in step together, all others alone."""
    run: list[Stmt] = []
    steps: list[Sequence[_Step]] = []
    for stmt in statements:
        own = _steps(stmt)
        if run and not (len(run) < _most(emitter, own) and _go_together([*run, stmt], [*steps, own])):
            yield run
            run, steps = [], []
        run.append(stmt)
        steps.append(own)
    if run:
        yield run


def _most(emitter: ExprEmitter, steps: Sequence[_Step]) -> int:
    """Stores that are computed together, of the widest of their values as many registers as go together."""
    lanes = max((lanes_of(step.dtype) for step in steps if isinstance(step, Call)), default=0)
    return AT_A_TIME * emitter.machine_lanes // max(lanes, emitter.machine_lanes) if lanes and emitter.fence else 1


def _go_together(statements: Sequence[Stmt], steps: Sequence[Sequence[_Step]]) -> bool:
    """Whether the last of some stores has the steps of the others, and none reads what one of them writes."""
    if _kinds(steps[-1]) != _kinds(steps[0]):
        return False
    bound = [step.var for each in steps for step in each if isinstance(step, Let)]
    return len(set(bound)) == len(bound) and are_apart(statements)


def are_apart(statements: Sequence[Stmt]) -> bool:
    """Whether statements are stores that can all compute before the first of them writes."""
    written = {stmt.buffer.data for stmt in statements if isinstance(stmt, BufferStore)}
    are_stores = all(isinstance(stmt, BufferStore) for stmt in statements)
    return are_stores and not any(_reads(stmt, written) for stmt in statements)


def _kinds(steps: Sequence[_Step]) -> list[tuple[str, str]]:
    return [(_name(step), step.dtype) if isinstance(step, Call) else ("", step.var.dtype) for step in steps]


def _reads(stmt: Stmt, written: Collection[Var]) -> bool:
    """Whether a store reads some memory, or does what has its place in the order of statements."""
    return any(
        part.buffer.data in written if isinstance(part, BufferLoad) else isinstance(part, Call) and _is_ordered(part)
        for part in post_order(stmt)
    )


def _name(call: Call) -> str:
    return str(getattr(call.op, "name", ""))


def _is_ordered(call: Call) -> bool:
    return _name(call) in _ORDERED


def _steps(stmt: Stmt) -> Sequence[_Step]:
    """What a store computes by vector code, in order, and the variables that this needs; empty without such code."""
    steps: list[_Step] = []
    if isinstance(stmt, BufferStore):
        _collect(stmt.value, steps, set())
    return steps if any(isinstance(step, Call) for step in steps) else ()


@deep
def _collect(expr: Node, steps: list[_Step], seen: set[int]) -> None:
    if id(expr) in seen or isinstance(expr, BufferLoad):
        return
    seen.add(id(expr))
    if isinstance(expr, Let):
        _collect(expr.value, steps, seen)
        steps.append(expr)
        _collect(expr.body, steps, seen)
        return
    for child in children(expr):
        _collect(child, steps, seen)
    if isinstance(expr, Call) and _is_vector_code(expr):
        steps.append(expr)


def _is_vector_code(call: Call) -> bool:
    is_known = _name(call).removeprefix("tir.") in FUNCTIONS
    return is_known and all(element_dtype(value.dtype) == "float32" for value in (call, *call.args))


def compute(emitter: ExprEmitter, run: Sequence[Stmt]) -> None:
    """Emit what vector code gives in a run of stores, which the emitter knows then."""
    for steps in zip(*map(_steps, run), strict=True):
        calls = [step for step in steps if isinstance(step, Call)]
        for let in steps:
            if isinstance(let, Let):
                emitter.bind(let.var, let.value)
        if calls:
            values = [[emitter.value(arg) for arg in call.args] for call in calls]
            name, lanes = _name(calls[0]).removeprefix("tir."), lanes_of(calls[0].dtype)
            for call, register in zip(calls, of_values(emitter, name, lanes, values), strict=True):
                emitter.know(call, register)
