"""Activations in patterns, and from a call of one to its post-operation; the rows are in `algorithms.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eutectic.backend.dnnl.algorithms import ALGORITHMS, Taken
from eutectic.backend.dnnl.steps import PostEltwise
from eutectic.ir.prim_expr import FloatImm, IntImm
from eutectic.relax.dpl.constructors import is_op, wildcard
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import Call, Constant, PrimValue


@dataclass(frozen=True)
class Activation:
    """One activation.

    Attributes:
        algorithm: Key of `ALGORITHMS`.
        taken: Its operator, and how parameters are read.
    """

    algorithm: str
    taken: Taken

    def pattern(self, data: DFPattern) -> DFPattern:
        """A call of the operator on what `data` matches."""
        others = [wildcard() for position in self.taken.reads if isinstance(position, int)]
        return is_op(self.taken.op)(data, *others)

    def parameters(self, call: Call) -> tuple[float, float] | None:
        """(alpha, beta) of a call; None when they are not known, or limits in the wrong order."""
        values = [_value(call, place) for place in self.taken.reads]
        if None in values or (len(values) == 2 and not values[0] <= values[1]):  # type: ignore[operator]  # none is None
            return None
        alpha, beta = (*values, 0.0, 0.0)[:2]
        assert alpha is not None and beta is not None
        return alpha, beta


ACTIVATIONS: Final[Mapping[str, Activation]] = {
    taken.name: Activation(algorithm, taken) for algorithm, row in ALGORITHMS.items() for taken in row.takes
}
BY_OP: Final = {activation.taken.op: activation for activation in ACTIVATIONS.values()}


def post_eltwise(call: Call) -> PostEltwise | None:
    """The post-operation of an activation call, or None when oneDNN cannot compute it."""
    activation = BY_OP.get(getattr(call.op, "name", ""))
    parameters = activation.parameters(call) if activation is not None else None
    if activation is None or parameters is None or any(map(math.isnan, parameters)):
        return None
    return PostEltwise(activation.algorithm, *parameters)


def _value(call: Call, place: str | int) -> float | None:
    """An attribute, or an argument that is a constant number."""
    if isinstance(place, str):
        return float(call.attrs[place]) if call.attrs is not None else None
    arg = call.args[place]
    if isinstance(arg, PrimValue) and isinstance(arg.value, (IntImm, FloatImm)):
        return float(arg.value.value)
    return float(arg.data) if isinstance(arg, Constant) and arg.data.size == 1 else None


def activation_refusal(call: Any) -> Refusal | None:
    """Why an activation of a match cannot be handed over, or None."""
    if post_eltwise(call) is None:
        return Refusal(f"the parameters of {call.op.name.removeprefix('relax.')} are not ordered constants", call)
    return None
