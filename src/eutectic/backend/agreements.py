"""What must hold of the sizes of a call before anything is done: that the shapes that meet agree.

What constants decide is decided when a plan is made; the rest is asked at the entry of each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.arith import prove_equal, prove_unequal, simplify
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var
from eutectic.relax.struct_info_relations import substitute
from eutectic.support.errors import CodegenError
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc

_HELP: Final = "give call_tir arguments, and out_sinfo, that are what the program declares"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two sizes that must be one.

    Attributes:
        actual: Size of what is handed over.
        wanted: Size that is declared.
        message: What is said where they differ.
    """

    actual: PrimExpr
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
    for buffer, (operand, dtype, dims) in zip(func.buffer_map.values(), tensors, strict=True):
        if dtype != buffer.dtype or len(dims) != len(buffer.shape):
            raise CodegenError(_difference(name, buffer, operand, dtype, dims), help=_HELP)
        for size, actual in zip(buffer.shape, dims, strict=True):
            if isinstance(size, IntImm) and isinstance(actual, IntImm) and size.value == actual.value:
                continue
            wanted = substitute(size, dict(sizes))
            assert isinstance(wanted, PrimExpr)
            wide, other = _wide(wanted), _wide(actual)
            if wide is other or prove_equal(wide, other):
                continue
            difference = _difference(name, buffer, operand, dtype, dims)
            if prove_unequal(wide, other):
                raise CodegenError(difference, help=_HELP)
            out.append(Agreement(other, wide, difference))
    return out


def _difference(name: str, buffer: Buffer, operand: str, dtype: str, dims: Sequence[PrimExpr]) -> str:
    """What a program is given, and what it takes."""
    what = f"{name} is called with {operand} of shape {_shape(dims)} and dtype {dtype}"
    return f"{what}, but its parameter {buffer.name} has shape {_shape(buffer.shape)} and dtype {buffer.dtype}"


def agreement_of_view(name: str, elements: PrimExpr, wanted: PrimExpr) -> list[Agreement]:
    """What is left to ask of a view of other memory: as many elements.

    Raises:
        CodegenError: it can never have as many.
    """
    message = f"{name} is a view of {elements} elements as {wanted}"
    if prove_equal(_wide(elements), _wide(wanted)):
        return []
    if prove_unequal(_wide(elements), _wide(wanted)):
        raise CodegenError(message, help="reshape to a shape of as many elements")
    return [Agreement(_wide(elements), _wide(wanted), message)]


def _wide(size: PrimExpr) -> PrimExpr:
    if isinstance(size, IntImm):
        return IntImm("int64", size.value)
    return simplify(size if size.dtype == "int64" else size.astype("int64"))


def _shape(dims: Sequence[PrimExpr]) -> str:
    texts = [str(size.value) if isinstance(size, IntImm) else size.script() for size in dims]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
