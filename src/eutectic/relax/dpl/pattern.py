"""The pattern language: what a piece of a dataflow graph looks like.

Patterns are plain objects compared by identity, so that one pattern used twice in
a larger one means "the same value". The matcher is in `match.py`; what a pattern
cannot say (shapes that must fit, limits of a library) belongs into the check of a
`FusionPattern`.

Reference: the names and meaning follow TVM's `tvm.relax.dpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from eutectic.ir.op import Op
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.dpl.bias import Condition, channel_bias
from eutectic.relax.dpl.sequence import PatternSeq, current_context
from eutectic.support.errors import PatternError


class DFPattern:
    """Base of patterns.

    Attributes:
        name: Set by `named`; under which a check finds the matched value.
    """

    name: str | None = None

    def named(self, name: str) -> DFPattern:
        """Give the matched value a name for checks and remarks; returns the same pattern."""
        self.name = name
        return self

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of what this pattern matches."""
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Also require attributes: all of `attrs` on the call, operator or function."""
        return AttrPattern(self, dict(attrs))

    def has_struct_info(self, struct_info: StructInfo) -> StructInfoPattern:
        """Also require a struct info that covers the value's."""
        return StructInfoPattern(self, struct_info)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Also require an element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[int | PrimExpr]) -> ShapePattern:
        """Also require a shape, provably equal size by size."""
        return ShapePattern(self, tuple(shape))

    def where(self, condition: Condition) -> WherePattern:
        """Also require a condition over all values matched so far, such as `bias.channel_bias`."""
        return WherePattern(self, condition)

    def match(self, expr: Expr, var2val: Mapping[Any, Expr] | None = None) -> bool:
        """Whether `expr` matches; variables are looked through with `var2val`."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Any, Expr] | None = None
    ) -> dict[DFPattern, Expr] | None:
        """The matched value of each pattern, or None when `expr` does not match."""
        return _MATCHER[0](self, expr, var2val)

    def same_shape_as(self, *others: DFPattern) -> SameShapeConstraint:
        """Require equal shapes; inside a `PatternContext` only."""
        return SameShapeConstraint(self, *others)

    def dup(self) -> DFPattern:
        """A copy that is another pattern."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """`other` reads this value, at argument `index` unless that is -1."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """`other` is the only reader of this value."""
        return PatternSeq([self]).only_used_by(other, index)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def fork_to(self, *others: DFPattern) -> None:
        """Each of `others` reads this value."""
        for other in others:
            self.used_by(other)


Match: TypeAlias = "dict[DFPattern, Expr] | None"
_MATCHER: Final[list[Callable[[DFPattern, Expr, Mapping[Any, Expr] | None], Match]]] = []


def set_matcher(matcher: Callable[[DFPattern, Expr, Mapping[Any, Expr] | None], Match]) -> None:
    """Let the methods of patterns match by a function that dispatches on the classes of this module."""
    _MATCHER[:] = [matcher]


class ExprPattern(DFPattern):
    """Structurally equal to a given expression or operator."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


class WildcardPattern(DFPattern):
    """Any value."""


class VarPattern(DFPattern):
    """A variable, not its value; an empty name means any."""

    def __init__(self, var_name: str = "") -> None:
        self.var_name = var_name


class DataflowVarPattern(VarPattern):
    """A dataflow variable, not its value."""


class GlobalVarPattern(DFPattern):
    """A function of the module whose name contains `var_name`."""

    def __init__(self, var_name: str = "") -> None:
        self.var_name = var_name


class ExternFuncPattern(DFPattern):
    """An external function; an empty symbol means any."""

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol


class ConstantPattern(DFPattern):
    """A tensor constant."""


class PrimArrPattern(DFPattern):
    """A shape literal with the given sizes."""

    def __init__(self, shape: Sequence[int | PrimExpr]) -> None:
        self.shape = tuple(shape)


class CallPattern(DFPattern):
    """A call.

    Attributes:
        op: Pattern of the callee.
        args: Patterns of the arguments.
        varg_default_wildcard: Whether the call may have further arguments.
    """

    def __init__(
        self, op: DFPattern, args: Sequence[DFPattern], varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> None:
        self.op, self.args, self.varg_default_wildcard = op, tuple(args), varg_default_wildcard
        for i, arg in enumerate(self.args):
            if not isinstance(arg, DFPattern):
                raise PatternError(f"argument {i} of a call pattern is a {type(arg).__name__}, not a pattern")
        context = current_context()
        if add_constraint and context is not None:
            for i, arg in enumerate(self.args):
                context.add_edge(arg, self, i, only_use=False)


class FunctionPattern(DFPattern):
    """A function with parameters and a result."""

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params, self.body = tuple(params), body


class TuplePattern(DFPattern):
    """A tuple, field by field."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple pattern with {len(self.fields)} fields")
        return TupleGetItemPattern(self, index % len(self.fields))

    def __len__(self) -> int:
        return len(self.fields)


class UnorderedTuplePattern(DFPattern):
    """A tuple whose fields match in some order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def __len__(self) -> int:
        return len(self.fields)


class TupleGetItemPattern(DFPattern):
    """A field of a tuple; index None means any."""

    def __init__(self, tuple_: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = tuple_, None if index == -1 else index


class OrPattern(DFPattern):
    """Either pattern; the left one is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class AndPattern(DFPattern):
    """Both patterns on one value."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class NotPattern(DFPattern):
    """Not the given pattern."""

    def __init__(self, reject: DFPattern) -> None:
        self.reject = reject


class StructInfoPattern(DFPattern):
    """A pattern whose value is covered by a struct info."""

    def __init__(self, pattern: DFPattern, struct_info: StructInfo) -> None:
        self.pattern, self.struct_info = pattern, struct_info


class DataTypePattern(DFPattern):
    """A pattern whose value has a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(DFPattern):
    """A pattern whose value has a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[int | PrimExpr]) -> None:
        self.pattern, self.shape = pattern, tuple(shape)


class AttrPattern(DFPattern):
    """A pattern whose value has attributes."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs)


class WherePattern(DFPattern):
    """A pattern with a condition over the values matched so far."""

    def __init__(self, pattern: DFPattern, condition: Condition) -> None:
        self.pattern, self.condition = pattern, condition


class SameShapeConstraint:
    """Values of several patterns have equal shapes.

    Raises:
        PatternError: no `PatternContext` is entered.
    """

    def __init__(self, *patterns: DFPattern) -> None:
        context = current_context()
        if context is None:
            raise PatternError(
                "same_shape_as needs a PatternContext", help="use it inside `with PatternContext() as ctx:`"
            )
        self.patterns = patterns
        context.add_constraint(self)


# ---- constructors


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
