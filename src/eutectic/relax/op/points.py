"""Elements at places that other tensors state: gather_nd, index_tensor, scatter_elements, scatter_nd, index_put, ...

What writes to such places does so update by update, in C order: `scatter_nd` as a tensor program, the others in NumPy,
by the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eutectic.ir.attrs import Attrs
from eutectic.ir.dtype import is_float
from eutectic.ir.node import node
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Tuple, convert
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.call_packed import call_tir
from eutectic.relax.op.lowering import own_sizes
from eutectic.relax.op.numerics import Array, check_indices
from eutectic.relax.op.registry import attrs_of, call, define_op, refuse, short_name, tensor_args
from eutectic.relax.op.shapes import axis_of, broadcast, differ, dims_text, int_of, like, reject, static, tensor_info
from eutectic.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.errors import CallError
from eutectic.topi.scatter import scatter_program

_GATHER_ND: Final = define_op("relax.gather_nd", arity=2)
_INDEX_TENSOR: Final = define_op("relax.index_tensor", arity=2)
_SCATTER_ELEMENTS: Final = define_op("relax.scatter_elements", arity=3)
_SCATTER_ND: Final = define_op("relax.scatter_nd", arity=3)
_INDEX_PUT: Final = define_op("relax.index_put", arity=3)
_SLICE_SCATTER: Final = define_op("relax.slice_scatter", arity=5)
_DYNAMIC_SLICE: Final = define_op("relax.dynamic_strided_slice", arity=4)

_REDUCTIONS: Final[dict[str, Any]] = {
    "update": None,
    "add": np.add,
    "mul": np.multiply,
    "mean": np.add,
    "min": np.minimum,
    "max": np.maximum,
}


@node("relax.attrs.GatherNDAttrs")
class GatherNDAttrs(Attrs):
    """How many first axes the data and the indices have in common."""

    batch_dims: int = 0


@node("relax.attrs.ScatterElementsAttrs")
class ScatterElementsAttrs(Attrs):
    """The axis, and what becomes of an element that is written to."""

    axis: int = 0
    reduction: str = "update"


@node("relax.attrs.ScatterNDAttrs")
class ScatterNDAttrs(Attrs):
    """What becomes of an element that is written to."""

    reduction: str = "update"


@node("relax.attrs.IndexPutAttrs")
class IndexPutAttrs(Attrs):
    """Whether values are added to what is there."""

    accumulate: bool = False


@node("relax.attrs.SliceScatterAttrs")
class SliceScatterAttrs(Attrs):
    """The axis of the slice."""

    axis: int = 0


def _integers(c: Call, info: TensorStructInfo) -> None:
    if is_float(info.dtype) or info.dtype == "bool":
        refuse(c, f"the indices of {short_name(c)} must be integers, got {info.dtype}")


def _reduction(name: str, allowed: Sequence[str]) -> str:
    if name not in allowed:
        reject(f"no reduction {name!r}", help=f"choose one of {', '.join(allowed)}")
    return name


# ---- reading


def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0, *, span: Any = None) -> Call:
    """The elements, or slices, at some places.

    Args:
        data: Any shape and dtype.
        indices: `(*batch, ..., depth)`, integers: the last axis holds the places along the first axes of `data` that
            are not shared. Negative ones count from the end.
        batch_dims: How many first axes both have in common.
        span: Python source of the call, for errors.

    Returns:
        The sizes of `indices` but the last, and those of `data` that are not indexed; dtype of `data`.

    Raises:
        TypeInferenceError: indices that are not integers, or that reach beyond the axes of `data`.
        CallError: at run time, an index is out of range.

    Reference: TVM relax.gather_nd; ONNX GatherND.
    """
    return call(_GATHER_ND, data, indices, attrs=GatherNDAttrs(int_of(batch_dims, "batch_dims")), span=span)


@_GATHER_ND.infer
def _infer_gather_nd(c: Call) -> TensorStructInfo:
    info, indices = tensor_args(c)
    _integers(c, indices)
    shared = attrs_of(c, GatherNDAttrs).batch_dims
    depth = static(indices.dims[-1]) if indices.dims else None
    if info.dims is None or indices.dims is None or depth is None:
        return tensor_info(None, info.dtype)
    if shared + depth > info.ndim or shared >= indices.ndim:
        refuse(c, f"gather_nd of {depth} indices after {shared} shared axes from {dims_text(info.dims)}")
    return tensor_info((*indices.dims[:-1], *info.dims[shared + depth :]), info.dtype)


@_GATHER_ND.reference
def _reference_gather_nd(attrs: GatherNDAttrs, x: Array, indices: Array) -> Array:
    shared = attrs.batch_dims
    grid = np.ix_(*map(range, x.shape[:shared])) if shared else ()
    spread = tuple(axis.reshape(*axis.shape, *[1] * (indices.ndim - 1 - shared)) for axis in grid)
    return np.asarray(x[(*spread, *_places(indices, x.shape[shared:], "gather_nd"))])


def _places(indices: Array, shape: Sequence[int], what: str) -> tuple[Array, ...]:
    """The last axis of some indices as an index for each axis, counted from zero."""
    columns = np.moveaxis(indices, -1, 0)
    for column, size in zip(columns, shape, strict=False):
        check_indices(column, size, what, least=-size)
    return tuple(columns)


def index_tensor(data: Expr, indices: Expr | Sequence[Expr], *, span: Any = None) -> Call:
    """The elements, or slices, at places that a tensor for each of the first axes states.

    Args:
        data: Any shape and dtype.
        indices: Integer tensors that broadcast, for the first axes of `data`; negative ones count from the end.
        span: Python source of the call, for errors.

    Returns:
        The broadcast shape of `indices`, then the other sizes of `data`; dtype of `data`.

    Raises:
        TypeInferenceError: more indices than axes, or indices that are not integers or do not broadcast.
        CallError: at run time, an index is out of range.

    Reference: TVM relax.index_tensor; numpy's indexing by arrays.
    """
    return call(_INDEX_TENSOR, data, _as_tuple(indices), span=span)


def _as_tuple(indices: Expr | Sequence[Expr]) -> Expr:
    if not isinstance(indices, Expr):
        return Tuple(tuple(indices))
    return indices if not isinstance(indices.struct_info, TensorStructInfo) else Tuple((indices,))


def _index_infos(c: Call, place: int) -> list[TensorStructInfo]:
    whole = c.args[place].struct_info
    fields = whole.fields if isinstance(whole, TupleStructInfo) else ()
    infos = [field for field in fields if isinstance(field, TensorStructInfo)]
    if not infos or len(infos) != len(fields):
        refuse(c, f"the indices of {short_name(c)} must be a tuple of tensors")
    for info in infos:
        _integers(c, info)
    return infos


@_INDEX_TENSOR.infer
def _infer_index_tensor(c: Call) -> TensorStructInfo:
    (info,), indices = tensor_args(c, (0,)), _index_infos(c, 1)
    if 0 <= info.ndim < len(indices):
        refuse(c, f"index_tensor with {len(indices)} indices of {dims_text(info.dims)}")
    dims, ndim = broadcast(c, indices)
    if dims is None or info.dims is None:
        return tensor_info(None, info.dtype, -1 if min(ndim, info.ndim) < 0 else ndim + info.ndim - len(indices))
    return tensor_info((*dims, *info.dims[len(indices) :]), info.dtype)


@_INDEX_TENSOR.reference
def _reference_index_tensor(attrs: None, x: Array, indices: tuple[Array, ...]) -> Array:
    for column, size in zip(indices, x.shape, strict=False):
        check_indices(column, size, "index_tensor", least=-size)
    return np.asarray(x[indices])


def dynamic_strided_slice(x: Expr, begin: Expr, end: Expr, strides: Expr, *, span: Any = None) -> Call:
    """A part of each axis, between places that tensors hold.

    Args:
        x: At least one axis; any dtype.
        begin: `(ndim,)`, int64: the first place along each axis.
        end: `(ndim,)`, int64: the first place that is left out.
        strides: `(ndim,)`, int64: the differences of neighbours.
        span: Python source of the call, for errors.

    Returns:
        As many axes as `x`, of sizes that the run decides; dtype of `x`.

    Raises:
        TypeInferenceError: tensors that are not one int64 for each axis.

    Reference: TVM relax.dynamic_strided_slice.
    """
    return call(_DYNAMIC_SLICE, x, begin, end, strides, span=span)


@_DYNAMIC_SLICE.infer
def _infer_dynamic_slice(c: Call) -> TensorStructInfo:
    info, *bounds = tensor_args(c)
    for bound in bounds:
        count = static(bound.dims[0]) if bound.dims else None
        if bound.dtype not in ("", "int64") or bound.ndim not in (-1, 1) or count not in (None, info.ndim):
            refuse(c, f"dynamic_strided_slice needs {info.ndim} places of int64, got {dims_text(bound.dims)}")
    return tensor_info(None, info.dtype, info.ndim)


@_DYNAMIC_SLICE.reference
def _reference_dynamic_slice(attrs: None, x: Array, begin: Array, end: Array, strides: Array) -> Array:
    bounds = zip(begin, end, strides, strict=True)
    return np.array(x[tuple(slice(int(a), int(b), int(step)) for a, b, step in bounds)])


# ---- writing


def scatter_elements(
    data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update", *, span: Any = None
) -> Call:
    """A tensor with elements written to places along an axis.

    Args:
        data: Any shape and dtype.
        indices: As many axes as `data`; integers, negative ones count from the end.
        updates: Shape of `indices`, dtype of `data`.
        axis: The axis.
        reduction: `update` replaces; `add`, `mul`, `mean`, `min` and `max` combine with what is there.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: other shapes or dtypes, or no such axis or reduction.
        CallError: at run time, an index is out of range.

    Reference: TVM relax.scatter_elements; ONNX ScatterElements.
    """
    attrs = ScatterElementsAttrs(int_of(axis, "axis"), _reduction(reduction, list(_REDUCTIONS)))
    return call(_SCATTER_ELEMENTS, data, indices, updates, attrs=attrs, span=span)


@_SCATTER_ELEMENTS.infer
def _infer_scatter_elements(c: Call) -> TensorStructInfo:
    info, indices, updates = tensor_args(c)
    _integers(c, indices)
    _same_dtype(c, info, updates)
    if info.ndim >= 0:
        axis_of(c, attrs_of(c, ScatterElementsAttrs).axis, info.ndim)
    shapes = f"{dims_text(updates.dims)} at {dims_text(indices.dims)} to {dims_text(info.dims)}"
    if info.ndim >= 0 and any(other.ndim not in (-1, info.ndim) for other in (indices, updates)):
        refuse(c, f"scatter_elements of {shapes}", help="all three have as many axes")
    pairs = zip(indices.dims or (), updates.dims or (), strict=False)
    if any(differ(a, b) for a, b in pairs):
        refuse(c, f"scatter_elements of {shapes}", help="there is an update for each index")
    return like(info)


def _same_dtype(c: Call, info: TensorStructInfo, updates: TensorStructInfo) -> None:
    if info.dtype and updates.dtype and info.dtype != updates.dtype:
        refuse(c, f"{short_name(c)} of {updates.dtype} into {info.dtype}", help="cast one side with astype")


@_SCATTER_ELEMENTS.reference
def _reference_scatter_elements(attrs: ScatterElementsAttrs, x: Array, indices: Array, updates: Array) -> Array:
    axis = attrs.axis % x.ndim
    check_indices(indices, x.shape[axis], "scatter_elements", least=-x.shape[axis])
    places: list[Array] = list(np.indices(indices.shape))
    places[axis] = np.mod(indices, x.shape[axis])
    return _written(x, tuple(places), updates, attrs.reduction)


def _written(x: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """A copy with updates combined in C order; a mean counts what was there."""
    out = x.copy()
    if reduction == "update":
        for place in np.ndindex(places[0].shape):  # NumPy does not say which of two equal places wins
            out[tuple(column[place] for column in places)] = updates[place]
        return out
    _REDUCTIONS[reduction].at(out, places, updates)
    if reduction == "mean":
        count = np.ones(x.shape, np.int64)
        np.add.at(count, places, 1)
        divided = out / count if is_float(x.dtype.name) else out // count
        return divided.astype(x.dtype)
    return out


def scatter_nd(data: Expr, indices: Expr, updates: Expr, reduction: str = "update", *, span: Any = None) -> Call:
    """A tensor with elements, or slices, written to some places.

    Args:
        data: Any shape and dtype.
        indices: `(..., depth)`, integers: the last axis holds the places along the first axes of `data`.
        updates: The sizes of `indices` but the last, then those of `data` that are not indexed; dtype of `data`.
        reduction: `update` replaces; `add`, `mul`, `min` and `max` combine with what is there.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: other shapes or dtypes, or no such reduction.
        CallError: at run time, an index is out of range.

    Reference: TVM relax.scatter_nd; ONNX ScatterND.
    """
    allowed = [name for name in _REDUCTIONS if name != "mean"]
    attrs = ScatterNDAttrs(_reduction(reduction, allowed))
    return call(_SCATTER_ND, data, indices, updates, attrs=attrs, span=span)


@_SCATTER_ND.infer
def _infer_scatter_nd(c: Call) -> TensorStructInfo:
    info, indices, updates = tensor_args(c)
    _integers(c, indices)
    _same_dtype(c, info, updates)
    depth = static(indices.dims[-1]) if indices.dims else None
    if info.dims is None or indices.dims is None or updates.dims is None or depth is None:
        return like(info)
    wanted = (*indices.dims[:-1], *info.dims[depth:])
    if depth > info.ndim or len(wanted) != updates.ndim or any(map(differ, wanted, updates.dims)):
        refuse(c, f"scatter_nd at {dims_text(indices.dims)} needs {dims_text(wanted)}, got {dims_text(updates.dims)}")
    return like(info)


@_SCATTER_ND.legalize
def _legalize_scatter_nd(builder: Builder, c: Call) -> Expr:
    info, indices, _ = tensor_args(c)
    if info.dims is None or indices.dims is None or static(indices.dims[-1]) is None or info.dtype == "bool":
        return c
    shape, places = own_sizes(info.dims, "n"), own_sizes(indices.dims, "m")
    reduction = attrs_of(c, ScatterNDAttrs).reduction
    program = scatter_program(shape, places, info.dtype, indices.dtype, reduction)
    assert c.struct_info is not None
    return call_tir(builder.add_func(program, "scatter_nd"), c.args, c.struct_info)


@_SCATTER_ND.reference
def _reference_scatter_nd(attrs: ScatterNDAttrs, x: Array, indices: Array, updates: Array) -> Array:
    return _written(x, _places(indices, x.shape, "scatter_nd"), updates, attrs.reduction)


def index_put(
    data: Expr, indices: Expr | Sequence[Expr], values: Expr, accumulate: bool = False, *, span: Any = None
) -> Call:
    """A tensor with elements, or slices, written to places that a tensor for each of the first axes states.

    Args:
        data: Any shape and dtype.
        indices: Integer tensors that broadcast, for the first axes of `data`; negative ones count from the end.
        values: Broadcasts to the shape of what is written to; dtype of `data`.
        accumulate: Whether values are added to what is there.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `data`.

    Raises:
        TypeInferenceError: more indices than axes, or other dtypes.
        CallError: at run time, an index is out of range.

    Reference: TVM relax.index_put; torch.Tensor.index_put.
    """
    return call(_INDEX_PUT, data, _as_tuple(indices), values, attrs=IndexPutAttrs(bool(accumulate)), span=span)


@_INDEX_PUT.infer
def _infer_index_put(c: Call) -> TensorStructInfo:
    info, values = tensor_args(c, (0, 2))
    indices = _index_infos(c, 1)
    _same_dtype(c, info, values)
    if 0 <= info.ndim < len(indices):
        refuse(c, f"index_put with {len(indices)} indices to {dims_text(info.dims)}")
    broadcast(c, indices)
    return like(info)


@_INDEX_PUT.reference
def _reference_index_put(attrs: IndexPutAttrs, x: Array, indices: tuple[Array, ...], values: Array) -> Array:
    for column, size in zip(indices, x.shape, strict=False):
        check_indices(column, size, "index_put", least=-size)
    places = tuple(np.broadcast_arrays(*indices))
    shape = places[0].shape + x.shape[len(places) :]
    return _written(x, places, np.broadcast_to(values, shape), "add" if attrs.accumulate else "update")


def slice_scatter(
    input_tensor: Expr, src: Expr, start: Any, end: Any, step: Any = 1, axis: int = 0, *, span: Any = None
) -> Call:
    """A tensor with every `step`-th slice along an axis replaced.

    Args:
        input_tensor: At least one axis; any dtype.
        src: The slices: the sizes of `input_tensor` with as many along the axis as are replaced; of its dtype.
        start: The first place, a scalar.
        end: The first place that is left out, a scalar.
        step: The difference of neighbours, a positive scalar.
        axis: The axis.
        span: Python source of the call, for errors.

    Returns:
        Shape and dtype of `input_tensor`.

    Raises:
        TypeInferenceError: another shape or dtype of `src`, or no such axis.
        CallError: at run time, another number of slices.

    Reference: TVM relax.slice_scatter; torch.slice_scatter.
    """
    bounds = map(convert, (start, end, step))
    return call(_SLICE_SCATTER, input_tensor, src, *bounds, attrs=SliceScatterAttrs(int_of(axis, "axis")), span=span)


@_SLICE_SCATTER.infer
def _infer_slice_scatter(c: Call) -> TensorStructInfo:
    info, src = tensor_args(c, (0, 1))
    _same_dtype(c, info, src)
    if not all(isinstance(arg.struct_info, PrimStructInfo) for arg in c.args[2:]):
        refuse(c, "start, end and step of slice_scatter must be scalars")
    if info.dims is None or src.dims is None:
        return like(info)
    axis = axis_of(c, attrs_of(c, SliceScatterAttrs).axis, info.ndim)
    pairs = enumerate(zip(info.dims, src.dims, strict=False))
    if src.ndim != info.ndim or any(differ(a, b) for i, (a, b) in pairs if i != axis):
        refuse(c, f"slice_scatter of {dims_text(src.dims)} into {dims_text(info.dims)} along axis {axis}")
    return like(info)


@_SLICE_SCATTER.reference
def _reference_slice_scatter(attrs: SliceScatterAttrs, x: Array, src: Array, start: int, end: int, step: int) -> Array:
    out = x.copy()
    part = tuple(slice(start, end, step) if i == attrs.axis % x.ndim else slice(None) for i in range(x.ndim))
    if out[part].shape != src.shape:
        raise CallError(f"slice_scatter of {src.shape} into slices of {out[part].shape}")
    out[part] = src
    return out
