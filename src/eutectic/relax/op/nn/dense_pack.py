"""relax.nn.dense_pack: a matrix product with constant weights in panels, for few rows."""

from __future__ import annotations

from math import inf, prod
from typing import Any, Final

from eutectic import topi
from eutectic.ir.attrs import Attrs
from eutectic.ir.node import node
from eutectic.ir.prim_expr import as_prim
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import of_sizes
from eutectic.relax.op.matmul import multiply_matrices
from eutectic.relax.op.numerics import Array, dtype_of
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import differ, dims_text, size_text, static, tensor_info
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.topi.nn.dense_pack import unpacked_panels

_DENSE_PACK: Final = define_op(
    "relax.nn.dense_pack", arity=2, fusion="out_fusible", traits=["contraction", "generated"]
)
DENSE_PACK: Final = _DENSE_PACK.op
"""The operator."""
_WEIGHTS: Final = {"": ("",), "float32": ("float32", "float16", "bfloat16"), "float64": ("float64",)}


@node("relax.attrs.DensePackAttrs")
class DensePackAttrs(Attrs):
    """Columns of the result."""

    units: int


def dense_pack(data: Expr, weight: Expr, units: int, *, span: Any = None) -> Call:
    """Matrix product over the last axis of the data, with a second matrix whose columns are in panels.

    A bias, an activation and a residual are calls that follow.

    Args:
        data: `(*batch, k)`; float32 or float64.
        weight: `(panels, k, p)`, of the same dtype, or float16 or bfloat16 beside float32: `p` columns at a time, as
            `packed_panels` of `eutectic.topi.nn.dense_pack` lays them out; what is beyond `units` is not used.
        units: Columns of the result, at most `panels * p`.
        span: Python source of the call, for errors.

    Returns:
        `(*batch, units)`.

    Raises:
        TypeInferenceError: ranks, dtypes or sizes disagree.

    Accuracy: each element is a sum of `k` products in order, as of `matmul`, of the dtype of the data. Narrow weights
    are widened, which is exact: nothing else is narrow.
    Reference: TVM relay.nn.contrib_dense_pack, whose data is a matrix.
    """
    return call(_DENSE_PACK, data, weight, attrs=DensePackAttrs(int(units)), span=span)


@_DENSE_PACK.infer
def _infer(c: Call) -> TensorStructInfo:
    data, weight = tensor_args(c)
    units = attrs_of(c, DensePackAttrs).units
    if weight.dtype not in _WEIGHTS.get(data.dtype, ()):
        allowed = "float32 with float32, float16 or bfloat16, or float64 with float64"
        refuse(c, f"{short_name(c)} of {data.dtype} with {weight.dtype}: expected {allowed}")
    if data.ndim == 0 or weight.ndim not in (-1, 3):
        refuse(c, f"{short_name(c)} takes data with an axis, and weights (panels, k, p)")
    if weight.dims is not None:
        panels, depth, panel = weight.dims
        most = prod(static(size) or 0 for size in (panels, panel))
        if not 0 < units <= most:
            refuse(c, f"{short_name(c)} to {units} columns with weights {dims_text(weight.dims)} of {most} columns")
        if data.dims is not None and differ(data.dims[-1], depth):
            sizes = f"{dims_text(data.dims)} with {dims_text(weight.dims)}"
            refuse(c, f"{short_name(c)} of {sizes} contracts {size_text(data.dims[-1])} with {size_text(depth)}")
    if data.dims is None:
        return tensor_info(None, data.dtype, data.ndim)
    return tensor_info((*data.dims[:-1], as_prim(units, "int64")), data.dtype)


@_DENSE_PACK.work
def _work(c: Call) -> float:
    out, left = c.struct_info, c.args[0].struct_info
    if not isinstance(out, TensorStructInfo) or not isinstance(left, TensorStructInfo):
        return inf
    if out.static_shape is None or left.static_shape is None:
        return inf
    return 2.0 * left.static_shape[-1] * prod(out.static_shape)


@_DENSE_PACK.reference
def _reference(attrs: DensePackAttrs, data: Array, weight: Array) -> Array:
    return multiply_matrices(data, unpacked_panels(weight.astype(data.dtype), attrs.units), dtype_of(data))


@_DENSE_PACK.legalize
def _legalize(builder: Builder, c: Call) -> Expr:
    data, weight = tensor_args(c)
    assert data.dims is not None and weight.dims is not None
    known = of_sizes(builder, c.args[0], {data.ndim - 1: weight.dims[1]})
    units = attrs_of(c, DensePackAttrs).units
    return builder.call_te(topi.nn.dense_pack, known, c.args[1], units, primfunc_name_hint="dense_pack")
