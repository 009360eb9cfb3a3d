"""What normalisations share: their parameters are checked, applied, and left out where they are not used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.nn.activation import need_float
from eutectic.relax.op.numerics import Array, exact
from eutectic.relax.op.registry import refuse, short_name, tensor_args
from eutectic.relax.op.shapes import axes_of, differ, dims_text
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.te import Tensor


def check(
    c: Call, axes: Sequence[int], row_major: TensorStructInfo | None = None
) -> tuple[TensorStructInfo, tuple[int, ...]]:
    """Operands of one float dtype, whose parameters have the sizes of the data at `axes`.

    Args:
        c: The call; its first operand is the data.
        axes: Of the data; negative ones count from the last.
        row_major: The data as it would be row-major, where it lies in a layout.

    Returns:
        The row-major data, and the axes counted from the first.

    Raises:
        TypeInferenceError: not one float dtype, no such axis, or parameters of other sizes.
    """
    first, *parameters = tensor_args(c)
    data = row_major or first
    need_float(c, data)
    known = {info.dtype for info in (data, *parameters) if info.dtype}
    if len(known) > 1:
        refuse(c, f"{short_name(c)} of operands of {' and '.join(sorted(known))}", help="cast with astype")
    resolved = axes_of(c, axes, data.ndim) if data.ndim >= 0 else tuple(axes)
    for info in parameters:
        wrong = info.ndim not in (-1, len(resolved))
        if not wrong and data.dims is not None and info.dims is not None:
            wanted = [data.dims[axis] for axis in resolved]
            wrong = any(differ(a, b) for a, b in zip(wanted, info.dims, strict=True))
        if wrong:
            refuse(
                c,
                f"{short_name(c)} of {dims_text(data.dims)} along {list(resolved)} with a parameter of "
                f"{dims_text(info.dims)}",
                help="parameters have the sizes of the data along those axes",
            )
    return data, resolved


def normalised(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Mean 0 and variance 1 over some axes, in float64."""
    wide = exact(x)
    mean = wide.mean(axis=axes, keepdims=True)
    variance = np.square(wide - mean).mean(axis=axes, keepdims=True)
    return np.asarray((wide - mean) / np.sqrt(variance + epsilon))


def along(parameter: Array, axes: Sequence[int], ndim: int) -> Array:
    """A parameter of the sizes of `axes`, shaped to broadcast against `ndim` axes."""
    places = [axis % ndim for axis in axes]
    ordered = exact(parameter).transpose(np.argsort(places))
    sizes = dict(zip(places, parameter.shape, strict=True))
    return ordered.reshape([sizes.get(i, 1) for i in range(ndim)])


def affine(out: Array, gamma: Array, beta: Array, axes: Sequence[int], attrs: Any) -> Array:
    """What is normalised, scaled and shifted along some axes where the options of the call say so."""
    if attrs.scale:
        out = out * along(gamma, axes, out.ndim)
    return out + along(beta, axes, out.ndim) if attrs.center else out


def legalize_affine(builder: Builder, c: Call, function: Callable[..., Tensor], attrs: Any) -> Expr:
    """A call of a program that takes scale and centre only where they are used."""
    data, gamma, beta = c.args
    used = (gamma if attrs.scale else None, beta if attrs.center else None)
    return builder.call_te(function, data, *used, attrs, primfunc_name_hint=short_name(c).removeprefix("nn."))
