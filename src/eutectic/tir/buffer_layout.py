"""Where the elements of buffers are in their memory."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import IntImm, PrimExpr, add, maximum, mul, sub
from eutectic.tir.buffer import Buffer


def span_of(buffer: Buffer) -> PrimExpr:
    """Elements from the data of a buffer to the end of its last element."""
    if not buffer.strides:
        total = product(buffer.shape)
    elif any(isinstance(size, IntImm) and size.value == 0 for size in buffer.shape):
        total = IntImm("int32", 0)
    else:
        total = IntImm(buffer.shape[0].dtype, 1)
        for size, stride in zip(buffer.shape, buffer.strides, strict=True):
            total = add(total, mul(sub(size, 1), stride))
        if not all(isinstance(size, IntImm) for size in buffer.shape):
            total = maximum(total, 0)  # of a buffer without elements
    return total if buffer.elem_offset is None else add(buffer.elem_offset, total)


def product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    """The product of sizes; one for none."""
    total: PrimExpr = IntImm(sizes[0].dtype if sizes else "int32", 1)
    for size in sizes:
        total = mul(total, size)
    return total


def strides_of(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Distance of neighbours per axis, also of a compact buffer."""
    if buffer.strides or not buffer.shape:
        return buffer.strides
    out: list[PrimExpr] = []
    step: PrimExpr = IntImm(buffer.shape[-1].dtype, 1)
    for size in reversed(buffer.shape):
        out.append(step)
        step = mul(step, size)
    return tuple(reversed(out))


def offset_of(buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    """Elements between the data of a buffer and one of its elements."""
    total: PrimExpr = IntImm("int32", 0) if buffer.elem_offset is None else buffer.elem_offset
    for index, stride in zip(indices, strides_of(buffer), strict=True):
        total = add(total, mul(index, stride))
    return total
