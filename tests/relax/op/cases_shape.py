"""Cases of operators that move, pick, make or reduce elements, and of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.relax.op.oracle import ANY, FLOATS, INTEGERS, NUMBERS, Case, Feeds, as_numpy, covers, table, values

from eutectic.relax import op
from eutectic.relax.base import ShapeExpr


def _tensor(f: Feeds, least: int = 0, low: int = 0, dtypes: list[str] = ANY) -> tuple[Any, Any, tuple[int, ...]]:
    shape = f.shape(least=least, low=low)
    return *f.tensor(shape, f.pick(*dtypes), special=True), shape


def _axis(f: Feeds, shape: tuple[int, ...], extra: int = 0) -> int:
    ndim = len(shape) + extra
    return f.integer(-ndim, ndim - 1)


@covers("relax.reshape")
def reshape(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1, low=1)
    target = f.pick((-1,), (1, -1), (*reversed(shape),), (*shape, 1), (0, -1), (0, *shape[1:], 1))
    literal = tuple(shape[i] if size == 0 else size for i, size in enumerate(target))
    return Case(op.reshape(x, target), t.reshape(literal), exact=True, feeds=f.values)


@covers("relax.flatten")
def flatten(f: Feeds) -> Case:
    x, t, _ = _tensor(f)
    return Case(op.flatten(x), t.reshape(-1), exact=True, feeds=f.values)


@covers("relax.expand_dims")
def expand_dims(f: Feeds) -> Case:
    x, t, shape = _tensor(f)
    if f.flag():
        axis = _axis(f, shape, extra=1)
        return Case(op.expand_dims(x, axis), t.unsqueeze(axis), exact=True, feeds=f.values)
    return Case(op.expand_dims(x, (0, -1)), t.unsqueeze(0).unsqueeze(-1), exact=True, feeds=f.values)


@covers("relax.squeeze")
def squeeze(f: Feeds) -> Case:
    x, t, shape = _tensor(f)
    ones = [i for i, size in enumerate(shape) if size == 1]
    if ones and f.flag():
        return Case(op.squeeze(x, ones[0] - len(shape)), t.squeeze(ones[0]), exact=True, feeds=f.values)
    return Case(op.squeeze(x), t.squeeze(), exact=True, feeds=f.values)


@covers("relax.layout_transform")
def layout_transform(f: Feeds) -> Case:
    outer, rest, (small, large) = f.integer(1, 3), f.shape(least=2, most=2, low=0), f.pick((1, 3), (2, 2), (2, 6))
    x, t = f.tensor((2, outer * large, *rest), f.pick(*ANY))
    forms = {
        "NCHW": t,
        "NHWC": t.movedim(1, -1),
        f"NCHW{small}c": t.unflatten(1, (-1, small)).movedim(2, -1),
        f"WNC{large}cH": t.unflatten(1, (-1, large)).permute(4, 0, 1, 2, 3),
    }
    source, target = f.pick(*forms), f.pick(*forms)
    x = f.var(as_numpy(forms[source].contiguous()))
    return Case(op.layout_transform(x, source, target), forms[target].contiguous(), exact=True, feeds=f.values)


@covers("relax.permute_dims")
def permute_dims(f: Feeds) -> Case:
    x, t, shape = _tensor(f)
    axes = list(f.rng.permutation(len(shape)))
    if f.flag():
        return Case(op.permute_dims(x), t.permute(list(reversed(range(t.ndim)))), exact=True, feeds=f.values)
    return Case(op.permute_dims(x, axes), t.permute([int(a) for a in axes]), exact=True, feeds=f.values)


@covers("relax.broadcast_to")
def broadcast_to(f: Feeds) -> Case:
    shape = f.shape(low=0)
    x, t = f.tensor(tuple(1 if f.flag() else size for size in shape[f.integer(0, len(shape)) :]), f.pick(*ANY))
    return Case(op.broadcast_to(x, shape), t.broadcast_to(shape), exact=True, feeds=f.values)


def _several(f: Feeds, name: str, joined: bool) -> Case:
    shape, dtype = f.shape(least=1, low=0), f.pick(*ANY)
    axis = _axis(f, shape, extra=0 if joined else 1)
    pairs = []
    for _ in range(f.integer(1, 4)):
        sizes = list(shape)
        if joined:
            sizes[axis] = f.integer(0, 4)
        pairs.append(f.tensor(tuple(sizes), dtype, special=True))
    variables, tensors = [v for v, _ in pairs], [t for _, t in pairs]
    if joined:
        return Case(op.concat(variables, axis), torch.cat(tensors, axis), exact=True, feeds=f.values)
    return Case(op.stack(variables, axis), torch.stack(tensors, axis), exact=True, feeds=f.values)


table({"relax.concat": True, "relax.stack": False}, _several)


@covers("relax.split")
def split(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1)
    axis = _axis(f, shape)
    if f.flag():
        cuts = tuple(sorted(f.integer(0, 6) for _ in range(f.integer(0, 3))))
        parts = np.split(np.arange(shape[axis]), cuts)
        want = [t.index_select(axis, torch.from_numpy(part)) for part in parts]
        return Case(op.split(x, cuts, axis), want, exact=True, feeds=f.values)
    count = f.pick(*(n for n in range(1, 5) if -(-shape[axis] // n) * (n - 1) <= shape[axis]))
    each = -(-shape[axis] // count)
    sizes = [each] * (count - 1) + [shape[axis] - each * (count - 1)]
    return Case(op.split(x, count, axis), torch.split(t, sizes, axis), exact=True, feeds=f.values)


@covers("relax.repeat")
def repeat(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1)
    count, axis = f.integer(0, 3), None if f.flag() else _axis(f, shape)
    return Case(op.repeat(x, count, axis), t.repeat_interleave(count, axis), exact=True, feeds=f.values)


@covers("relax.tile")
def tile(f: Feeds) -> Case:
    x, t, _ = _tensor(f)
    counts = f.shape(low=0, high=3)
    return Case(op.tile(x, counts), torch.tile(t, counts), exact=True, feeds=f.values)


@covers("relax.flip")
def flip(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1)
    axis = _axis(f, shape)
    return Case(op.flip(x, axis), t.flip(axis), exact=True, feeds=f.values)


@covers("relax.take")
def take(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1, low=1, dtypes=FLOATS)
    axis = None if len(shape) == 1 and f.flag() else _axis(f, shape)
    size, mode = shape[axis or 0], f.pick("fast", "clip", "wrap", "nan")
    reach = 0 if mode == "fast" else 3
    array = values(f.rng, f.shape(most=2, low=0), f.pick("int32", "int64"), low=-reach, high=size - 1 + reach)
    indices = f.var(array)
    places = np.clip(array, 0, size - 1) if mode in ("clip", "nan") else array % size
    flat = torch.from_numpy(places.astype(np.int64).reshape(-1))
    want = t.index_select(axis or 0, flat)
    if mode == "nan":
        outside = torch.from_numpy(((array < 0) | (array >= size)).reshape(-1))
        spread = [1] * t.ndim
        spread[axis or 0] = -1
        want = torch.where(outside.reshape(spread), torch.tensor(float("nan"), dtype=t.dtype), want)
    place = (axis or 0) % t.ndim
    want = want.reshape((*shape[:place], *array.shape, *shape[place + 1 :]))
    return Case(op.take(x, indices, axis, mode), want, exact=True, feeds=f.values)


@covers("relax.gather_elements")
def gather_elements(f: Feeds) -> Case:
    x, t, shape = _tensor(f, least=1, low=1)
    axis = _axis(f, shape)
    sizes = [f.integer(0, size) for size in shape]
    sizes[axis] = f.integer(0, 6)
    array = values(f.rng, tuple(sizes), f.pick("int32", "int64"), low=0, high=shape[axis] - 1)
    want = torch.gather(t, axis, torch.from_numpy(array.astype(np.int64)))
    return Case(op.gather_elements(x, f.var(array), axis), want, exact=True, feeds=f.values)


@covers("relax.strided_slice")
def strided_slice(f: Feeds) -> Case:
    x, _, shape = _tensor(f, least=1)
    axes = sorted({int(a) for a in f.rng.integers(0, len(shape), 2)})
    begin, end = ([f.integer(-7, 7) for _ in axes] for _ in range(2))
    steps = [f.pick(1, 2, 3, -1, -2) for _ in axes]
    parts = [slice(None)] * len(shape)
    for axis, *bounds in zip(axes, begin, end, steps, strict=True):
        parts[axis] = slice(*bounds)
    array = f.values[x]
    return Case(op.strided_slice(x, axes, begin, end, steps), array[tuple(parts)].copy(), exact=True, feeds=f.values)


def _scan(f: Feeds, name: str, function: Any) -> Case:
    shape, dtype = f.shape(least=1, low=0), f.pick("float32", "float64", *INTEGERS)
    x, t = f.tensor(shape, dtype, low=-2, high=2)
    axis = None if f.flag() else _axis(f, shape)
    target = f.pick(None, "int64", "float64")
    flat, place = (t.reshape(-1), 0) if axis is None else (t, axis)
    want = function(flat, place, dtype=getattr(torch, target or dtype))
    exclusive = f.flag()
    if exclusive and want.shape[place]:
        one = torch.full_like(want.narrow(place, 0, 1), 0 if "sum" in name else 1)
        want = torch.cat([one, want.narrow(place, 0, want.shape[place] - 1)], place)
    call = getattr(op, name.removeprefix("relax."))(x, axis, target, exclusive)
    return Case(call, want, slack=3, feeds=f.values)


table({"relax.cumsum": torch.cumsum, "relax.cumprod": torch.cumprod}, _scan)


def _running_extreme(f: Feeds, name: str, function: Any) -> Case:
    x, t = f.tensor(shape := f.shape(least=1, low=0), f.pick(*ANY), special=f.flag(), low=-2, high=2)
    axis = _axis(f, shape)
    return Case(getattr(op, name.removeprefix("relax."))(x, axis), list(function(t, axis)), feeds=f.values)


table({"relax.cummax": torch.cummax, "relax.cummin": torch.cummin}, _running_extreme)


@covers("relax.logcumsumexp")
def logcumsumexp(f: Feeds) -> Case:
    x, t = f.tensor(shape := f.shape(least=1, low=0), f.pick(*FLOATS), special=f.flag())
    axis = _axis(f, shape)
    return Case(op.logcumsumexp(x, axis), torch.logcumsumexp(t.double(), axis).to(t.dtype), feeds=f.values)


def _reduction(f: Feeds, name: str, row: tuple[Any, list[str], bool]) -> Case:
    function, dtypes, empty = row
    shape, dtype = f.shape(low=0 if empty else 1), f.pick(*dtypes)
    x, t = f.tensor(shape, dtype, special=f.flag(), low=-3, high=3)
    keepdims = f.flag()
    axis = None
    if shape and f.flag():
        axis = tuple(int(a) - (len(shape) if f.flag() else 0) for a in set(f.rng.integers(0, len(shape), 2)))
        axis = axis[0] if f.flag() else axis
    axes = tuple(range(len(shape))) if axis is None else axis
    call = getattr(op, name.removeprefix("relax."))(x, axis, keepdims)
    return Case(call, function(t, axes, keepdims).to(t.dtype), slack=4, feeds=f.values)


def _prod(t: torch.Tensor, axes: Any, keepdims: bool) -> torch.Tensor:
    for axis in sorted((a % max(t.ndim, 1) for a in ((axes,) if isinstance(axes, int) else axes)), reverse=True):
        t = torch.prod(t, axis, keepdim=keepdims, dtype=t.dtype)
    return t


def _amax(t: torch.Tensor, axes: Any, keepdims: bool) -> torch.Tensor:
    return torch.amax(t, axes, keepdim=keepdims)


table(
    {
        "relax.sum": (lambda t, a, k: torch.sum(t, a, keepdim=k), NUMBERS, True),
        "relax.mean": (lambda t, a, k: torch.mean(t, a, keepdim=k), FLOATS, True),
        "relax.prod": (_prod, ["float32", "float64", *INTEGERS], True),
        "relax.max": (_amax, ANY, False),
        "relax.min": (lambda t, a, k: torch.amin(t, a, keepdim=k), ANY, False),
        "relax.variance": (lambda t, a, k: torch.var(t, a, correction=0, keepdim=k), FLOATS, False),
        "relax.std": (lambda t, a, k: torch.std(t, a, correction=0, keepdim=k), FLOATS, False),
    },
    _reduction,
)


def _arg(f: Feeds, name: str, function: Any) -> Case:
    shape = f.shape(low=1)
    x, t = f.tensor(shape, f.pick(*NUMBERS), special=True, low=-2, high=2)
    axis, keepdims = (_axis(f, shape), f.flag()) if shape and f.flag() else (None, False)
    call = getattr(op, name.removeprefix("relax."))(x, axis, keepdims)
    return Case(call, function(t, axis, keepdims), feeds=f.values)


def _first(function: Any) -> Any:
    """NumPy's search, which always finds the first; torch's may find another of several equal ones."""

    def search(t: torch.Tensor, axis: int | None, keepdims: bool) -> Any:
        return function(t.double().numpy(), axis=axis, keepdims=keepdims)

    return search


table({"relax.argmax": _first(np.argmax), "relax.argmin": _first(np.argmin)}, _arg)


@covers("relax.matmul")
def matmul(f: Feeds) -> Case:
    dtype = f.pick(*NUMBERS)
    m, k, n = (f.integer(0, 6) for _ in range(3))
    batch = f.shape(most=2, low=1, high=3)
    other = tuple(1 if f.flag() else size for size in batch[f.integer(0, len(batch)) :])
    a, ta = f.tensor(f.pick((*batch, m, k), (m, k), (k,)), dtype, low=-2, high=2)
    b, tb = f.tensor(f.pick((*other, k, n), (k, n), (k,)), dtype, low=-2, high=2)
    want = torch.matmul(ta.double(), tb.double()).to(ta.dtype) if dtype in FLOATS else torch.matmul(ta, tb)
    if dtype in ("int8", "uint8") and f.flag():
        want = torch.matmul(ta.int(), tb.int())
        return Case(op.matmul(a, b, "int32"), want, feeds=f.values)
    return Case(op.matmul(a, b), want, slack=2, feeds=f.values)


@covers("relax.einsum")
def einsum(f: Feeds) -> Case:
    sizes = dict(zip("bijk", (f.integer(1, 4) for _ in range(4)), strict=True))
    text = f.pick("bij,bjk->bik", "ij,jk", "ij->ji", "ij->", "bi,bi->b", "ii->i", "i,j->ij")
    pairs = [f.tensor(tuple(sizes[c] for c in group), "float32") for group in text.split("->")[0].split(",")]
    want = torch.einsum(text, *(t for _, t in pairs))
    return Case(op.einsum([v for v, _ in pairs], text), want, feeds=f.values)


def _created(f: Feeds, name: str, number: int | None) -> Case:
    shape, dtype = f.shape(low=0), f.pick(*ANY)
    kind = getattr(torch, dtype)
    value = f.pick(0, 1, 3) if number is None else number
    short = name.removeprefix("relax.")
    want = torch.full(shape, value, dtype=kind)
    if short == "full":
        return Case(op.full(shape, value, dtype), want, exact=True)
    if not short.endswith("_like"):
        return Case(getattr(op, short)(shape, dtype), want, exact=True)
    x, t = f.tensor(shape, f.pick(*ANY))
    target = None if f.flag() else dtype
    want = torch.full(shape, value, dtype=t.dtype if target is None else kind)
    extra = (value,) if short == "full_like" else ()
    return Case(getattr(op, short)(x, *extra, target), want, exact=True, feeds=f.values)


table(
    {
        "relax.full": None,
        "relax.full_like": None,
        "relax.zeros": 0,
        "relax.zeros_like": 0,
        "relax.ones": 1,
        "relax.ones_like": 1,
    },
    _created,
)


@covers("relax.arange")
def arange(f: Feeds) -> Case:
    start, end, step = f.pick((0, 7, 1), (3, -4, -2), (2, 2, 1), (0, 1.0, 0.25), (5, 11, 3), (-1.5, 2, 1))
    dtype = f.pick(None, "float32", "float64")
    kind = getattr(torch, dtype) if dtype else (torch.float32 if isinstance(start + end + step, float) else None)
    return Case(op.arange(start, end, step, dtype), torch.arange(start, end, step, dtype=kind))


def _triangle(f: Feeds, name: str, function: Any) -> Case:
    x, t, _ = _tensor(f, least=2)
    k = f.integer(-3, 3)
    return Case(getattr(op, name.removeprefix("relax."))(x, k), function(t, k), exact=True, feeds=f.values)


table({"relax.tril": torch.tril, "relax.triu": torch.triu}, _triangle)


@covers("relax.shape_of")
def shape_of(f: Feeds) -> Case:
    x, _, shape = _tensor(f)
    return Case(op.shape_of(x), shape, feeds=f.values)


@covers("relax.tensor_to_shape")
def tensor_to_shape(f: Feeds) -> Case:
    shape = f.shape(low=0)
    return Case(op.tensor_to_shape(f.var(np.array(shape, np.int64))), shape, feeds=f.values)


@covers("relax.shape_to_tensor")
def shape_to_tensor(f: Feeds) -> Case:
    shape = f.shape(low=0)
    return Case(op.shape_to_tensor(ShapeExpr(shape)), np.array(shape, np.int64))
