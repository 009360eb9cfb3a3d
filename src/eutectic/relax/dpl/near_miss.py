"""Words for a near miss: which value did not fit, what the pattern asks for there, and what it found.

One function per kind of pattern gives (constraint, expected, actual); the sentence is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from eutectic.ir.module import GlobalVar
from eutectic.ir.op import Op
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.dpl.match import ABSENT, Miss, attr_of, plain_attr
from eutectic.relax.dpl.pattern import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    NotPattern,
    PrimArrPattern,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
)
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import (
    Call,
    Constant,
    ExternFunc,
    Function,
    PrimValue,
    Tuple,
    TupleGetItem,
    Var,
    describe_info,
    describe_size,
)
from eutectic.relax.struct_info import TensorStructInfo

Words: TypeAlias = tuple[str, str, str]


def describe_miss(miss: Miss, val2var: Mapping[Expr, Var]) -> Refusal:
    """The refusal that a near miss amounts to.

    Args:
        miss: Where the match ended.
        val2var: Variable of each bound value, for names.
    """
    name = value_name(miss.expr, val2var)
    if miss.refusal is not None:
        refusal = miss.refusal
        constraint = "condition" if refusal.constraint == "check" else refusal.constraint
        variables = refusal.variables or (name,)
        return Refusal(
            refusal.why, miss.value, constraint, refusal.expected, refusal.actual, variables, refusal.readers
        )
    if miss.other is not None:
        constraint, expected, actual = "same value", value_name(miss.other, val2var), name
    else:
        constraint, expected, actual = _WORDS.get(type(miss.pattern), _other)(miss.pattern, miss.value)
    part = f" ({miss.pattern.name} of the pattern)" if miss.pattern.name else ""
    why = f"{name}{part}: expected {expected}, found {actual}"
    return Refusal(why, miss.value, constraint, expected, actual, (name,))


def value_name(expr: Any, val2var: Mapping[Expr, Var]) -> str:
    """Name of the variable of a value, or what the value is when it has none."""
    if isinstance(expr, Expr):
        expr = val2var.get(expr, expr)
    return expr.name_hint if isinstance(expr, Var) else value_kind(expr)


def value_kind(value: Any) -> str:
    """What a value is, in a few words."""
    match value:
        case Call():
            return op_name(value)
        case Constant():
            return f"a constant {describe_info(value.struct_info)}"
        case Var():
            return f"variable {value.name_hint}"
        case Tuple():
            return f"a tuple of {len(value.fields)}"
        case TupleGetItem():
            return f"field {value.index} of a tuple"
        case ShapeExpr():
            return f"the shape ({', '.join(map(describe_size, value.values))})"
        case PrimValue():
            return f"the number {value.value.script()}"
        case Function():
            return "a function"
        case GlobalVar() | ExternFunc():
            return str(getattr(value, "name_hint", None) or getattr(value, "global_symbol", ""))
        case _:
            return type(value).__name__


def op_name(value: Any) -> str:
    """Operator or function that a call calls; of another value its kind of node."""
    op = getattr(value, "op", None)
    if isinstance(op, Op):
        return op.name
    if isinstance(op, ExternFunc):
        return op.global_symbol
    return str(getattr(op, "name_hint", type(value).__name__))


def _callee(pattern: DFPattern) -> str:
    match pattern:
        case ExprPattern():
            return pattern.expr.name if isinstance(pattern.expr, Op) else value_kind(pattern.expr)
        case GlobalVarPattern() | ExternFuncPattern():
            wanted = pattern.var_name if isinstance(pattern, GlobalVarPattern) else pattern.global_symbol
            return f"a function called {wanted}" if wanted else "any function"
        case _:
            return "what the pattern calls"


def _call(pattern: Any, value: Any) -> Words:
    assert isinstance(pattern, CallPattern)
    if isinstance(value, Call):
        callee, actual = pattern.op, value.op
        same = not isinstance(callee, ExprPattern) or callee.expr is actual
        count = len(pattern.args)
        if same and (count > len(value.args) or (count < len(value.args) and not pattern.varg_default_wildcard)):
            least = "at least " if pattern.varg_default_wildcard else ""
            return "argument count", f"{least}{count} arguments of {op_name(value)}", str(len(value.args))
    return "operator", _callee(pattern.op), value_kind(value)


def _expr(pattern: Any, value: Any) -> Words:
    return "value", value_kind(pattern.expr), value_kind(value)


def _constant(pattern: Any, value: Any) -> Words:
    return "constant", "a constant", value_kind(value)


def _variable(pattern: Any, value: Any) -> Words:
    kind = "a dataflow variable" if isinstance(pattern, DataflowVarPattern) else "a variable"
    return "variable", f"{kind} called {pattern.var_name}" if pattern.var_name else kind, value_kind(value)


def _function(pattern: Any, value: Any) -> Words:
    return "function", _callee(pattern), value_kind(value)


def _dtype(pattern: Any, value: Any) -> Words:
    info = getattr(value, "struct_info", None)
    actual = (info.dtype or "an unknown dtype") if isinstance(info, TensorStructInfo) else value_kind(value)
    return "dtype", pattern.dtype, actual


def _sizes(pattern: Any, value: Any) -> Words:
    wanted = f"({', '.join(_size(size) for size in pattern.shape)})"
    if isinstance(pattern, PrimArrPattern):
        return "shape", f"the shape {wanted}", value_kind(value)
    info = getattr(value, "struct_info", None)
    if not isinstance(info, TensorStructInfo):
        return "shape", wanted, value_kind(value)
    actual = "an unknown shape" if info.dims is None else f"({', '.join(map(describe_size, info.dims))})"
    return "shape", wanted, actual


def _size(size: Any) -> str:
    return str(size) if isinstance(size, int) else describe_size(size)


def _struct_info(pattern: Any, value: Any) -> Words:
    return "struct info", describe_info(pattern.struct_info), describe_info(getattr(value, "struct_info", None))


def _attributes(pattern: Any, value: Any) -> Words:
    for key, wanted in pattern.attrs.items():
        actual = attr_of(value, key)
        if actual is ABSENT:
            return "attribute", f"{key}={plain_attr(wanted)!r}", f"no attribute {key}"
        if plain_attr(actual) != plain_attr(wanted):
            return "attribute", f"{key}={plain_attr(wanted)!r}", f"{key}={plain_attr(actual)!r}"
    return _other(pattern, value)


def _tuple(pattern: Any, value: Any) -> Words:
    return "tuple", f"a tuple of {len(pattern.fields)}", value_kind(value)


def _field(pattern: Any, value: Any) -> Words:
    wanted = "a field" if pattern.index is None else f"field {pattern.index}"
    return "tuple", f"{wanted} of a tuple", value_kind(value)


def _rejected(pattern: Any, value: Any) -> Words:
    return "rejected", "anything but what the pattern rejects", value_kind(value)


def _other(pattern: Any, value: Any) -> Words:
    return "pattern", f"what {type(pattern).__name__} describes", value_kind(value)


_WORDS: Final[dict[type[DFPattern], Callable[[Any, Any], Words]]] = {
    CallPattern: _call,
    ExprPattern: _expr,
    ConstantPattern: _constant,
    VarPattern: _variable,
    DataflowVarPattern: _variable,
    GlobalVarPattern: _function,
    ExternFuncPattern: _function,
    DataTypePattern: _dtype,
    ShapePattern: _sizes,
    PrimArrPattern: _sizes,
    StructInfoPattern: _struct_info,
    AttrPattern: _attributes,
    TuplePattern: _tuple,
    UnorderedTuplePattern: _tuple,
    TupleGetItemPattern: _field,
    NotPattern: _rejected,
}
