"""relax.astype: conversion between dtypes."""

from __future__ import annotations

from typing import Any

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.lowering import lower
from eutectic.relax.op.numerics import Array, cast
from eutectic.relax.op.registry import always, attrs_of, call, define_op, tensor_args
from eutectic.relax.op.shapes import dtype_option, like, reject
from eutectic.relax.struct_info import TensorStructInfo

_astype = define_op("relax.astype", arity=1, fusion="elementwise", traits=["pointwise"])
_astype.identity(always)


@node("relax.attrs.AstypeAttrs")
class AstypeAttrs(Attrs):
    """The new dtype."""

    dtype: str


def astype(x: Expr, dtype: str, *, span: Any = None) -> Call:
    """`x` in another dtype.

    Args:
        x: Any shape and dtype.
        dtype: The new dtype. To integers floats truncate towards zero, integers
            wrap around; to bool everything but zero is True.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, `dtype`.

    Raises:
        TypeInferenceError: `x` is not a tensor, or the dtype is unknown.

    Accuracy: rounds to nearest, ties to even; floats outside an integer's range give an unspecified integer.
    Reference: TVM relax.astype.
    """
    return call(_astype, x, attrs=AstypeAttrs(_stated(dtype)), span=span)


def _stated(dtype: str) -> str:
    if dtype_option(dtype) == "void":
        reject("astype needs a dtype", help='pass for example "float32"')
    return dtype


@_astype.infer
def _infer(c: Call) -> TensorStructInfo:
    (info,) = tensor_args(c)
    return like(info, attrs_of(c, AstypeAttrs).dtype)


@_astype.reference
def _reference(attrs: AstypeAttrs, x: Array) -> Array:
    return cast(x, attrs.dtype).copy()


lower(_astype, topi.cast, options=lambda attrs: {"dtype": attrs.dtype})
