"""Cases of the element-wise operators: unary, binary, ternary, activations, astype."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tests.relax.op.oracle import ANY, FLOATS, INTEGERS, NUMBERS, Case, Feeds, covers, table

from eutectic.relax import op
from eutectic.relax.op import nn
from eutectic.testing.truth import in_double


def _constructor(name: str) -> Any:
    space: Any = op
    for part in name.removeprefix("relax.").split("."):
        space = getattr(space, part)
    return space


def _unary(f: Feeds, name: str, row: tuple[Any, list[str], dict[str, Any]]) -> Case:
    function, dtypes, options = row
    x, t = f.tensor(f.shape(low=0), f.pick(*dtypes), **options)
    return Case(_constructor(name)(x), in_double(function)(t), feeds=f.values)


_ODD = {"special": True}
_WHOLE = {"special": True, "low": -3}
table(
    {
        "relax.abs": (torch.abs, NUMBERS, _ODD),
        "relax.acos": (torch.acos, FLOATS, {"special": True, "low": -1.2, "high": 1.2}),
        "relax.acosh": (torch.acosh, FLOATS, {"special": True, "low": 0.9}),
        "relax.asin": (torch.asin, FLOATS, {"special": True, "low": -1.2, "high": 1.2}),
        "relax.asinh": (torch.asinh, FLOATS, _ODD),
        "relax.atan": (torch.atan, FLOATS, _ODD),
        "relax.atanh": (torch.atanh, FLOATS, {"special": True, "low": -0.9, "high": 0.9}),
        "relax.bitwise_not": (torch.bitwise_not, [*INTEGERS, "bool"], {}),
        "relax.ceil": (torch.ceil, NUMBERS, _WHOLE),
        "relax.cos": (torch.cos, FLOATS, _ODD),
        "relax.cosh": (torch.cosh, FLOATS, _ODD),
        "relax.erf": (torch.erf, FLOATS, _ODD),
        "relax.erfc": (torch.erfc, FLOATS, _ODD),
        "relax.exp": (torch.exp, FLOATS, _ODD),
        "relax.floor": (torch.floor, NUMBERS, _WHOLE),
        "relax.isfinite": (torch.isfinite, ANY, _ODD),
        "relax.isinf": (torch.isinf, ANY, _ODD),
        "relax.isnan": (torch.isnan, ANY, _ODD),
        "relax.log": (torch.log, FLOATS, _ODD),
        "relax.logical_not": (torch.logical_not, ANY, _ODD),
        "relax.negative": (torch.neg, NUMBERS, _ODD),
        "relax.round": (torch.round, NUMBERS, _WHOLE),
        "relax.rsqrt": (torch.rsqrt, FLOATS, _ODD),
        "relax.sigmoid": (torch.sigmoid, FLOATS, _ODD),
        "relax.sign": (torch.sign, NUMBERS, _ODD),
        "relax.sin": (torch.sin, FLOATS, _ODD),
        "relax.sinh": (torch.sinh, FLOATS, _ODD),
        "relax.sqrt": (torch.sqrt, FLOATS, _ODD),
        "relax.square": (torch.square, NUMBERS, _ODD),
        "relax.tan": (torch.tan, FLOATS, {"special": True, "low": -1.2, "high": 1.2}),
        "relax.tanh": (torch.tanh, FLOATS, _ODD),
        "relax.trunc": (torch.trunc, NUMBERS, _WHOLE),
        "relax.nn.relu": (F.relu, NUMBERS, _ODD),
        "relax.nn.gelu": (F.gelu, FLOATS, _ODD),
        "relax.nn.gelu_tanh": (lambda t: F.gelu(t, approximate="tanh"), FLOATS, _ODD),
        "relax.nn.silu": (F.silu, FLOATS, _ODD),
        "relax.nn.selu": (F.selu, FLOATS, _ODD),
        "relax.nn.hardswish": (F.hardswish, FLOATS, _ODD),
        "relax.nn.mish": (F.mish, FLOATS, _ODD),
        "relax.nn.hardsigmoid": (F.hardsigmoid, FLOATS, _ODD),
    },
    _unary,
)


def _fitting(f: Feeds, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with another."""
    kept = shape[f.integer(0, len(shape)) :]
    return tuple(1 if f.flag() else size for size in kept)


