"""The NumPy meaning of convolutions: sums of shifted inputs, as matrix products where that is faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np

from eutectic.ir.dtype import is_float, to_numpy
from eutectic.relax.op.numerics import Array, dtype_of

_COLUMNS_BYTES: Final = 1 << 24  # bound of the matrix of patches made at a time


def working(x: Array, w: Array, out_dtype: str) -> np.dtype[np.generic]:
    """Dtype to compute in: float32 for narrow floats, float64 for small integers (exact), int64 for wide ones."""
    names = {dtype_of(x), dtype_of(w), out_dtype}
    if all(is_float(name) for name in names):
        return np.dtype(np.float64 if "float64" in names else np.float32)
    if max(x.itemsize, w.itemsize) <= 2 or any(is_float(name) for name in names):
        return np.dtype(np.float64)
    return np.dtype(np.int64)


def finish(out: Array, out_dtype: str) -> Array:
    """Sums in the result's dtype; integers computed in float64 wrap around."""
    if out.dtype == np.float64 and not is_float(out_dtype):
        out = out.astype(np.int64)
    return out.astype(to_numpy(out_dtype), copy=False)


def pad_spatial(x: Array, padding: Sequence[int], value: float) -> Array:
    """`x` with `value` around its spatial axes; `padding` holds all sizes before, then all after."""
    if not any(padding):
        return x
    count = x.ndim - 2
    before, after = padding[:count], padding[count:]
    sizes = [size + b + a for size, b, a in zip(x.shape[2:], before, after, strict=True)]
    out = np.full((*x.shape[:2], *sizes), value, x.dtype)
    inside = (slice(b, b + size) for size, b in zip(x.shape[2:], before, strict=True))
    out[(slice(None), slice(None), *inside)] = x
    return out


def taps(
    kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """For each position in the window, where the input elements of all `sizes` windows are."""
    for at in product(*map(range, kernel)):
        yield tuple(
            slice(i * d, i * d + s * (n - 1) + 1, s) for i, d, s, n in zip(at, dilation, strides, sizes, strict=True)
        )


def convolve(
    x: Array, w: Array, strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """Grouped cross-correlation of `(n, c, *spatial)` with `(o, c / groups, *kernel)`, in their common dtype."""
    x = pad_spatial(x, padding, 0)
    kernel = w.shape[2:]
    sizes = tuple(
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation, strict=True)
    )
    if w.shape[1] == 1 and groups == x.shape[1]:
        return _depthwise(x, w, strides, dilation, sizes)
    if prod(kernel) == 1 and set(strides) == {1}:
        return _pointwise(x, w, groups)
    return _by_patches(x, w, strides, dilation, groups, sizes)


def _depthwise(x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], sizes: tuple[int, ...]) -> Array:
    n, c, multiplier = x.shape[0], x.shape[1], w.shape[0] // x.shape[1]
    kernel = w.shape[2:]
    factors = w.reshape(c, multiplier, prod(kernel))
    out = np.zeros((n, c, multiplier, *sizes), x.dtype)
    spread = (None,) * len(sizes)
    for i, window in enumerate(taps(kernel, strides, dilation, sizes)):
        out += x[(slice(None), slice(None), None, *window)] * factors[(slice(None), slice(None), i, *spread)]
    return out.reshape(n, c * multiplier, *sizes)


def _pointwise(x: Array, w: Array, groups: int) -> Array:
    n, c, *sizes = x.shape
    o = w.shape[0]
    rows = w.reshape(groups, o // groups, c // groups)
    products: Array = np.matmul(rows, x.reshape(n, groups, c // groups, prod(sizes)))
    return products.reshape(n, o, *sizes)


def _by_patches(
    x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], groups: int, sizes: tuple[int, ...]
) -> Array:
    """Matrix product of the weights with a matrix of patches, some rows of the first spatial axis at a time."""
    n, c = x.shape[:2]
    o, per_group, *kernel = w.shape
    depth, rest = prod(kernel), prod(sizes[1:])
    rows = w.reshape(groups, o // groups, per_group * depth)
    out = np.empty((n, groups, o // groups, sizes[0], rest), x.dtype)
    step = max(1, _COLUMNS_BYTES // max(1, c * depth * rest * x.itemsize))
    for begin in range(0, sizes[0], step):
        count = min(step, sizes[0] - begin)
        columns = np.empty((c, depth, count, *sizes[1:]), x.dtype)
        for image in range(n):
            part = x[image, :, begin * strides[0] :]
            for i, window in enumerate(taps(kernel, strides, dilation, (count, *sizes[1:]))):
                columns[:, i] = part[(slice(None), *window)]
            patches = columns.reshape(groups, per_group * depth, count * rest)
            products = np.matmul(rows, patches)
            out[image, :, :, begin : begin + count] = products.reshape(groups, o // groups, count, rest)
    return out.reshape(n, o, *sizes)


def convolve_transposed(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """The adjoint of `convolve`: `(n, i, *spatial)` with `(i, o / groups, *kernel)` to `(n, o, *out)`."""
    n, i, *sizes = x.shape
    per_group, kernel = w.shape[1], w.shape[2:]
    depth = prod(kernel)
    columns = w.reshape(groups, i // groups, per_group * depth).transpose(0, 2, 1)
    spread = np.matmul(np.ascontiguousarray(columns), x.reshape(n, groups, i // groups, prod(sizes)))
    spread = spread.reshape(n, groups * per_group, depth, *sizes)
    full = [
        (size - 1) * s + d * (k - 1) + 1 + extra
        for size, s, d, k, extra in zip(sizes, strides, dilation, kernel, output_padding, strict=True)
    ]
    out = np.zeros((n, groups * per_group, *full), x.dtype)
    for position, window in enumerate(taps(kernel, strides, dilation, sizes)):
        out[(slice(None), slice(None), *window)] += spread[:, :, position]
    count = len(sizes)
    inner = (slice(b, size - a) for size, b, a in zip(full, padding[:count], padding[count:], strict=True))
    return out[(slice(None), slice(None), *inner)]
