"""FoldScaleIntoWeights: a constant factor of each output channel becomes part of the weights before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.span import merged_span
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import is_call_of, read_once
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import channel_axis, check_channel_bias
from eutectic.relax.expr import Call, Constant, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.binary import add
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.channel_scale import Array, scaled_weights
from eutectic.relax.transform.infra import FunctionPass, mutated

_DTYPES: Final = ("float32", "float64")  # in others a scaled weight may lose too many digits


@dataclass(frozen=True)
class FoldScaleIntoWeights(FunctionPass):
    """Scale the weights and the bias of a matrix product or convolution instead of its output.

    Taken only when nobody else reads what is between, weights, bias and factors are constants of one dtype, and no
    scaled number becomes infinite, denormal or zero. Axes may be permuted between the output and the
    factor, as in networks with a factor for each layer (LayerScale).

    before:                                 after:
        lv = matmul(x, w)                       lv = matmul(x, w * scale)
        lv1 = add(lv, b)                        lv1 = add(lv, b * scale)
        lv2 = permute_dims(lv1, (0, 3, 1, 2))   lv2 = permute_dims(lv1, (0, 3, 1, 2))
        lv3 = multiply(lv2, scale)

    Accuracy: the products are rounded at another place.
    Cost: linear in the size of the function and of the weights.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fold inside one function."""
        return mutated(function, _Folder(function))


@dataclass(frozen=True)
class _Output:
    """What a factor is applied to.

    Attributes:
        root: The call of a matrix product or convolution.
        bias: What is added to its output, one value per channel, if anything.
        permutes: Permutations of axes after that, the first one first.
    """

    root: Any
    bias: Constant | None
    permutes: tuple[Call, ...]


class _Folder(PyExprMutator):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._read_once = read_once(function)

    def visit_call_(self, call: Call) -> Any:
        """Replace a multiplication whose factor can be folded."""
        if is_call_of(call, "relax.multiply"):
            for value, factor in (call.args, call.args[::-1]):
                if isinstance(factor, Constant) and (folded := self._fold(call, value, factor)) is not None:
                    return folded
        return super().visit_call_(call)

    def _fold(self, product: Call, value: Expr, factor: Constant) -> Expr | None:
        output = self._output(value)
        if output is None or not _same_type(product, value):
            return None
        root, weight, scale = output.root, output.root.args[1], _channel_factors(output, factor)
        if scale is None or not isinstance(weight, Constant):
            return None
        weights = scaled_weights(root, weight.data, scale)
        bias = None if output.bias is None else _scaled_bias(output, scale)
        if not _keeps_digits(weights, weight.data) or (output.bias is not None and bias is None):
            return None
        span = merged_span([root.span, product.span])
        fresh: Expr = Call(root.op, (self.visit_expr(root.args[0]), Constant(weights)), root.attrs, (), span)
        if bias is not None:
            fresh = add(fresh, Constant(bias), span=span)
        for permute in output.permutes:
            fresh = permute_dims(fresh, _axes(permute), span=permute.span)
        return fresh

    def _output(self, expr: Expr) -> _Output | None:
        """What an expression is the output of."""
        permutes: list[Call] = []
        while (value := self._read_once(expr)) is not None and is_call_of(value, "relax.permute_dims"):
            permutes.insert(0, value)
            expr = value.args[0]
        if value is None or _is_root(value):
            return None if value is None else _Output(value, None, tuple(permutes))
        if not is_call_of(value, "relax.add"):
            return None
        for summand, bias in (value.args, value.args[::-1]):
            root = self._read_once(summand)
            if root is not None and _is_root(root) and isinstance(bias, Constant) and _is_bias(root, bias):
                return _Output(root, bias, tuple(permutes))
        return None


def _is_root(call: Any) -> bool:
    """It has weights of known values, and an axis of output channels."""
    weight, info = call.args[1] if len(call.args) > 1 else None, call.struct_info
    if not (isinstance(weight, Constant) and isinstance(info, TensorStructInfo)) or info.dims is None:
        return False
    if info.dtype not in _DTYPES or info.dtype != str(weight.data.dtype):
        return False
    return has_trait(call, "convolution") or (is_call_of(call, "relax.matmul") and weight.data.ndim > 1)


def _is_bias(root: Any, bias: Constant) -> bool:
    return bias.data.dtype == root.args[1].data.dtype and check_channel_bias(root, bias) is None


def _same_type(product: Call, value: Expr) -> bool:
    """The factor changes neither shape nor dtype of what it is applied to."""
    return product.struct_info is not None and product.struct_info == value.struct_info


def _axes(permute: Any) -> list[int]:
    rank, axes = permute.struct_info.ndim, permute.attrs["axes"]
    return [axis % rank for axis in axes] if axes is not None else list(range(rank))[::-1]


def _channel_factors(output: _Output, factor: Constant) -> Array | None:
    """One factor for each output channel, in float64; None where the factors are others."""
    root, data = output.root, factor.data
    rank = root.struct_info.ndim
    if data.dtype != root.args[1].data.dtype or data.ndim > rank:
        return None
    aligned = data.reshape([1] * (rank - data.ndim) + list(data.shape))
    for permute in reversed(output.permutes):
        aligned = aligned.transpose(np.argsort(_axes(permute)))
    axis = channel_axis(root)
    if aligned.size == 1:
        return np.full(root.struct_info.dims[axis].value, aligned.item(), np.float64)
    if check_channel_bias(root, Constant(aligned)) is not None:
        return None
    factors: Array = aligned.reshape(-1).astype(np.float64)
    return factors


def _scaled_bias(output: _Output, scale: Array) -> Array | None:
    """The bias, scaled; None where that loses digits."""
    assert output.bias is not None
    data = output.bias.data
    shape = [1] * data.ndim
    shape[data.ndim - (output.root.struct_info.ndim - channel_axis(output.root))] = -1
    with np.errstate(all="ignore"):
        scaled: Array = (data.astype(np.float64) * scale.reshape(shape)).astype(data.dtype)
    return scaled if _keeps_digits(scaled, data) else None


def _keeps_digits(scaled: Array, before: Array) -> bool:
    """Numbers are finite, and none has become denormal or zero."""
    small = (np.abs(scaled) < np.finfo(scaled.dtype).tiny) & (np.abs(before) >= np.finfo(before.dtype).tiny)
    return bool(np.isfinite(scaled).all() and not small.any())
