"""FuseInvertedResidual: expand, filter each channel and project in one operator, where that saves memory traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm
from eutectic.ir.span import merged_span
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import is_call_of, read_once
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import check_channel_bias
from eutectic.relax.expr import Call, Constant, Function, PrimValue
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.nn.conv_blocks import is_plain
from eutectic.relax.op.nn.inverted_residual import BOUNDS, inverted_residual
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.infra import FunctionPass, mutated
from eutectic.relax.transform.inverted_residual.choice import POINT, RESIDUAL_OFFERS, ResidualOffer, ResidualSizes
from eutectic.relax.transform.inverted_residual.pack import Array, packed
from eutectic.relax.transform.offers_by_kind import note_choice, tuned_choice
from eutectic.target import target_or_current


@dataclass(frozen=True)
class FuseInvertedResidual(FunctionPass):
    """Make one operator of a 1x1 convolution, one of each channel, and another 1x1 convolution.

    The first convolution may be missing, biases too. What is between is read by nobody else, and goes through the same
    activation, `relu`, `clip` to 0 and 6, or none. Only float32, with sizes and weights that are constants, and where
    who makes the kernels for the target estimates one kernel to be faster, or that was measured: the services of the
    context know it then by the sizes, at the choice point `inverted_residual`. Functions for a library, and
    composites, keep theirs.

    before:                                   after:
        lv = clip(nn.conv2d(x, w1) + b1, 0, 6)    gv = nn.inverted_residual(x, w2, b2, w3, w1, b1) + b3
        lv1 = nn.conv2d(lv, w2, groups=96)
        lv2 = clip(lv1 + b2, 0, 6)
        gv = nn.conv2d(lv2, w3) + b3

    Cost: linear in the size of the function and of the weights.

    Attributes:
        target: What for, as the text of a target; when empty, the current target, else this machine.
        threads: Threads of a call, which share what comes from memory in a nanosecond.
    """

    target: str = ""
    threads: int = 1

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Fuse within one function."""
        if any(map(function.attr, ("Codegen", "Composite", "Primitive"))):
            return function
        return mutated(function, _Fuser(function, self, ctx))


@dataclass(frozen=True)
class _Step:
    """A convolution, its bias and its activation.

    Attributes:
        conv: The call.
        weight: Its constant weights.
        bias: One value per output channel; None where nothing is added.
        activation: A name of `BOUNDS`.
    """

    conv: Call
    weight: Array
    bias: Array | None
    activation: str

    @property
    def biases(self) -> Array:
        """One value per output channel."""
        return np.zeros(len(self.weight), self.weight.dtype) if self.bias is None else self.bias


class _Fuser(PyExprMutator):
    def __init__(self, function: Function, settings: FuseInvertedResidual, ctx: PassContext) -> None:
        super().__init__()
        self._target, self._threads = target_or_current(settings.target or None), settings.threads
        self._ctx = ctx
        self._read_once = read_once(function)

    def visit_call_(self, call: Call) -> Any:
        """Fuse what ends in one convolution."""
        for first, window in self._steps(call):
            sizes = _sizes(first, window, call, self._threads)
            offer = None if sizes is None else self._chosen(sizes)
            if offer is not None:
                data = self.visit_expr((window if first is None else first).conv.args[0])
                return _fused(data, first, window, call, offer)
        return super().visit_call_(call)

    def _chosen(self, sizes: ResidualSizes) -> ResidualOffer | None:
        """How a block is computed in one kernel, if that was measured, or else is estimated, to be faster."""
        workload, measured = sizes.workload(self._target), self._ctx.services.measured
        offers = RESIDUAL_OFFERS.ask(sizes, self._target, measured.speeds)
        ways = [{"fused": False}, *([{"fused": True}] if offers else [])]
        tuned = tuned_choice(self._ctx, workload, POINT, ways)
        wanted = [offer for offer in offers if (offer.worthwhile if tuned is None else tuned["fused"])]
        note_choice(self._ctx, workload, POINT, {"fused": bool(wanted)}, ways)
        return next(iter(wanted), None)

    def _steps(self, last: Call) -> Iterator[tuple[_Step | None, _Step]]:
        """What comes before the last convolution: with a first one, and without it."""
        window = self._step(last.args[0]) if _is_pointwise(last) else None
        if window is None or not _is_depthwise(window.conv):
            return
        first = self._step(window.conv.args[0])
        if first is not None and _is_pointwise(first.conv) and first.activation == window.activation:
            yield first, window
        yield None, window

    def _step(self, expr: Expr) -> _Step | None:
        """The convolution that an expression is the result of."""
        value, activation = self._read_once(expr), "linear"
        if value is not None and (name := _activation(value)):
            value, activation = self._read_once(value.args[0]), name
        bias = None
        if value is not None and is_call_of(value, "relax.add"):
            for summand, operand in (value.args, value.args[::-1]):
                conv = self._read_once(summand)
                if isinstance(operand, Constant) and conv is not None and _weight(conv) is not None:
                    bias = None if check_channel_bias(conv, operand) is not None else operand.data.reshape(-1)
                    value = conv if bias is not None else None
                    break
        weight = None if value is None else _weight(value)
        return None if value is None or weight is None else _Step(value, weight, bias, activation)


