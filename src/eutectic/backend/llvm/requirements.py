"""Whether the memory that a call needs has a size, as code that asks it at the entry of each call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.backend.plan import LARGEST_BYTES
from eutectic.ir.prim_expr import Add, Cast, FloorDiv, IntImm, Max, Min, Mul, PrimExpr, Sub
from eutectic.ir.structural import structural_equal

_WORDS: Final[dict[type[PrimExpr], str]] = {Add: "fadd", Sub: "fsub", Mul: "fmul"}


def symbolic_sizes(sizes: Iterable[PrimExpr]) -> list[PrimExpr]:
    """Sizes that are no constants, each once."""
    distinct: list[PrimExpr] = []
    for size in sizes:
        if not isinstance(size, IntImm) and not any(
            size is other or structural_equal(size, other) for other in distinct
        ):
            distinct.append(size)
    return distinct


def size_flags(emitter: ExprEmitter, size: PrimExpr) -> tuple[str, str]:
    """Two i1: whether a number of bytes fits into any memory; and whether it is not negative, and did not overflow."""
    text = emitter.text
    exact = text.assign(f"sitofp i64 {emitter.index(size)} to double")
    rough = _as_double(emitter, size)
    fits = text.assign(f"fcmp ole double {rough}, {float(LARGEST_BYTES):.1f}")
    low = text.assign(f"fcmp oge double {rough}, -0.5")
    apart = text.assign(f"fsub double {exact}, {rough}")
    least = text.assign(f"fcmp oge double {apart}, -64.0")
    most = text.assign(f"fcmp ole double {apart}, 64.0")
    return fits, text.assign(f"and i1 {low}, {text.assign(f'and i1 {least}, {most}')}")


def _as_double(emitter: ExprEmitter, size: PrimExpr) -> str:
    """About the value of a size, without overflow."""
    text = emitter.text
    match size:
        case Cast():
            return _as_double(emitter, size.value)
        case Add() | Sub() | Mul():
            a, b = _as_double(emitter, size.a), _as_double(emitter, size.b)
            return text.assign(f"{_WORDS[type(size)]} double {a}, {b}")
        case FloorDiv() if isinstance(size.b, IntImm) and size.b.value > 0:
            quotient = text.assign(f"fdiv double {_as_double(emitter, size.a)}, {float(size.b.value):.1f}")
            return text.call("double", "llvm.floor.f64", [("double", quotient)])
        case Min() | Max():
            word = "minimum" if isinstance(size, Min) else "maximum"
            pair = [("double", _as_double(emitter, part)) for part in (size.a, size.b)]
            return text.call("double", f"llvm.{word}.f64", pair)
        case _:
            return text.assign(f"sitofp i64 {emitter.index(size)} to double")
