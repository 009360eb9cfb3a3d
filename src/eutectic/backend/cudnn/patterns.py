"""What cuDNN takes over: convolutions with a bias and relu, and attention whose operands are stacked.

Reference: cuDNN frontend, convolution and scaled dot product attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eutectic.relax.dpl.attention_checks import (
    attention_operands,
    check_attention_bias,
    refuse_windows,
    stacked_operands,
)
from eutectic.relax.dpl.checks import Condition, all_of, check_single_output, require_dtypes, require_tensors
from eutectic.relax.dpl.pattern_builders import STACKED_LAYOUTS, make_conv2d_pattern, make_stacked_attention_pattern
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call

NAME: Final = "cuDNN"
DTYPES: Final = {"float16": ("float16",), "float32": ("float32",)}
LAYOUTS: Final = (("NHWC", "OHWI"), ("NCHW", "OIHW"))
EPILOGUES: Final = {"": (False, None), "_bias": (True, None), "_bias_relu": (True, "relax.nn.relu")}


def _check_layouts(context: PatternCheckContext) -> Refusal | None:
    root = context.parts["root"]
    assert isinstance(root, Call) and root.attrs is not None
    layouts = (root.attrs["data_layout"], root.attrs["kernel_layout"])
    if layouts not in LAYOUTS or root.attrs["out_layout"] != layouts[0]:
        actual = f"{layouts[0]} with {layouts[1]} to {root.attrs['out_layout']}"
        return Refusal(f"{NAME} has no convolution of {actual}", root, "attribute", "NHWC, OHWI or NCHW, OIHW", actual)
    if any(width < 0 for width in root.attrs["padding"]):
        return Refusal(f"negative padding {root.attrs['padding']}", root, "attribute")
    before, after = root.attrs["padding"][:2], root.attrs["padding"][2:]
    if tuple(before) != tuple(after):
        return Refusal(f"padding {root.attrs['padding']} differs between the sides", root, "attribute")
    return None


CHECK_CONV2D: Final[Condition] = all_of(
    check_single_output, require_tensors("lhs", "rhs", "root", "bias"), require_dtypes(DTYPES, NAME), _check_layouts
)


def patterns() -> list[FusionPattern]:
    """The table in the order of registration: the last one has priority."""
    return list(_entries())


def _entries() -> Iterator[FusionPattern]:
    for epilogue, (bias, activation) in EPILOGUES.items():
        pattern, parts = make_conv2d_pattern(bias, activation)
        yield FusionPattern(f"cudnn.conv2d.nhwc_ohwi{epilogue}", pattern, parts, CHECK_CONV2D)
    for layout in STACKED_LAYOUTS:
        pattern, parts = make_stacked_attention_pattern("split", layout=layout)
        check = all_of(
            check_single_output,
            require_tensors("stacked_qkv", "root"),
            stacked_operands(layout),
            attention_operands(("float16", "bfloat16"), NAME),
            check_attention_bias,
            refuse_windows(NAME),
        )
        yield FusionPattern(f"cudnn.attention.{layout}", pattern, parts, check)
