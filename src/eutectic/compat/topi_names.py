"""`tvm.topi`: what it has beside the operators of `eutectic.topi`, and its spelling of arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from eutectic import topi as _topi
from eutectic.ir.dtype import is_integer
from eutectic.ir.prim_expr import IntImm, PrimExpr, Select, as_prim
from eutectic.te import Tensor, compute, reduce_axis
from eutectic.te import sum as _te_sum
from eutectic.tir import op as _op
from eutectic.tir.data_layout import layout as _layout
from eutectic.topi.shapes import axis_of as _axis_of
from eutectic.topi.shapes import broadcast_shape as _broadcast_shape
from eutectic.topi.shapes import elementwise as _elementwise
from eutectic.topi.shapes import product as _product
from eutectic.topi.shapes import stage as _stage
from eutectic.topi.shapes import static as _static
from eutectic.topi.shapes import unravel as _unravel

_INDEX = "int32"


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Matrix product of the last two axes, which may be stored transposed."""
    return _topi.matmul(a, b, transp_a, transp_b)


def logical_not(data: Tensor) -> Tensor:
    """Whether an element is zero."""
    return _topi.logical_not(data)


def bitwise_not(data: Tensor) -> Tensor:
    """Each bit the other way."""
    return _topi.bitwise_not(data)


