"""How much work a model is: whether a library's kernels are worth the calls."""

from __future__ import annotations

from typing import Final

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Call, Function
from eutectic.relax.struct_info import TensorStructInfo

SMALL_FLOPS: Final = 20e6  # of one matrix product; below, a call into oneDNN costs a good part of the product's time


def is_small(mod: IRModule, entry: str = "main") -> bool:
    """Whether a function has no convolution, and no matrix product of known size above `SMALL_FLOPS`.

    A module with regions for libraries, which somebody has cut out on purpose, is not small.

    Args:
        mod: A module of operators.
        entry: The function.
    """
    function = mod[entry]
    assert isinstance(function, Function)
    if any(f.attr("Codegen") or f.attr("Composite") for _, f in mod.functions_items() if isinstance(f, Function)):
        return False
    for binding in walk_bindings(function):
        call = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            continue
        if call.op.name.startswith("relax.nn.conv"):
            return False
        if call.op.name == "relax.matmul" and _flops(call) > SMALL_FLOPS:
            return False
    return True


def _flops(call: Call) -> float:
    """Multiplications and additions of a matrix product; infinite when a size is not known."""
    out, left = call.struct_info, call.args[0].struct_info
    if not isinstance(out, TensorStructInfo) or not isinstance(left, TensorStructInfo):
        return float("inf")
    shape, inner = out.static_shape, left.static_shape
    if shape is None or inner is None:
        return float("inf")
    count = 2.0 * inner[-1]
    for size in shape:
        count *= size
    return count
