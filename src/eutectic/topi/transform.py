"""Operators that move elements: transpose, reshape, concatenate, split, flip, repeat, tile and their like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from eutectic.arith.proofs import prove_unequal, simplify
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.ir.prim_logic import Select
from eutectic.support.shown import shown
from eutectic.te import Tensor
from eutectic.te.tensor import sizes_of
from eutectic.tir.op import if_then_else
from eutectic.topi.shapes import (
    axes_of,
    axis_of,
    index_dtype,
    is_one,
    product,
    ravel,
    same_size,
    sizes_text,
    stage,
    static,
    unravel,
)

_MOST_PIECES: Final = 1 << 16  # of an axis that has fewer elements: the others are empty
_TRIED_IN_TURN: Final = 8  # parts of a concatenation that are asked for an element one after another


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Axes in another order.

    Args:
        a: Any shape and dtype.
        axes: Axis of `a` for each axis of the result; None reverses them.

    Returns:
        The permuted shape; one stage `T_transpose`.

    Raises:
        ValueError: `axes` is no permutation.
    """
    ndim = len(a.shape)
    order = tuple(reversed(range(ndim))) if axes is None else tuple(axis_of(int(x), ndim) for x in axes)
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"{list(order)} is no permutation of {ndim} axes")
    return stage(
        [a.shape[x] for x in order],
        lambda *at: a(*(at[order.index(axis)] for axis in range(ndim))),
        "T_transpose",
        "injective",
    )


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """The same elements in C order under another shape.

    Args:
        a: Any shape and dtype.
        newshape: As many elements as `a` has.

    Returns:
        `newshape`; one stage `T_reshape`. Leading and trailing axes that keep their size keep their index.

    Raises:
        ValueError: the numbers of elements are known to differ.
    """
    target = sizes_of(newshape)
    before, after = product(a.shape), product(target)
    if prove_unequal(simplify(before), simplify(after)):
        raise ValueError(f"{sizes_text(a.shape)} has another number of elements than {sizes_text(target)}")
    empty = any(static(size) == 0 for size in (*a.shape, *target))
    head = 0
    while not empty and head < min(len(a.shape), len(target)) and same_size(a.shape[head], target[head]):
        head += 1
    tail = 0
    room = min(len(a.shape), len(target)) - head
    while not empty and tail < room and same_size(a.shape[-1 - tail], target[-1 - tail]):
        tail += 1

    def element(*at: PrimExpr) -> PrimExpr:
        if empty:
            return a(*(IntImm(index_dtype(a), 0) for _ in a.shape))
        stop = len(at) - tail
        place = ravel(at[head:stop], target[head:stop])
        return a(*at[:head], *unravel(place, a.shape[head : len(a.shape) - tail]), *at[stop:])

    return stage(target, element, "T_reshape", "injective")


