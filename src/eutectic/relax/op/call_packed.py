"""Calls of functions that are not operators: call_tir, call_tir_inplace, call_dps_packed, call_pure_packed.

Their result's struct info is stated by the caller. They have no reference of their own:
whoever executes the program runs the function that is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eutectic.ir.attrs import Attrs, make_attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.expr import Call, ExternFunc, Tuple, convert
from eutectic.relax.op.registry import define_op, refuse, short_name
from eutectic.relax.op.shapes import ints_of
from eutectic.relax.struct_info import TupleStructInfo

_call_tir = define_op("relax.call_tir", arity=(2, 3), fusion="opaque", traits=["calls"])
_call_tir_inplace = define_op("relax.call_tir_inplace", arity=(2, 3), fusion="opaque", traits=["calls"])
_call_tir_with_grad = define_op("relax.call_tir_with_grad", arity=(2, 3), fusion="opaque", traits=["calls"])
_call_inplace_packed = define_op("relax.call_inplace_packed", fusion="opaque", traits=["calls"])
_call_dps_packed = define_op("relax.call_dps_packed", arity=2, fusion="opaque", traits=["calls"])
_call_pure_packed = define_op("relax.call_pure_packed", fusion="opaque", traits=["calls"])


@_call_pure_packed.reference
@_call_inplace_packed.reference
def _called(attrs: Any, function: Any, *args: Any) -> Any:
    return function(*args)


@node("relax.attrs.CallTIRInplaceAttrs")
class CallTIRInplaceAttrs(Attrs):
    """For each output, the argument whose memory it takes, or -1 for new memory."""

    inplace_indices: tuple[int, ...]


@node("relax.attrs.CallTIRWithGradAttrs")
class CallTIRWithGradAttrs(Attrs):
    """Name of the function that makes the gradient of a program, and options of it by name."""

    te_grad_name: str
    te_grad_kwargs: Any = None


@node("relax.attrs.CallInplacePackedAttrs")
class CallInplacePackedAttrs(Attrs):
    """For each output, the argument whose memory it takes, or -1 for new memory."""

    inplace_indices: tuple[int, ...]


def call_tir(
    gvar: Any,
    args: Any,
    out_sinfo: StructInfo | Sequence[StructInfo],
    tir_vars: Any = None,
    *,
    span: Any = None,
) -> Call:
    """Call a tensor program that writes its results into memory given to it.

    Args:
        gvar: The function.
        args: Its inputs: one tensor, or a sequence or tuple of them.
        out_sinfo: Struct info of the result, or of each result.
        tir_vars: Symbolic sizes that the function takes as integers.
        span: Python source of the call, for errors.

    Returns:
        A tensor, or a tuple of tensors when several are stated.

    Raises:
        TypeInferenceError: `out_sinfo` is not struct info.

    Reference: TVM relax.call_tir.
    """
    return _call(_call_tir.op, gvar, args, out_sinfo, tir_vars=tir_vars, span=span)


def call_tir_inplace(
    gvar: Any,
    args: Any,
    inplace_indices: int | Sequence[int],
    out_sinfo: StructInfo | Sequence[StructInfo],
    tir_vars: Any = None,
    *,
    span: Any = None,
) -> Call:
    """Call a tensor program that writes results over some of its inputs.

    Args:
        gvar: The function.
        args: Its inputs: one tensor, or a sequence or tuple of them.
        inplace_indices: For each result the argument it replaces, or -1 for none.
        out_sinfo: Struct info of the result, or of each result.
        tir_vars: Symbolic sizes that the function takes as integers.
        span: Python source of the call, for errors.

    Returns:
        A tensor, or a tuple of tensors when several are stated.

    Raises:
        TypeInferenceError: `out_sinfo` is not struct info, or an index is not an argument.

    Reference: TVM relax.call_tir_inplace.
    """
    attrs = CallTIRInplaceAttrs(ints_of(inplace_indices, "inplace_indices"))
    inplace_call = _call(_call_tir_inplace.op, gvar, args, out_sinfo, tir_vars=tir_vars, attrs=attrs, span=span)
    inputs = inplace_call.args[1]
    count = len(inputs) if isinstance(inputs, Tuple) else None
    if count is not None and any(not -1 <= index < count for index in attrs.inplace_indices):
        refuse(inplace_call, f"call_tir_inplace with indices {list(attrs.inplace_indices)} for {count} arguments")
    return inplace_call


def call_tir_with_grad(
    gvar: Any,
    args: Any,
    out_sinfo: StructInfo | Sequence[StructInfo],
    te_grad_name: str,
    te_grad_kwargs: Mapping[str, Any] | None = None,
    tir_vars: Any = None,
    *,
    span: Any = None,
) -> Call:
    """Call a tensor program of which it is noted what makes its gradient; the note does not change what is computed.

    Args:
        gvar: The function.
        args: Its inputs: one tensor, or a sequence or tuple of them.
        out_sinfo: Struct info of the result, or of each result.
        te_grad_name: Name of the function that makes the gradient.
        te_grad_kwargs: Options of that function by name.
        tir_vars: Symbolic sizes that the function takes as integers.
        span: Python source of the call, for errors.

    Returns:
        A tensor, or a tuple of tensors when several are stated.

    Raises:
        TypeInferenceError: `out_sinfo` is not struct info.

    Reference: TVM relax.call_tir_with_grad.
    """
    attrs = CallTIRWithGradAttrs(te_grad_name, make_attrs(te_grad_kwargs or {}))
    return _call(_call_tir_with_grad.op, gvar, args, out_sinfo, tir_vars=tir_vars, attrs=attrs, span=span)


@_call_tir_with_grad.legalize
def _without_grad(builder: Any, c: Call) -> Call:
    """The plain call: nothing here asks for gradients of tensor programs."""
    return Call(_call_tir.op, c.args, None, c.sinfo_args, c.span, struct_info=c.struct_info)


def call_inplace_packed(
    func: str | Expr,
    *args: Any,
    inplace_indices: int | Sequence[int],
    sinfo_args: StructInfo | Sequence[StructInfo],
    span: Any = None,
) -> Call:
    """Call an external function that returns its results in the memory of some of its arguments.

    Args:
        func: Name of the function, or an `ExternFunc`.
        args: Its arguments.
        inplace_indices: For each result the argument it replaces, or -1 for none.
        sinfo_args: Struct info of the result, or of each result.
        span: Python source of the call, for errors.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: `sinfo_args` is not struct info, or an index is not an argument.

    Reference: TVM relax.op.call_inplace_packed.
    """
    out = stated(sinfo_args)
    attrs = CallInplacePackedAttrs(ints_of(inplace_indices, "inplace_indices"))
    every = (_function(func), *(convert(arg) for arg in args))
    inplace_call = Call(_call_inplace_packed.op, every, attrs, (out,), span, struct_info=out)
    if any(not -1 <= index < len(args) for index in attrs.inplace_indices):
        refuse(inplace_call, f"call_inplace_packed with indices {list(attrs.inplace_indices)} of {len(args)} arguments")
    return inplace_call


def call_dps_packed(
    func: str | Expr, args: Any, out_sinfo: StructInfo | Sequence[StructInfo], *, span: Any = None
) -> Call:
    """Call an external function that writes its results into memory given to it.

    Args:
        func: Name of the function, or an `ExternFunc`.
        args: Its inputs: one tensor, or a sequence or tuple of them.
        out_sinfo: Struct info of the result, or of each result.
        span: Python source of the call, for errors.

    Returns:
        A tensor, or a tuple of tensors when several are stated.

    Raises:
        TypeInferenceError: `out_sinfo` is not struct info.

    Reference: TVM relax.call_dps_packed.
    """
    return _call(_call_dps_packed.op, _function(func), args, out_sinfo, span=span)


def call_pure_packed(
    func: str | Expr, *args: Any, sinfo_args: StructInfo | Sequence[StructInfo] = (), span: Any = None
) -> Call:
    """Call an external function that returns its result and has no side effects.

    Args:
        func: Name of the function, or an `ExternFunc`.
        args: Its arguments.
        sinfo_args: Struct info of the result.
        span: Python source of the call, for errors.

    Returns:
        What `sinfo_args` states.

    Raises:
        TypeInferenceError: `sinfo_args` is not struct info.

    Reference: TVM relax.call_pure_packed.
    """
    out = stated(sinfo_args)
    every = (_function(func), *(convert(arg) for arg in args))
    return Call(_call_pure_packed.op, every, None, (out,), span, struct_info=out)


def _function(func: str | Expr) -> Expr:
    return ExternFunc(func) if isinstance(func, str) else func


def stated(out_sinfo: StructInfo | Sequence[StructInfo]) -> StructInfo:
    """Struct info as callers state it: of the result, or of each result.

    Raises:
        TypeInferenceError: it is something else.
    """
    if isinstance(out_sinfo, StructInfo):
        return out_sinfo
    fields = tuple(out_sinfo)
    for item in fields:
        if not isinstance(item, StructInfo):
            refuse(Call(_call_tir.op, ()), f"the result's struct info must be StructInfo, got {type(item).__name__}")
    return fields[0] if len(fields) == 1 else TupleStructInfo(fields)


def _call(
    op: Any,
    func: Any,
    args: Any,
    out_sinfo: StructInfo | Sequence[StructInfo],
    *,
    tir_vars: Any = None,
    attrs: Attrs | None = None,
    span: Any = None,
) -> Call:
    argument = convert(args)
    inputs = argument if isinstance(argument, Tuple) else Tuple((argument,))
    out = stated(out_sinfo)
    sizes = () if tir_vars is None else (tir_vars if isinstance(tir_vars, Expr) else ShapeExpr(tuple(tir_vars)),)
    return Call(op, (func, inputs, *sizes), attrs, (out,), span, struct_info=out)


def _infer(c: Call) -> StructInfo:
    if len(c.sinfo_args) != 1:
        refuse(c, f"{short_name(c)} needs the struct info of its result", help="pass out_sinfo (or sinfo_args)")
    return c.sinfo_args[0]


for _definition in (
    _call_tir,
    _call_tir_inplace,
    _call_tir_with_grad,
    _call_dps_packed,
    _call_pure_packed,
    _call_inplace_packed,
):
    _definition.infer(_infer)
