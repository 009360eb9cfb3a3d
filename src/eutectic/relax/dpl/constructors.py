"""How patterns are written: `is_op`, `wildcard` and the other functions that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eutectic.ir.op import Op
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr
from eutectic.relax.dpl.bias import channel_bias
from eutectic.relax.dpl.pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    NotPattern,
    PrimArrPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)
from eutectic.support.errors import PatternError


def wildcard() -> WildcardPattern:
    """Any value."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """A variable."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A dataflow variable."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module."""
    return GlobalVarPattern(name)


def is_const() -> ConstantPattern:
    """A tensor constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Structurally equal to `expr`."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """The operator called `op_name`; call the result to match a call of it.

    Raises:
        AttributeError: no such operator.
    """
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple."""
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[int | PrimExpr]) -> PrimArrPattern:
    """A shape literal.

    Raises:
        PatternError: `shape` is not a sequence of sizes.
    """
    if not isinstance(shape, (list, tuple)):
        raise PatternError(f"is_shape takes a list or tuple of sizes, got {type(shape).__name__}")
    return PrimArrPattern(shape)


def reject(pattern: DFPattern) -> NotPattern:
    """Anything that `pattern` does not match."""
    return NotPattern(pattern)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """A value with attributes."""
    return AttrPattern(pattern or wildcard(), attrs)


def _call_args(args: Sequence[DFPattern] | TuplePattern | None) -> DFPattern:
    if args is None:
        return wildcard()
    return TuplePattern(args) if isinstance(args, (list, tuple)) else args  # type: ignore[return-value]  # a tuple pattern


def is_call_tir(
    func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None, tir_vars: DFPattern | None = None
) -> CallPattern:
    """A `call_tir` of a function whose name contains `func_name`."""
    operands = [GlobalVarPattern(func_name), _call_args(args), *([tir_vars] if tir_vars is not None else [])]
    return is_op("relax.call_tir")(*operands, add_constraint=False)


def is_call_dps_packed(func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None) -> CallPattern:
    """A `call_dps_packed` of an external function."""
    return is_op("relax.call_dps_packed")(ExternFuncPattern(func_name), _call_args(args), add_constraint=False)


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A direct call of an external function; `args` None means any."""
    return ExternFuncPattern(func_name)(*(args or ()), varg_default_wildcard=args is None)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> DFPattern:
    """An operator with two operands, then optionally a bias and an activation.

    Args:
        op_name: Root operator, such as `relax.nn.conv2d`.
        with_bias: Whether an `add` of a bias follows.
        activation: Operator applied last; None for none.
        allow_reshape: Whether the bias is the result of a `reshape`, as torch's
            convolutions are imported. It then *must* be one: use both forms in a
            table to take either. Ignored without a bias.

    Returns:
        The pattern of the last operator. The bias must be one value per output
        channel (`dpl.bias`): a residual, or a reshape that puts the channels on
        another axis, does not match.
    """
    return annotated_bias_activation_pattern(op_name, with_bias, activation, allow_reshape)[0]


def annotated_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> tuple[DFPattern, dict[str, DFPattern]]:
    """`make_fused_bias_activation_pattern` with its parts.

    Returns:
        The pattern, and the parts `lhs`, `rhs`, `root` and, with a bias, `bias`
        (the value under the reshape, when there is one).
    """
    lhs, rhs = wildcard().named("lhs"), wildcard().named("rhs")
    out: DFPattern = is_op(op_name)(lhs, rhs).named("root")
    parts: dict[str, DFPattern] = {"lhs": lhs, "rhs": rhs, "root": out}
    if with_bias:
        parts["bias"] = bias = wildcard().named("bias")
        operand = is_op("relax.reshape")(bias, wildcard(), varg_default_wildcard=True) if allow_reshape else bias
        out = is_op("relax.add")(out, operand).where(channel_bias(parts["root"], operand))
    if activation is not None:
        out = is_op(activation)(out)
    return out, parts
