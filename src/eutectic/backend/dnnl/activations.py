"""Activations: which relax operator is which oneDNN algorithm, with which parameters.

One row per activation; patterns and code generation both read the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eutectic.backend.dnnl.steps import PostEltwise
from eutectic.ir.prim_expr import FloatImm, IntImm
from eutectic.relax.dpl.pattern import DFPattern, is_op, wildcard
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import Call, Constant, PrimValue

Parameters = Callable[[Call], tuple[float, float] | None]


@dataclass(frozen=True)
class Activation:
    """One activation.

    Attributes:
        op: Relax operator.
        algorithm: Key of `steps.PARAMETERS`.
        parameters: (alpha, beta) of a call, or None when they cannot be handed over.
        operands: Number of arguments of the operator.
    """

    op: str
    algorithm: str
    parameters: Parameters
    operands: int = 1

    def pattern(self, data: DFPattern) -> DFPattern:
        """A call of the operator on what `data` matches."""
        return is_op(self.op)(data, *(wildcard() for _ in range(self.operands - 1)))


def _fixed(alpha: float = 0.0, beta: float = 0.0) -> Parameters:
    return lambda call: (alpha, beta)


def _attr(name: str) -> Parameters:
    def read(call: Call) -> tuple[float, float] | None:
        return (float(call.attrs[name]), 0.0) if call.attrs is not None else None

    return read


def _clip(call: Call) -> tuple[float, float] | None:
    low, high = (_number(arg) for arg in call.args[1:])
    if low is None or high is None or not low <= high:  # also false when one is NaN
        return None
    return low, high


def _number(arg: Any) -> float | None:
    if isinstance(arg, PrimValue) and isinstance(arg.value, (IntImm, FloatImm)):
        return float(arg.value.value)
    return float(arg.data) if isinstance(arg, Constant) and arg.data.size == 1 else None


ACTIVATIONS: Final[Mapping[str, Activation]] = {
    "relu": Activation("relax.nn.relu", "relu", _fixed()),
    "clip": Activation("relax.clip", "clip", _clip, 3),
    "leakyrelu": Activation("relax.nn.leakyrelu", "relu", _attr("alpha")),
    "sigmoid": Activation("relax.sigmoid", "sigmoid", _fixed()),
    "tanh": Activation("relax.tanh", "tanh", _fixed()),
    "silu": Activation("relax.nn.silu", "silu", _fixed()),
    "gelu": Activation("relax.nn.gelu", "gelu_erf", _fixed()),
    "gelutanh": Activation("relax.nn.gelu_tanh", "gelu_tanh", _fixed()),
    "hardswish": Activation("relax.nn.hardswish", "hardswish", _fixed()),
    "hardsigmoid": Activation("relax.nn.hardsigmoid", "hardsigmoid", _fixed()),
    "elu": Activation("relax.nn.elu", "elu", _attr("alpha")),
}
BY_OP: Final = {activation.op: activation for activation in ACTIVATIONS.values()}


def post_eltwise(call: Call) -> PostEltwise | None:
    """The post-operation of an activation call, or None when oneDNN cannot compute it."""
    activation = BY_OP.get(getattr(call.op, "name", ""))
    found = activation.parameters(call) if activation is not None else None
    if activation is None or found is None or any(map(math.isnan, found)):
        return None
    return PostEltwise(activation.algorithm, *found)


def activation_refusal(call: Any) -> Refusal | None:
    """Why an activation of a match cannot be handed over, or None."""
    if post_eltwise(call) is None:
        return Refusal(f"the parameters of {call.op.name.removeprefix('relax.')} are not ordered constants", call)
    return None
