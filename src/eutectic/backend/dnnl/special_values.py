"""Where oneDNN loses NaN or infinities, and how a call is kept from getting there.

Some post-operations and the maximum pool compare and select, so that a NaN leaves
them as a number, and gelu makes NaN of infinity with AVX-512
(`spec.SPECIALS_KEPT` has the facts). A region that has one of those looks at its
inputs first: when they are finite it runs natively; a call with NaN or infinities
is computed by kernels of our own instead, which follow torch. What this cannot
see is a NaN that is made inside a region from finite inputs, by overflow to
infinity; `precision="strict"` covers that too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from eutectic.backend.dnnl.spec import SPECIALS_KEPT, RegionSpec
from eutectic.backend.dnnl.steps import Binary, Eltwise, Pool, PostBinary, PostEltwise, PostOp, Step, post_ops

_SHORT: Final = 8192  # elements up to which a dot product is faster than a guarded sum


def loses_specials(spec: RegionSpec) -> bool:
    """Whether some step of a region may turn NaN into a number, or infinity into NaN."""
    return any(map(_step_loses_specials, spec.steps))


def _step_loses_specials(step: Step) -> bool:
    match step:
        case Pool():
            return step.kind == "max"
        case Eltwise():
            return _post_op_loses_specials(step.post_op)
        case Binary() if step.kind in ("max", "min"):
            return True
        case _:
            return any(map(_post_op_loses_specials, post_ops(step)))


def _post_op_loses_specials(post_op: PostOp) -> bool:
    if isinstance(post_op, PostBinary):
        return post_op.kind in ("max", "min")
    return not keeps_specials(post_op)


def keeps_specials(post_op: PostEltwise) -> bool:
    """Whether NaN comes out of an element-wise function as NaN, and infinity not."""
    with_slope = post_op.algorithm == "relu" and post_op.alpha != 0
    return with_slope or post_op.algorithm in SPECIALS_KEPT


def all_finite(arrays: Iterable[Any]) -> bool:
    """Whether no element is NaN or infinite; a sum of huge finite numbers that overflows also says no."""
    return all(_sum_is_finite(array) for array in arrays if isinstance(array, np.ndarray))


def _sum_is_finite(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype != np.float32:
        return bool(np.isfinite(array).all())
    if array.size <= _SHORT:
        flat = array.reshape(-1)
        return math.isfinite(np.dot(flat, flat))  # says nothing of overflow, where a reduction would warn
    with np.errstate(all="ignore"):
        return math.isfinite(np.add.reduce(array, axis=None))


def finite_constants(constants: Sequence[Any]) -> bool:
    """Whether all constants of a region are finite, element by element."""
    return all(bool(np.isfinite(array).all()) for array in constants)
