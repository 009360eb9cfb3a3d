"""Functions as values: make_closure, invoke_closure, invoke_pure_closure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, Tuple, convert
from eutectic.relax.op.call_packed import stated
from eutectic.relax.op.registry import call, define_op, refuse, short_name
from eutectic.relax.struct_info import ObjectStructInfo

_MAKE: Final = define_op("relax.make_closure", arity=2)
_INVOKE: Final = define_op("relax.invoke_closure", arity=2, pure=False)
_INVOKE_PURE: Final = define_op("relax.invoke_pure_closure", arity=2)


def _operands(args: Any) -> Expr:
    value = convert(args)
    return value if isinstance(value, Tuple) else Tuple((value,))


def make_closure(func: Any, args: Any, *, span: Any = None) -> Call:
    """A function with its last arguments bound.

    Args:
        func: A function of the module.
        args: The values of its last parameters: a tuple.
        span: Python source of the call, for errors.

    Returns:
        An object, for `invoke_closure`.

    Reference: TVM relax.op.make_closure.
    """
    return call(_MAKE, func, _operands(args), span=span)


def _invoked(definition: Any, closure: Any, args: Any, sinfo_args: Any, span: Any) -> Call:
    out = stated(sinfo_args)
    return Call(definition.op, (closure, _operands(args)), None, (out,), span, struct_info=out)


def invoke_closure(
    closure: Expr, args: Any, sinfo_args: StructInfo | Sequence[StructInfo], *, span: Any = None
) -> Call:
    """Call a closure that may have side effects.

    Args:
        closure: What `make_closure` gave.
        args: The values of the parameters that are not bound: a tuple.
        sinfo_args: Struct info of the result.
        span: Python source of the call, for errors.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: `sinfo_args` is not struct info.

    Reference: TVM relax.op.invoke_closure.
    """
    return _invoked(_INVOKE, closure, args, sinfo_args, span)


def invoke_pure_closure(
    closure: Expr, args: Any, sinfo_args: StructInfo | Sequence[StructInfo], *, span: Any = None
) -> Call:
    """Call a closure that has no side effects.

    Args:
        closure: What `make_closure` gave.
        args: The values of the parameters that are not bound: a tuple.
        sinfo_args: Struct info of the result.
        span: Python source of the call, for errors.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: `sinfo_args` is not struct info.

    Reference: TVM relax.op.invoke_pure_closure.
    """
    return _invoked(_INVOKE_PURE, closure, args, sinfo_args, span)


@_MAKE.infer
def _infer_make(c: Call) -> StructInfo:
    return ObjectStructInfo()


@_MAKE.reference
def _reference_make(attrs: None, function: Any, bound: tuple[Any, ...]) -> Any:
    return partial(_applied, function, bound)


def _applied(function: Any, bound: tuple[Any, ...], *args: Any) -> Any:
    return function(*args, *bound)


@_INVOKE.infer
@_INVOKE_PURE.infer
def _infer_invoke(c: Call) -> StructInfo:
    if len(c.sinfo_args) != 1:
        refuse(c, f"{short_name(c)} needs the struct info of its result", help="pass sinfo_args")
    return c.sinfo_args[0]


@_INVOKE.reference
@_INVOKE_PURE.reference
def _reference_invoke(attrs: None, closure: Any, args: tuple[Any, ...]) -> Any:
    return closure(*args)