def expand_dims(a: Tensor, axis: int | Sequence[int], num_newaxis: int = 1) -> Tensor:
    """New axes of size one.

    Args:
        a: Any shape and dtype.
        axis: Place of the first of them in the result, or the places of all.
        num_newaxis: How many, where one place is given.

    Returns:
        The longer shape; one stage `T_expand_dims`.
    """
    one = IntImm(index_dtype(a), 1)
    if isinstance(axis, (int, IntImm)):
        first = axis_of(int(axis), len(a.shape) + 1)
        new = tuple(range(first, first + num_newaxis))
    else:
        new = axes_of(axis, len(a.shape) + len(axis))
    rest = iter(a.shape)
    return stage(
        [one if i in new else next(rest) for i in range(len(a.shape) + len(new))],
        lambda *at: a(*(i for k, i in enumerate(at) if k not in new)),
        "T_expand_dims",
        "broadcast",
    )


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Axes of size one taken away.

    Args:
        a: Any shape and dtype.
        axis: The axes that go; None means all that are known to have size one.

    Returns:
        The shorter shape; one stage `T_squeeze`.

    Raises:
        ValueError: an axis has another size.
    """
    gone = [i for i, size in enumerate(a.shape) if is_one(size)] if axis is None else axes_of(axis, len(a.shape))
    for i in gone:
        if static(a.shape[i]) not in (1, None):
            raise ValueError(f"axis {i} of {sizes_text(a.shape)} cannot be squeezed, as its size is not one")
    kept = [i for i in range(len(a.shape)) if i not in gone]
    zero = IntImm(index_dtype(a), 0)
    return stage(
        [a.shape[i] for i in kept],
        lambda *at: a(*(at[kept.index(i)] if i in kept else zero for i in range(len(a.shape)))),
        "T_squeeze",
        "injective",
    )


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors one after another along an axis.

    Args:
        a_tuple: At least one tensor; the other sizes agree.
        axis: The axis along which they follow each other.

    Returns:
        The sizes added up along `axis`; one stage `T_concat`.

    Raises:
        ValueError: there are no tensors, or ranks or sizes differ.
        TypeError: the dtypes differ.
    """
    if not a_tuple:
        raise ValueError("concatenate needs at least one tensor")
    first = a_tuple[0]
    along = axis_of(axis, len(first.shape))
    for x in a_tuple[1:]:
        if x.dtype != first.dtype:
            raise TypeError(f"concatenate of {first.dtype} with {x.dtype}: cast one side first")
        rest = [i for i in range(len(first.shape)) if i != along]
        if len(x.shape) != len(first.shape) or not all(same_size(x.shape[i], first.shape[i]) for i in rest):
            raise ValueError(f"{sizes_text(first.shape)} and {sizes_text(x.shape)} differ beside axis {along}")
    ends: list[PrimExpr] = []
    for x in a_tuple:
        ends.append(simplify(ends[-1] + x.shape[along]) if ends else x.shape[along])

    def part(k: int, at: tuple[PrimExpr, ...]) -> PrimExpr:
        here = at[along] - ends[k - 1] if k else at[along]
        return a_tuple[k](*at[:along], here, *at[along + 1 :])

    def between(first: int, last: int, at: tuple[PrimExpr, ...]) -> PrimExpr:
        """The element when it is in one of the parts from `first` to `last`; many are halved, few tried in turn."""
        if first == last:
            return part(first, at)
        middle = first if last - first < _TRIED_IN_TURN else (first + last) // 2
        return if_then_else(at[along] < ends[middle], between(first, middle, at), between(middle + 1, last, at))

    def element(*at: PrimExpr) -> PrimExpr:
        return between(0, len(a_tuple) - 1, at)

    return stage([*first.shape[:along], ends[-1], *first.shape[along + 1 :]], element, "T_concat", "injective")


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis.

    Args:
        tensors: At least one tensor.
        axis: Place of the new axis in the result.

    Returns:
        The shape with one more axis; one stage `T_stack`.

    Raises:
        ValueError: there are no tensors, or shapes or dtypes differ.
    """
    if not tensors:
        raise ValueError("stack needs at least one tensor")
    first = tensors[0]
    at_axis = axis_of(axis, len(first.shape) + 1)
    for x in tensors[1:]:
        same = len(x.shape) == len(first.shape) and all(map(same_size, x.shape, first.shape))
        if not same or x.dtype != first.dtype:
            raise ValueError(f"stack of {first!r} with {x!r}")

    def element(*at: PrimExpr) -> PrimExpr:
        index = (*at[:at_axis], *at[at_axis + 1 :])
        value = tensors[-1](*index)
        for k in reversed(range(len(tensors) - 1)):
            value = if_then_else(at[at_axis].equal(k), tensors[k](*index), value)  # type: ignore[assignment]  # any expression
        return value

    count = IntImm(index_dtype(first), len(tensors))
    return stage([*first.shape[:at_axis], count, *first.shape[at_axis:]], element, "T_stack", "injective")


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Pieces along an axis.

    Args:
        ary: Any shape and dtype.
        indices_or_sections: Number of pieces of one size (the last may be smaller), or where they begin
            after the first.
        axis: The axis that is cut.

    Returns:
        The pieces; one stage `T_split` each.

    Raises:
        ValueError: a number of pieces is asked for of an axis of symbolic size, or it is not positive.
    """
    along = axis_of(axis, len(ary.shape))
    size = ary.shape[along]
    if isinstance(indices_or_sections, (int, IntImm)):
        total, parts = static(size), int(indices_or_sections)
        if total is None or not 1 <= parts <= max(total, _MOST_PIECES):
            raise ValueError(f"axis {along} of {sizes_text(ary.shape)} cannot be cut into {shown(parts)} pieces")
        step = -(-total // parts)
        cuts: list[Any] = [min(i * step, total) for i in range(1, parts)]
    else:
        limit = static(size)
        cuts = [int(c) if limit is None else min(int(c), limit) for c in indices_or_sections]
    begins = [0, *cuts]
    ends = [*cuts, size]

    def piece(begin: int, end: Any) -> Tensor:
        length = simplify(as_prim(end, size.dtype) - begin)
        if isinstance(length, IntImm) and length.value < 0:
            length = IntImm(size.dtype, 0)
        shape = [*ary.shape[:along], length, *ary.shape[along + 1 :]]
        return stage(shape, lambda *at: ary(*at[:along], at[along] + begin, *at[along + 1 :]), "T_split", "injective")

    return [piece(begin, end) for begin, end in zip(begins, ends, strict=True)]


def split_at(a: Tensor, sizes: Sequence[PrimExpr], axis: int = 0) -> list[Tensor]:
    """Pieces of given sizes along an axis.

    Args:
        a: Any shape and dtype.
        sizes: The size of each piece, which may be an expression; they add up to that of the axis.
        axis: The axis that is cut.

    Returns:
        The pieces; one stage `T_split` each.

    Raises:
        ValueError: no such axis.
    """
    along = axis_of(axis, len(a.shape))
    begins = list(accumulate(sizes, initial=as_prim(0, a.shape[along].dtype)))[:-1]

    def piece(begin: PrimExpr, size: PrimExpr) -> Tensor:
        first = simplify(begin)
        shape = [*a.shape[:along], size, *a.shape[along + 1 :]]
        return stage(shape, lambda *at: a(*at[:along], at[along] + first, *at[along + 1 :]), "T_split", "injective")

    return [piece(begin, size) for begin, size in zip(begins, sizes, strict=True)]


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """The elements of an axis in reverse order; one stage `T_flip`."""
    along = axis_of(axis, len(a.shape))
    return stage(
        a.shape, lambda *at: a(*at[:along], a.shape[along] - 1 - at[along], *at[along + 1 :]), "T_flip", "injective"
    )


def repeat(a: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Each element several times in a row along an axis.

    Args:
        a: Any shape and dtype.
        repeats: How often.
        axis: The axis; None takes all elements in C order.

    Returns:
        The longer shape; one stage `T_repeat`.
    """
    if axis is None:
        return repeat(reshape(a, (simplify(product(a.shape)),)), repeats, 0)
    along = axis_of(axis, len(a.shape))
    shape = [*a.shape[:along], a.shape[along] * repeats, *a.shape[along + 1 :]]
    if repeats == 0:
        return stage(shape, lambda *at: a(*(IntImm(i.dtype, 0) for i in at)), "T_repeat", "injective")
    return stage(shape, lambda *at: a(*at[:along], at[along] // repeats, *at[along + 1 :]), "T_repeat", "injective")


def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """The whole tensor several times along its axes.

    Args:
        a: Any shape and dtype.
        reps: How often, per axis; the shorter of `reps` and the shape gets ones in front.

    Returns:
        The longer shape; one stage `T_tile`.
    """
    times = [int(r) for r in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    ndim = max(len(times), len(a.shape))
    times = [1] * (ndim - len(times)) + times
    one = IntImm(index_dtype(a), 1)
    sizes = [*[one] * (ndim - len(a.shape)), *a.shape]
    skip = ndim - len(a.shape)

    def element(*at: PrimExpr) -> PrimExpr:
        zero = IntImm(index_dtype(a), 0)
        return a(
            *(
                zero if static(size) in (0, 1) else i if times[skip + k] == 1 else i % size
                for k, (i, size) in enumerate(zip(at[skip:], a.shape, strict=True))
            )
        )

    return stage([size * r for size, r in zip(sizes, times, strict=True)], element, "T_tile", "broadcast")


def trilu(data: Tensor, k: PrimExpr | int, upper: bool) -> Tensor:
    """Zeros on one side of a diagonal of the last two axes.

    Args:
        data: At least two axes; any dtype.
        k: The diagonal: 0 the main one, positive above it.
        upper: Whether what lies above it stays, or what lies below.

    Returns:
        Shape and dtype of `data`; one stage `trilu`.

    Reference: TVM topi.trilu.
    """
    zero = as_prim(0, data.dtype)

    def element(*at: PrimExpr) -> PrimExpr:
        apart = at[-1] - at[-2]
        limit = k.astype(apart.dtype) if isinstance(k, PrimExpr) else k
        return Select(apart >= limit if upper else apart <= limit, data(*at), zero)

    return stage(data.shape, element, "trilu", "elemwise")
