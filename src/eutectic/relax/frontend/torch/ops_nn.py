"""Activations, normalisation and what else neural networks are made of; the model of a family of converters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, as_int
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.table import Context, axis_of, converts
from eutectic.relax.op import (
    abs,
    add,
    clip,
    divide,
    expand_dims,
    full,
    greater,
    less,
    minimum,
    multiply,
    negative,
    nn,
    reshape,
    sigmoid,
    split,
    subtract,
    tanh,
    where,
)

_PLAIN: Final[dict[str, Callable[..., Call]]] = {
    "aten.relu.default": nn.relu,
    "aten.silu.default": nn.silu,
    "aten.sigmoid.default": sigmoid,
    "aten.tanh.default": tanh,
    "aten.hardswish.default": nn.hardswish,
    "aten.mish.default": nn.mish,
    "aten.hardsigmoid.default": nn.hardsigmoid,
    "aten.selu.default": nn.selu,
}


def _plain(operator: Callable[..., Call]) -> Callable[..., Expr]:
    def convert(ctx: Context, x: Expr) -> Expr:
        return ctx.call(operator, ctx.cast(x, ctx.out_dtype))

    return convert


for _name, _operator in _PLAIN.items():
    converts(_name)(_plain(_operator))


@converts("aten.relu6.default")
def relu6(ctx: Context, x: Expr) -> Expr:
    """Limited to [0, 6]."""
    return ctx.call(clip, x, 0, 6)


@converts("aten.gelu.default")
def gelu(ctx: Context, x: Expr, *, approximate: str = "none") -> Expr:
    """Both forms of gelu."""
    return ctx.call(nn.gelu_tanh if approximate == "tanh" else nn.gelu, x)


@converts("aten.leaky_relu.default")
def leaky_relu(ctx: Context, x: Expr, slope: float) -> Expr:
    """Slope below zero."""
    return ctx.call(nn.leakyrelu, x, float(slope))


@converts("aten.elu.default")
def elu(ctx: Context, x: Expr, alpha: float, scale: float, input_scale: float) -> Expr:
    """Exponential unit: `scale * (x if x > 0 else alpha * (exp(x * input_scale) - 1))`."""
    if input_scale != 1:
        ctx.refuse(f"it scales its input by {input_scale}")
    out: Expr = ctx.call(nn.elu, x, float(alpha))
    return out if scale == 1 else ctx.call(multiply, out, float(scale))


@converts("aten.celu.default")
def celu(ctx: Context, x: Expr, alpha: float) -> Expr:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`, below zero as elu of the scaled input."""
    if alpha < 0:
        ctx.refuse("its alpha is negative: below zero it is no elu")
    if alpha == 1:
        return ctx.call(nn.elu, x, 1.0)
    dtype = dtype_of(x)
    wide = ctx.wide(x)
    below = ctx.call(multiply, ctx.call(nn.elu, ctx.call(divide, wide, float(alpha)), 1.0), float(alpha))
    positive = ctx.call(greater, wide, number(0, dtype_of(wide)))
    return ctx.cast(ctx.call(where, positive, wide, below), dtype)


@converts("aten.softplus.default")
def softplus(ctx: Context, x: Expr, beta: float, threshold: float) -> Expr:
    """Softplus with its linear part."""
    return ctx.call(nn.softplus, x, float(beta), float(threshold))


@converts("aten.log_sigmoid.default")
def log_sigmoid(ctx: Context, x: Expr) -> Expr:
    """`log(1 / (1 + exp(-x)))`, as `min(x, 0) - log(1 + exp(-|x|))`, which does not overflow."""
    dtype = dtype_of(x)
    wide = ctx.wide(x)
    tail = ctx.call(nn.softplus, ctx.call(negative, ctx.call(abs, wide)))
    return ctx.cast(ctx.call(subtract, ctx.call(minimum, wide, number(0, dtype_of(wide))), tail), dtype)


@converts("aten.softshrink.default")
def softshrink(ctx: Context, x: Expr, limit: float = 0.5) -> Expr:
    """`x` moved towards zero by `limit`, and 0.0 within it; NaN stays."""
    dtype = dtype_of(x)
    wide = ctx.wide(x)
    step = number(limit, dtype_of(wide))
    inside = ctx.call(subtract, wide, wide)
    above, below = ctx.call(subtract, wide, step), ctx.call(add, wide, step)
    low = ctx.call(where, ctx.call(less, wide, ctx.call(negative, step)), below, inside)
    return ctx.cast(ctx.call(where, ctx.call(greater, wide, step), above, low), dtype)


