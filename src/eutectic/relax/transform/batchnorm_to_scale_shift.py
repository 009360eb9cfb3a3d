"""BatchnormToScaleShift: an inference batch norm with constant statistics becomes a multiply and an add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import get_var2val, is_call_of
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Constant, Function, TupleGetItem, Var
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add, multiply
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class BatchnormToScaleShift(FunctionPass):
    """Write `batch_norm(x)[0]` as `x * scale + shift`, where it could not be folded into a convolution.

    Float32 only, and only when scale and shift are finite.

    before:                                 after:
        lv = nn.batch_norm(x, ...)              lv = multiply(x, scale)
        lv1 = lv[0]                             lv1 = add(lv, shift)

    Accuracy: the form torch's own inference kernel uses; scale and shift are computed in float64.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        return mutated(function, _Rewriter(get_var2val(function)))


class _Rewriter(PyExprMutator):
    def __init__(self, values: dict[Var, Expr]) -> None:
        super().__init__()
        self._values = values

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> Expr:
        """Replace field 0 of a batch norm whose statistics are constants."""
        norm: Any = self._values.get(expr.tuple_value) if isinstance(expr.tuple_value, Var) else expr.tuple_value
        if expr.index == 0 and is_call_of(norm, "relax.nn.batch_norm") and not norm.attrs["training"]:
            factors = _factors(norm)
            if factors is not None:
                scale, shift = factors
                scaled = multiply(self.visit_expr(norm.args[0]), Constant(scale), span=norm.span)
                return add(scaled, Constant(shift), span=norm.span)
        return super().visit_tuple_getitem_(expr)


def _factors(norm: Call) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Scale and shift, shaped to broadcast along the axis; None when they cannot be made."""
    info, stats = norm.args[0].struct_info, norm.args[1:]
    if not (isinstance(info, TensorStructInfo) and info.dtype == "float32" and norm.attrs is not None):
        return None
    if not all(isinstance(s, Constant) and s.data.dtype == np.float32 for s in stats):
        return None
    gamma, beta, mean, var = (s.data.astype(np.float64) for s in stats if isinstance(s, Constant))
    with np.errstate(all="ignore"):  # what is not finite is left alone
        scale = 1.0 / np.sqrt(var + norm.attrs["epsilon"])
        if norm.attrs["scale"]:
            scale = scale * gamma
        shift = -mean * scale + (beta if norm.attrs["center"] else 0.0)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    shape = [1] * info.ndim
    shape[norm.attrs["axis"]] = -1
    return scale.astype(np.float32).reshape(shape), shift.astype(np.float32).reshape(shape)
