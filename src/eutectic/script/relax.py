"""The namespace `R` of scripts: types, statements and all operators of the graph dialect."""

from __future__ import annotations

import builtins
from collections.abc import Callable as CallableType
from collections.abc import Mapping, Sequence
from typing import Any

from eutectic.ir.attrs import Attrs, make_attrs
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax import op as _op
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.expr import Call, DataTypeImm, ExternFunc, PrimValue, StringImm, const
from eutectic.relax.expr import Tuple as _TupleExpr
from eutectic.relax.op import image, nn
from eutectic.relax.op.call_packed import call_dps_packed, call_pure_packed, call_tir, call_tir_inplace
from eutectic.relax.op.eager import call_eager
from eutectic.script.annotations import Callable_ as Callable
from eutectic.script.annotations import Object, Prim, Shape, Tensor, Tuple
from eutectic.script.parser.entry import relax_function as function
from eutectic.script.parser.entry import rewriter
from eutectic.script.statements import Dataflow, EmitTE, FuncAttrs, MatchCastOf, Output
from eutectic.support.spelling import did_you_mean

__all__ = [
    "Callable",
    "ExternFunc",
    "Object",
    "Prim",
    "Shape",
    "Tensor",
    "Tuple",
    "call_dps_packed",
    "call_eager",
    "call_op",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "const",
    "dataflow",
    "dtype",
    "emit_te",
    "emit_with_sinfo",
    "func_attr",
    "function",
    "image",
    "match_cast",
    "nn",
    "output",
    "prim_value",
    "rewriter",
    "shape",
    "str",
    "tuple",
]


def dataflow() -> Dataflow:
    """`with R.dataflow():` opens a block without side effects, which ends with `R.output`."""
    return Dataflow()


def output(*values: Any) -> Output:
    """Variables of a dataflow block that are visible after it."""
    return Output(values)


def func_attr(attrs: Mapping[builtins.str, Any]) -> FuncAttrs:
    """Annotations of the function."""
    return FuncAttrs(dict(attrs))


def match_cast(value: Expr, struct_info: StructInfo) -> MatchCastOf:
    """`value` under another type, checked at run time; defines the symbols that stand alone in it."""
    return MatchCastOf(value, struct_info)


match_cast.keeps_types = True  # type: ignore[attr-defined]  # it may define symbols, which the parser does


def emit_te(func: CallableType[..., Any], *args: Any, **kwargs: Any) -> EmitTE:
    """`x = R.emit_te(topi.add, a, b)` adds the tensor program that `func` defines to the module, and calls it.

    Args:
        func: Takes tensors, gives a tensor or several.
        args: Its arguments; graph values become tensors.
        kwargs: Its keyword arguments; `primfunc_name_hint` and `primfunc_attrs` are for the program.
    """
    return EmitTE(func, args, kwargs)


def emit_with_sinfo(op: builtins.str, args: Sequence[Any], sinfo_args: StructInfo | Sequence[StructInfo]) -> Call:
    """A call of an operator by its registered name, with types as arguments.

    Args:
        op: Full name, such as `relax.call_pure_packed`.
        args: Its arguments.
        sinfo_args: The types.
    """
    infos = (sinfo_args,) if isinstance(sinfo_args, StructInfo) else builtins.tuple(sinfo_args)
    return call_op(op, *args, sinfo_args=infos)


def shape(value: Sequence[int | PrimExpr]) -> ShapeExpr:
    """A shape literal."""
    return ShapeExpr(builtins.tuple(value))  # type: ignore[arg-type]  # converted by the node


def prim_value(value: int | float | PrimExpr) -> PrimValue:
    """A scalar argument."""
    return PrimValue(value)  # type: ignore[arg-type]  # converted by the node


def str(value: builtins.str) -> StringImm:
    """A string argument."""
    return StringImm(value)


def dtype(value: builtins.str) -> DataTypeImm:
    """A dtype argument."""
    return DataTypeImm(value)


def tuple(*fields: Expr) -> _TupleExpr:
    """A tuple value."""
    return _TupleExpr(fields)


def call_packed(
    func: builtins.str, *args: Any, sinfo_args: StructInfo | Sequence[StructInfo] = (), span: Any = None
) -> Call:
    """A call of a function found by name at run time; it may have side effects.

    Args:
        func: Its name.
        args: Its arguments.
        sinfo_args: Type of the result.
        span: Python source of the call, for errors.
    """
    return Call(ExternFunc(func), args, None, sinfo_args, span)


def call_op(
    name: builtins.str,
    *args: Any,
    attrs: Mapping[builtins.str, Any] | Attrs | None = None,
    sinfo_args: StructInfo | Sequence[StructInfo] = (),
    span: Any = None,
) -> Call:
    """A call of an operator that has no constructor here, by its registered name.

    Args:
        name: Full name, such as `custom.my_op`.
        args: Its arguments.
        attrs: Its options.
        sinfo_args: Types given as arguments; without an inference rule the first is the result's.
        span: Python source of the call, for errors.

    Raises:
        AttributeError: no operator has this name.
    """
    options = attrs if isinstance(attrs, Attrs) or attrs is None else make_attrs(attrs)
    return Call(Op.get(name), args, options, sinfo_args, span)


def __getattr__(name: builtins.str) -> Any:
    """Operators: `R.add`, `R.matmul`, ..."""
    if name in _op.__all__:
        return getattr(_op, name)
    raise AttributeError(f"R has no {name!r}; {did_you_mean(name, [*__all__, *_op.__all__]) or ''}".rstrip("; "))


def __dir__() -> list[builtins.str]:
    return sorted([*__all__, *_op.__all__])
