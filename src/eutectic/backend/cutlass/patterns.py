"""What CUTLASS takes over: convolutions, matrix products, attention and normalisations.

Convolutions and products come with epilogues: a bias, an activation, and a residual.

Reference: CUTLASS 3, implicit GEMM convolution, epilogues, fused multi-head attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eutectic.backend.cutlass.decode_matmul import decode_matmul_patterns
from eutectic.relax.dpl.attention_checks import attention_operands, check_attention_bias, stacked_operands
from eutectic.relax.dpl.checks import (
    Condition,
    all_of,
    check_batches,
    check_matmul_ranks,
    check_residual,
    check_single_output,
    check_static_contraction,
    check_transposed,
    multiples_of,
    require_dtypes,
    require_tensors,
    tensor_of,
    without_bias_for,
)
from eutectic.relax.dpl.pattern_builders import (
    PatternWithParts,
    make_attention_pattern,
    make_conv2d_pattern,
    make_layer_norm_pattern,
    make_matmul_pattern,
    make_residual_block_pattern,
    make_rms_norm_pattern,
    make_stacked_attention_pattern,
)
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call, as_int, describe_info

NAME: Final = "CUTLASS"
DTYPES: Final = {"float16": ("float16", "float32"), "float32": ("float32",), "int8": ("int32",)}
CONV2D: Final = {
    "conv2d": (False, None),
    "conv2d_bias": (True, None),
    "conv2d_bias_relu": (True, "relax.nn.relu"),
    "conv2d_bias_silu": (True, "relax.nn.silu"),
}
MATMUL: Final = {"": (False, None), "_bias": (True, None), "_bias_relu": (True, "relax.nn.relu"),
                 "_bias_gelu": (True, "relax.nn.gelu")}  # fmt: skip


def _check_convolution(context: PatternCheckContext) -> Refusal | None:
    """Channels last, one group, constant sizes of the data."""
    root, data = context.parts["root"], tensor_of(context.parts["lhs"])
    assert isinstance(root, Call) and root.attrs is not None and data is not None
    layouts = tuple(root.attrs[key] for key in ("data_layout", "kernel_layout", "out_layout"))
    if layouts != ("NHWC", "OHWI", "NHWC"):
        actual = ", ".join(layouts)
        return Refusal(
            f"{NAME} has convolutions of NHWC with OHWI, not {actual}", root, "attribute", "NHWC, OHWI", actual
        )
    if root.attrs["groups"] != 1:
        return Refusal(f"{NAME} has no convolution in {root.attrs['groups']} groups", root, "attribute", "groups=1")
    if data.static_shape is None:
        return Refusal(f"the data {describe_info(data)} has symbolic sizes", context.parts["lhs"], "shape")
    if any(width < 0 for width in root.attrs["padding"]):
        return Refusal(f"negative padding {root.attrs['padding']}", root, "attribute")
    return None


CHECK_CONV2D: Final[Condition] = all_of(
    check_single_output,
    require_tensors("lhs", "rhs", "root", "bias", "residual"),
    require_dtypes(DTYPES, NAME),
    _check_convolution,
    without_bias_for(("int8",), NAME),
    check_residual,
)
CHECK_MATMUL: Final[Condition] = all_of(
    check_single_output,
    require_tensors("lhs", "rhs", "root", "bias", "residual"),
    require_dtypes(DTYPES, NAME),
    check_matmul_ranks,
    check_transposed,
    check_static_contraction,
    check_batches,
    multiples_of(16, ("int8",), NAME),
    without_bias_for(("int8",), NAME),
    check_residual,
)


def _check_last_axis(context: PatternCheckContext) -> Refusal | None:
    """A normalisation is over the last axis alone, whose size is known, of floats."""
    root, data = context.parts["root"], tensor_of(context.parts["data"])
    assert isinstance(root, Call) and root.attrs is not None
    if data is None or data.dims is None:
        return Refusal("the shape of the data is not known", context.parts["data"], "shape")
    if data.dtype not in ("float16", "float32"):
        why = f"{NAME} normalises float16 and float32, not {data.dtype}"
        return Refusal(why, context.parts["data"], "dtype", "float16 or float32", data.dtype)
    axes = tuple(axis % data.ndim for axis in root.attrs["axes"])
    if axes != (data.ndim - 1,) or as_int(data.dims[-1]) is None:
        return Refusal(f"{NAME} normalises over the last axis, of constant size, not over {axes}", root, "attribute")
    if not (root.attrs.get("center", True) and root.attrs.get("scale", True)):
        return Refusal(f"{NAME} always scales and shifts", root, "attribute")
    return None


def patterns() -> list[FusionPattern]:
    """The table in the order of registration: the last one has priority."""
    return [*_convolutions(), *_matmuls(), *decode_matmul_patterns(), *_attentions(), *_norms()]


def _with_residuals(name: str, recipe: PatternWithParts, check: Condition) -> Iterator[FusionPattern]:
    pattern, parts = recipe
    yield FusionPattern(f"cutlass.{name}", pattern, parts, check)
    if "bias" not in name:
        return
    for binary in ("add", "multiply"):
        for activation in (None, "relu"):
            full = f"relax.nn.{activation}" if activation else None
            fused, more = make_residual_block_pattern((pattern, parts), f"relax.{binary}", full)
            suffix = f"_residual_{binary}" + (f"_{activation}" if activation else "")
            yield FusionPattern(f"cutlass.{name}{suffix}", fused, more, check)


def _convolutions() -> Iterator[FusionPattern]:
    for name, (bias, activation) in CONV2D.items():
        yield from _with_residuals(name, make_conv2d_pattern(bias, activation), CHECK_CONV2D)


def _matmuls() -> Iterator[FusionPattern]:
    for transposed, label in ((False, "matmul"), (True, "matmul_transposed")):
        for epilogue, (bias, activation) in MATMUL.items():
            recipe = make_matmul_pattern(bias, activation, transposed)
            yield from _with_residuals(label + epilogue, recipe, CHECK_MATMUL)


def _attentions() -> Iterator[FusionPattern]:
    operands = attention_operands(("float16", "float32"), NAME)
    for name, bias in (("attention", False), ("attention_bias", True)):
        pattern, parts = make_attention_pattern(bias)
        check = all_of(check_single_output, operands, check_attention_bias)
        yield FusionPattern(f"cutlass.{name}", pattern, parts, check)
    for start, bias in (("split", False), ("split", True), ("strided_slice", False), ("strided_slice", True)):
        pattern, parts = make_stacked_attention_pattern(start, bias)
        check = all_of(check_single_output, stacked_operands("BS3NH"), operands, check_attention_bias)
        yield FusionPattern("cutlass.stacked_attention", pattern, parts, check)
    pattern, parts = make_attention_pattern(var_len=True)
    yield FusionPattern("cutlass.attention_var_len", pattern, parts, all_of(check_single_output, operands))


def _norms() -> Iterator[FusionPattern]:
    for name, (pattern, parts) in (("layer_norm", make_layer_norm_pattern()), ("rms_norm", make_rms_norm_pattern())):
        yield FusionPattern(f"cutlass.{name}", pattern, parts, _check_last_axis)
