"""Patterns that several backends' tables are made of, with the names of their parts.

Each function returns the pattern of the last operator and a mapping from names to
parts, as `FusionPattern` takes them. Parts are also named for remarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from eutectic.relax.dpl.bias import channel_bias
from eutectic.relax.dpl.constructors import (
    annotated_bias_activation_pattern,
    is_const,
    is_op,
    is_tuple_get_item,
    wildcard,
)
from eutectic.relax.dpl.pattern import DFPattern
from eutectic.support.errors import PatternError

PatternWithParts: TypeAlias = tuple[DFPattern, dict[str, DFPattern]]

STACKED_LAYOUTS = ("BS3NH", "SBN3H")


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> PatternWithParts:
    """An operator with two operands, then optionally a bias and an activation.

    Args:
        op_name: Root operator, such as `relax.nn.conv2d`.
        with_bias: Whether an `add` of one value per output channel follows.
        activation: Operator applied last; None for none.
        allow_reshape: Whether the bias is the result of a `reshape`; it then must be one.

    Returns:
        The pattern; parts `lhs`, `rhs`, `root` and, with a bias, `bias` (the value under the reshape).
    """
    return annotated_bias_activation_pattern(op_name, with_bias, activation, allow_reshape)


def make_conv2d_pattern(with_bias: bool = False, activation: str | None = None) -> PatternWithParts:
    """A convolution over two axes, then optionally a bias and an activation; parts as above."""
    return annotated_bias_activation_pattern("relax.nn.conv2d", with_bias, activation)


def make_matmul_pattern(
    with_bias: bool = False, activation: str | None = None, transposed_rhs: bool = False
) -> PatternWithParts:
    """A matrix product, then optionally a bias and an activation.

    Args:
        with_bias: Whether an `add` of one value per column follows.
        activation: Operator applied last; None for none.
        transposed_rhs: Whether the right operand is the result of `permute_dims`; which
            permutation is up to the check (`checks.check_transposed`).

    Returns:
        The pattern; parts `lhs`, `rhs` (before the transposition), `root`, and `transpose` and `bias` if there.
    """
    root, parts = _matmul(transposed_rhs)
    out: DFPattern = root
    if with_bias:
        parts["bias"] = bias = wildcard().named("bias")
        out = is_op("relax.add")(out, bias).where(channel_bias(root, bias))
    if activation is not None:
        out = is_op(activation)(out)
    return out, parts


def _matmul(transposed_rhs: bool) -> PatternWithParts:
    lhs, rhs = wildcard().named("lhs"), wildcard().named("rhs")
    parts: dict[str, DFPattern] = {"lhs": lhs, "rhs": rhs}
    operand: DFPattern = rhs
    if transposed_rhs:
        parts["transpose"] = operand = is_op("relax.permute_dims")(rhs).named("transpose")
    parts["root"] = root = is_op("relax.matmul")(lhs, operand).named("root")
    return root, parts


def make_residual_block_pattern(
    node_output: DFPattern | tuple[DFPattern, Mapping[str, DFPattern]],
    binary_op: str = "relax.add",
    activation: str | None = None,
) -> PatternWithParts:
    """What a pattern matches combined with a further tensor, then optionally an activation.

    Args:
        node_output: Pattern of the main path, or a recipe.
        binary_op: Operator that combines the two; `add` and `multiply` match in either order.
        activation: Operator applied last; None for none.

    Returns:
        The pattern; the parts of `node_output` and `residual`. That the residual does not need the main
        path's result is up to the check (`checks.check_residual`).
    """
    node, parts = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual = wildcard().named("residual")
    out: DFPattern = is_op(binary_op)(node, residual)
    if activation is not None:
        out = is_op(activation)(out)
    return out, {**parts, "residual": residual}


def make_matmul_dequantize_pattern(transposed_rhs: bool = False) -> PatternWithParts:
    """A matrix product that is dequantized with a constant scale and zero point.

    Returns:
        The pattern; parts `lhs`, `rhs`, `root`, `scale`, `zp`, and `transpose` if there.
    """
    root, parts = _matmul(transposed_rhs)
    parts["scale"], parts["zp"] = scale, zero = is_const().named("scale"), is_const().named("zp")
    return is_op("relax.dequantize")(root, scale, zero).named("dequantize"), {**parts}


def make_matmul_multiply_pattern(transposed_rhs: bool = False) -> PatternWithParts:
    """A matrix product times the product of two scales, then a cast: what 8-bit floats are multiplied with.

    Returns:
        The pattern; parts `lhs`, `rhs`, `root`, `scaleA`, `scaleB`, and `transpose` if there.
    """
    root, parts = _matmul(transposed_rhs)
    parts["scaleA"], parts["scaleB"] = first, second = wildcard().named("scaleA"), wildcard().named("scaleB")
    scaled = is_op("relax.multiply")(root, is_op("relax.multiply")(first, second))
    return is_op("relax.astype")(scaled), parts


def make_layer_norm_pattern() -> PatternWithParts:
    """Layer normalisation; parts `data`, `gamma`, `beta`, `root`."""
    parts: dict[str, DFPattern] = {name: wildcard().named(name) for name in ("data", "gamma", "beta")}
    out = is_op("relax.nn.layer_norm")(*parts.values()).named("root")
    return out, {**parts, "root": out}


def make_rms_norm_pattern() -> PatternWithParts:
    """Root-mean-square normalisation; parts `data`, `weight`, `root`.

    Matches the operator. TVM matches a `call_tir` of any function whose name contains `rms_norm`, which says
    nothing about what that function computes.
    """
    parts: dict[str, DFPattern] = {name: wildcard().named(name) for name in ("data", "weight")}
    out = is_op("relax.nn.rms_norm")(*parts.values()).named("root")
    return out, {**parts, "root": out}


def make_attention_pattern(with_bias: bool = False, var_len: bool = False) -> PatternWithParts:
    """Attention as one operator.

    Args:
        with_bias: Whether a bias is added to the scores.
        var_len: Whether sequences of different lengths lie behind one another; excludes a bias.

    Returns:
        The pattern; parts `query`, `key`, `value`, `root` and `bias`, or for sequences `seqstart_q`,
        `max_seqlen_q`, `seqstart_k`, `max_seqlen_k`.

    Raises:
        PatternError: both options.
    """
    if with_bias and var_len:
        raise PatternError("attention over sequences of different lengths takes no bias")
    names = ["query", "key", "value"]
    if with_bias:
        names.append("bias")
    if var_len:
        names += ["seqstart_q", "max_seqlen_q", "seqstart_k", "max_seqlen_k"]
    op = "attention_bias" if with_bias else "attention_var_len" if var_len else "attention"
    parts: dict[str, DFPattern] = {name: wildcard().named(name) for name in names}
    out = is_op(f"relax.nn.{op}")(*parts.values()).named("root")
    return out, {**parts, "root": out}


def make_stacked_attention_pattern(start_op: str, with_bias: bool = False, layout: str = "BS3NH") -> PatternWithParts:
    """Attention whose query, key and value are parts of one tensor.

    Args:
        start_op: How they are cut out: `split` or `strided_slice`.
        with_bias: Whether a bias is added to the scores.
        layout: `BS3NH`: `(batch, sequence, 3 * heads * features)`, cut along the last axis and reshaped to
            four axes. `SBN3H`: `(sequence, batch, heads, 3 * features)`, cut along the last axis, the first
            two axes swapped before attention and back after it.

    Returns:
        The pattern; parts `stacked_qkv`, `query`, `key`, `value` (before attention), `root`, `split` or
        `strided_slice_query` and so on, `bias`, and for SBN3H `out_transpose`.

    Raises:
        PatternError: an unknown start or layout.
    """
    if layout not in STACKED_LAYOUTS:
        raise PatternError(f"unknown layout {layout!r} of stacked attention", help=f"one of {STACKED_LAYOUTS}")
    parts: dict[str, DFPattern] = {"stacked_qkv": wildcard().named("stacked_qkv")}
    operands = []
    for name, raw in _cut(start_op, parts).items():
        shaped = is_op("relax.reshape")(raw, wildcard()) if layout == "BS3NH" else is_op("relax.permute_dims")(raw)
        parts[name] = shaped.named(name)
        operands.append(shaped)
    if with_bias:
        parts["bias"] = bias = wildcard().named("bias")
        operands.append(bias)  # type: ignore[arg-type]  # all are patterns
    out = is_op("relax.nn.attention_bias" if with_bias else "relax.nn.attention")(*operands).named("root")
    parts["root"] = out
    if layout == "SBN3H":
        parts["out_transpose"] = out = is_op("relax.permute_dims")(out).named("out_transpose")
    return out, parts


def _cut(start_op: str, parts: dict[str, DFPattern]) -> dict[str, DFPattern]:
    """Query, key and value as they are cut out of the stacked tensor; adds the cuts to the parts."""
    names, stacked = ("query", "key", "value"), parts["stacked_qkv"]
    if start_op == "split":
        parts["split"] = split = is_op("relax.split")(stacked).named("split")
        return {name: is_tuple_get_item(split, i) for i, name in enumerate(names)}
    if start_op == "strided_slice":
        out: dict[str, DFPattern] = {}
        for name in names:
            cut = is_op("relax.strided_slice")(stacked, varg_default_wildcard=True)
            parts[f"strided_slice_{name}"] = out[name] = cut.named(f"strided_slice_{name}")
        return out
    raise PatternError(f"stacked attention cannot start with {start_op!r}", help="split or strided_slice")