def _binary(f: Feeds, name: str, row: tuple[Any, list[str], dict[str, Any]]) -> Case:
    function, dtypes, options = row
    dtype, shape = f.pick(*dtypes), f.shape(low=0)
    shapes = [shape, _fitting(f, shape)]
    if f.flag():
        shapes.reverse()
    plain = {key: value for key, value in options.items() if key != "nonzero"}
    a, ta = f.tensor(shapes[0], dtype, **plain)
    divisor = {**plain, "low": 1} if options.get("nonzero") and dtype in INTEGERS else plain
    b, tb = f.tensor(shapes[1], dtype, **divisor)
    return Case(_constructor(name)(a, b), function(ta, tb), feeds=f.values)


def _trunc_div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


_DIVISOR = {"special": True, "nonzero": True}
_COUNT = {"low": 0, "high": 7}
table(
    {
        "relax.add": (torch.add, ANY, _ODD),
        "relax.subtract": (torch.sub, NUMBERS, _ODD),
        "relax.multiply": (torch.mul, ANY, _ODD),
        "relax.divide": (_trunc_div, NUMBERS, _DIVISOR),
        "relax.floor_divide": (lambda a, b: torch.div(a, b, rounding_mode="floor"), NUMBERS, _DIVISOR),
        "relax.mod": (torch.fmod, NUMBERS, _DIVISOR),
        "relax.floor_mod": (torch.remainder, NUMBERS, _DIVISOR),
        "relax.power": (torch.pow, NUMBERS, {"special": True, "low": 0, "high": 3}),
        "relax.atan2": (torch.atan2, FLOATS, _ODD),
        "relax.copysign": (torch.copysign, FLOATS, _ODD),
        "relax.hypot": (torch.hypot, FLOATS, _ODD),
        "relax.log_add_exp": (torch.logaddexp, FLOATS, _ODD),
        "relax.maximum": (torch.maximum, ANY, _ODD),
        "relax.minimum": (torch.minimum, ANY, _ODD),
        "relax.equal": (torch.eq, ANY, _ODD),
        "relax.not_equal": (torch.ne, ANY, _ODD),
        "relax.less": (torch.lt, ANY, _ODD),
        "relax.less_equal": (torch.le, ANY, _ODD),
        "relax.greater": (torch.gt, ANY, _ODD),
        "relax.greater_equal": (torch.ge, ANY, _ODD),
        "relax.logical_and": (torch.logical_and, ANY, _ODD),
        "relax.logical_or": (torch.logical_or, ANY, _ODD),
        "relax.logical_xor": (torch.logical_xor, ANY, _ODD),
        "relax.bitwise_and": (torch.bitwise_and, [*INTEGERS, "bool"], {}),
        "relax.bitwise_or": (torch.bitwise_or, [*INTEGERS, "bool"], {}),
        "relax.bitwise_xor": (torch.bitwise_xor, [*INTEGERS, "bool"], {}),
        "relax.left_shift": (torch.bitwise_left_shift, INTEGERS, _COUNT),
        "relax.right_shift": (torch.bitwise_right_shift, INTEGERS, _COUNT),
    },
    _binary,
)


@covers("relax.clip")
def clip(f: Feeds) -> Case:
    dtype = f.pick(*NUMBERS)
    x, t = f.tensor(f.shape(low=0), dtype, special=True, low=-9, high=9)
    low, high = f.pick((0, 6), (-1, 1), (2, -2), (0, 0), (1, 300))
    if dtype in FLOATS and f.flag():
        low, high = f.pick((-0.5, 0.25), (float("-inf"), 1.5), (0.1, float("inf")))
    if dtype == "uint8":
        low, high = f.pick((0, 6), (2, 255))
    if dtype == "int8" and high == 300:
        return Case(op.clip(x, 1, 300), torch.clamp(t, 1, 127), feeds=f.values)
    call = nn.relu6(x) if (low, high) == (0, 6) else op.clip(x, low, high)
    return Case(call, torch.clamp(t, low, high), exact=0 not in (low, high), feeds=f.values)


