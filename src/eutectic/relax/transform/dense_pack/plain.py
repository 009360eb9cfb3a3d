"""Products with weights in panels as products with matrices again: for other processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.matmul import matmul
from eutectic.relax.op.nn.dense_pack import DENSE_PACK
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass
from eutectic.topi.nn.dense_pack import unpacked_panels


@dataclass(frozen=True)
class ConvertDensePackToMatmul(FunctionPass):
    """Inverse of `ConvertMatmulToDensePack`: matrices where weights in panels are constants.

    before:                                            after:
        gv = nn.dense_pack(x, w_in_panels, units=3072)     gv = matmul(x, w)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Convert within one function."""
        fresh = _Converter().visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Converter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Convert one product."""
        weight = call.args[1] if call.op is DENSE_PACK else None
        if isinstance(weight, Constant) and call.attrs is not None and isinstance(call.struct_info, TensorStructInfo):
            plain = Constant(unpacked_panels(weight.data, call.attrs["units"]), span=weight.span)
            return super().visit_call_(matmul(call.args[0], plain, call.struct_info.dtype, span=call.span))
        return super().visit_call_(call)
