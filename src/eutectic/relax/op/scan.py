"""Running sums and products along an axis: cumsum, cumprod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from eutectic import topi
from eutectic.arith import simplify
from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.op.lowering import own_sizes, result_dtype
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import axis_of, dtype_option, int_of, like, product, tensor_info
from eutectic.relax.struct_info import TensorStructInfo


@node("relax.attrs.ScanopAttrs")
class ScanopAttrs(Attrs):
    """The axis (None flattens), the dtype of the result (`void` that of the data), whether an element counts itself."""

    axis: int | None = None
    dtype: str = "void"
    exclusive: bool = False


class ScanConstructor(Protocol):
    """A constructor of a running reduction."""

    def __call__(
        self,
        data: Expr,
        axis: int | None = None,
        dtype: str | None = None,
        exclusive: bool = False,
        *,
        span: Any = None,
    ) -> Call:
        """Accumulate `data`."""
        ...


def _lowered(builder: Builder, c: Call) -> Expr:
    (info,) = tensor_args(c)
    attrs, name, out = attrs_of(c, ScanopAttrs), short_name(c), c.struct_info
    if info.dims is None or out is None:
        return c
    program = topi.scan(name, own_sizes(info.dims, "n"), info.dtype, attrs.axis, result_dtype(c), attrs.exclusive)
    return call_tir(builder.add_func(program, name), c.args, out)


def _scan(name: str, compute: Callable[..., Any], start: int, summary: str) -> ScanConstructor:
    """Define one running reduction and return its constructor."""
    op = define_op(f"relax.{name}", arity=1, fusion="opaque")

    def constructor(
        data: Expr,
        axis: int | None = None,
        dtype: str | None = None,
        exclusive: bool = False,
        *,
        span: Any = None,
    ) -> Call:
        place = None if axis is None else int_of(axis, "axis")
        return call(op, data, attrs=ScanopAttrs(place, dtype_option(dtype), bool(exclusive)), span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        (info,) = tensor_args(c)
        attrs = attrs_of(c, ScanopAttrs)
        dtype = info.dtype if attrs.dtype == "void" else attrs.dtype
        if dtype == "bool":
            refuse(c, f"{short_name(c)} is defined for numbers, not for bool", help='pass dtype="int64"')
        if attrs.axis is None:
            return tensor_info(None if info.dims is None else [simplify(product(info.dims))], dtype, 1)
        if info.ndim >= 0:
            axis_of(c, attrs.axis, info.ndim)
        return like(info, dtype)

    @op.reference
    def _reference(attrs: ScanopAttrs, x: Array) -> Array:
        dtype = dtype_of(x) if attrs.dtype == "void" else attrs.dtype
        flat = x.reshape(-1) if attrs.axis is None else x
        axis = attrs.axis or 0
        wide = flat.astype(np.float64 if is_float(dtype) else cast(0, dtype).dtype)
        out = compute(wide, axis=axis, dtype=wide.dtype)
        if attrs.exclusive and flat.shape[axis]:
            first = np.full_like(np.take(out, [0], axis=axis), start)
            out = np.concatenate([first, np.take(out, range(flat.shape[axis] - 1), axis=axis)], axis=axis)
        return cast(out, dtype)

    op.legalize(_lowered)
    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        data: Any shape; numbers, or bool with a `dtype`.
        axis: The axis; None accumulates all elements in C order.
        dtype: Dtype of the result; None takes that of `data`.
        exclusive: Whether an element leaves itself out, so that the first is {start}.
        span: Python source of the call, for errors.

    Returns:
        Shape of `data`, or `(number of elements,)` without an axis.

    Raises:
        TypeInferenceError: no such axis, or bool as the result's dtype.

    Accuracy: floats are accumulated in float64 and rounded at the end; integers wrap around.
    Reference: TVM relax.{name}; numpy.{name}.
    """
    return constructor


cumsum = _scan("cumsum", np.cumsum, 0, "Sums of all elements up to each position.")
cumprod = _scan("cumprod", np.cumprod, 1, "Products of all elements up to each position.")
