"""Convolutions of channels in blocks: which layouts of data, weights and result go together."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.node import replace
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.layout import is_blocked, row_major
from eutectic.relax.op.registry import has_trait, infer_call, refuse
from eutectic.relax.op.shapes import Dims, reject, static
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.tir.data_layout import layout


def blocked_kernel(data_layout: str, out_layout: str, has_groups: bool) -> str:
    """The layout of the weights that goes with channels in blocks, of data such as `NCHW16c`, or of `NCHW`.

    Args:
        data_layout: Of the data, with two or three spatial axes.
        out_layout: Of the result, such as `NCHW16c`.
        has_groups: Whether blocks hold whole groups, such as single channels, so that input channels of the weights,
            which are those of one group, are in no blocks.
    """
    inputs, outputs = (layout(name).factor_of("C") for name in (data_layout, out_layout))
    names = row_major(out_layout).replace("NC", "OI")
    return f"{names}{outputs}o" if inputs == 1 or has_groups else f"{names}{inputs}i{outputs}o"


def check_blocks(layouts: Sequence[str], groups: int) -> None:
    """Refuse layouts with blocks that do not go together.

    Args:
        layouts: Of data, weights and result.
        groups: Number of groups of channels.

    Raises:
        TypeInferenceError: they do not.
    """
    if not any(map(is_blocked, layouts)):
        return
    data, kernel, out = layouts
    rows = row_major(out)
    wanted = {blocked_kernel(data, out, has_groups) for has_groups in {False, groups > 1}}
    counts = [layout(name).factor_of("C") for name in (data, out)]
    forms = [rows if count == 1 else f"{rows}{count}c" for count in counts]
    if counts[1] == 1 or forms != [data, out] or kernel not in wanted:
        reject(
            f"convolution of data {data} with weights {kernel} to {out}: the blocks do not go together",
            help="data NCHW16c with weights OIHW16i8o give NCHW8c, data NCHW with OIHW8o as well",
        )


def check_groups(c: Call, layouts: Sequence[str], groups: int, weight: Dims) -> None:
    """Refuse blocks that cross groups of channels.

    Args:
        c: The convolution, for its place.
        layouts: Of data, weights and result.
        groups: Number of groups.
        weight: Sizes of the weights as `OIHW`.

    Raises:
        TypeInferenceError: they do.
    """
    data, kernel, out = (layout(name) for name in layouts)
    if groups == 1 or not out.is_blocked:
        return
    filters, depth, block = static(weight[0]), static(weight[1]), out.factor_of("C")
    same = filters is not None and depth and filters == groups * depth and data.factor_of("C") == block
    if same and block % (depth or 1) == 0 and kernel.factor_of("I") == 1:  # whole groups in each block
        return
    full = data.factor_of("C") == kernel.factor_of("I")
    if filters is None or (filters // groups) % out.factor_of("C") or not full:
        refuse(
            c,
            f"convolution of {groups} groups from {data} to {out}: blocks cross groups",
            help="blocks are parts of a group, or hold whole groups and are the same in both",
        )


def is_plain(c: Call) -> bool:
    """Whether a call is a convolution of images or volumes, not transposed, of float32, that nobody has laid out."""
    if not has_trait(c, "convolution") or has_trait(c, "transposed") or c.attrs is None:
        return False
    layouts = (c.attrs["data_layout"], c.attrs["kernel_layout"], c.attrs["out_layout"])
    infos = [value.struct_info for value in (*c.args, c)]
    single = all(isinstance(info, TensorStructInfo) and info.dtype == "float32" for info in infos)
    return single and layouts in (("NCHW", "OIHW", "NCHW"), ("NCDHW", "OIDHW", "NCDHW"))


def in_layouts(c: Call, args: Sequence[Expr], operands: Sequence[str], result: str) -> Call:
    """A convolution of operands in other layouts."""
    data, kernel = operands
    assert c.attrs is not None
    original = c.attrs
    attrs = replace(
        original,
        data_layout=data or original["data_layout"],
        kernel_layout=kernel or original["kernel_layout"],
        out_layout=result or original["out_layout"],
    )
    return infer_call(replace(c, args=tuple(args), attrs=attrs, struct_info=None))
