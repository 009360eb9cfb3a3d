"""Where oneDNN drops NaN, and how a call is kept from getting there.

Some post-operations and the maximum pool compare and select, so that a NaN leaves
them as a number (`spec.NAN_PRESERVING` has the facts). A region that has one of
those looks at its inputs first: when they are finite it runs natively; a call with
NaN or infinities is computed by the operators' reference instead, which follows
torch. What this cannot see is a NaN that is made inside a region from finite
inputs, by overflow to infinity; `precision="strict"` covers that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from eutectic.backend.dnnl.spec import NAN_PRESERVING, RegionSpec
from eutectic.backend.dnnl.steps import Binary, Eltwise, Pool, PostBinary, PostEltwise, PostOp, Step, post_ops


def loses_nan(spec: RegionSpec) -> bool:
    """Whether some step of a region may turn NaN into a number."""
    return any(map(_step_loses_nan, spec.steps))


def _step_loses_nan(step: Step) -> bool:
    match step:
        case Pool():
            return step.kind == "max"
        case Eltwise():
            return _post_op_loses_nan(step.post_op)
        case Binary() if step.kind in ("max", "min"):
            return True
        case _:
            return any(map(_post_op_loses_nan, post_ops(step)))


def _post_op_loses_nan(post_op: PostOp) -> bool:
    if isinstance(post_op, PostBinary):
        return post_op.kind in ("max", "min")
    return not keeps_nan(post_op)


def keeps_nan(post_op: PostEltwise) -> bool:
    """Whether NaN comes out of an element-wise function as NaN."""
    with_slope = post_op.algorithm == "relu" and post_op.alpha != 0
    return with_slope or post_op.algorithm in NAN_PRESERVING


def all_finite(arrays: Iterable[Any]) -> bool:
    """Whether no element is NaN or infinite; a sum of huge finite numbers that overflows also says no."""
    with np.errstate(all="ignore"):
        return all(bool(np.isfinite(np.add.reduce(a, axis=None))) for a in arrays if isinstance(a, np.ndarray))


def finite_constants(constants: Sequence[Any]) -> bool:
    """Whether all constants of a region are finite, element by element."""
    return all(bool(np.isfinite(array).all()) for array in constants)
