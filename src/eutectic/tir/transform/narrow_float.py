"""LegalizeNarrowFloat: arithmetic of float16 and bfloat16 in float32, rounded after each operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eutectic.ir.dtype import is_integer, to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import (
    BinaryExpr,
    Call,
    Cast,
    Comparison,
    Div,
    FloatImm,
    FloorDiv,
    Max,
    Min,
    PrimExpr,
    TruncDiv,
    element_dtype,
    lanes_of,
    with_lanes,
)
from eutectic.ir.transform import PassContext
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, pair, rewrite_expr
from eutectic.tir.transform.infra import PrimFuncPass, with_body

NARROW: Final = ("float16", "bfloat16")
_CLASSES: Final = ("tir.isnan", "tir.isinf", "tir.isfinite")
# Calls that do not compute: they move values, or see their bits.
_MOVES: Final = (
    "tir.if_then_else",
    "tir.reinterpret",
    "tir.undef",
    "tir.checked",
    "tir.nextafter",
    "tir.likely",
    "tir.ret",
)
_EXTERNAL: Final = ("tir.call_packed", "tir.call_extern", "tir.call_pure_extern", "tir.tvm_tuple", "tir.address_of")
_EXACT_CALLS: Final = ("tir.fabs", "tir.copysign", "tir.floor", "tir.ceil", "tir.trunc", "tir.round", "tir.nearbyint")
_EXACT_INTEGERS: Final = ("int8", "int16", "uint8", "uint16", "bool")


@dataclass(frozen=True)
class LegalizeNarrowFloat(PrimFuncPass):
    """Compute in float32 what is stated in float16 or bfloat16.

    Each operation is rounded once, as the interpreter does: float32 has more than
    twice the digits, so that sums, products, quotients and square roots come out the same.
    `fma` goes through float64. Memory and moves of values stay narrow.

    before:                                  after:
        z[i] = x[i] + y[i]                       z[i] = T.Cast("float16", T.Cast("float32", x[i]) +
                                                                          T.Cast("float32", y[i]))

    Cost: linear in the size of the function.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return legalize_narrow_float(func)


def legalize_narrow_float(func: PrimFunc) -> PrimFunc:
    """`LegalizeNarrowFloat` of one function."""
    return with_body(func, _Widening().stmt(func.body))


def is_narrow(expr: PrimExpr) -> bool:
    """Whether an expression is of a float dtype that nothing is computed in."""
    return expr.dtype.startswith(NARROW)


class _Widening(StmtMutator):
    def __init__(self) -> None:
        self._memo: dict[int, PrimExpr] = {}
        self._exact: dict[int, Cast] = {}  # conversions that round nothing, by their ids

    def expr(self, expr: PrimExpr) -> PrimExpr:
        return rewrite_expr(expr, self.change, self._memo)

    def change(self, expr: PrimExpr) -> PrimExpr | None:
        """The operation in float32; None for what is none of narrow floats."""
        match expr:
            case BinaryExpr() if is_narrow(expr):
                return self.arithmetic(expr)
            case Comparison() if is_narrow(expr.a):
                return pair(type(expr), self.wide(expr.a), self.wide(expr.b))
            case Call():
                return self.call(expr)
            case Cast():
                return self.conversion(expr)
            case _:
                return None

    def wide(self, expr: PrimExpr, dtype: str = "float32") -> PrimExpr:
        """A narrow value in a wider dtype; others are kept."""
        if not is_narrow(expr):
            return expr
        if isinstance(expr, FloatImm):
            return FloatImm(dtype, float(to_numpy(expr.dtype).type(expr.value)))
        if id(expr) in self._exact and dtype == "float32":
            return self._exact[id(expr)].value
        return Cast(with_lanes(dtype, lanes_of(expr.dtype)), expr)

    def narrow(self, expr: PrimExpr, dtype: str, exact: bool = False) -> PrimExpr:
        """A wide value, rounded."""
        rounded = Cast(dtype, expr)
        if exact:
            self._exact[id(rounded)] = rounded
        return rounded

    def arithmetic(self, expr: BinaryExpr) -> PrimExpr:
        a, b = self.wide(expr.a), self.wide(expr.b)
        if isinstance(expr, (FloorDiv, TruncDiv)):
            rounded = self.wide(self.narrow(Div(a, b), expr.dtype))  # the quotient is rounded before it is made whole
            whole = Call(rounded.dtype, "tir.floor" if isinstance(expr, FloorDiv) else "tir.trunc", (rounded,))  # type: ignore[arg-type]  # the node converts what it is given
            return self.narrow(whole, expr.dtype, exact=True)
        return self.narrow(pair(type(expr), a, b), expr.dtype, exact=isinstance(expr, (Max, Min)))

    def call(self, expr: Call) -> PrimExpr | None:
        name = expr.op.name if isinstance(expr.op, Op) else ""
        if not name or name in _MOVES or name in _EXTERNAL:
            return None
        if name in _CLASSES:
            return replace(expr, args=tuple(self.wide(arg) for arg in expr.args)) if is_narrow(expr.args[0]) else None
        if not is_narrow(expr):
            return None
        dtype = "float64" if name == "tir.fma" else "float32"
        args = tuple(self.wide(arg, dtype) for arg in expr.args)
        wide_call = Call(with_lanes(dtype, lanes_of(expr.dtype)), expr.op, args)
        return self.narrow(wide_call, expr.dtype, exact=name in _EXACT_CALLS)

    def conversion(self, expr: Cast) -> PrimExpr | None:
        source, target = element_dtype(expr.value.dtype), element_dtype(expr.dtype)
        if source in NARROW and target != "float32" and target != source:
            wide = self.wide(expr.value)
            if target in NARROW:
                return self.narrow(wide, expr.dtype)
            return Cast(expr.dtype, wide)
        if source in NARROW and target == "float32":
            done = isinstance(expr.value, FloatImm) or id(expr.value) in self._exact
            return self.wide(expr.value) if done else None
        exact = source in _EXACT_INTEGERS or target == "float16"  # float16 is infinite before float32 rounds
        if target in NARROW and exact and (is_integer(source) or source == "bool"):
            return self.narrow(Cast(with_lanes("float32", lanes_of(expr.dtype)), expr.value), expr.dtype)
        return None
