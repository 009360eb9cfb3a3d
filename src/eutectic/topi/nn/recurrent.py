"""Recurrent layers: one program for all steps, as no stage of tensor expressions reads what a later one wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, as_prim, floordiv, floormod, mul
from eutectic.tir.block import RECURRENT
from eutectic.tir.buffer import Buffer
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import if_then_else, sigmoid, tanh
from eutectic.tir.stmt import BufferStore, For, Stmt, seq
from eutectic.topi.loop_nest import block_under_loops
from eutectic.topi.special_values import accumulator, nan_max, widen

GATES: Final[Mapping[str, int]] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Kinds of layers, and how many sums of products each unit has."""
_At = tuple[Var, ...]


def recurrent(
    kind: str, steps: PrimExpr, batch: PrimExpr, units: int, lanes: int, dtype: str, *, reverse: bool = False
) -> PrimFunc:
    """A program that goes through a sequence, step by step.

    Args:
        kind: `lstm` (gates input, forget, cell, output), `gru` (reset, update, new), `rnn_tanh` or `rnn_relu`.
        steps: Length of the sequence; a constant is at least one.
        batch: Sequences.
        units: Numbers that are handed on from step to step, per sequence.
        lanes: Units whose weights lie beside each other.
        dtype: A float dtype, of all data.
        reverse: Whether it begins with the last step.

    Returns:
        A function of `gates` `(steps, batch, g * units)`, which hold what a step's input and biases add to each sum;
        of the first hidden state `(batch, units)`; for `lstm` of the first cell state `(batch, units)`; of `weight`
        `(blocks, units, g, lanes)`, the factors of the hidden state in blocks of so many units, of which the last one
        may have fewer; for `gru` of `bias` `(units,)`, which is added to the third sum of products before it is reset;
        and of the results: hidden states `(steps, batch, units)`, the last of them, and for `lstm` the last cell
        state. Each block says in the annotation `recurrent` what it does.

    Raises:
        ValueError: another kind.

    Accuracy: floats of 16 bits are computed in float32; hidden states are rounded after each step.
    Reference: torch.nn.LSTM, GRU and RNN, in the order of gates that torch has.
    """
    if kind not in GATES:
        raise ValueError(f"there is no recurrent layer {kind!r}; there are {', '.join(GATES)}")
    layer = _Layer(kind, steps, batch, units, lanes, dtype, reverse)
    return _LAYERS.get(kind, _rnn)(layer)


