"""Cases of operators that order, search, gather, scatter and make matrices, of losses, and of what changes no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tests.relax.op.oracle import ANY, INTEGERS, NUMBERS, Case, Feeds, as_numpy, as_torch, covers, values

from eutectic.relax import op
from eutectic.relax.op import nn
from eutectic.relax.vdevice import VDevice


def _indices(f: Feeds, shape: tuple[int, ...], size: int) -> tuple[Any, torch.Tensor]:
    array = f.rng.integers(-size, size, shape).astype(f.pick("int32", "int64"))
    return f.var(array), torch.from_numpy(array.astype(np.int64)) % size


def _dtype(name: str) -> Any:
    return getattr(torch, name)


@covers("relax.eye")
def eye(f: Feeds) -> Case:
    n, m, k, dtype = f.integer(1, 5), f.pick(None, 1, 4), f.integer(-3, 3), f.pick("float32", "int64", "bool")
    return Case(op.eye(n, m, k, dtype), np.eye(n, m, k).astype(dtype), exact=True)


@covers("relax.eye_like")
def eye_like(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(2, 2), f.pick("float32", "int32"))
    k, dtype = f.integer(-3, 3), f.pick(None, "float64")
    want = np.eye(*t.shape, k).astype(dtype or as_numpy(t).dtype)
    return Case(op.eye_like(x, k, dtype), want, exact=True, feeds=f.values)


@covers("relax.hamming_window")
def hamming_window(f: Feeds) -> Case:
    size, periodic, dtype = f.integer(1, 9), f.flag(), f.pick("float32", "float64")
    want = torch.hamming_window(size, periodic, 0.54, 0.46, dtype=_dtype(dtype))
    return Case(op.hamming_window(size, periodic, 0.54, 0.46, dtype), want)


@covers("relax.outer")
def outer(f: Feeds) -> Case:
    dtype = f.pick(*NUMBERS)
    (a, ta), (b, tb) = (f.tensor(f.shape(1, 1), dtype) for _ in range(2))
    return Case(op.outer(a, b), torch.outer(ta, tb), feeds=f.values)


@covers("relax.meshgrid")
def meshgrid(f: Feeds) -> Case:
    dtype, indexing = f.pick(*ANY), f.pick("ij", "xy")
    pairs = [f.tensor(f.shape(1, 1), dtype) for _ in range(f.integer(1, 3))]
    want = torch.meshgrid(*(t for _, t in pairs), indexing=indexing)
    return Case(op.meshgrid([x for x, _ in pairs], indexing), list(want), exact=True, feeds=f.values)


@covers("relax.one_hot")
def one_hot(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(most=3), f.pick(*INTEGERS), low=-1, high=5)
    depth, (on, off) = f.integer(1, 5), f.pick((1, 0), (2.5, -1.0), (True, False))
    axis = f.integer(-t.ndim - 1, t.ndim)
    hit = t.unsqueeze(-1) == torch.arange(depth)
    want = torch.where(hit, torch.tensor(on), torch.tensor(off)).movedim(-1, axis)
    return Case(op.one_hot(x, on, off, depth, axis), want.contiguous(), exact=True, feeds=f.values)


@covers("relax.size")
def size(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(low=0), f.pick(*ANY))
    return Case(op.size(x), torch.tensor(t.numel()), feeds=f.values)


@covers("relax.wrap_param")
def wrap_param(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(), f.pick("float32", "int32"))
    dtype = f.pick("float32", "float16", "float64")
    return Case(op.wrap_param(x, dtype), t.to(_dtype(dtype)), feeds=f.values)


def _collapsed(f: Feeds) -> tuple[Any, torch.Tensor, tuple[int, ...]]:
    shape = f.shape(most=3)
    x, t = f.tensor(shape, f.pick(*NUMBERS), low=-2, high=2)
    target = tuple(size if f.flag() else 1 for size in shape)[f.integer(0, len(shape)) :]
    return x, t, target


@covers("relax.collapse_sum_to")
def collapse_sum_to(f: Feeds) -> Case:
    x, t, target = _collapsed(f)
    want = t.double() if t.is_floating_point() else t.long()
    return Case(op.collapse_sum_to(x, target), want.sum_to_size(target).to(t.dtype), feeds=f.values)


@covers("relax.collapse_sum_like")
def collapse_sum_like(f: Feeds) -> Case:
    x, t, target = _collapsed(f)
    want = t.double() if t.is_floating_point() else t.long()
    like = f.tensor(target, "int32")[0]
    return Case(op.collapse_sum_like(x, like), want.sum_to_size(target).to(t.dtype), feeds=f.values)


@covers("relax.sort")
def sort(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(least=1), f.pick(*ANY), special=True)
    axis, descending = f.integer(-t.ndim, t.ndim - 1), f.flag()
    want = torch.sort(t, dim=axis, descending=descending, stable=True).values
    return Case(op.sort(x, axis, descending), want, feeds=f.values)


@covers("relax.argsort")
def argsort(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(least=1), f.pick(*ANY), special=True)
    axis, descending, dtype = f.integer(-t.ndim, t.ndim - 1), f.flag(), f.pick("int32", "int64")
    want = torch.sort(t, dim=axis, descending=descending, stable=True).indices
    return Case(op.argsort(x, axis, descending, dtype), want.to(_dtype(dtype)), feeds=f.values)


@covers("relax.topk")
def topk(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(least=1), f.pick(*NUMBERS), special=True)
    axis, largest, kind = f.integer(-t.ndim, t.ndim - 1), f.flag(), f.pick("both", "values", "indices")
    k = f.integer(0, t.shape[axis])
    ordered = torch.sort(t, dim=axis, descending=largest, stable=True)
    parts = [part.narrow(axis, 0, k or t.shape[axis]).contiguous() for part in ordered]
    want = {"both": [parts[0], parts[1].int()], "values": parts[0], "indices": parts[1].int()}[kind]
    return Case(op.topk(x, k, axis, kind, largest), want, feeds=f.values)


@covers("relax.median")
def median(f: Feeds) -> Case:
    shape, dtype = f.shape(least=1), f.pick("float32", "float64", "int32")
    count = int(np.prod(shape))
    array = f.rng.permutation(count).reshape(shape).astype(dtype)  # of equal elements torch returns any
    x, t, keep = f.var(array), as_torch(array), f.flag()
    if f.flag():
        return Case(op.median(x), torch.median(t), feeds=f.values)
    axis = f.integer(-t.ndim, t.ndim - 1)
    return Case(op.median(x, axis, keep), list(torch.median(t, axis, keep)), feeds=f.values)


@covers("relax.bucketize")
def bucketize(f: Feeds) -> Case:
    dtype, narrow, right = f.pick("float32", "float64", "int32"), f.flag(), f.flag()
    x, t = f.tensor(f.shape(), dtype)
    edges = np.sort(values(f.rng, (f.integer(1, 5),), dtype))
    want = torch.bucketize(t, torch.from_numpy(edges), out_int32=narrow, right=right)
    return Case(op.bucketize(x, f.var(edges), narrow, right), want, feeds=f.values)


@covers("relax.multinomial_from_uniform")
def multinomial_from_uniform(f: Feeds) -> Case:
    rows, count, samples = f.integer(1, 3), f.integer(1, 5), f.integer(1, 4)
    weights = f.rng.integers(1, 9, (rows, count))
    prob = (weights / weights.sum(1, keepdims=True)).astype("float32")
    sample, row = f.rng.random((samples, 1), "float32"), f.rng.integers(0, rows, (samples, 1))
    totals = np.cumsum(prob.astype("float64"), 1).astype("float32")[row[:, 0]]
    want = [[min(np.searchsorted(t, s, "right"), count - 1)] for t, s in zip(totals, sample[:, 0], strict=True)]
    call = op.multinomial_from_uniform(f.var(prob), f.var(sample), f.var(row), "int64")
    return Case(call, np.array(want, np.int64), feeds=f.values)


@covers("relax.gather_nd")
def gather_nd(f: Feeds) -> Case:
    x, t = f.tensor((3, 3, 2), f.pick(*ANY))
    batch, depth = f.pick((0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1))
    shape = (*t.shape[:batch], f.integer(1, 3), depth)
    array = f.rng.integers(-2, 2, shape)
    rows = []
    for lead in np.ndindex(shape[:-1]):
        rows.append(as_numpy(t)[(*lead[:batch], *array[lead])])
    want = np.array(rows).reshape(*shape[:-1], *t.shape[batch + depth :])
    return Case(op.gather_nd(x, f.var(array), batch), want, exact=True, feeds=f.values)


@covers("relax.index_tensor")
def index_tensor(f: Feeds) -> Case:
    x, t = f.tensor((3, 3, 2), f.pick(*ANY))
    shapes = f.pick([(4,)], [(2, 1), (3,)], [(2,), (2,), (1,)])
    pairs = [_indices(f, shape, 2) for shape in shapes]
    places = tuple(f.values[variable].astype(np.int64) for variable, _ in pairs)
    return Case(op.index_tensor(x, [v for v, _ in pairs]), as_numpy(t)[places], exact=True, feeds=f.values)


@covers("relax.scatter_elements")
def scatter_elements(f: Feeds) -> Case:
    shape = f.shape(least=1, most=3)
    dtype = f.pick("float64", "int64")
    reduction = f.pick("update", "add", "mul", "min", "max", "mean")
    x, t = f.tensor(shape, dtype)
    axis = f.integer(0, len(shape) - 1)
    places = np.argsort(f.rng.random(shape), axis) if reduction == "update" else f.rng.integers(0, shape[axis], shape)
    u, tu = f.tensor(shape, dtype)
    index = torch.from_numpy(places)
    names = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax", "mean": "mean"}
    combined = "" if reduction == "update" else names[reduction]
    want = t.scatter_reduce(axis, index, tu, combined) if combined else t.scatter(axis, index, tu)
    return Case(op.scatter_elements(x, f.var(places), u, axis, reduction), want, feeds=f.values)


@covers("relax.scatter_nd")
def scatter_nd(f: Feeds) -> Case:
    dtype, reduction, deep = (
        f.pick("float32", "float64", "int32"),
        f.pick("update", "add", "mul", "min", "max"),
        f.flag(),
    )
    x, t = f.tensor((3, f.pick(2, 5)), dtype)
    places = (
        f.rng.integers(-3, 3, (4, 1)) if not deep else np.stack([f.rng.integers(-3, 3, 4), f.rng.integers(-2, 2, 4)], 1)
    )
    u, tu = f.tensor((4,) if deep else (4, t.shape[1]), dtype)
    combine = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    want = as_numpy(t).copy()
    for place, value in zip(map(tuple, places), as_numpy(tu), strict=True):
        want[place] = value if reduction == "update" else combine[reduction](want[place], value)
    return Case(op.scatter_nd(x, f.var(places), u, reduction), want, feeds=f.values)


@covers("relax.index_put")
def index_put(f: Feeds) -> Case:
    x, t = f.tensor((3, 3, 2), "float64")
    accumulate, rows = f.flag(), f.rng.permutation(3)[:2]
    columns = f.rng.integers(0, 3, (2,))
    u, tu = f.tensor(f.pick((2, 2), (1, 2), (2,)), "float64")
    places = tuple(map(torch.from_numpy, (rows, columns)))
    want = t.index_put(places, tu, accumulate)
    return Case(op.index_put(x, (f.var(rows), f.var(columns)), u, accumulate), want, feeds=f.values)


@covers("relax.slice_scatter")
def slice_scatter(f: Feeds) -> Case:
    dtype, axis = f.pick(*ANY), f.pick(0, 1, -1)
    x, t = f.tensor((5, 5), dtype)
    start, end, step = f.pick((0, 5, 2), (1, 4, 1), (2, 2, 1), (0, 3, 3))
    count = len(range(start, end, step))
    u, tu = f.tensor((count, 5) if axis == 0 else (5, count), dtype)
    want = torch.slice_scatter(t, tu, axis, start, end, step)
    return Case(op.slice_scatter(x, u, start, end, step, axis), want, exact=True, feeds=f.values)


def _moved(f: Feeds, constructor: Any, device: Any) -> Case:
    x, t = f.tensor(f.shape(), f.pick(*ANY))
    return Case(constructor(x, device), t, exact=True, feeds=f.values)


@covers("relax.hint_on_device")
def hint_on_device(f: Feeds) -> Case:
    return _moved(f, op.hint_on_device, "cpu:0")


@covers("relax.to_vdevice")
def to_vdevice(f: Feeds) -> Case:
    return _moved(f, op.to_vdevice, VDevice("llvm"))


@covers("relax.nn.cross_entropy_with_logits")
def cross_entropy_with_logits(f: Feeds) -> Case:
    shape, dtype = f.shape(least=1, most=3), f.pick("float32", "float64")
    (a, ta), (b, tb) = f.tensor(shape, dtype), f.tensor(shape, dtype)
    want = -(ta * tb).double().sum() / (shape[0] if len(shape) > 1 else 1)
    return Case(nn.cross_entropy_with_logits(a, b), want.to(ta.dtype), feeds=f.values)


@covers("relax.nn.nll_loss")
def nll_loss(f: Feeds) -> Case:
    dtype, reduction, classes = f.pick("float32", "float64"), f.pick("none", "sum", "mean"), f.integer(1, 4)
    shape = f.pick((), (3,), (2, 3), (2, 1, 2))
    x, t = f.tensor((*shape[:1], classes, *shape[1:]), dtype)
    places = np.asarray(f.rng.integers(0, classes, shape))
    if shape and f.flag():
        places = np.where(f.rng.random(shape) < 0.3, -100, places)
    array = f.rng.uniform(0.5, 2, classes).astype(dtype)
    weights = f.var(array) if f.flag() else None
    loose = {"weight": None if weights is None else torch.from_numpy(array).double(), "reduction": reduction}
    want = F.nll_loss(t.double(), torch.from_numpy(places), **loose)
    return Case(nn.nll_loss(x, f.var(places), weights, reduction), want.to(t.dtype), feeds=f.values)


@covers("relax.nn.pixel_shuffle")
def pixel_shuffle(f: Feeds) -> Case:
    r = f.integer(1, 3)
    x, t = f.tensor((*f.shape(most=2), r * r * f.integer(1, 2), f.integer(1, 3), 2), f.pick(*ANY))
    return Case(nn.pixel_shuffle(x, r), F.pixel_shuffle(t, r), exact=True, feeds=f.values)


@covers("relax.nn.batch_flatten")
def batch_flatten(f: Feeds) -> Case:
    x, t = f.tensor(f.shape(least=1), f.pick(*ANY))
    return Case(nn.batch_flatten(x), t.reshape(t.shape[0], -1), exact=True, feeds=f.values)
