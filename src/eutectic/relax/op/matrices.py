"""Tensors of a pattern, and products of axes: eye, eye_like, hamming_window, outer, meshgrid, one_hot, size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.node import node
from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.expr import Call, PrimValue, Tuple, TupleGetItem, const, convert
from eutectic.relax.op.binary import add, equal, multiply, subtract
from eutectic.relax.op.composed import composed, shape_known
from eutectic.relax.op.create import InitAttrs, arange, full
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.lowering import literal
from eutectic.relax.op.manipulate import broadcast_to
from eutectic.relax.op.numerics import Array, cast, dtype_of
from eutectic.relax.op.reduce import prod
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.reshape import expand_dims, reshape
from eutectic.relax.op.shape_value import shape_to_tensor
from eutectic.relax.op.shapes import axis_of, dims_text, dtype_option, int_of, reject, tensor_info
from eutectic.relax.op.ternary import where
from eutectic.relax.op.unary import cos
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo

_EYE: Final = define_op("relax.eye", arity=3, fusion="injective")
_EYE_LIKE: Final = define_op("relax.eye_like", arity=2, fusion="injective")
_HAMMING: Final = define_op("relax.hamming_window", arity=4, fusion="injective")
_OUTER: Final = define_op("relax.outer", arity=2, fusion="broadcast")
_MESHGRID: Final = define_op("relax.meshgrid", arity=1, fusion="opaque")
_ONE_HOT: Final = define_op("relax.one_hot", arity=3, fusion="injective")
_SIZE: Final = define_op("relax.size", arity=1, fusion="opaque")
_WRAP_PARAM: Final = define_op("relax.wrap_param", arity=1, fusion="elementwise", traits=["pointwise"])


def eye(
    n: int | PrimExpr | Expr,
    m: int | PrimExpr | Expr | None = None,
    k: int | PrimExpr | Expr = 0,
    dtype: str = "float32",
    *,
    span: Any = None,
) -> Call:
    """Ones on a diagonal, zeros elsewhere.

    Args:
        n: Number of rows.
        m: Number of columns; None takes that of the rows.
        k: The diagonal: 0 the main one, positive above it.
        dtype: Dtype of the result.
        span: Python source of the call, for errors.

    Returns:
        `(n, m)`, `dtype`.

    Raises:
        TypeInferenceError: a number is no scalar.

    Reference: TVM relax.eye; numpy.eye.
    """
    columns = n if m is None else m
    return call(_EYE, convert(n), convert(columns), convert(k), attrs=InitAttrs(dtype_option(dtype)), span=span)


def _need_scalars(c: Call, first: int = 0) -> None:
    if not all(isinstance(arg.struct_info, PrimStructInfo) for arg in c.args[first:]):
        refuse(c, f"the sizes and the diagonal of {short_name(c)} must be scalars")


def _check_eye(c: Call) -> StructInfo | None:
    _need_scalars(c)
    return None if None not in map(literal, c.args) else tensor_info(None, attrs_of(c, InitAttrs).dtype, 2)


def _diagonal(sizes: Sequence[Any], k: Any, dtype: str) -> Expr:
    rows, columns = (expand_dims(arange(0, size, 1, "int64"), 1 - axis) for axis, size in enumerate(sizes))
    offset = const(k, "int64") if isinstance(k, int) else shape_to_tensor(ShapeExpr((k,)))
    return astype(equal(subtract(columns, rows), offset), dtype)


def _eye(c: Call) -> Expr:
    n, m, k = map(literal, c.args)
    return _diagonal((n, m), k, attrs_of(c, InitAttrs).dtype)


composed(_EYE, _eye, _check_eye)


@_EYE.reference
def _reference_eye(attrs: InitAttrs, n: int, m: int, k: int) -> Array:
    return np.eye(n, m, k, dtype=to_numpy(attrs.dtype))


def eye_like(x: Expr, k: int | PrimExpr | Expr = 0, dtype: str | None = None, *, span: Any = None) -> Call:
    """Ones on a diagonal, zeros elsewhere, in the shape of a matrix.

    Args:
        x: Two axes, any dtype; its elements are not read.
        k: The diagonal: 0 the main one, positive above it.
        dtype: Dtype of the result; None takes that of `x`.
        span: Python source of the call, for errors.

    Returns:
        Shape of `x`, `dtype`.

    Raises:
        TypeInferenceError: `x` has not two axes, or `k` is no scalar.

    Reference: TVM relax.eye_like.
    """
    return call(_EYE_LIKE, x, convert(k), attrs=InitAttrs(dtype_option(dtype)), span=span)


def _check_eye_like(c: Call) -> StructInfo | None:
    (info,) = tensor_args(c, (0,))
    if info.ndim not in (-1, 2):
        refuse(c, f"eye_like needs two axes, got {dims_text(info.dims)}")
    _need_scalars(c, 1)
    return None if shape_known(info) and literal(c.args[1]) is not None else tensor_info(None, _dtype_like(c), 2)


def _dtype_like(c: Call) -> str:
    (info,) = tensor_args(c, (0,))
    dtype = attrs_of(c, InitAttrs).dtype
    return info.dtype if dtype == "void" else dtype


def _eye_like(c: Call) -> Expr:
    (info,) = tensor_args(c, (0,))
    assert info.dims is not None
    return _diagonal(info.dims, literal(c.args[1]), _dtype_like(c))


composed(_EYE_LIKE, _eye_like, _check_eye_like)


@_EYE_LIKE.reference
def _reference_eye_like(attrs: InitAttrs, x: Array, k: int) -> Array:
    return cast(np.eye(x.shape[0], x.shape[1], k), dtype_of(x) if attrs.dtype == "void" else attrs.dtype)


def hamming_window(
    window_size: int | Expr,
    periodic: bool | Expr,
    alpha: float | Expr,
    beta: float | Expr,
    dtype: str,
    *,
    span: Any = None,
) -> Call:
    """Weights `alpha - beta * cos(2 * pi * i / n)` of a window.

    Args:
        window_size: How many; at least one.
        periodic: Whether `n` is the size of the window, as for spectra, or one less, which is symmetric.
        alpha: The constant part.
        beta: The height of the cosine.
        dtype: A float dtype.
        span: Python source of the call, for errors.

    Returns:
        `(window_size,)`, `dtype`.

    Raises:
        TypeInferenceError: no float dtype, or a window without elements.

    Reference: TVM relax.hamming_window; torch.hamming_window.
    """
    if not is_float(dtype):
        reject(f"hamming_window needs a float dtype, got {dtype}")
    options = map(convert, (window_size, periodic, alpha, beta))
    return call(_HAMMING, *options, attrs=InitAttrs(dtype_option(dtype)), span=span)


def _check_window(c: Call) -> StructInfo | None:
    size = literal(c.args[0])
    if isinstance(size, int) and size < 1:
        refuse(c, f"hamming_window of {size} elements")
    known = all(isinstance(value, (int, float)) for value in map(literal, c.args))
    return None if known else tensor_info(None, attrs_of(c, InitAttrs).dtype, 1)


def _window(c: Call) -> Expr:
    size, periodic, alpha, beta = map(literal, c.args)
    step = 2 * np.pi / max(1, size if periodic else size - 1)
    angles = multiply(arange(0, size, 1, "float64"), const(step if size > 1 else np.pi, "float64"))
    waves = multiply(cos(angles), const(-beta, "float64"))
    if size == 1:  # a window of one point is one
        return full((1,), const(1, attrs_of(c, InitAttrs).dtype))
    return astype(add(waves, const(alpha, "float64")), attrs_of(c, InitAttrs).dtype)


composed(_HAMMING, _window, _check_window)


@_HAMMING.reference
def _reference_window(attrs: InitAttrs, size: int, periodic: bool, alpha: float, beta: float) -> Array:
    if size == 1:
        return cast(np.ones(1), attrs.dtype)
    return cast(alpha - beta * np.cos(2 * np.pi * np.arange(size) / (size if periodic else size - 1)), attrs.dtype)


def outer(x1: Expr, x2: Expr, *, span: Any = None) -> Call:
    """All products of an element of one vector with one of another.

    Args:
        x1: `(n,)`, numbers.
        x2: `(m,)`, of the same dtype.
        span: Python source of the call, for errors.

    Returns:
        `(n, m)`, dtype of the vectors.

    Raises:
        TypeInferenceError: more or fewer axes, or two dtypes.

    Reference: TVM relax.outer; numpy.outer.
    """
    return call(_OUTER, x1, x2, span=span)


def _check_outer(c: Call) -> StructInfo | None:
    infos = tensor_args(c)
    for info in infos:
        if info.ndim not in (-1, 1):
            refuse(c, f"outer needs vectors, got {dims_text(info.dims)}", help="flatten them first")
    return None if all(info.ndim == 1 for info in infos) else tensor_info(None, infos[0].dtype, 2)


composed(_OUTER, lambda c: multiply(expand_dims(c.args[0], 1), expand_dims(c.args[1], 0)), _check_outer)


@_OUTER.reference
def _reference_outer(attrs: None, x1: Array, x2: Array) -> Array:
    return cast(np.multiply.outer(x1, x2), dtype_of(x1))


@node("relax.attrs.MeshgridAttrs")
class MeshgridAttrs(Attrs):
    """`ij`: the first vector runs along the first axis; `xy`: along the second."""

    indexing: str = "ij"


def meshgrid(tensors: Expr | Sequence[Expr], indexing: str | None = "ij", *, span: Any = None) -> Call:
    """Coordinates of the points of a grid.

    Args:
        tensors: Vectors of one dtype: the coordinates along each axis.
        indexing: `ij`, or `xy` for the first two axes in the other order.
        span: Python source of the call, for errors.

    Returns:
        A tuple of a tensor per vector, all of the shape of the grid.

    Raises:
        TypeInferenceError: no vectors, several dtypes, or another `indexing`.

    Reference: TVM relax.meshgrid; numpy.meshgrid.
    """
    if indexing not in ("ij", "xy", None):
        reject(f"meshgrid has no indexing {indexing!r}", help="choose ij or xy")
    operand = tensors if isinstance(tensors, Expr) else Tuple(tuple(tensors))
    return call(_MESHGRID, operand, attrs=MeshgridAttrs(indexing or "ij"), span=span)


def _vectors(c: Call) -> list[TensorStructInfo]:
    info = c.args[0].struct_info
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    infos = [field for field in fields if isinstance(field, TensorStructInfo) and field.ndim == 1]
    if not infos or len(infos) != len(fields):
        refuse(c, "meshgrid needs a tuple of vectors", help="flatten each of them")
    if len({info.dtype for info in infos}) > 1:
        refuse(c, f"meshgrid of several dtypes: {', '.join(info.dtype for info in infos)}")
    return infos


def _check_meshgrid(c: Call) -> StructInfo | None:
    infos = _vectors(c)
    if all(map(shape_known, infos)):
        return None
    return TupleStructInfo(tuple(tensor_info(None, info.dtype, len(infos)) for info in infos))


def _meshgrid(c: Call) -> Expr:
    infos, whole = _vectors(c), c.args[0]
    sizes = [info.dims[0] for info in infos if info.dims is not None]
    order = list(range(len(infos)))
    if attrs_of(c, MeshgridAttrs).indexing == "xy":
        order[:2] = reversed(order[:2])
    target = tuple(sizes[axis] for axis in order)
    grids = []
    for i, size in enumerate(sizes):
        field = whole.fields[i] if isinstance(whole, Tuple) else TupleGetItem(whole, i, struct_info=infos[i])
        spread = [size if axis == i else 1 for axis in order]
        grids.append(broadcast_to(reshape(field, spread), target))
    return Tuple(tuple(grids))


composed(_MESHGRID, _meshgrid, _check_meshgrid)


@_MESHGRID.reference
def _reference_meshgrid(attrs: MeshgridAttrs, vectors: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(np.array(grid) for grid in np.meshgrid(*vectors, indexing=attrs.indexing))  # type: ignore[call-overload]  # ij or xy


@node("relax.attrs.OneHotAttrs")
class OneHotAttrs(Attrs):
    """Size of the new axis, and where it is."""

    depth: int
    axis: int = -1


def one_hot(indices: Expr, on_value: Any, off_value: Any, depth: int, axis: int = -1, *, span: Any = None) -> Call:
    """A new axis along which one value is at the place of each index, and another elsewhere.

    Args:
        indices: Any shape, integers. Of an index outside `[0, depth)` no place is marked.
        on_value: A scalar.
        off_value: A scalar of the same dtype.
        depth: Size of the new axis.
        axis: Where the new axis is in the result.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `indices` and `depth`, dtype of the values.

    Raises:
        TypeInferenceError: indices that are not integers, values of two dtypes, or no such axis.

    Reference: TVM relax.one_hot.
    """
    attrs = OneHotAttrs(int_of(depth, "depth"), int_of(axis, "axis"))
    return call(_ONE_HOT, indices, _scalar(on_value), _scalar(off_value), attrs=attrs, span=span)


def _scalar(value: Any) -> Expr:
    """A number as a tensor without axes, which keeps its dtype; integers of Python as int64."""
    held = value.value if isinstance(value, PrimValue) else value
    if isinstance(held, (IntImm, FloatImm)):
        return const(held.value, held.dtype)
    if not isinstance(held, (bool, int, float)):
        return convert(held)
    return const(held, "int64" if type(held) is int else None)


def _check_one_hot(c: Call) -> StructInfo | None:
    info, on, off = tensor_args(c)
    if on.dtype != off.dtype or {on.ndim, off.ndim} != {0}:
        refuse(c, "one_hot needs two scalars of one dtype", help="pass two numbers of the same kind")
    if info.dtype and (is_float(info.dtype) or info.dtype == "bool"):
        refuse(c, f"one_hot needs integers, got {info.dtype}")
    if info.dims is None:
        return tensor_info(None, on.dtype, -1 if info.ndim < 0 else info.ndim + 1)
    axis_of(c, attrs_of(c, OneHotAttrs).axis, info.ndim + 1)
    return None


def _one_hot(c: Call) -> Expr:
    attrs, (info, _, _) = attrs_of(c, OneHotAttrs), tensor_args(c)
    axis = attrs.axis % (info.ndim + 1)
    places = reshape(arange(0, attrs.depth, 1, "int64"), [attrs.depth, *[1] * (info.ndim - axis)])
    hit = equal(astype(expand_dims(c.args[0], axis), "int64"), places)
    return where(hit, c.args[1], c.args[2])


composed(_ONE_HOT, _one_hot, _check_one_hot)


@_ONE_HOT.reference
def _reference_one_hot(attrs: OneHotAttrs, indices: Array, on: Array, off: Array) -> Array:
    axis = attrs.axis % (indices.ndim + 1)
    places = np.arange(attrs.depth).reshape(-1, *[1] * (indices.ndim - axis))
    return np.where(np.expand_dims(indices, axis) == places, on, off)


def size(expr: Expr, *, span: Any = None) -> Call:
    """The number of elements of a tensor.

    Args:
        expr: Any shape and dtype.
        span: Python source of the call, for errors.

    Returns:
        `()`, int64.

    Raises:
        TypeInferenceError: `expr` is not a tensor.

    Reference: TVM relax.size.
    """
    return call(_SIZE, expr, span=span)


def _check_size(c: Call) -> StructInfo | None:
    (info,) = tensor_args(c)
    return None if shape_known(info) else tensor_info((), "int64")


def _size(c: Call) -> Expr:
    (info,) = tensor_args(c)
    assert info.dims is not None
    if not info.dims:
        return full((), const(1, "int64"))
    return prod(shape_to_tensor(ShapeExpr(info.dims)))


composed(_SIZE, _size, _check_size)


@_SIZE.reference
def _reference_size(attrs: None, x: Array) -> Array:
    return np.array(x.size, np.int64)


def wrap_param(data: Expr, dtype: str = "float32", *, span: Any = None) -> Call:
    """A parameter of a model in another dtype.

    Args:
        data: Any shape and dtype.
        dtype: Dtype of the result.
        span: Python source of the call, for errors.

    Returns:
        Shape of `data`, `dtype`.

    Raises:
        TypeInferenceError: an unknown dtype.

    Reference: TVM relax.wrap_param.
    """
    return call(_WRAP_PARAM, data, attrs=InitAttrs(dtype_option(dtype)), span=span)


composed(_WRAP_PARAM, lambda c: astype(c.args[0], attrs_of(c, InitAttrs).dtype))


@_WRAP_PARAM.reference
def _reference_wrap_param(attrs: InitAttrs, data: Array) -> Array:
    return cast(data, attrs.dtype)


def masked_fill(x: Expr, mask: Expr, value: Any, *, span: Any = None) -> Call:
    """A number where a mask holds, a tensor elsewhere.

    Args:
        x: Any shape and dtype.
        mask: bool; broadcasts with `x`.
        value: A number, or a tensor without axes.
        span: Python source of the call, for errors.

    Returns:
        The broadcast shape, dtype of `x`; a call of `where`.

    Raises:
        TypeInferenceError: as for `where`.

    Reference: TVM relax.op.masked_fill.
    """
    info = x.struct_info
    dtype = info.dtype if isinstance(info, TensorStructInfo) else None
    number = value.value if isinstance(value, PrimValue) else value
    plain = getattr(number, "value", number)
    return where(mask, plain if isinstance(plain, Expr) else const(plain, dtype), x, span=span)
