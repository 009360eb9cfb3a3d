"""Which calls of operators compute each place of a batch by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.relax.expr import Call
from eutectic.relax.op.registry import has_trait, op_def
from eutectic.relax.op.shapes import static
from eutectic.relax.struct_info import TensorStructInfo

_LAYOUTS: Final = ("layout", "data_layout", "out_layout")


def is_separable(c: Call, batched: Sequence[bool]) -> bool:
    """Whether a batch can be computed piece by piece, each as the same call of a piece of the operands.

    Args:
        c: A call of an operator, with struct info.
        batched: For each tensor among the arguments, fields of tuples one by one, whether its first axis is the batch.
    """
    if not any(batched):
        return False
    if has_trait(c, "pointwise"):
        return are_aligned(c, batched)
    definition = op_def(c.op)
    return definition is not None and definition.separable_fn is not None and definition.separable_fn(c, batched)


def only_first(c: Call, batched: Sequence[bool]) -> bool:
    """For `OpDef.separable`: the batch is that of the first operand, and its first axis by every layout."""
    return batched[0] and not any(batched[1:]) and is_first_by_layout(c)


def is_first_by_layout(c: Call) -> bool:
    """Whether the batch is the first axis by every layout that a call names; true where it names none."""
    options = dict(c.attrs.items()) if c.attrs is not None else {}
    layouts = [options[name] for name in _LAYOUTS if options.get(name)]
    return all(layout.startswith("N") for layout in layouts)


def are_aligned(c: Call, batched: Sequence[bool]) -> bool:
    """For `OpDef.separable`: batches lie over each other, and everything else broadcasts along them."""
    out = c.struct_info
    if not isinstance(out, TensorStructInfo) or out.ndim < 1:
        return False
    infos = [arg.struct_info for arg in c.args]
    tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
    return all(
        info.ndim == out.ndim if is_batch else 0 <= info.ndim < out.ndim or _first(info) == 1
        for info, is_batch in zip(tensors, batched, strict=True)
    )


def keeps_first_axis(c: Call, batched: Sequence[bool]) -> bool:
    """For `OpDef.separable`: the first axis of the first operand is that of the result, of a known size."""
    before, after = c.args[0].struct_info, c.struct_info
    if not isinstance(before, TensorStructInfo) or not isinstance(after, TensorStructInfo):
        return False
    count = _first(before)
    return all(batched) and count is not None and count == _first(after)


def not_along_first(axes: Sequence[int] | None, ndim: int) -> bool:
    """Whether axes, all of them if None, are others than the first.

    Args:
        axes: Their numbers; negative ones count from the last.
        ndim: How many there are.
    """
    return axes is not None and all(axis % ndim != 0 for axis in axes)


def _first(info: TensorStructInfo) -> int | None:
    return static(info.dims[0]) if info.dims else None
