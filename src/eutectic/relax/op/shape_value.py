"""Shapes as values: shape_of, tensor_to_shape, shape_to_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic import topi
from eutectic.relax.base import Expr, ShapeStructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import call, define_op, refuse, tensor_args
from eutectic.relax.op.shapes import dims_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo

_shape_of = define_op("relax.shape_of", arity=1, fusion="opaque")
_tensor_to_shape = define_op("relax.tensor_to_shape", arity=1, fusion="opaque")
_shape_to_tensor = define_op("relax.shape_to_tensor", arity=1, fusion="opaque")


def shape_of(expr: Expr, *, span: Any = None) -> Call:
    """The sizes of a tensor, as a shape value.

    Args:
        expr: Any shape and dtype.
        span: Python source of the call, for errors.

    Returns:
        A shape.

    Raises:
        TypeInferenceError: `expr` is not a tensor.

    Reference: TVM relax.shape_of.
    """
    return call(_shape_of, expr, span=span)


@_shape_of.infer
def _infer_shape_of(c: Call) -> ShapeStructInfo:
    (info,) = tensor_args(c)
    return ShapeStructInfo(info.dims, info.ndim)


@_shape_of.reference
def _reference_shape_of(attrs: None, x: Array) -> tuple[int, ...]:
    return x.shape


def tensor_to_shape(expr: Expr, *, span: Any = None) -> Call:
    """The elements of an integer tensor, as a shape value.

    Args:
        expr: `(rank,)`, int64.
        span: Python source of the call, for errors.

    Returns:
        A shape of that rank.

    Raises:
        TypeInferenceError: not one axis, or not int64.

    Reference: TVM relax.tensor_to_shape.
    """
    return call(_tensor_to_shape, expr, span=span)


@_tensor_to_shape.infer
def _infer_tensor_to_shape(c: Call) -> ShapeStructInfo:
    (info,) = tensor_args(c)
    if info.ndim not in (-1, 1) or info.dtype not in ("", "int64"):
        refuse(c, f"tensor_to_shape needs one axis of int64, got {dims_text(info.dims)} of {info.dtype}")
    rank = static(info.dims[0]) if info.dims is not None else None
    return ShapeStructInfo(None, -1 if rank is None else rank)


@_tensor_to_shape.reference
def _reference_tensor_to_shape(attrs: None, x: Array) -> tuple[int, ...]:
    return tuple(int(size) for size in x)


def shape_to_tensor(expr: Expr, *, span: Any = None) -> Call:
    """A shape value as a tensor.

    Args:
        expr: A shape.
        span: Python source of the call, for errors.

    Returns:
        `(rank,)`, int64.

    Raises:
        TypeInferenceError: `expr` is not a shape.

    Reference: TVM relax.shape_to_tensor.
    """
    return call(_shape_to_tensor, expr, span=span)


@_shape_to_tensor.infer
def _infer_shape_to_tensor(c: Call) -> TensorStructInfo:
    info = c.args[0].struct_info
    if not isinstance(info, ShapeStructInfo):
        refuse(c, "argument 0 of shape_to_tensor must be a shape")
    return tensor_info(None if info.ndim < 0 else [info.ndim], "int64", 1)


@_shape_to_tensor.reference
def _reference_shape_to_tensor(attrs: None, shape: tuple[int, ...]) -> Array:
    return np.array(shape, np.int64)


@_shape_to_tensor.legalize
def _legalize_shape_to_tensor(builder: Builder, c: Call) -> Expr:
    info = c.args[0].struct_info
    if not isinstance(info, ShapeStructInfo) or info.values is None:
        return c
    return builder.call_te(topi.listed, list(info.values), "int64", primfunc_name_hint="shape_to_tensor")
