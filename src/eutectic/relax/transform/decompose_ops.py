"""DecomposeOpsForInference: composite operators as what they mean in inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext, with_functions
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function, Tuple, const
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add, divide, multiply, subtract
from eutectic.relax.op.nn.norm import BatchNormAttrs
from eutectic.relax.op.reshape import expand_dims
from eutectic.relax.op.unary import sqrt
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass


@dataclass(frozen=True)
class DecomposeOpsForInference(FunctionPass):
    """Write a batch norm with stored statistics as arithmetic; one in training stays.

    before:                                     after:
        lv = nn.batch_norm(x, gamma, beta,          lv = subtract(x, expand_dims(mean))
                           mean, var)               lv1 = sqrt(add(expand_dims(var), epsilon))
                                                    lv2 = divide(lv, lv1)
                                                    lv3 = multiply(lv2, expand_dims(gamma))
                                                    lv4 = add(lv3, expand_dims(beta))
                                                    lv5 = (lv4, mean, var)

    Attributes:
        func_name: Name of the only function that is rewritten; None takes all.

    Accuracy: each step rounds to the dtype of the data.
    """

    func_name: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite the functions that were asked for."""
        changed: dict[Any, Any] = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function) and self.func_name in (None, gv.name_hint):
                fresh = self.run_function(function, mod, ctx)
                if fresh is not function:
                    changed[gv] = fresh
        return with_functions(mod, changed)

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        fresh = _Rewriter(mod).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Rewriter(PyExprMutator):
    def visit_call_(self, call: Call) -> Any:
        """Spell out a batch norm of inference."""
        visited = super().visit_call_(call)
        is_norm = isinstance(call.op, Op) and call.op.name == "relax.nn.batch_norm"
        if not is_norm or not isinstance(visited, Call) or not isinstance(visited.attrs, BatchNormAttrs):
            return visited
        info = visited.args[0].struct_info
        if visited.attrs.training or not isinstance(info, TensorStructInfo) or info.ndim < 0 or not info.dtype:
            return visited
        return self._arithmetic(visited, visited.attrs, info)

    def _arithmetic(self, call: Call, attrs: BatchNormAttrs, info: TensorStructInfo) -> Expr:
        data, gamma, beta, mean, variance = call.args
        others = [axis for axis in range(info.ndim) if axis != attrs.axis % info.ndim]

        def emitted(value: Call) -> Expr:
            return self.builder_.emit(value)

        def spread(parameter: Expr) -> Expr:
            return emitted(expand_dims(parameter, others, span=call.span)) if others else parameter

        epsilon = const(attrs.epsilon, info.dtype)
        moved = emitted(subtract(data, spread(mean), span=call.span))
        size = emitted(sqrt(emitted(add(spread(variance), epsilon, span=call.span)), span=call.span))
        out = emitted(divide(moved, size, span=call.span))
        if attrs.scale:
            out = emitted(multiply(out, spread(gamma), span=call.span))
        if attrs.center:
            out = emitted(add(out, spread(beta), span=call.span))
        return Tuple((out, mean, variance), span=call.span)