def all(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes hold."""
    return _topi.min(_topi.cast(data, "bool"), axis, keepdims)


def any(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element along axes holds."""
    return _topi.max(_topi.cast(data, "bool"), axis, keepdims)


def argmax(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Place of the largest element, int32; of equal ones the first, or the last."""
    return _place(_topi.argmax, data, axis, keepdims, select_last_index)


def argmin(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Place of the smallest element, int32; of equal ones the first, or the last."""
    return _place(_topi.argmin, data, axis, keepdims, select_last_index)


def _place(search: Any, data: Tensor, axis: Any, keepdims: bool, last: bool) -> Tensor:
    if not last:
        return search(data, axis, keepdims, out_dtype=_INDEX)  # type: ignore[no-any-return]  # a tensor
    source = data if axis is not None else _topi.reshape(data, (_product(data.shape),))
    along = 0 if axis is None else _axis_of(axis, len(data.shape))
    size = source.shape[along]
    place = search(_topi.flip(source, along), along, keepdims and axis is not None, out_dtype=_INDEX)
    mirrored = _elementwise(place, lambda at: (size - 1).astype(_INDEX) - at)
    if axis is None and keepdims:
        return _topi.reshape(mirrored, (1,) * len(data.shape))
    return mirrored


def atan2(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The angle of the point `(rhs, lhs)`, element by element."""
    shape = _broadcast_shape(lhs.shape, rhs.shape)
    left, right = _topi.broadcast_to(lhs, shape), _topi.broadcast_to(rhs, shape)
    return _stage(shape, lambda *at: _op.atan2(left(*at), right(*at)), "T_atan2", "broadcast")


def div(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`a / b` of scalars, as `tir.div`."""
    return _op.div(a, b)


def floordiv(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`a // b` of scalars, as `tir.floordiv`."""
    return _op.floordiv(a, b)


def floormod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """`a % b` of scalars, as `tir.floormod`."""
    return _op.floormod(a, b)


def fast_exp(x: Tensor) -> Tensor:
    """`exp`; there is one here, which is exact to the last bits."""
    return _topi.exp(x)


def fast_tanh(x: Tensor) -> Tensor:
    """`tanh`; there is one here."""
    return _topi.tanh(x)


def fast_erf(x: Tensor) -> Tensor:
    """`erf`; there is one here."""
    return _topi.erf(x)


def ceil_log2(x: Any) -> Any:
    """The logarithm to base two, rounded up; of a number, an expression or a tensor."""
    if isinstance(x, int):
        return (x - 1).bit_length()
    if isinstance(x, Tensor):
        return _elementwise(x, _ceil_log2)
    return _ceil_log2(x)


def _ceil_log2(x: PrimExpr) -> PrimExpr:
    if not is_integer(x.dtype):
        return _op.ceil(_op.log2(x))
    bits = int(x.dtype.lstrip("uint"))
    return as_prim(bits, "int32") - _op.clz(x - 1)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return reduce(_topi.add, xs)


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """`a` repeated along new axes, up to the shape of another tensor."""
    places = sorted(_axis_of(x, len(shape_like.shape)) for x in axis)
    return _topi.broadcast_to(_topi.expand_dims(a, places) if places else a, shape_like.shape)


def collapse_sum(data: Tensor, target_shape: Any) -> Tensor:
    """The sum over what broadcasting of `target_shape` would repeat."""
    target = [as_prim(size, _INDEX) for size in target_shape]
    extra = len(data.shape) - len(target)
    ones = [extra + k for k, size in enumerate(target) if _static(size) == 1 and _static(data.shape[extra + k]) != 1]
    axes = [*range(extra), *ones]
    return _topi.reshape(_topi.sum(data, axes), target) if axes else data


def eye(n: int, m: int | None = None, k: int = 0, dtype: str = "float32") -> Tensor:
    """Ones on a diagonal, `k` above the main one, and zeros."""
    one, zero = as_prim(1, dtype), as_prim(0, dtype)
    return _stage((n, n if m is None else m), lambda i, j: Select((j - i).equal(k), one, zero), "T_eye", "injective")


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of one value, with the shape and dtype of another."""
    return _topi.full(x.shape, x.dtype, fill_value)


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of a tensor at tuples of indices.

    Args:
        a: Any shape.
        indices: `(k, *batch, ...)`: the first axis has the indices of `k` axes of `a`.
        batch_dims: How many axes both have in front, after the first of `indices`.
    """
    count = _static(indices.shape[0])
    if count is None:
        raise ValueError("gather_nd needs a constant number of indices in the first axis")
    outer = indices.shape[1:]

    def element(*at: PrimExpr) -> PrimExpr:
        places = [indices(IntImm(_INDEX, k), *at[: len(outer)]) for k in range(count)]
        return a(*at[:batch_dims], *places, *at[len(outer) :])

    return _stage([*outer, *a.shape[batch_dims + count :]], element, "T_gather_nd", "injective")


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """NumPy's indexing with arrays of integers, which broadcast, along the first axes."""
    shape = _broadcast_shape(*(index.shape for index in indices))
    wide = [_topi.broadcast_to(index, shape) for index in indices]
    rank = len(shape)

    def element(*at: PrimExpr) -> PrimExpr:
        return data(*(index(*at[:rank]) for index in wide), *at[rank:])

    return _stage([*shape, *data.shape[len(indices) :]], element, "T_adv_index", "injective")


index_tensor = adv_index


def one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> Tensor:
    """A new axis, in which one element has another value than the rest."""
    along = axis % (len(indices.shape) + 1)
    on, off = as_prim(on_value, dtype), as_prim(off_value, dtype)

    def element(*at: PrimExpr) -> PrimExpr:
        index = indices(*at[:along], *at[along + 1 :])
        return Select(at[along].astype(index.dtype).equal(index), on, off)

    return _stage([*indices.shape[:along], depth, *indices.shape[along:]], element, "T_one_hot", "injective")


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Coordinates of a grid; `ij` counts the first tensor along the first axis, `xy` along the second."""
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid knows the indexing 'ij' and 'xy', got {indexing!r}")
    order = [*range(len(a_tuple))]
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = [a_tuple[k].shape[0] for k in order]
    places = {tensor: order.index(k) for k, tensor in enumerate(a_tuple)}
    return [_stage(shape, lambda *at, t=t: t(at[places[t]]), "T_meshgrid", "injective") for t in a_tuple]


def layout_transform(array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None") -> Tensor:
    """The same elements under another layout, such as `NCHW16c`; full blocks only. `schedule_rule` is accepted."""
    source, target = _layout(src_layout), _layout(dst_layout)
    if sorted(source.names) != sorted(target.names):
        raise ValueError(f"{src_layout} and {dst_layout} have different axes")
    sizes = dict(zip(source.names, source.whole(array.shape), strict=True))
    whole = [sizes[name] for name in target.names]
    inward, outward = source.index_map(), target.index_map().inverse([_size(size) for size in whole])

    def element(*at: PrimExpr) -> PrimExpr:
        places = dict(zip(target.names, outward.map_indices(at), strict=True))
        return array(*inward.map_indices([places[name] for name in source.names]))

    return _stage(target.in_memory(whole), element, "T_layout_trans", "injective")


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element read as another dtype of the same width."""
    return _elementwise(x, lambda e: _op.reinterpret(dtype, e))


def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """The first elements of each sequence the other way round; `seq_lengths` says how many."""
    along, batch = _axis_of(seq_axis, len(a.shape)), _axis_of(batch_axis, len(a.shape))

    def element(*at: PrimExpr) -> PrimExpr:
        place = at[along]
        count = seq_lengths(at[batch]).astype(place.dtype)
        mirrored = _op.if_then_else(place < count, count - 1 - place, place)
        return a(*at[:along], mirrored, *at[along + 1 :])

    return _stage(a.shape, element, "T_reverse_sequence", "injective")


def sequence_mask(data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0) -> Tensor:
    """Another value from the length of each sequence on; the sequences are the other of the first two axes."""
    if axis not in (0, 1):
        raise ValueError(f"sequence_mask has the sequences along axis 0 or 1, got {axis}")

    def element(*at: PrimExpr) -> PrimExpr:
        length = valid_length(at[1 - axis])
        return _op.if_then_else(at[axis].astype(length.dtype) < length, data(*at), as_prim(mask_value, data.dtype))

    return _stage(data.shape, element, "T_sequence_mask", "injective")


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The sizes of a tensor, as a tensor."""
    return _topi.listed(list(array.shape), dtype)


def tensor_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements of a tensor, as a tensor."""
    return _stage((1,), lambda _: _product(array.shape).astype(dtype), "T_tensor_size", "injective")


def sliding_window(data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Windows of a tensor along its axes from `axis` on: first which, then where in it."""
    rank, first = len(window_shape), _axis_of(axis, len(data.shape))
    steps = list(zip(data.shape[first:], window_shape, strides, strict=True))
    counts = [(size - window) // step + 1 for size, window, step in steps]

    def element(*at: PrimExpr) -> PrimExpr:
        which, inside = at[first : first + rank], at[first + rank :]
        places = [i * step + j for i, j, step in zip(which, inside, strides, strict=True)]
        return data(*at[:first], *places)

    return _stage([*data.shape[:first], *counts, *window_shape], element, "T_sliding_window", "injective")


def strided_set(
    a: Tensor, v: Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None
) -> Tensor:
    """`a` with `v` in the place of a slice; numbers as those of `strided_slice`, for the first axes."""
    steps = [1] * len(begin) if strides is None else list(strides)
    cuts = [
        range(*slice(b, e, s).indices(_size(size)))
        for b, e, s, size in zip(begin, end, steps, a.shape[: len(begin)], strict=True)
    ]

    def element(*at: PrimExpr) -> PrimExpr:
        inside: list[PrimExpr] = []
        places: list[PrimExpr] = []
        for i, cut in zip(at, cuts, strict=False):
            low, high = (cut.start, cut[-1]) if cut.step > 0 else (cut[-1], cut.start)
            inside += [i >= low, i <= high, ((i - low) % _magnitude(cut.step)).equal(0)]
            step = _magnitude(cut.step)
            places.append((i - low) // step if cut.step > 0 else (high - i) // step)
        return _op.if_then_else(_op.all(*inside), v(*places, *at[len(cuts) :]), a(*at))

    return a if 0 in map(len, cuts) else _stage(a.shape, element, "T_strided_set", "injective")


def slice_scatter(input_tensor: Tensor, src: Tensor, start: int, end: int, step: int, axis: int) -> Tensor:
    """`input_tensor` with `src` in the place of a slice along one axis."""
    along = _axis_of(axis, len(input_tensor.shape))
    sizes = [_size(size) for size in input_tensor.shape[:along]]
    return strided_set(input_tensor, src, [0] * along + [start], [*sizes, end], [1] * along + [step])


def _size(size: PrimExpr) -> int:
    known = _static(size)
    if known is None:
        raise ValueError(f"a slice needs sizes that are constant, got {size}")
    return known


def searchsorted(sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: str = "int64") -> Tensor:
    """Where values would be inserted into sequences that are sorted along the last axis: how many come before."""
    rank, count = len(sorted_sequence.shape) - 1, sorted_sequence.shape[-1]
    k = reduce_axis((0, count), "k")

    def element(*at: PrimExpr) -> PrimExpr:
        known, value = sorted_sequence(*at[:rank], k), values(*at)
        return _te_sum((known <= value if right else known < value).astype(out_dtype), k)  # type: ignore[no-any-return]  # a reduction

    names = [f"ax{i}" for i in range(len(values.shape))]
    tensor: Tensor = compute(values.shape, lambda *at: element(*at), "T_searchsorted", varargs_names=names)
    return tensor


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[Any] = 2) -> Tensor:
    """Products summed over pairs of axes: the last ones of `a` with the first of `b`, or those that are given."""
    if isinstance(axes, int):
        left, right = [*range(len(a.shape) - axes, len(a.shape))], [*range(axes)]
    else:
        left, right = ([x] if isinstance(x, int) else list(x) for x in axes)
    over = [reduce_axis((0, a.shape[axis]), f"k{i}") for i, axis in enumerate(left)]
    rest_a = [x for x in range(len(a.shape)) if x not in left]
    rest_b = [x for x in range(len(b.shape)) if x not in right]

    def at_axes(at: Sequence[PrimExpr], rest: list[int], summed: list[int]) -> list[Any]:
        return [over[summed.index(x)] if x in summed else at[rest.index(x)] for x in range(len(rest) + len(summed))]

    def element(*at: PrimExpr) -> Any:
        first, second = at[: len(rest_a)], at[len(rest_a) :]
        return _te_sum(a(*at_axes(first, rest_a, left)) * b(*at_axes(second, rest_b, right)), over)

    sizes = [*(a.shape[x] for x in rest_a), *(b.shape[x] for x in rest_b)]
    names = [f"i{i}" for i in range(len(sizes))]
    tensor: Tensor = compute(sizes, lambda *at: element(*at), "T_tensordot", varargs_names=names)
    return tensor


def unravel_index(indices: Tensor, shape: Sequence[Any]) -> Tensor:
    """Indices in C order as one index for each axis of a shape: `(len(shape), *indices.shape)`."""
    sizes = [as_prim(size, indices.dtype) for size in shape]

    def element(axis: PrimExpr, *at: PrimExpr) -> PrimExpr:
        places = _unravel(indices(*at), sizes)
        return reduce(lambda rest, k: Select(axis.equal(k), places[k], rest), range(len(places) - 1), places[-1])

    return _stage([len(sizes), *indices.shape], element, "T_unravel_index", "injective")


def matrix_set_diag(data: Tensor, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with another diagonal, `k` above the main one; one diagonal, for which `align` does not matter."""
    offset = int(k[0]) if isinstance(k, list | tuple) and len({int(x) for x in k}) == 1 else k
    if not isinstance(offset, int):
        raise ValueError(f"matrix_set_diag sets one diagonal here, got k={k!r}")

    def element(*at: PrimExpr) -> PrimExpr:
        row, column = at[-2:]
        place = row if offset >= 0 else column
        return _op.if_then_else((column - row).equal(offset), diagonal(*at[:-2], place), data(*at))

    return _stage(data.shape, element, "T_matrix_set_diag", "injective")


def hamming_window(window_size: int, periodic: bool, alpha: float, beta: float, dtype: str) -> Tensor:
    """`alpha - beta * cos(2 * pi * i / count)`, where `count` is the size, or one less if not periodic."""
    if window_size == 1:
        return _topi.full((1,), dtype, 1.0)
    count = window_size if periodic else window_size - 1
    angle = 2 * math.pi / count
    return _stage(
        (window_size,),
        lambda i: (alpha - beta * _op.cos(i.astype("float64") * angle)).astype(dtype),
        "T_hamming_window",
        "injective",
    )


def dft(re_data: Tensor, im_data: Tensor, inverse: Any = False) -> list[Tensor]:
    """The discrete Fourier transform along the last axis; the inverse one is divided by its size."""
    count = re_data.shape[-1]
    k = reduce_axis((0, count), "k")
    sign = 1.0 if int(inverse) else -1.0

    def part(real: bool) -> Tensor:
        def element(*at: PrimExpr) -> Any:
            angle = (at[-1] * k % count).astype("float64") * (sign * 2 * math.pi) / count.astype("float64")
            re, im = (x(*at[:-1], k).astype("float64") for x in (re_data, im_data))
            cos, sin = _op.cos(angle), _op.sin(angle)
            return _te_sum(re * cos - im * sin if real else re * sin + im * cos, k)

        total: Tensor = compute(re_data.shape, lambda *at: element(*at), "T_dft")
        scale = count.astype("float64") if int(inverse) else as_prim(1.0, "float64")
        return _elementwise(total, lambda e: (e / scale).astype(re_data.dtype))

    return [part(True), part(False)]


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """A tensor of constants, for arrays of few elements: each becomes a choice."""
    array = np.asarray(vector)
    values = [as_prim(item.item(), str(array.dtype)) for item in array.flat]

    def element(*at: PrimExpr) -> PrimExpr:
        place = reduce(
            lambda before, pair: before * pair[1] + pair[0], zip(at, array.shape, strict=True), IntImm(_INDEX, 0)
        )
        return reduce(lambda rest, k: Select(place.equal(k), values[k], rest), range(len(values) - 1), values[-1])

    return _stage(array.shape, element, name, "injective")


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes as Python integers; those that are not constant as they are."""
    return tuple(size if (known := _static(size)) is None else known for size in in_tuple)


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """Part of a tensor; with `slice_mode="size"` `end` is how many elements, -1 for all that come."""
    if slice_mode not in ("end", "size"):
        raise ValueError(f"slice_mode is 'end' or 'size', got {slice_mode!r}")
    last = list(end)
    if slice_mode == "size":
        places = range(len(begin)) if axes is None else axes
        last = [_size(a.shape[x]) if n < 0 else b + n for b, n, x in zip(begin, end, places, strict=True)]
    return _topi.strided_slice(a, begin, last, None if slice_mode == "size" else strides, axes)


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "fast") -> Tensor:
    """Slices of a tensor, chosen by indices along an axis; the first `batch_dims` axes of both go together."""
    if not batch_dims:
        return _topi.take(a, indices, axis, mode)
    if axis is None:
        raise ValueError("take with batch_dims needs an axis")
    along, rank = _axis_of(axis, len(a.shape)), len(indices.shape)
    batch = batch_dims % (rank + 1)
    size = a.shape[along]

    def element(*at: PrimExpr) -> PrimExpr:
        place = indices(*at[:batch], *at[along : along + rank - batch]).astype(size.dtype)
        place = _op.max(_op.min(place, size - 1), 0) if mode == "clip" else place % size if mode == "wrap" else place
        return a(*at[:along], place, *at[along + rank - batch :])

    shape = [*a.shape[:along], *indices.shape[batch:], *a.shape[along + 1 :]]
    return _stage(shape, element, "T_take", "injective")


pi = math.pi
_magnitude = abs
