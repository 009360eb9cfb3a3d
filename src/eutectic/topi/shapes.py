"""Shapes, axes and indices, as the operator definitions share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from eutectic.arith.proofs import prove_equal, simplify
from eutectic.ir.prim_expr import IntImm, PrimExpr, mul
from eutectic.te import Tensor, compute
from eutectic.te.tensor import sizes_of

Sizes = tuple[PrimExpr, ...]


def static(size: PrimExpr | int) -> int | None:
    """A size as a number, or None when it is symbolic."""
    return int(size) if isinstance(size, (int, IntImm)) else None


def is_one(size: PrimExpr) -> bool:
    """Whether a size is known to be one."""
    return static(size) == 1


def stage(shape: Any, value: Callable[..., Any], name: str, tag: str = "") -> Tensor:
    """A stage with axes `ax0`, `ax1`, ...; `value` takes the variables."""
    names = [f"ax{i}" for i in range(len(sizes_of(shape)))]
    tensor: Tensor = compute(shape, lambda *at: value(*at), name, tag, varargs_names=names)
    return tensor


def elementwise(x: Tensor, value: Callable[[PrimExpr], PrimExpr], name: str = "compute") -> Tensor:
    """A stage that computes each element from the same element of `x`, with axes `i0`, `i1`, ..."""
    tensor: Tensor = compute(x.shape, lambda *i: value(x(*i)), name, "elemwise")
    return tensor


def axis_of(axis: int, ndim: int) -> int:
    """`axis` counted from the front.

    Raises:
        ValueError: there is no such axis.
    """
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} does not exist in a tensor with {ndim} axes")
    return axis % ndim


def axes_of(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, in order; None means all.

    Raises:
        ValueError: an axis does not exist, or is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_of(int(a), ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is given twice: {axis}")
    return tuple(sorted(axes))


def broadcast_shape(*shapes: Sequence[PrimExpr]) -> Sizes:
    """The shape that all `shapes` broadcast to.

    Raises:
        ValueError: two sizes are neither equal nor one, as far as is known.
    """
    ndim = max(len(shape) for shape in shapes)
    out: list[PrimExpr] = []
    for axis in range(-ndim, 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
        first = next((size for size in sizes if not is_one(size)), sizes[0])
        for size in sizes:
            if not is_one(size) and not same_size(size, first):
                raise ValueError(f"sizes {first} and {size} of axis {axis} do not broadcast")
        out.append(first)
    return sizes_of(out)


def sizes_text(shape: Sequence[PrimExpr]) -> str:
    """A shape as messages show it."""
    return f"({', '.join(str(static(size)) if isinstance(size, IntImm) else str(size) for size in shape)})"


def same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return static(a) == static(b)
    return prove_equal(a, b)


def broadcast_index(x: Tensor, at: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> tuple[Any, ...]:
    """Index of the element of `x` that is broadcast to `at` of `shape`."""
    skip = len(shape) - len(x.shape)
    return tuple(
        IntImm(i.dtype, 0) if is_one(size) and not is_one(out) else i
        for size, i, out in zip(x.shape, at[skip:], shape[skip:], strict=True)
    )


def product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    """Product of sizes; of none one."""
    return reduce(mul, sizes) if sizes else IntImm("int32", 1)


def index_dtype(x: Tensor) -> str:
    """Dtype of the indices of `x`."""
    return x.shape[0].dtype if x.shape else "int32"


def ravel(at: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    """Place of an element in C order; axes of size one do not count."""
    place: PrimExpr | None = None
    for i, size in zip(at, shape, strict=True):
        if not is_one(size):
            place = i if place is None else place * size + i
    return IntImm(at[0].dtype if at else "int32", 0) if place is None else place


def unravel(place: PrimExpr, shape: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Index of the element at a place in C order."""
    out: list[PrimExpr] = []
    wide = [axis for axis, size in enumerate(shape) if not is_one(size)]
    for axis in range(len(shape)):
        if axis not in wide or any(static(size) == 0 for size in shape):
            out.append(IntImm(place.dtype, 0))
            continue
        step = simplify(product([*shape[axis + 1 :]])) if axis + 1 < len(shape) else 1
        index = place // (int(step) if isinstance(step, IntImm) else step)
        out.append(index if axis == wide[0] else index % shape[axis])
    return tuple(out)
