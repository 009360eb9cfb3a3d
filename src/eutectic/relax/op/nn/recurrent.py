"""Recurrent layers, after the product with their input: lstm, gru, rnn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.op.lowering import own_sizes
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.nn.activation import need_float
from eutectic.relax.op.nn.pad import pad
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.reshape import reshape
from eutectic.relax.op.shapes import differ, dims_text, reject, size_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo, TupleStructInfo

_LSTM: Final = define_op("relax.nn.lstm", arity=4, fusion="opaque")
_GRU: Final = define_op("relax.nn.gru", arity=4, fusion="opaque")
_RNN: Final = define_op("relax.nn.rnn", arity=3, fusion="opaque")
_LANES: Final = 16  # units whose weights lie beside each other: a cache line of float32


@dataclass(frozen=True)
class _Form:
    """Sums of each unit, states that are handed on, and the number of axes of each argument."""

    gates: int
    states: int
    ranks: tuple[int, ...]


_FORMS: Final = {
    "relax.nn.lstm": _Form(4, 2, (3, 2, 2, 2)),
    "relax.nn.gru": _Form(3, 1, (3, 2, 2, 1)),
    "relax.nn.rnn": _Form(1, 1, (3, 2, 2)),
}
ACTIVATIONS: Final = ("tanh", "relu")


@node("relax.attrs.RecurrentAttrs")
class RecurrentAttrs(Attrs):
    """Whether it begins with the last step."""

    reverse: bool = False


@node("relax.attrs.RNNAttrs")
class RNNAttrs(RecurrentAttrs):
    """The same, and the function that ends each step."""

    activation: str = "tanh"


def lstm(gates: Expr, hidden: Expr, cell: Expr, weight: Expr, reverse: bool = False, *, span: Any = None) -> Call:
    """A layer of long short-term memory over a sequence.

    In each step `i, f, g, o = split(gates[t] + h @ weight.T)`, `c = sigmoid(f) * c + sigmoid(i) * tanh(g)` and
    `h = sigmoid(o) * tanh(c)`.

    Args:
        gates: `(t, b, 4 * h)`, products of the input with its weights, and biases; a float dtype.
        hidden: `(b, h)`, the hidden state before the first step; same dtype, as all.
        cell: `(b, h)`, the cell state before the first step.
        weight: `(4 * h, h)`, factors of the hidden state.
        reverse: Whether it begins with the last step; results of a step are where its input is.
        span: Python source of the call, for errors.

    Returns:
        A tuple: hidden states `(t, b, h)`, the last hidden state `(b, h)`, the last cell state `(b, h)`.

    Raises:
        TypeInferenceError: not one float dtype, or other ranks or sizes.

    Accuracy: 16-bit floats are computed in float32; hidden states are rounded after each step.
    Reference: torch.nn.LSTM, whose order of gates it is; Hochreiter and Schmidhuber, 1997.
    """
    return call(_LSTM, gates, hidden, cell, weight, attrs=RecurrentAttrs(bool(reverse)), span=span)


def gru(gates: Expr, hidden: Expr, weight: Expr, bias: Expr, reverse: bool = False, *, span: Any = None) -> Call:
    """A layer of gated recurrent units over a sequence.

    In each step `r, z, n` are parts of `gates[t]` and of `p = h @ weight.T`: `r = sigmoid(r + p_r)`,
    `z = sigmoid(z + p_z)`, `n = tanh(n + r * (p_n + bias))` and `h = (1 - z) * n + z * h`.

    Args:
        gates: `(t, b, 3 * h)`, products of the input with its weights, and biases; a float dtype.
        hidden: `(b, h)`, the hidden state before the first step; same dtype, as all.
        weight: `(3 * h, h)`, factors of the hidden state.
        bias: `(h,)`, added to the last part of the product before it is reset.
        reverse: Whether it begins with the last step; results of a step are where its input is.
        span: Python source of the call, for errors.

    Returns:
        A tuple: hidden states `(t, b, h)`, and the last of them `(b, h)`.

    Raises:
        TypeInferenceError: not one float dtype, or other ranks or sizes.

    Accuracy: 16-bit floats are computed in float32; hidden states are rounded after each step.
    Reference: torch.nn.GRU, whose order of gates and place of the reset it is; Cho et al., 2014.
    """
    return call(_GRU, gates, hidden, weight, bias, attrs=RecurrentAttrs(bool(reverse)), span=span)


def rnn(
    gates: Expr, hidden: Expr, weight: Expr, activation: str = "tanh", reverse: bool = False, *, span: Any = None
) -> Call:
    """A layer in which each step is `h = activation(gates[t] + h @ weight.T)`.

    Args:
        gates: `(t, b, h)`, products of the input with its weights, and biases; a float dtype.
        hidden: `(b, h)`, the hidden state before the first step; same dtype, as all.
        weight: `(h, h)`, factors of the hidden state.
        activation: `tanh` or `relu`.
        reverse: Whether it begins with the last step; results of a step are where its input is.
        span: Python source of the call, for errors.

    Returns:
        A tuple: hidden states `(t, b, h)`, and the last of them `(b, h)`.

    Raises:
        TypeInferenceError: not one float dtype, other ranks or sizes, or another activation.

    Accuracy: 16-bit floats are computed in float32; hidden states are rounded after each step.
    Reference: torch.nn.RNN; Elman, 1990.
    """
    if activation not in ACTIVATIONS:
        reject(f"rnn has no activation {activation!r}", help=f"choose one of {', '.join(ACTIVATIONS)}")
    return call(_RNN, gates, hidden, weight, attrs=RNNAttrs(bool(reverse), activation), span=span)


def _infer(c: Call) -> TupleStructInfo:
    form, (gates, *others) = _FORMS[c.op.name], tensor_args(c)
    need_float(c, gates)
    if any(other.dtype and gates.dtype and other.dtype != gates.dtype for other in others):
        refuse(c, f"{short_name(c)} of several dtypes", help="cast all arguments to one with astype")
    for number, (info, rank) in enumerate(zip((gates, *others), form.ranks, strict=True)):
        if info.ndim not in (-1, rank):
            refuse(c, f"argument {number} of {short_name(c)} has {info.ndim} axes instead of {rank}")
    hidden = next((info.dims for info in others[: form.states] if info.dims is not None), None)
    if gates.dims is None or hidden is None:
        return TupleStructInfo((tensor_info(None, gates.dtype, 3), *[tensor_info(None, gates.dtype, 2)] * form.states))
    steps, batch, _ = gates.dims
    _check_sizes(c, (gates, *others), (batch, hidden[1]))
    state = tensor_info((batch, hidden[1]), gates.dtype)
    return TupleStructInfo((tensor_info((steps, batch, hidden[1]), gates.dtype), *[state] * form.states))


def _check_sizes(c: Call, infos: tuple[TensorStructInfo, ...], state: tuple[PrimExpr, PrimExpr]) -> None:
    """Refuse sizes that do not go together with those of the state."""
    batch, units = state
    form = _FORMS[c.op.name]
    sums, weight = units * form.gates, 1 + form.states
    wanted = {0: (None, batch, sums), **dict.fromkeys(range(1, weight), (batch, units)), weight: (sums, units)}
    wanted[weight + 1] = (units,)
    for number, info in enumerate(infos):
        for size, want in zip(info.dims or (), wanted[number], strict=False):
            if want is not None and differ(size, want):
                refuse(
                    c,
                    f"argument {number} of {short_name(c)} has shape {dims_text(info.dims)}, which does not go with "
                    f"{size_text(batch)} sequences and {size_text(units)} units",
                    help=f"there are {form.gates} sums for each unit of the hidden state",
                )


def _work(c: Call) -> float:
    gates, hidden = c.args[0].struct_info, c.args[1].struct_info
    if not isinstance(gates, TensorStructInfo) or not isinstance(hidden, TensorStructInfo):
        return math.inf
    if gates.static_shape is None or hidden.static_shape is None:
        return math.inf
    return 2.0 * math.prod(gates.static_shape) * hidden.static_shape[1]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _steps(attrs: RecurrentAttrs, gates: Array) -> Any:
    return reversed(range(len(gates))) if attrs.reverse else range(len(gates))


@_LSTM.reference
def _lstm_reference(
    attrs: RecurrentAttrs, gates: Array, hidden: Array, cell: Array, weight: Array
) -> tuple[Array, Array, Array]:
    out = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype)
    state, memory, factors = hidden, widen(cell), widen(weight).T
    with np.errstate(over="ignore"):
        for step in _steps(attrs, gates):
            i, f, g, o = np.split(widen(gates[step]) + widen(state) @ factors, 4, axis=1)
            memory = _sigmoid(f) * memory + _sigmoid(i) * np.tanh(g)
            out[step] = state = cast(_sigmoid(o) * np.tanh(memory), dtype_of(gates))
    return out, state, cast(memory, dtype_of(gates))


@_GRU.reference
def _gru_reference(
    attrs: RecurrentAttrs, gates: Array, hidden: Array, weight: Array, bias: Array
) -> tuple[Array, Array]:
    out, state, factors = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype), hidden, widen(weight).T
    with np.errstate(over="ignore"):
        for step in _steps(attrs, gates):
            (r, z, n), (a, b, p) = (np.split(x, 3, axis=1) for x in (widen(gates[step]), widen(state) @ factors))
            new = np.tanh(n + _sigmoid(r + a) * (p + widen(bias)))
            out[step] = state = cast(new + _sigmoid(z + b) * (widen(state) - new), dtype_of(gates))
    return out, state


@_RNN.reference
def _rnn_reference(attrs: RNNAttrs, gates: Array, hidden: Array, weight: Array) -> tuple[Array, Array]:
    out, state, factors = np.empty(gates.shape, gates.dtype), hidden, widen(weight).T
    end = np.tanh if attrs.activation == "tanh" else partial(np.maximum, 0)
    for step in _steps(attrs, gates):
        out[step] = state = cast(end(widen(gates[step]) + widen(state) @ factors), dtype_of(gates))
    return out, state


def _lowered(builder: Builder, c: Call) -> Expr:
    gates, hidden = tensor_args(c, (0, 1))
    units = None if hidden.dims is None else static(hidden.dims[1])
    if gates.dims is None or not units or static(gates.dims[0]) == 0:
        return c
    steps, batch = own_sizes(gates.dims[:2], "n")
    lanes, attrs = min(_LANES, units), attrs_of(c, RecurrentAttrs)
    kind = f"rnn_{attrs.activation}" if isinstance(attrs, RNNAttrs) else short_name(c).removeprefix("nn.")
    program = topi.nn.recurrent(kind, steps, batch, units, lanes, gates.dtype, reverse=attrs.reverse)
    form = _FORMS[c.op.name]
    before, (weight, *after) = c.args[: 1 + form.states], c.args[1 + form.states :]
    args = [*before, _in_blocks(builder, weight, form.gates, units, lanes), *after]
    assert isinstance(c.struct_info, TupleStructInfo)
    return call_tir(builder.add_func(program, kind), args, c.struct_info.fields)


def _in_blocks(builder: Builder, weight: Expr, gates: int, units: int, lanes: int) -> Expr:
    """Weights as the program wants them: `(blocks, units, gates, lanes)`."""
    blocks = -(-units // lanes)
    parted = builder.emit(reshape(weight, ShapeExpr(tuple(map(as_prim, (gates, units, units))))))
    filled = builder.emit(pad(parted, [0, 0, 0, blocks * lanes - units, 0, 0])) if units % lanes else parted
    cut = builder.emit(reshape(filled, ShapeExpr(tuple(map(as_prim, (gates, blocks, lanes, units))))))
    return builder.emit(permute_dims(cut, [1, 3, 0, 2]))


for _definition in (_LSTM, _GRU, _RNN):
    _definition.infer(_infer)
    _definition.work(_work)
    _definition.legalize(_lowered)