@converts("aten.glu.default")
def glu(ctx: Context, x: Expr, dim: int) -> Expr:
    """The first half times the sigmoid of the second."""
    halves = ctx.call(split, x, 2, axis_of(dim, ndim_of(x)))
    first, second = ctx.emit(ctx.item(halves, 0)), ctx.emit(ctx.item(halves, 1))
    return ctx.call(multiply, first, ctx.call(sigmoid, second))


@converts("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(ctx: Context, x: Expr, slope: Expr) -> Expr:
    """One slope, or one per channel (axis 1)."""
    if ndim_of(slope) != 1:
        slope = ctx.call(reshape, slope, (-1,))
    return ctx.call(nn.prelu, x, slope, min(1, ndim_of(x) - 1))


@converts("aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int", "aten._log_softmax.default")
def softmax(ctx: Context, x: Expr, dim: int, dtype: Any = None) -> Expr:
    """Softmax and its logarithm; the third argument changes nothing that the result's dtype does not say."""
    operator = nn.log_softmax if "log_softmax" in str(ctx.node.target) else nn.softmax
    x = ctx.cast(x, ctx.out_dtype)
    if ndim_of(x) == 0:
        return ctx.call(reshape, ctx.call(operator, ctx.call(expand_dims, x, 0), 0), ())
    return ctx.call(operator, x, axis_of(dim, ndim_of(x)))


def _filled(ctx: Context, value: Expr | None, size: Any, number_: float, dtype: str) -> Expr:
    """A parameter, or one number everywhere when torch has none."""
    if value is not None:
        return ctx.cast(value, dtype)
    return ctx.call(full, (size,) if not isinstance(size, tuple) else size, number(number_, dtype), dtype)


def _computing(*values: Expr | None) -> str:
    """The widest dtype among operands: parameters in float32 beside 16-bit data make float32."""
    kinds = {dtype_of(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else ("float64" if "float64" in kinds else "float32")


def _batch_norm(
    ctx: Context, x: Expr, params: tuple[Expr | None, ...], epsilon: float, *, training: bool
) -> list[Expr | None]:
    weight, bias, mean_, variance = params
    if ndim_of(x) < 2:
        if not any(as_int(size) == 0 for size in dims_of(x)):
            ctx.refuse("its input has no axis of channels")
        return [x, None, None]  # torch takes it for no channels, each without elements
    dtype, channels = _computing(x, *params), dims_of(x)[1]
    gamma = _filled(ctx, weight, channels, 1.0, dtype)
    beta = _filled(ctx, bias, channels, 0.0, dtype)
    moving = (_filled(ctx, mean_, channels, 0.0, dtype), _filled(ctx, variance, channels, 1.0, dtype))
    wide = ctx.cast(x, dtype)
    normalized = ctx.call(nn.batch_norm, wide, gamma, beta, *moving, axis=1, epsilon=epsilon, training=training)
    out = ctx.item(normalized, 0)
    return [out if dtype == dtype_of(x) else ctx.cast(ctx.emit(out), dtype_of(x)), None, None]


@converts("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    ctx: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean_: Expr,
    variance: Expr,
    momentum: float,
    epsilon: float,
) -> list[Expr | None]:
    """Batch norm by stored statistics; of its three results only the first exists in inference."""
    return _batch_norm(ctx, x, (weight, bias, mean_, variance), epsilon, training=False)


@converts("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    ctx: Context, x: Expr, weight: Expr | None, bias: Expr | None, training: bool, momentum: float, epsilon: float
) -> list[Expr | None]:
    """Batch norm by the statistics of the batch, for layers that store none."""
    return _batch_norm(ctx, x, (weight, bias, None, None), epsilon, training=True)


@converts("aten.batch_norm.default")
def batch_norm(
    ctx: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean_: Expr | None,
    variance: Expr | None,
    training: bool,
    momentum: float,
    epsilon: float,
    cudnn_enabled: bool,
) -> Expr | None:
    """The composite form of a program that was not decomposed."""
    if training and mean_ is not None:
        ctx.refuse("it is in training mode and updates its statistics; call model.eval()")
    (out, *_) = _batch_norm(ctx, x, (weight, bias, mean_, variance), epsilon, training=training)
    return out if out is None else ctx.emit(out)


@converts("aten.layer_norm.default")
def layer_norm(
    ctx: Context, x: Expr, shape: list[Any], weight: Expr | None, bias: Expr | None, epsilon: float, cudnn: bool
) -> Expr:
    """Layer norm over the last axes."""
    count, dtype = len(shape), _computing(x, weight, bias)
    sizes = dims_of(x)[ndim_of(x) - count :]
    gamma, beta = _filled(ctx, weight, sizes, 1.0, dtype), _filled(ctx, bias, sizes, 0.0, dtype)
    axes = list(range(-count, 0))
    return ctx.cast(ctx.call(nn.layer_norm, ctx.cast(x, dtype), gamma, beta, axes, epsilon), dtype_of(x))


@converts("aten.native_layer_norm.default")
def native_layer_norm(
    ctx: Context, x: Expr, shape: list[Any], weight: Expr | None, bias: Expr | None, epsilon: float
) -> list[Expr | None]:
    """The form of core ATen; its statistics cannot be had."""
    return [layer_norm(ctx, x, shape, weight, bias, epsilon, False), None, None]


@converts("aten.rms_norm.default")
def rms_norm(ctx: Context, x: Expr, shape: list[Any], weight: Expr | None, epsilon: float | None) -> Expr:
    """Division by the root mean square over the last axes."""
    count, dtype = len(shape), _computing(x, weight)
    eps = torch.finfo(ctx.result().dtype).eps if epsilon is None else epsilon
    gamma = _filled(ctx, weight, dims_of(x)[ndim_of(x) - count :], 1.0, dtype)
    return ctx.cast(ctx.call(nn.rms_norm, ctx.cast(x, dtype), gamma, list(range(-count, 0)), eps), dtype_of(x))


@converts("aten.group_norm.default")
def group_norm(
    ctx: Context, x: Expr, groups: int, weight: Expr | None, bias: Expr | None, epsilon: float, cudnn: bool
) -> Expr:
    """Group norm; channels are axis 1."""
    dtype, channels = _computing(x, weight, bias), dims_of(x)[1]
    gamma, beta = _filled(ctx, weight, channels, 1.0, dtype), _filled(ctx, bias, channels, 0.0, dtype)
    axes = list(range(2, ndim_of(x)))
    normalized = ctx.call(nn.group_norm, ctx.cast(x, dtype), gamma, beta, groups, 1, axes, epsilon)
    return ctx.cast(normalized, dtype_of(x))


@converts("aten.native_group_norm.default")
def native_group_norm(
    ctx: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    batch: Any,
    channels: Any,
    points: Any,
    groups: int,
    epsilon: float,
) -> list[Expr | None]:
    """The form that graphs of `torch.compile` have; its statistics cannot be had."""
    return [group_norm(ctx, x, groups, weight, bias, epsilon, False), None, None]


@converts("aten.instance_norm.default")
def instance_norm(
    ctx: Context,
    x: Expr,
    weight: Expr | None,
    bias: Expr | None,
    mean_: Expr | None,
    variance: Expr | None,
    use_input_stats: bool,
    momentum: float,
    epsilon: float,
    cudnn: bool,
) -> Expr | None:
    """Instance norm by the statistics of the input, or by stored ones, which is batch norm."""
    if not use_input_stats:
        (out, *_) = _batch_norm(ctx, x, (weight, bias, mean_, variance), epsilon, training=False)
        return out if out is None else ctx.emit(out)
    if mean_ is not None:
        ctx.refuse("it updates its statistics; call model.eval()")
    dtype, channels = _computing(x, weight, bias), dims_of(x)[1]
    gamma, beta = _filled(ctx, weight, channels, 1.0, dtype), _filled(ctx, bias, channels, 0.0, dtype)
    normalized = ctx.call(nn.instance_norm, ctx.cast(x, dtype), gamma, beta, 1, list(range(2, ndim_of(x))), epsilon)
    return ctx.cast(normalized, dtype_of(x))
