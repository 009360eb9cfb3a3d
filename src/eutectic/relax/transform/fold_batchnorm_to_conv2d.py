"""FoldBatchnormToConv2D: an inference batch norm after a convolution becomes part of its weights and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import get_var2val, is_call_of, users_of
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import channel_axis, check_channel_bias
from eutectic.relax.expr import Call, Constant, Function, TupleGetItem, Var
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add
from eutectic.relax.op.registry import has_trait
from eutectic.relax.transform.channel_scale import scaled_weights
from eutectic.relax.transform.infra import FunctionPass, mutated


@dataclass(frozen=True)
class FoldBatchnormToConv2D(FunctionPass):
    """Scale a convolution's weights and add a bias instead of normalising its output.

    Taken only when the convolution (and its bias, if any) has no other reader, all
    statistics are constants, the axis is the channel axis, and the scaled weights
    are finite. Any rank, grouped and transposed convolutions included.

    before:                                     after:
        lv = nn.conv2d(x, w)                        lv = nn.conv2d(x, w * scale)
        lv1 = nn.batch_norm(lv, ...)                lv2 = add(lv, shift)
        lv2 = lv1[0]

    Accuracy: the products are rounded at another place; scale and shift are computed in float64.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fold inside one function."""
        return mutated(function, _Folder(function))


class _Folder(PyExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._values = get_var2val(function)
        self._users = users_of(function)

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> Expr:
        """Replace field 0 of a batch norm that can be folded."""
        norm = self._value(expr.tuple_value)
        if expr.index == 0 and is_call_of(norm, "relax.nn.batch_norm") and self._only_first_field(expr.tuple_value):
            folded = self._fold(norm)
            if folded is not None:
                return folded
        return super().visit_tuple_getitem_(expr)

    def _value(self, expr: Expr) -> Any:
        while isinstance(expr, Var) and expr in self._values:
            expr = self._values[expr]
        return expr

    def _only_first_field(self, norm: Expr) -> bool:
        """The statistics that a batch norm gives back are read by nobody."""
        users = self._users.get(norm, []) if isinstance(norm, Var) else [None]
        return all(
            user is not None and isinstance(value := self._values[user], TupleGetItem) and value.index == 0
            for user in users
        )

    def _fold(self, norm: Call) -> Expr | None:
        stats = [self._value(arg) for arg in norm.args[1:]]
        if norm.attrs is None or norm.attrs["training"] or not all(isinstance(s, Constant) for s in stats):
            return None
        conv, bias = self._convolution(norm.args[0])
        if conv is None or norm.attrs["axis"] != channel_axis(conv):
            return None
        weight = self._value(conv.args[1])
        if not isinstance(weight, Constant):
            return None
        scale, shift = _scale_and_shift([s.data for s in stats], norm.attrs, bias)
        scaled = scaled_weights(conv, weight.data, scale)
        if not (np.isfinite(scaled).all() and np.isfinite(shift).all()):
            return None
        shape = [1] * conv.struct_info.ndim  # type: ignore[union-attr]  # a convolution gives a tensor
        shape[channel_axis(conv)] = -1
        data = self.visit_expr(conv.args[0])
        fresh = Call(conv.op, (data, Constant(scaled)), conv.attrs, (), conv.span, struct_info=conv.struct_info)
        return add(fresh, Constant(shift.astype(weight.data.dtype).reshape(shape)), span=norm.span)

    def _convolution(self, expr: Expr) -> tuple[Call | None, np.ndarray[Any, Any] | None]:
        """The convolution under a batch norm, and its bias as one value per channel."""
        value = self._value(expr)
        if not self._read_once(expr):
            return None, None
        if has_trait(value, "convolution"):
            return value, None
        if not is_call_of(value, "relax.add"):
            return None, None
        for conv_arg, bias_arg in (value.args, value.args[::-1]):
            conv, bias = self._value(conv_arg), self._bias(bias_arg)
            if has_trait(conv, "convolution") and bias is not None and self._read_once(conv_arg):
                return (conv, bias.data.reshape(-1)) if check_channel_bias(conv, bias) is None else (None, None)
        return None, None

    def _bias(self, expr: Expr) -> Constant | None:
        """A constant, a reshape of one looked through."""
        value = self._value(expr)
        if is_call_of(value, "relax.reshape"):
            inner, info = self._value(value.args[0]), value.struct_info
            if isinstance(inner, Constant) and info.static_shape is not None:
                return Constant(inner.data.reshape(info.static_shape))
        return value if isinstance(value, Constant) else None

    def _read_once(self, expr: Expr) -> bool:
        return isinstance(expr, Var) and len(self._users.get(expr, ())) == 1


def _scale_and_shift(
    stats: Sequence[np.ndarray[Any, Any]], attrs: Any, bias: np.ndarray[Any, Any] | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    gamma, beta, mean, var = (s.astype(np.float64) for s in stats)
    with np.errstate(all="ignore"):  # what is not finite is not folded
        scale = 1.0 / np.sqrt(var + attrs["epsilon"])
        if attrs["scale"]:
            scale = scale * gamma
        shift = ((0.0 if bias is None else bias.astype(np.float64)) - mean) * scale
    return scale, shift + beta if attrs["center"] else shift
