"""What must hold of the sizes of a call before anything is done: that shapes agree, and that memory has a size.

What constants decide is decided when a plan is made; the rest is asked at the entry of each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.arith import prove_equal, prove_unequal, simplify
from eutectic.backend.llvm.expr import ExprEmitter
from eutectic.ir.prim_expr import (
    Add,
    Cast,
    FloorDiv,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from eutectic.ir.structural import structural_equal
from eutectic.relax.struct_info_relations import substitute
from eutectic.support.errors import CodegenError
from eutectic.tir.function import PrimFunc

LARGEST_BYTES: Final = 1 << 47  # no memory has more
_WORDS: Final[dict[type[PrimExpr], str]] = {Add: "fadd", Sub: "fsub", Mul: "fmul"}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two sizes that must be one.

    Attributes:
        given: Size of what is handed over.
        wanted: Size that is declared.
        message: What is said where they differ.
    """

    given: PrimExpr
    wanted: PrimExpr
    message: str


def agreements(
    name: str, func: PrimFunc, tensors: Sequence[tuple[str, str, tuple[PrimExpr, ...]]], sizes: Mapping[Var, PrimExpr]
) -> list[Agreement]:
    """What is left to ask of the arguments of a called program.

    Args:
        name: Name of the program.
        func: The program.
        tensors: What is handed over: names, dtypes, shapes; one per buffer.
        sizes: Values of its variables.

    Raises:
        CodegenError: an argument can never fit.
    """
    out: list[Agreement] = []
    for buffer, (given, dtype, dims) in zip(func.buffer_map.values(), tensors, strict=True):
        what = f"{name} is called with {given} of shape {_shape(dims)} and dtype {dtype}"
        declared = f"its parameter {buffer.name} has shape {_shape(buffer.shape)} and dtype {buffer.dtype}"
        help = "give call_tir arguments, and out_sinfo, that are what the program declares"
        if dtype != buffer.dtype or len(dims) != len(buffer.shape):
            raise CodegenError(f"{what}, but {declared}", help=help)
        for size, actual in zip(buffer.shape, dims, strict=True):
            wanted = substitute(size, dict(sizes))
            assert isinstance(wanted, PrimExpr)
            wide, other = _wide(wanted), _wide(actual)
            if wide is other or prove_equal(wide, other):
                continue
            if prove_unequal(wide, other):
                raise CodegenError(f"{what}, but {declared}", help=help)
            out.append(Agreement(other, wide, f"{what}, but {declared}"))
    return out


def agreement_of_view(name: str, given: PrimExpr, wanted: PrimExpr) -> list[Agreement]:
    """What is left to ask of a view of other memory: as many elements.

    Raises:
        CodegenError: it can never have as many.
    """
    message = f"{name} is a view of {given} elements as {wanted}"
    if prove_equal(_wide(given), _wide(wanted)):
        return []
    if prove_unequal(_wide(given), _wide(wanted)):
        raise CodegenError(message, help="reshape to a shape of as many elements")
    return [Agreement(_wide(given), _wide(wanted), message)]


def symbolic_sizes(sizes: Iterable[PrimExpr]) -> list[PrimExpr]:
    """Sizes that are no constants, each once."""
    found: list[PrimExpr] = []
    for size in sizes:
        if not isinstance(size, IntImm) and not any(size is other or structural_equal(size, other) for other in found):
            found.append(size)
    return found


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


def _wide(size: PrimExpr) -> PrimExpr:
    if isinstance(size, IntImm):
        return IntImm("int64", size.value)
    return simplify(size if size.dtype == "int64" else size.astype("int64"))


def _shape(dims: Sequence[PrimExpr]) -> str:
    texts = [str(size.value) if isinstance(size, IntImm) else size.script() for size in dims]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
