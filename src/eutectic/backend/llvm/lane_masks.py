"""Which lanes of neighbouring indices are below or above a bound: asked of their numbers, which are small.

Indices have 64 bits, and vectors of them take twice as many registers as floats. How many lanes lie before a bound is
told by one subtraction of numbers; lanes are then compared with that, in 32 bits.
"""

from __future__ import annotations

from typing import Final

from eutectic.backend.llvm.function_text import FunctionText
from eutectic.ir.prim_expr import GE, GT, LE, LT, Broadcast, Comparison, IntImm, PrimExpr, Ramp, lanes_of

_WORDS: Final[dict[type[Comparison], str]] = {LT: "slt", LE: "sle", GT: "sgt", GE: "sge"}
_SWAPPED: Final[dict[type[Comparison], type[Comparison]]] = {LT: GT, LE: GE, GT: LT, GE: LE}
_INDEX: Final = "int64"


def lanes_and_bound(expr: Comparison) -> tuple[str, Ramp, PrimExpr] | None:
    """How neighbouring indices are compared with a number, these, and the number; None for other comparisons."""
    kind, ramp, bound = type(expr), expr.a, expr.b
    if not isinstance(ramp, Ramp):
        kind, ramp, bound = _SWAPPED.get(kind, kind), bound, ramp
    number = bound.value if isinstance(bound, Broadcast) else bound
    if kind not in _WORDS or not isinstance(ramp, Ramp) or lanes_of(number.dtype) > 1:
        return None
    step = ramp.stride
    if not isinstance(step, IntImm) or step.value != 1 or ramp.base.dtype != _INDEX or number.dtype != _INDEX:
        return None
    return _WORDS[kind], ramp, number


def lanes_before(text: FunctionText, lanes: int, base: str, bound: str) -> str:
    """How many lanes, counted from a base, lie before a bound, in 32 bits: -1 where the bound lies before the base.

    Args:
        text: The function.
        lanes: The most there are.
        base: Of 64 bits.
        bound: Of 64 bits; any, as the difference of both is one that fits.
    """
    left = text.call("i64", "llvm.ssub.sat.i64", [("i64", bound), ("i64", base)])
    left = text.call("i64", "llvm.smax.i64", [("i64", left), ("i64", "-1")])
    left = text.call("i64", "llvm.smin.i64", [("i64", left), ("i64", str(lanes))])
    return text.assign(f"trunc i64 {left} to i32")