@covers("relax.where")
def where(f: Feeds) -> Case:
    dtype, shape = f.pick(*ANY), f.shape(low=0)
    condition, tc = f.tensor(_fitting(f, shape), "bool")
    a, ta = f.tensor(shape, dtype, special=True)
    b, tb = f.tensor(_fitting(f, shape), dtype, special=True)
    return Case(op.where(condition, a, b), torch.where(tc, ta, tb), exact=True, feeds=f.values)


@covers("relax.ewise_fma")
def ewise_fma(f: Feeds) -> Case:
    dtype, shape = f.pick("float32", "float64", "int32"), f.shape(low=0)
    (a, ta), (b, tb), (c, tc) = (f.tensor(shape, dtype, special=True) for _ in range(3))
    return Case(op.ewise_fma(a, b, c), ta * tb + tc, feeds=f.values)


@covers("relax.checked")
def checked(f: Feeds) -> Case:
    shape = f.shape(low=0)
    x, t = f.tensor(shape, f.pick(*ANY), special=True)
    small, _ = f.tensor(_fitting(f, shape), "float32")
    return Case(op.checked(x, op.less(small, 1e9), "too large"), t, exact=True, feeds=f.values)


@covers("relax.astype")
def astype(f: Feeds) -> Case:
    source, target = f.pick(*ANY), f.pick(*ANY)
    low = 0 if source == "uint8" or target == "uint8" else -4
    special = source in FLOATS and (target in FLOATS or target == "bool")
    x, t = f.tensor(f.shape(low=0), source, special=special, low=low, high=100)
    return Case(op.astype(x, target), t.to(getattr(torch, target)), exact=True, feeds=f.values)


@covers("relax.nn.leakyrelu")
def leakyrelu(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(low=0), f.pick(*FLOATS), special=True)
    alpha = f.pick(0.01, 0.2, 0.0, -1.0)
    return Case(nn.leakyrelu(x, alpha), F.leaky_relu(t, alpha), feeds=f.values)


@covers("relax.nn.elu")
def elu(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(low=0), f.pick(*FLOATS), special=True)
    alpha = f.pick(1.0, 0.3)
    return Case(nn.elu(x, alpha), F.elu(t, alpha), feeds=f.values)


@covers("relax.nn.softplus")
def softplus(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(low=0), f.pick(*FLOATS), special=True, low=-30, high=30)
    beta, threshold = f.pick(1.0, 0.5, 2.0), f.pick(20.0, 3.0)
    return Case(nn.softplus(x, beta, threshold), F.softplus(t, beta, threshold), feeds=f.values)


@covers("relax.nn.prelu")
def prelu(f: Feeds) -> Case:
    dtype, shape = f.pick(*FLOATS), f.shape(least=2)
    x, t = f.tensor(shape, dtype, special=True)
    slopes, ts = f.tensor((f.pick(1, shape[1]),), dtype)
    return Case(nn.prelu(x, slopes), F.prelu(t, ts), feeds=f.values)


@covers("relax.nn.softmax")
def softmax(f: Feeds) -> Case:
    shape = f.shape(least=1)
    axis = f.integer(-len(shape), len(shape) - 1)
    x, t = f.tensor(shape, f.pick(*FLOATS), low=-30, high=30)
    if f.flag():
        array = f.values[x]
        array[np.unravel_index(0, array.shape)] = f.pick(np.nan, np.inf, -np.inf)
        t = torch.from_numpy(array.astype(np.float64)).to(t.dtype)
    return Case(nn.softmax(x, axis), torch.softmax(t, axis), feeds=f.values)


@covers("relax.nn.log_softmax")
def log_softmax(f: Feeds) -> Case:
    shape = f.shape(least=1)
    axis = f.integer(-len(shape), len(shape) - 1)
    x, t = f.tensor(shape, f.pick(*FLOATS), low=-30, high=30)
    return Case(nn.log_softmax(x, axis), torch.log_softmax(t, axis), feeds=f.values)
