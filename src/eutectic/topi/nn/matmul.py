"""Matrix products: matmul, dense, batch_matmul."""

from __future__ import annotations

from typing import Any

from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as te_sum
from eutectic.topi.elementwise import cast
from eutectic.topi.shapes import broadcast_shape, is_one, same_size, sizes_text, stage
from eutectic.topi.special_values import accumulator


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    transp_a: bool = False,
    transp_b: bool = False,
    out_dtype: str | None = None,
    *,
    name: str = "T_matmul",
) -> Tensor:
    """Matrix product over the last two axes; batch axes broadcast.

    Args:
        tensor_a: `(*batch1, m, k)`, or `(k,)`.
        tensor_b: `(*batch2, k, n)`, or `(k,)`.
        transp_a: Whether the last two axes of `tensor_a` are exchanged.
        transp_b: Whether those of `tensor_b` are.
        out_dtype: Dtype of the result; None takes that of `tensor_a`.
        name: Name of the stage.

    Returns:
        `(*broadcast(batch1, batch2), m, n)`, without `m` or `n` where an operand has one axis. Floats of 16
        bits are summed in float32, and cast by a second stage.

    Raises:
        ValueError: an operand without axes, or `k` or batch sizes that disagree.

    Reference: numpy.matmul; TVM topi.matmul and relax.matmul.
    """
    a_vector, b_vector = len(tensor_a.shape) == 1, len(tensor_b.shape) == 1
    if not tensor_a.shape or not tensor_b.shape:
        raise ValueError("matmul needs at least one axis on both sides")
    inner_a = tensor_a.shape[-2 if transp_a and not a_vector else -1]
    inner_b = tensor_b.shape[-1 if b_vector or transp_b else -2]
    if not same_size(inner_a, inner_b):
        raise ValueError(
            f"matmul of {sizes_text(tensor_a.shape)} with {sizes_text(tensor_b.shape)} "
            f"contracts {sizes_text([inner_a])[1:-1]} with {sizes_text([inner_b])[1:-1]}"
        )
    batch = (
        broadcast_shape(tensor_a.shape[:-2], tensor_b.shape[:-2]) if tensor_a.shape[2:] or tensor_b.shape[2:] else ()
    )
    rows = () if a_vector else (tensor_a.shape[-1 if transp_a else -2],)
    columns = () if b_vector else (tensor_b.shape[-2 if transp_b else -1],)
    dtype = out_dtype or tensor_a.dtype
    wide = accumulator(dtype) if is_float(dtype) else dtype
    k = reduce_axis((0, inner_a), "k")

    def element(*at: PrimExpr) -> Any:
        left = _at(tensor_a, at[: len(batch)], batch, [*at[len(batch) : len(batch) + len(rows)], k], transp_a)
        right = _at(tensor_b, at[: len(batch)], batch, [k, *at[len(at) - len(columns) :]], transp_b)
        return te_sum(left.astype(wide) * right.astype(wide), k)

    shape = (*batch, *rows, *columns)
    names = [f"i{i}" for i in range(len(shape))]
    total: Tensor = compute(shape, lambda *at: element(*at), name, "matmul", varargs_names=names)
    return cast(total, dtype) if wide != dtype else total


def _at(x: Tensor, batch_at: Any, batch: tuple[PrimExpr, ...], last: list[Any], transposed: bool) -> PrimExpr:
    """The element of a matrix of the batch, or of a vector."""
    if len(x.shape) == 1:
        return x(*last)
    count = len(x.shape) - 2
    skip = len(batch) - count
    outer = [
        IntImm(i.dtype, 0) if is_one(size) and not is_one(out) else i
        for size, i, out in zip(x.shape[:count], batch_at[skip:], batch[skip:], strict=True)
    ]
    return x(*outer, *(reversed(last) if transposed else last))


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None) -> Tensor:
    """Affine map: `data @ weight.T + bias`.

    Args:
        data: `(*batch, k)`.
        weight: `(n, k)`.
        bias: `(n,)`, or None.
        out_dtype: Dtype of the result; None takes that of `data`.

    Returns:
        `(*batch, n)`; stages `T_matmul_NT` and, with a bias, `T_add`.

    Raises:
        ValueError: `k` disagrees.
    """
    product = matmul(data, weight, transp_b=True, out_dtype=out_dtype, name="T_matmul_NT")
    if bias is None:
        return product
    return stage(product.shape, lambda *at: product(*at) + bias(at[-1]), "T_add", "broadcast")


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Matrix product of two batches of matrices.

    Args:
        tensor_a: `(batch, m, k)`, or `(batch, k, m)` with `transpose_a`.
        tensor_b: `(batch, n, k)`, or `(batch, k, n)` without `transpose_b`.
        oshape: Accepted as TVM does; the shape follows from the operands.
        out_dtype: Dtype of the result; None takes that of `tensor_a`.
        transpose_a: Whether the matrices of `tensor_a` are stored transposed.
        transpose_b: Whether those of `tensor_b` are.

    Returns:
        `(batch, m, n)`; one stage `T_batch_matmul_NT`, or `NN`, `TN`, `TT`.

    Raises:
        ValueError: an operand without three axes, or sizes that disagree.
    """
    if len(tensor_a.shape) != 3 or len(tensor_b.shape) != 3:
        raise ValueError("batch_matmul needs three axes on both sides")
    name = f"T_batch_matmul_{'NT'[transpose_a]}{'NT'[transpose_b]}"
    return matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype, name=name)
