"""relax.nn.dropout, which in inference changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.create import ones_like
from eutectic.relax.op.nn.activation import need_float
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import attrs_of, call, define_op, tensor_args
from eutectic.relax.op.shapes import like, reject
from eutectic.relax.struct_info import TupleStructInfo

_dropout = define_op("relax.nn.dropout", arity=1, fusion="opaque")


@node("relax.attrs.DropoutAttrs")
class DropoutAttrs(Attrs):
    """Share of elements dropped in training."""

    rate: float = 0.5


def dropout(data: Expr, rate: float = 0.5, *, span: Any = None) -> Call:
    """`data` unchanged, and a mask of ones: the inference form of dropout.

    Args:
        data: Any shape; a float dtype.
        rate: Share of elements that training would drop, in [0, 1].
        span: Python source of the call, for errors.

    Returns:
        A tuple of two tensors of shape and dtype of `data`.

    Raises:
        TypeInferenceError: not a float dtype, or a rate outside [0, 1].

    Reference: TVM relax.nn.dropout.
    """
    if not 0 <= rate <= 1:
        reject(f"dropout with rate {rate}", help="give a number from 0 to 1")
    return call(_dropout, data, attrs=DropoutAttrs(float(rate)), span=span)


@_dropout.infer
def _infer(c: Call) -> TupleStructInfo:
    (info,) = tensor_args(c)
    attrs_of(c, DropoutAttrs)
    need_float(c, info)
    return TupleStructInfo((like(info), like(info)))


@_dropout.reference
def _reference(attrs: DropoutAttrs, x: Array) -> tuple[Array, Array]:
    return x, np.ones_like(x)


@_dropout.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    (data,) = c.args
    return Tuple((data, builder.emit(ones_like(data, span=c.span))), span=c.span)
