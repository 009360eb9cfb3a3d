"""relax.builtin.alloc_tensor: memory that a program asks for, such as the workspace of a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic.ir.dtype import to_numpy
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call, DataTypeImm, PrimValue, StringImm, convert
from eutectic.relax.op.numerics import Array
from eutectic.relax.op.registry import call, define_op, refuse
from eutectic.relax.op.shapes import dtype_option, reject, tensor_info
from eutectic.relax.struct_info import TensorStructInfo

_alloc_tensor = define_op("relax.builtin.alloc_tensor", arity=4, fusion="opaque")


def alloc_tensor(
    shape: Expr | Sequence[int | PrimExpr],
    dtype: Expr | str,
    runtime_device_index: Expr | int = 0,
    storage_scope: Expr | str = "global",
    *,
    span: Any = None,
) -> Call:
    """A fresh tensor; what is in it at first must not be relied on.

    Args:
        shape: The sizes.
        dtype: The dtype of the elements.
        runtime_device_index: Which of the program's devices holds it.
        storage_scope: Which memory of the device holds it.
        span: Python source of the call, for errors.

    Returns:
        `shape`, `dtype`.

    Raises:
        TypeInferenceError: an unknown dtype, or a shape that is not a literal.

    Accuracy: the reference fills it with zeros.
    Reference: TVM relax.builtin.alloc_tensor.
    """
    if isinstance(dtype, str) and dtype_option(dtype) == "void":
        reject("alloc_tensor needs a dtype", help='pass for example "uint8"')
    sizes = shape if isinstance(shape, Expr) else ShapeExpr(tuple(map(as_prim, shape)))
    kind = DataTypeImm(dtype) if isinstance(dtype, str) else dtype
    return call(_alloc_tensor, sizes, kind, convert(runtime_device_index), convert(storage_scope), span=span)


@_alloc_tensor.infer
def _infer(c: Call) -> TensorStructInfo:
    sizes, dtype, device, scope = c.args
    if not isinstance(sizes, ShapeExpr) or not isinstance(dtype, DataTypeImm):
        refuse(c, "builtin.alloc_tensor needs a shape literal and a dtype")
    if not isinstance(device, PrimValue) or not isinstance(scope, StringImm):
        refuse(c, "builtin.alloc_tensor needs the number of a device and the name of a memory")
    return tensor_info(sizes.values, dtype.value)


@_alloc_tensor.reference
def _reference(attrs: None, shape: tuple[int, ...], dtype: str, device: int, scope: str) -> Array:
    return np.zeros(shape, to_numpy(dtype))
