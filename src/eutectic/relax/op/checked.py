"""relax.checked: a value that may only be used when a condition holds, which the run of the program decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import call, define_op, refuse, tensor_args
from eutectic.relax.op.shapes import broadcast, differ, dims_text, like
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.errors import CallError

_checked = define_op("relax.checked", arity=2, fusion="broadcast")


@node("relax.attrs.CheckedAttrs")
class CheckedAttrs(Attrs):
    """What is said when the condition does not hold."""

    message: str


def checked(x: Expr, condition: Expr, message: str, *, span: Any = None) -> Call:
    """`x`, where the condition must hold for every element.

    Args:
        x: Any shape and dtype.
        condition: bool; broadcasts to the shape of `x`.
        message: What the error says, with the values that are known when the model is compiled.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `x`.

    Raises:
        TypeInferenceError: the condition is not bool, or does not broadcast to `x`.
        CallError: at run time, the condition does not hold somewhere. What nothing reads is not checked.
    """
    return call(_checked, x, condition, attrs=CheckedAttrs(message), span=span)


@_checked.infer
def _infer(c: Call) -> TensorStructInfo:
    info, condition = tensor_args(c)
    if condition.dtype not in ("bool", ""):
        refuse(c, f"the condition of checked must be bool, got {condition.dtype}", help="compare it with something")
    dims, ndim = broadcast(c, (info, condition))
    grown = ndim > info.ndim >= 0
    if not grown and dims is not None and info.dims is not None:
        grown = any(differ(a, b) for a, b in zip(dims, info.dims, strict=True))
    if grown:
        refuse(c, f"a condition of {dims_text(condition.dims)} does not broadcast to {dims_text(info.dims)}")
    return like(info)


@_checked.reference
def _reference(attrs: CheckedAttrs, x: Array, condition: Array) -> Array:
    if not np.broadcast_to(condition, x.shape).all():
        raise CallError(attrs.message)
    return x


lower(_checked, topi.checked, options=lambda attrs: {"message": attrs.message})
