"""Conditions that tables of GPU libraries put on attention."""

from __future__ import annotations

from typing import Any

from eutectic.arith import prove_equal
from eutectic.relax.base import ShapeExpr
from eutectic.relax.dpl.checks import Condition, tensor_of
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import PatternCheckContext
from eutectic.relax.expr import Call, PrimValue, Tuple, as_int, describe_info

NAMES = ("query", "key", "value")


def attention_operands(dtypes: tuple[str, ...], backend: str) -> Condition:
    """Query, key and value have an allowed dtype and constant numbers of features."""

    def check(context: PatternCheckContext) -> Refusal | None:
        for name in NAMES:
            value = context.parts[name]
            info = tensor_of(value)
            if info is None or info.ndim != 4 or info.dims is None:
                return Refusal(f"the {name} is {describe_info(value.struct_info)}, not a tensor of four axes", value)
            if info.dtype not in dtypes:
                wanted = " or ".join(dtypes)
                why = f"{backend} has attention of {wanted}, not of {info.dtype}"
                return Refusal(why, value, "dtype", wanted, info.dtype)
            if as_int(info.dims[2]) is None or as_int(info.dims[3]) is None:
                return Refusal(f"the {name} has symbolic heads or features", value, "shape")
        return None

    return check


def check_attention_bias(context: PatternCheckContext) -> Refusal | None:
    """A bias has four axes and one value per key: the kernels read it row by row."""
    bias = context.parts.get("bias")
    if bias is None:
        return None
    info, keys = tensor_of(bias), tensor_of(context.parts["key"])
    if info is None or keys is None or info.dims is None or keys.dims is None or info.ndim != 4:
        return Refusal(f"the bias is {describe_info(bias.struct_info)}, not a tensor of four axes", bias, "shape")
    if not prove_equal(info.dims[3], keys.dims[1]):
        return Refusal("the bias does not have one value per key", bias, "shape")
    return None


def refuse_windows(backend: str) -> Condition:
    """Attention without a sliding window."""

    def check(context: PatternCheckContext) -> Refusal | None:
        root = context.parts["root"]
        window = root.attrs["window_size"] if isinstance(root, Call) and root.attrs is not None else None
        if window is not None:
            return Refusal(f"{backend} is not used for attention with a window ({window})", root, "attribute")
        return None

    return check


def stacked_operands(layout: str) -> Condition:
    """The cuts, reshapes and transpositions before attention are those of a stacked tensor."""

    def check(context: PatternCheckContext) -> Refusal | None:
        stacked = context.parts["stacked_qkv"]
        info = tensor_of(stacked)
        rank = 3 if layout == "BS3NH" else 4
        if info is None or info.dims is None or info.ndim != rank:
            actual = describe_info(stacked.struct_info)
            return Refusal(f"the stacked tensor is {actual}; {layout} has {rank} axes", stacked, "shape")
        refusal = _check_cuts(context, rank - 1, as_int(info.dims[-1]))
        if refusal is not None:
            return refusal
        return _check_shapes(context) if layout == "BS3NH" else _check_swaps(context)

    return check


def _check_cuts(context: PatternCheckContext, axis: int, size: int | None) -> Refusal | None:
    """Query, key and value are the three thirds, or other consecutive parts, of the last axis."""
    split = context.parts.get("split")
    if isinstance(split, Call) and split.attrs is not None:
        where = split.attrs["indices_or_sections"]
        count = where if isinstance(where, int) else len(where) + 1
        if split.attrs["axis"] % (axis + 1) != axis or count != 3:
            why = f"split into {count} along axis {split.attrs['axis']} is not a cut into three along the last axis"
            return Refusal(why, split, "attribute")
        return None
    at = 0
    for name in NAMES:
        cut = context.parts[f"strided_slice_{name}"]
        bounds = _cut_of(cut, axis)
        if bounds is None or bounds[0] != at:
            return Refusal(f"the slice of the {name} does not go on where the one before ended", cut, "attribute")
        at = bounds[1]
    if at != size:
        return Refusal("the slices do not cover the last axis", context.parts["stacked_qkv"], "attribute")
    return None


def _cut_of(cut: Any, axis: int) -> tuple[int, int] | None:
    """Begin and end of a slice with step 1 along one axis."""
    assert isinstance(cut, Call)
    axes, begin, end, *step = (_integers(arg) for arg in cut.args[1:])
    if axes is None or begin is None or end is None or [a % (axis + 1) for a in axes] != [axis]:
        return None
    if step and step[0] != [1]:
        return None
    return begin[0], end[0]


def _integers(value: Any) -> list[int] | None:
    items = value.fields if isinstance(value, Tuple) else value.values if isinstance(value, ShapeExpr) else [value]
    numbers = [as_int(item.value if isinstance(item, PrimValue) else item) for item in items]
    return [item for item in numbers if item is not None] if None not in numbers else None


def _check_shapes(context: PatternCheckContext) -> Refusal | None:
    """Reshapes split the last axis into heads and features, and keep the others."""
    stacked = tensor_of(context.parts["stacked_qkv"])
    for name in NAMES:
        info = tensor_of(context.parts[name])
        if info is None or info.dims is None or stacked is None or stacked.dims is None or info.ndim != 4:
            return Refusal(f"the {name} is not reshaped to four axes", context.parts[name], "shape")
        if not all(prove_equal(a, b) for a, b in zip(info.dims[:2], stacked.dims[:2], strict=True)):
            return Refusal(f"the reshape of the {name} changes batch or sequence", context.parts[name], "shape")
    return None


def _check_swaps(context: PatternCheckContext) -> Refusal | None:
    """Transpositions before and after attention swap batch and sequence."""
    for name in (*NAMES, "out_transpose"):
        call = context.parts[name]
        axes = call.attrs["axes"] if isinstance(call, Call) and call.attrs is not None else None
        if axes is None or tuple(axis % 4 for axis in axes) != (1, 0, 2, 3):
            return Refusal(f"permute_dims({axes}) of the {name} does not swap batch and sequence", call, "attribute")
    return None
