"""What holds of sizes that are not known: no buffer of a function has a negative number of elements along an axis."""

from __future__ import annotations

from eutectic.ir.prim_expr import GE, IntImm, PrimExpr, compare
from eutectic.tir.analysis.accesses import is_affine
from eutectic.tir.analysis.dependence import conjunction
from eutectic.tir.function import PrimFunc


def natural_sizes(func: PrimFunc) -> PrimExpr:
    """The condition that sizes in the shapes of a function's buffers meet in every call."""
    sizes = {size for buffer in func.buffer_map.values() for size in buffer.shape if not isinstance(size, IntImm)}
    return conjunction([compare(GE, size, 0) for size in sorted(sizes, key=str) if is_affine(size)])
