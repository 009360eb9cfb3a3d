"""DecomposeOpsForInference, DecomposeOpsForTraining: composite operators as what they mean there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext, with_functions
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function, Tuple, const
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add, divide, multiply, subtract
from eutectic.relax.op.nn.norm import BatchNormAttrs, LayerNormAttrs
from eutectic.relax.op.reduce import mean, variance
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

    in_training: ClassVar[bool] = False

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
        fresh = _Rewriter(mod, self.in_training).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


@dataclass(frozen=True)
class DecomposeOpsForTraining(DecomposeOpsForInference):
    """Write each batch norm and layer norm as arithmetic; a batch norm in training by the statistics of its data.

    before:                                     after:
        lv = nn.batch_norm(x, gamma, beta,          lv = mean(x)
                           mean, var)               lv1 = variance(x)
                                                    lv2 = subtract(x, expand_dims(lv))
                                                    ... as for inference, then
                                                    lv9 = add(multiply(mean, 1 - momentum), multiply(lv, momentum))
                                                    lv12 = ... of var and lv1
                                                    lv13 = (lv8, lv9, lv12)

    Attributes:
        func_name: Name of the only function that is rewritten; None takes all.

    Accuracy: each step rounds to the dtype of the data; the variance is that of the population.
    Reference: TVM relax.transform.DecomposeOpsForTraining.
    """

    in_training: ClassVar[bool] = True


class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule, in_training: bool) -> None:
        super().__init__(mod)
        self._in_training = in_training

    def visit_call_(self, call: Call) -> Any:
        """Spell out a norm."""
        visited = super().visit_call_(call)
        if not isinstance(visited, Call) or not isinstance(visited.op, Op) or not visited.args:
            return visited
        info = visited.args[0].struct_info
        if not isinstance(info, TensorStructInfo) or info.ndim < 0 or not info.dtype:
            return visited
        attrs = visited.attrs
        if isinstance(attrs, BatchNormAttrs) and visited.op.name == "relax.nn.batch_norm":
            return self._batch_norm(visited, attrs, info) if self._in_training or not attrs.training else visited
        if isinstance(attrs, LayerNormAttrs) and self._in_training:
            return self._layer_norm(visited, attrs, info)
        return visited

    def _emit(self, value: Call) -> Expr:
        return self.builder_.emit(value)

    def _spread(self, parameter: Expr, axes: list[int], like: Call) -> Expr:
        return self._emit(expand_dims(parameter, axes, span=like.span)) if axes else parameter

    def _batch_norm(self, call: Call, attrs: BatchNormAttrs, info: TensorStructInfo) -> Expr:
        data, gamma, beta, center, size = call.args
        others = [axis for axis in range(info.ndim) if axis != attrs.axis % info.ndim]
        after = (center, size)
        if attrs.training:
            center, size = self._statistics(data, others, call)
            after = (self._mixed(after[0], center, attrs, call), self._mixed(after[1], size, attrs, call))
        out = self._normalized(data, center, size, others, attrs, call)
        if attrs.scale:
            out = self._emit(multiply(out, self._spread(gamma, others, call), span=call.span))
        if attrs.center:
            out = self._emit(add(out, self._spread(beta, others, call), span=call.span))
        return Tuple((out, *after), span=call.span)

    def _layer_norm(self, call: Call, attrs: LayerNormAttrs, info: TensorStructInfo) -> Expr:
        data, gamma, beta = call.args
        axes = [axis % info.ndim for axis in attrs.axes]
        center, size = self._statistics(data, axes, call, keepdims=True)
        out = self._normalized(data, center, size, [], attrs, call)
        if attrs.scale:
            out = self._emit(multiply(out, gamma, span=call.span))
        return self._emit(add(out, beta, span=call.span)) if attrs.center else out

    def _statistics(self, data: Expr, axes: list[int], call: Call, keepdims: bool = False) -> tuple[Expr, Expr]:
        """Mean and variance along axes; a vector has no others, and is its own mean."""
        if not axes:
            return data, self._emit(subtract(data, data, span=call.span))
        return (
            self._emit(mean(data, axes, keepdims, span=call.span)),
            self._emit(variance(data, axes, keepdims, span=call.span)),
        )

    def _mixed(self, old: Expr, new: Expr, attrs: BatchNormAttrs, call: Call) -> Expr:
        info = old.struct_info
        assert isinstance(info, TensorStructInfo)
        kept = self._emit(multiply(old, const(1 - attrs.momentum, info.dtype), span=call.span))
        mixed = self._emit(multiply(new, const(attrs.momentum, info.dtype), span=call.span))
        return self._emit(add(kept, mixed, span=call.span))

    def _normalized(
        self, data: Expr, center: Expr, size: Expr, axes: list[int], attrs: BatchNormAttrs | LayerNormAttrs, call: Call
    ) -> Expr:
        """The data with another mean and variance; these lack some axes."""
        info = data.struct_info
        assert isinstance(info, TensorStructInfo)
        moved = self._emit(subtract(data, self._spread(center, axes, call), span=call.span))
        above = self._emit(add(self._spread(size, axes, call), const(attrs.epsilon, info.dtype), span=call.span))
        return self._emit(divide(moved, self._emit(sqrt(above, span=call.span)), span=call.span))
