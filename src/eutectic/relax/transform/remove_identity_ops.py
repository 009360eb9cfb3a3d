"""RemoveIdentityOps: drop operators that give back their operand, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.arith import prove_equal
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Call, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.registry import is_identity
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class RemoveIdentityOps(FunctionPass):
    """Replace operators that change nothing by their operand.

    These are a reshape, broadcast or adaptive average pooling to the operand's own
    shape, a permutation that keeps the order, a cast to the operand's own dtype, and
    padding by nothing. Arithmetic such as `x + 0` is never touched: it is not an
    identity for signed zeros and NaN payloads.

    before:                                             after:
        lv = nn.adaptive_avg_pool2d(x, (7, 7))              lv1 = nn.relu(x)
        lv1 = nn.relu(lv)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        return mutated(function, _Remover())


class _Remover(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Give back the operand of an identity."""
        fresh: Any = super().visit_call_(call)
        if is_identity(call) and _same_type(call):
            return fresh.args[0]
        return fresh


def _same_type(call: Call) -> bool:
    """Whether the result provably has the shape and dtype of the first operand."""
    out, operand = call.struct_info, call.args[0].struct_info
    if not (isinstance(out, TensorStructInfo) and isinstance(operand, TensorStructInfo)):
        return False
    if out.dims is None or operand.dims is None or out.ndim != operand.ndim or out.dtype != operand.dtype:
        return False
    return all(prove_equal(a, b) for a, b in zip(out.dims, operand.dims, strict=True))