def _activation(call: Call) -> str:
    """The name of an activation; empty for other calls."""
    name = getattr(call.op, "name", "")
    bounds = [float(getattr(arg.value, "value", "nan")) for arg in call.args[1:] if isinstance(arg, PrimValue)]
    if name == "relax.nn.relu":
        return "relu"
    return next((key for key, pair in BOUNDS.items() if name == "relax.clip" and tuple(bounds) == pair), "")


def _weight(call: Call) -> Array | None:
    """Constant weights of a convolution of images in float32, which nobody has laid out."""
    if not is_plain(call) or call.attrs is None or {*call.attrs["dilation"]} != {1}:
        return None
    weight = call.args[1]
    return weight.data if isinstance(weight, Constant) and weight.data.ndim == 4 else None


def _is_pointwise(call: Call) -> bool:
    """Whether each point of the result is of one point of the data."""
    weight, attrs = _weight(call), call.attrs
    if weight is None or attrs is None or weight.shape[2:] != (1, 1) or attrs["groups"] != 1:
        return False
    return {*attrs["strides"]} == {1} and not any(attrs["padding"])


def _is_depthwise(call: Call) -> bool:
    """Whether each channel has a window of its own."""
    weight, attrs = _weight(call), call.attrs
    return weight is not None and attrs is not None and weight.shape[:2] == (attrs["groups"], 1)


def _sizes(first: _Step | None, window: _Step, last: Call, threads: int) -> ResidualSizes | None:
    """All sizes; None when one is not a constant."""
    data, weight = (window if first is None else first).conv.args[0].struct_info, _weight(last)
    infos = [info for info in (data, last.struct_info) if isinstance(info, TensorStructInfo)]
    sizes = [size.value for info in infos for size in info.dims or () if isinstance(size, IntImm)]
    if len(sizes) != 8 or weight is None:
        return None
    batch, channels, height, width, _, filters, *out = sizes
    space, taps = (height, width), window.weight.shape[2:]
    return ResidualSizes(
        batch, channels, weight.shape[1], filters, first is not None, space, (out[0], out[1]), taps, threads
    )


def _fused(data: Expr, first: _Step | None, window: _Step, last: Call, offer: ResidualOffer) -> Expr:
    assert window.conv.attrs is not None
    weight = _weight(last)
    assert weight is not None
    wide = None if first is None else (first.weight, first.biases)
    spans = [] if first is None else [first.conv.span]
    return inverted_residual(
        data,
        *map(Constant, packed(wide, (window.weight, window.biases), weight, offer)),
        filters=len(weight),
        strides=window.conv.attrs["strides"],
        padding=window.conv.attrs["padding"],
        activation=window.activation,
        span=merged_span([*spans, window.conv.span, last.span]),
    )
