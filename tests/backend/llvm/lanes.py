"""Programs that compute expressions of array elements in vectors of given lanes, and the values to try them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eutectic.ir.dtype import is_float, item_bytes, to_numpy
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.testing.native import run_native
from eutectic.tir import Buffer, BufferStore, For, PrimFunc
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.stmt import Stmt, seq

LANES = (1, 2, 3, 4, 8, 13)
WHOLE = math.lcm(*LANES)
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*INTEGERS, *FLOATS, "bool")

Expressions = Mapping[str, Callable[..., PrimExpr]]


def edges(dtype: str) -> list[float]:
    """Values at which something may go wrong."""
    if dtype == "bool":
        return [0, 1]
    if not is_float(dtype):
        bits, signed = 8 * item_bytes(dtype), dtype.startswith("int")
        top = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        low = [-top - 1, -top, -128, -100, -8, -7, -3, -2, -1] if signed else []
        return [*low, 0, 1, 2, 3, 7, 8, 100, 127, top - 1, top]
    found = np.finfo(to_numpy(dtype)) if dtype != "bfloat16" else None
    most, least = (float(found.max), float(found.tiny)) if found is not None else (3.3895314e38, 1.1754944e-38)
    return [
        *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, most, -most, least, -least, least / 8, -least / 8),
        *(0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 7.0, 127.5, -128.75, 255.5, 1e10, -1e10, 2.0**31, 2.0**63),
    ]


def values(dtype: str, count: int, seed: int) -> np.ndarray:
    """Random bits, edge values among them."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, count).astype(bool)
    kind = to_numpy(dtype)
    made = np.frombuffer(generator.bytes(count * kind.itemsize), kind).copy()
    if is_float(dtype):  # half of them of ordinary size
        with np.errstate(all="ignore"):
            made[::2] = (generator.standard_normal(len(made[::2])) * 10).astype(kind)
            made[np.isnan(made.astype("f8"))] = math.nan  # no signaling ones
    else:
        made[::2] = generator.integers(-9 if dtype.startswith("i") else 0, 9, len(made[::2])).astype(kind)
    with np.errstate(all="ignore"):
        special = np.array(edges(dtype)).astype(kind) if is_float(dtype) else np.array(edges(dtype), kind)
    places = generator.integers(0, 3, count) == 0
    made[places] = special[generator.integers(0, len(special), int(places.sum()))]
    return made


def pairs(dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values, filled up with random ones to a multiple of all lanes."""
    with np.errstate(all="ignore"):
        special = np.array(edges(dtype)).astype(to_numpy(dtype)) if is_float(dtype) else np.array(edges(dtype), dtype)
    a, b = (x.ravel() for x in np.meshgrid(special, special))
    more = -len(a) % WHOLE + WHOLE
    return np.concatenate([a, values(dtype, more, seed)]), np.concatenate([b, values(dtype, more, seed + 1)])


def compute(expressions: Expressions, dtypes: Mapping[str, str], *arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Each expression of the elements of the arrays, natively.

    Args:
        expressions: By name, functions of one element of each array.
        dtypes: Of the results.
        arrays: Operands; their size is a multiple of `WHOLE`.

    Returns:
        By name, one row per number of lanes.
    """
    size = len(arrays[0])
    inputs = [Buffer(f"x{k}", (size,), str(x.dtype.name)) for k, x in enumerate(arrays)]
    outputs = {name: Buffer(name, (len(LANES), size), dtypes[name]) for name in expressions}
    loops = [loop for name in expressions for loop in _loops(inputs, outputs[name], expressions[name])]
    results = {name: np.zeros((len(LANES), size), to_numpy(dtypes[name])) for name in expressions}
    func = PrimFunc((*inputs, *outputs.values()), seq(*loops))
    run_native(func, *arrays, *results.values(), schedule=False, threads=1)
    return results


def _loops(inputs: Sequence[Buffer], output: Buffer, expression: Callable[..., PrimExpr]) -> list[Stmt]:
    made = []
    for row, lanes in enumerate(LANES):
        outer, inner = Var("i", "int32"), Var("v", "int32")
        at = outer * lanes + inner
        value = expression(*(BufferLoad(x, (at,)) for x in inputs))
        body: Stmt = BufferStore(output, value, (row, at))
        body = For(inner, 0, lanes, "vectorized" if lanes > 1 else "serial", body)
        made.append(For(outer, 0, int(inputs[0].shape[0]) // lanes, "serial", body))
    return made


def same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Every row is the expected array, bit by bit; a NaN is as good as another."""
    for lanes, row in zip(LANES, got, strict=True):
        differ = _bits(row) != _bits(want)
        if row.dtype.kind in "fV":
            differ &= ~(np.isnan(row.astype("f8")) & np.isnan(want.astype("f8")))
        assert not differ.any(), _report(row, want, differ, f"{what}, {lanes} lanes")


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def _report(got: np.ndarray, want: np.ndarray, differ: np.ndarray, what: str) -> str:
    at = int(np.argmax(differ))
    return f"{what}: element {at} is {got[at]!r}, not {want[at]!r}; {int(differ.sum())} differ"
