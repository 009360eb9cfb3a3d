"""Recurrent layers: the product of all steps with the input's weights is one product, what follows one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eutectic.relax.base import Expr
from eutectic.relax.frontend.core import dims_of, dtype_of
from eutectic.relax.frontend.torch.ops_matmul import linear
from eutectic.relax.frontend.torch.ops_shape import cut, select, transposed
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.op import add, concat, nn, stack, zeros

_Cell = Callable[..., list[Expr]]
_BATCH_FIRST: Final = (1, 0, 2)


@dataclass(frozen=True)
class _Weights:
    """Parameters of one direction of a layer: `(g * h, i)`, `(g * h, h)`, and two biases `(g * h,)` or none."""

    data: Expr
    hidden: Expr
    data_bias: Expr | None = None
    hidden_bias: Expr | None = None


def _both(ctx: Context, weights: _Weights) -> Expr | None:
    """The sum of both biases."""
    if weights.data_bias is None or weights.hidden_bias is None:
        return None
    return ctx.call(add, weights.data_bias, weights.hidden_bias)


def _lstm(ctx: Context, x: Expr, states: Sequence[Expr], weights: _Weights, reverse: bool) -> list[Expr]:
    gates = linear(ctx, x, weights.data, _both(ctx, weights))
    return _items(ctx, ctx.call(nn.lstm, gates, *states, weights.hidden, reverse), 3)


def _gru(ctx: Context, x: Expr, states: Sequence[Expr], weights: _Weights, reverse: bool) -> list[Expr]:
    units = dims_of(states[0])[1]
    none: Expr = ctx.call(zeros, [units], dtype_of(x))
    bias, last = weights.data_bias, none
    if weights.hidden_bias is not None:  # what is reset has its own bias; the others go to the product with the input
        last = cut(ctx, weights.hidden_bias, 0, units * 2, units * 3)
        others = ctx.call(concat, [cut(ctx, weights.hidden_bias, 0, 0, units * 2), none], 0)
        bias = ctx.call(add, weights.data_bias, others)
    gates = linear(ctx, x, weights.data, bias)
    return _items(ctx, ctx.call(nn.gru, gates, *states, weights.hidden, last, reverse), 2)


def _rnn(activation: str) -> _Cell:
    def convert(ctx: Context, x: Expr, states: Sequence[Expr], weights: _Weights, reverse: bool) -> list[Expr]:
        gates = linear(ctx, x, weights.data, _both(ctx, weights))
        return _items(ctx, ctx.call(nn.rnn, gates, *states, weights.hidden, activation, reverse), 2)

    return convert


def _items(ctx: Context, value: Expr, count: int) -> list[Expr]:
    return [ctx.item(value, k) for k in range(count)]


@dataclass(frozen=True)
class _Options:
    """The numbers at the end of the operators' arguments, in their order."""

    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


def _network(
    ctx: Context, cell: _Cell, x: Expr, states: Sequence[Expr], params: Sequence[Expr], options: _Options
) -> list[Expr]:
    """All layers: the last one's hidden states, and the last states of all layers and directions.

    Args:
        ctx: What a converter may do.
        cell: Converts one direction of a layer.
        x: `(t, b, i)`, or `(b, t, i)`.
        states: Each `(layers * directions, b, h)`.
        params: Two or four for each direction of each layer.
        options: All else.
    """
    if options.train and options.dropout > 0 and options.layers > 1:
        ctx.refuse("it drops numbers between its layers at random; call model.eval()")
    each = 4 if options.has_biases else 2
    if len(params) != each * options.layers * options.directions:
        ctx.refuse("it projects its hidden states (proj_size), which no operator here does")
    all_weights = [_Weights(*params[k : k + each]) for k in range(0, len(params), each)]
    x, last = transposed(ctx, x, _BATCH_FIRST) if options.batch_first else x, []
    for layer in range(options.layers):
        outs = []
        for direction in range(options.directions):
            number = layer * options.directions + direction
            own = [select(ctx, state, 0, number) for state in states]
            out, *ends = cell(ctx, x, own, all_weights[number], direction == 1)
            outs.append(out)
            last.append(ends)
        x = outs[0] if len(outs) == 1 else ctx.call(concat, outs, 2)
    x = transposed(ctx, x, _BATCH_FIRST) if options.batch_first else x
    return [x, *(ctx.call(stack, list(ends), 0) for ends in zip(*last, strict=True))]


@converts("aten.lstm.input")
def lstm(ctx: Context, x: Expr, states: list[Expr], params: list[Expr], *options: Any) -> list[Expr]:
    """Layers of long short-term memory."""
    return _network(ctx, _lstm, x, states, params, _Options(*options))


@converts("aten.gru.input")
def gru(ctx: Context, x: Expr, state: Expr, params: list[Expr], *options: Any) -> list[Expr]:
    """Layers of gated recurrent units."""
    return _network(ctx, _gru, x, [state], params, _Options(*options))


@converts("aten.rnn_tanh.input")
def rnn_tanh(ctx: Context, x: Expr, state: Expr, params: list[Expr], *options: Any) -> list[Expr]:
    """Plain recurrent layers that end in tanh."""
    return _network(ctx, _rnn("tanh"), x, [state], params, _Options(*options))


@converts("aten.rnn_relu.input")
def rnn_relu(ctx: Context, x: Expr, state: Expr, params: list[Expr], *options: Any) -> list[Expr]:
    """Plain recurrent layers that end in relu."""
    return _network(ctx, _rnn("relu"), x, [state], params, _Options(*options))
