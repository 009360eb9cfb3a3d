"""relax.matmul: batched matrix product. The model of how an operator is written in this house."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.binary import add
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import of_sizes, summed
from eutectic.relax.op.manipulate import permute_dims
from eutectic.relax.op.numerics import Array, dtype_of, widen
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, tensor_args
from eutectic.relax.op.shapes import broadcast, differ, dims_text, dtype_option, size_text, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor

_matmul = define_op("relax.matmul", arity=2, fusion="out_fusible", traits=["contraction"])


@node("relax.attrs.MatmulAttrs")
class MatmulAttrs(Attrs):
    """Dtype of the result; `void` takes the operands'."""

    out_dtype: str = "void"


def matmul(x1: Expr, x2: Expr, out_dtype: str | None = None, *, span: Any = None) -> Call:
    """Matrix product over the last two axes; batch axes broadcast.

    Args:
        x1: `(*batch1, m, k)`, or `(k,)`; any dtype but bool.
        x2: `(*batch2, k, n)`, or `(k,)`; same dtype unless `out_dtype` is given.
        out_dtype: Dtype of the result; None (or "void") takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(*broadcast(batch1, batch2), m, n)`, without `m` or `n` where an operand has one axis.

    Raises:
        TypeInferenceError: an operand without axes, different dtypes, `k` or batch sizes that disagree.

    Accuracy: 16-bit floats are summed in float32 and rounded once; integers wrap around in `out_dtype`.
    Reference: numpy.matmul; TVM relax.matmul.
    """
    return call(_matmul, x1, x2, attrs=MatmulAttrs(dtype_option(out_dtype)), span=span)


def linear(
    data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None, *, span: Any = None
) -> Call:
    """Affine map: `data @ weight.T + bias`, spelt with permute_dims, matmul and add.

    Args:
        data: `(*batch, k)`.
        weight: `(n, k)`.
        bias: `(n,)`, or None.
        out_dtype: Dtype of the product; None takes the operands'.
        span: Python source of the call, for errors.

    Returns:
        `(*batch, n)`.

    Raises:
        TypeInferenceError: as matmul and add do.

    Reference: torch.nn.functional.linear; TVM relax.op.linear.
    """
    product = matmul(data, permute_dims(weight, span=span), out_dtype, span=span)
    return product if bias is None else add(product, bias, span=span)


@_matmul.separable
def _separable(c: Call, batched: Sequence[bool]) -> bool:
    a, b = tensor_args(c)
    rows = batched[0] and a.ndim >= 2 and not batched[1] and b.ndim == 2
    return rows or (all(batched) and a.ndim == b.ndim >= 3)


@_matmul.infer
def _infer(c: Call) -> TensorStructInfo:
    a, b = tensor_args(c)
    wanted = attrs_of(c, MatmulAttrs).out_dtype
    if wanted == "void" and a.dtype and b.dtype and a.dtype != b.dtype:
        refuse(c, f"matmul of {a.dtype} with {b.dtype}", help="cast one side with astype")
    if "bool" in (a.dtype, b.dtype):
        refuse(c, "matmul is not defined for bool", help="cast with astype first")
    if 0 in (a.ndim, b.ndim):
        refuse(c, "matmul needs at least one axis on both sides", help="use multiply for scalars")
    dtype = wanted if wanted != "void" else (a.dtype if b.dtype else "")
    if a.ndim < 0 or b.ndim < 0:
        return tensor_info(None, dtype)
    ndim = max(a.ndim, b.ndim, 2) - (a.ndim == 1) - (b.ndim == 1)
    if a.dims is None or b.dims is None:
        return tensor_info(() if ndim == 0 else None, dtype, ndim)
    inner = (a.dims[-1], b.dims[-2] if b.ndim > 1 else b.dims[-1])
    if differ(*inner):
        refuse(
            c,
            f"matmul of {dims_text(a.dims)} with {dims_text(b.dims)} contracts {size_text(inner[0])} with "
            f"{size_text(inner[1])}",
            help="transpose one side with permute_dims",
        )
    batches = (tensor_info(a.dims[:-2], dtype), tensor_info(b.dims[:-2], dtype))
    batch, _ = broadcast(c, batches)
    if batch is None:
        return tensor_info(None, dtype, ndim)
    rows = (a.dims[-2],) if a.ndim > 1 else ()
    columns = (b.dims[-1],) if b.ndim > 1 else ()
    return tensor_info((*batch, *rows, *columns), dtype)


@_matmul.work
def _work(c: Call) -> float:
    out, left = c.struct_info, c.args[0].struct_info
    if not isinstance(out, TensorStructInfo) or not isinstance(left, TensorStructInfo):
        return math.inf
    if out.static_shape is None or left.static_shape is None:
        return math.inf
    return 2.0 * left.static_shape[-1] * math.prod(out.static_shape)


@_matmul.reference
def _reference(attrs: MatmulAttrs, x1: Array, x2: Array) -> Array:
    dtype = attrs.out_dtype if attrs.out_dtype != "void" else dtype_of(x1)
    return multiply_matrices(x1, x2, dtype)


def multiply_matrices(x1: Array, x2: Array, dtype: str) -> Array:
    """`x1 @ x2` in `dtype`, computed in no less than float32 or in wrapping integers."""
    target = to_numpy(dtype)
    if is_float(dtype_of(x1)) and is_float(dtype_of(x2)):
        return np.asarray(np.matmul(widen(x1), widen(x2))).astype(target, copy=False)
    if is_float(dtype_of(x1)) or is_float(dtype_of(x2)) or is_float(dtype):
        return np.asarray(np.matmul(x1.astype(np.float64), x2.astype(np.float64))).astype(target)
    if max(x1.itemsize, x2.itemsize) <= 2 and x1.shape[-1] < 1 << 21:  # every partial sum is exact in float64
        exact = np.asarray(np.matmul(x1.astype(np.float64), x2.astype(np.float64)))
        return exact.astype(np.int64).astype(target)
    return np.asarray(np.matmul(x1.astype(target), x2.astype(target)))


def _program(a: Tensor, b: Tensor, out_dtype: str) -> Tensor:
    return summed(lambda dtype: topi.matmul(a, b, out_dtype=dtype, name="matmul"), (a, b), out_dtype)


@_matmul.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    a, b = tensor_args(c)
    assert a.dims is not None
    right = of_sizes(builder, c.args[1], {max(b.ndim - 2, 0): a.dims[-1]})
    return builder.call_te(_program, c.args[0], right, attrs_of(c, MatmulAttrs).out_dtype, primfunc_name_hint="matmul")
