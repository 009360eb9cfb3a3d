"""When is the second operand of an add a bias? The condition behind the bias patterns.

A bias has one value per output channel: sizes 1 everywhere but on the channel
axis of the root's output, where it has the channel count. A residual, a value per
sample, or a reshape that puts the channels on another axis is not a bias, even
where the sizes happen to broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eutectic.arith import prove_equal
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import Call, describe_info
from eutectic.relax.struct_info import TensorStructInfo

Condition = Callable[[Mapping[Any, Any]], Refusal | None]


def channel_axis(call: Call) -> int:
    """Axis of the channels in the output of a call: from its layout, else the last one."""
    layout = call.attrs.get("out_layout") or call.attrs.get("data_layout") if call.attrs is not None else None
    if layout and "C" in layout:
        return int(layout.index("C"))
    info = call.struct_info
    return (info.ndim if isinstance(info, TensorStructInfo) else 1) - 1


def channel_bias(root: Any, operand: Any) -> Condition:
    """Condition of a pattern: the value of `operand` is one value per channel of `root`.

    Args:
        root: Pattern of the operator whose output is biased.
        operand: Pattern of the other side of the add, after any reshape.
    """

    def check(matches: Mapping[Any, Any]) -> Refusal | None:
        return check_channel_bias(matches[root], matches[operand])

    return check


def check_channel_bias(call: Any, operand: Any) -> Refusal | None:
    """A refusal when `operand` is not one value per output channel of `call`, else None."""
    out, bias = call.struct_info, operand.struct_info
    if not (isinstance(out, TensorStructInfo) and isinstance(bias, TensorStructInfo)):
        return Refusal("the bias or the output is not a tensor", operand)
    if out.dims is None or bias.dims is None:
        return Refusal("the shape of the bias or of the output is not known", operand)
    name = call.op.name.removeprefix("relax.") if isinstance(call, Call) and isinstance(call.op, Op) else "the root"
    axis = channel_axis(call)
    from_right = out.ndim - axis  # counted from the last axis, as broadcasting aligns
    if bias.ndim > out.ndim or bias.ndim < from_right:
        return Refusal(f"{describe_info(bias)} does not reach the channel axis {axis} of {name}", operand)
    if not prove_equal(bias.dims[bias.ndim - from_right], out.dims[axis]):
        return Refusal(
            f"{describe_info(bias)} is not one value per channel: axis {axis} of {name}'s output has "
            f"{_size(out.dims[axis])} channels",
            operand,
        )
    others = [size for i, size in enumerate(bias.dims) if i != bias.ndim - from_right]
    if any(_size(size) != "1" for size in others):
        return Refusal(
            f"{describe_info(bias)} varies along other axes than the channels (axis {axis} of {name})", operand
        )
    return None


def _size(value: PrimExpr) -> str:
    return str(value.value) if isinstance(value, IntImm) else getattr(value, "name", "?")