@dataclass
class _Layer:
    """What the parts of a program share: its sizes, the loop over steps, and the buffers of every kind."""

    kind: str
    steps: PrimExpr
    batch: PrimExpr
    size: int
    lanes: int
    dtype: str
    reverse: bool
    between: list[Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = GATES[self.kind]
        self.units = as_prim(self.size, self.batch.dtype)
        self.gates = Buffer("gates", (self.steps, self.batch, self.units * count), self.dtype)
        self.first = Buffer("first", (self.batch, self.units), self.dtype)
        self.weight = Buffer("weight", (-(-self.size // self.lanes), self.size, count, self.lanes), self.dtype)
        self.hidden = Buffer("hidden", (self.steps, self.batch, self.units), self.dtype)
        self.last = Buffer("last", (self.batch, self.units), self.dtype)
        self.previous = self.kept("previous", self.dtype)
        self.sums = self._between("sums", (self.steps, self.batch, as_prim(count, self.units.dtype), self.units))
        self.step = Var("step", self.steps.dtype)

    def kept(self, name: str, dtype: str | None = None) -> Buffer:
        """Memory for a number of each unit in each step."""
        return self._between(name, (self.steps, self.batch, self.units), dtype)

    def _between(self, name: str, shape: Sequence[PrimExpr], dtype: str | None = None) -> Buffer:
        buffer = Buffer(name, tuple(shape), dtype or accumulator(self.dtype))
        self.between.append(buffer)
        return buffer

    def place(self, step: PrimExpr) -> PrimExpr:
        """Where in the sequence the data of a step is."""
        return self.steps - 1 - step if self.reverse else step

    def before(self, step: PrimExpr) -> PrimExpr:
        """Where the hidden state of the step before is."""
        return self.place(step - 1)

    def given(self, at: _At, gate: int) -> PrimExpr:
        """What the data adds to a sum."""
        step, row, unit = at
        return widen(self.gates[self.place(step), row, self.units * gate + unit])

    def total(self, at: _At, gate: int) -> PrimExpr:
        """A sum, with what the data adds."""
        step, row, unit = at
        return add(self.given(at, gate), self.sums[step, row, gate, unit])

    def each(self, name: str, out: Buffer, value: Callable[..., PrimExpr], *, in_place: bool = False) -> Stmt:
        """A block that computes a number for each unit of a step."""

        def body(step: Var, row: Var, unit: Var) -> Stmt:
            at = (self.place(step) if in_place else step, row, unit)
            return BufferStore(out, value(step, row, unit).astype(out.dtype), at)

        return self._nest(name, {"row": self.batch, "unit": self.units}, body)

    def products(self) -> Stmt:
        """The sums of all units with the hidden state of the step before."""
        count = GATES[self.kind]

        def begin(step: Var, row: Var, gate: Var, unit: Var, _: Var) -> Stmt:
            return BufferStore(self.sums, as_prim(0, self.sums.dtype), (step, row, gate, unit))

        def extend(step: Var, row: Var, gate: Var, unit: Var, term: Var) -> Stmt:
            at = (step, row, gate, unit)
            factor = widen(self.weight[floordiv(unit, self.lanes), term, gate, floormod(unit, self.lanes)])
            return BufferStore(self.sums, self.sums[at] + widen(self.previous[step, row, term]) * factor, at)

        gates = as_prim(count, self.units.dtype)
        sizes = {"row": self.batch, "gate": gates, "unit": self.units, "term": self.units}
        return self._nest("sums", sizes, extend, begin)

    def start(self) -> Stmt:
        """The hidden state before a step."""
        return self.each("previous", self.previous, lambda *at: self.state(at, self.first, self.hidden, self.before))

    def state(self, at: _At, first: Buffer, later: Buffer, before: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
        """A state before a step: the one that is given, or what the step before left."""
        step, row, unit = at
        value: PrimExpr = if_then_else(
            step.equal(0), first[row, unit].astype(later.dtype), later[before(step), row, unit]
        )
        return value

    def after(self, name: str, out: Buffer, first: Buffer, later: Buffer, place: PrimExpr) -> Stmt:
        """A block that writes a state after the last step; without steps it is the one that is given."""

        def body(row: Var, unit: Var) -> Stmt:
            begun, ended = first[row, unit].astype(out.dtype), later[place, row, unit].astype(out.dtype)
            value = ended if isinstance(self.steps, IntImm) else if_then_else(self.steps > 0, ended, begun)
            return BufferStore(out, value, (row, unit))

        return self._block(name, {}, {"row": self.batch, "unit": self.units}, body)

    def ended(self) -> Stmt:
        """The last hidden state."""
        return self.after("last", self.last, self.first, self.hidden, self.place(self.steps - 1))

    def _nest(
        self,
        name: str,
        sizes: Mapping[str, PrimExpr],
        body: Callable[..., Stmt],
        init: Callable[..., Stmt] | None = None,
    ) -> Stmt:
        return self._block(name, {self.step: self.steps}, sizes, body, init)

    def _block(
        self,
        name: str,
        around: Mapping[Var, PrimExpr],
        sizes: Mapping[str, PrimExpr],
        body: Callable[..., Stmt],
        init: Callable[..., Stmt] | None = None,
    ) -> Stmt:
        loops = {Var(axis, size.dtype): size for axis, size in sizes.items()}
        kinds = {loop: "comm_reduce" for loop in loops if loop.name == "term"}
        return block_under_loops(name, loops, body, init, around=around, kinds=kinds, notes={RECURRENT: name})

    def program(
        self,
        params: Sequence[Buffer],
        every: Sequence[Stmt],
        before: Sequence[Stmt] = (),
        after: Sequence[Stmt] = (),
    ) -> PrimFunc:
        """The function: what is done in every step, before the sums and after them, and what follows the last one."""
        body = seq(self.start(), *before, self.products(), *every)
        steps = For(self.step, as_prim(0, self.step.dtype), self.steps, "serial", body)
        attrs = {"tir.noalias": True}
        func = PrimFunc(tuple(params), seq(steps, self.ended(), *after), attrs=attrs)  # type: ignore[arg-type]  # the node converts what it is given
        return complete(func, self.between)


def _lstm(layer: _Layer) -> PrimFunc:
    first = Buffer("first_cell", (layer.batch, layer.units), layer.dtype)
    last = Buffer("last_cell", (layer.batch, layer.units), layer.dtype)
    cells, before = layer.kept("cells"), layer.kept("cell_before")

    def earlier(*at: Any) -> PrimExpr:
        return layer.state(at, first, cells, lambda step: step - 1)

    def cell(*at: Any) -> PrimExpr:
        kept = sigmoid(layer.total(at, 1)) * before[at]
        return add(kept, sigmoid(layer.total(at, 0)) * tanh(layer.total(at, 2)))

    def hidden(*at: Any) -> PrimExpr:
        return mul(sigmoid(layer.total(at, 3)), tanh(cells[at]))

    start = layer.each("before", before, earlier)
    every = [layer.each("cell", cells, cell), layer.each("hidden", layer.hidden, hidden, in_place=True)]
    end = layer.after("last_cell", last, first, cells, layer.steps - 1)
    params = (layer.gates, layer.first, first, layer.weight, layer.hidden, layer.last, last)
    return layer.program(params, every, [start], [end])


def _gru(layer: _Layer) -> PrimFunc:
    bias = Buffer("bias", (layer.units,), layer.dtype)
    news = layer.kept("news")

    def new(*at: Any) -> PrimExpr:
        step, row, unit = at
        product = layer.sums[step, row, 2, unit] + widen(bias[unit])
        return tanh(layer.given(at, 2) + sigmoid(layer.total(at, 0)) * product)

    def hidden(*at: Any) -> PrimExpr:
        return add(news[at], sigmoid(layer.total(at, 1)) * (widen(layer.previous[at]) - news[at]))

    every = [layer.each("new", news, new), layer.each("hidden", layer.hidden, hidden, in_place=True)]
    params = (layer.gates, layer.first, layer.weight, bias, layer.hidden, layer.last)
    return layer.program(params, every)


def _rnn(layer: _Layer) -> PrimFunc:
    def hidden(*at: Any) -> PrimExpr:
        total = layer.total(at, 0)
        return tanh(total) if layer.kind == "rnn_tanh" else nan_max(total, 0)

    params = (layer.gates, layer.first, layer.weight, layer.hidden, layer.last)
    return layer.program(params, [layer.each("hidden", layer.hidden, hidden, in_place=True)])


_LAYERS: Final[Mapping[str, Callable[[_Layer], PrimFunc]]] = {"lstm": _lstm, "gru": _gru}
