"""Many small programs in one kernel, beside references in double precision, with one thread and with two."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eutectic import te
from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.ir.dtype import from_numpy, is_float, to_numpy
from eutectic.testing.native import native

PER_KERNEL = 3  # some analyses take time quadratic in the programs of a kernel, and 12 of them twice that of 3
TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}


@dataclass
class Case:
    """A program, its arguments, and what they give.

    Attributes:
        name: For messages.
        define: The results of placeholders: a tensor or several.
        arrays: Arguments.
        reference: The same of torch tensors; floats come in double precision.
        slack: Factor of the tolerance.
    """

    name: str
    define: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    reference: Callable[..., Any]
    slack: float = 1.0

    def want(self) -> list[np.ndarray]:
        """The expected results."""
        made = self.reference(*(_to_torch(x) for x in self.arrays))
        found = list(made) if isinstance(made, (tuple, list)) else [made]
        return [x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in found]


def _to_torch(x: np.ndarray) -> torch.Tensor:
    whole = np.ascontiguousarray(x).reshape(x.shape)
    with np.errstate(all="ignore"):
        return torch.from_numpy(whole.astype("f8") if is_float(from_numpy(x.dtype)) else whole)


def run_with(function: NativePrimFunc, threads: int, *arrays: np.ndarray) -> None:
    """Call a function that was compiled for at least as many threads with so many."""
    count = ctypes.c_int64.from_address(function.loaded._library.address("threads"))
    before, count.value = count.value, threads
    try:
        function(*arrays)
    finally:
        count.value = before


def check(cases: Iterable[Case]) -> None:
    """Compile and run programs, a few to a kernel; every result is compared with its reference."""
    todo = list(cases)
    for first in range(0, len(todo), PER_KERNEL):
        _check(todo[first : first + PER_KERNEL])


def _check(cases: list[Case]) -> None:
    inputs: list[Any] = []
    outputs: list[tuple[Case, Any]] = []
    for number, case in enumerate(cases):
        given = [te.placeholder(x.shape, from_numpy(x.dtype), name=f"x{number}_{k}") for k, x in enumerate(case.arrays)]
        made = case.define(*given)
        inputs += given
        outputs += [(case, out) for out in (made if isinstance(made, (tuple, list)) else [made])]
    function = native(te.create_prim_func([*inputs, *(out for _, out in outputs)]))
    arrays = [x for case in cases for x in case.arrays]
    results = [[np.full([int(n) for n in o.shape], 77, to_numpy(o.dtype)) for _, o in outputs] for _ in range(2)]
    for threads, made in zip((1, 2), results, strict=True):
        run_with(function, threads, *arrays, *made)
    wanted = [x for case in cases for x in case.want()]
    assert len(wanted) == len(outputs)
    for (case, _), single, double, want in zip(outputs, *results, wanted, strict=True):
        compare(single, want, case.name, case.slack)
        assert single.tobytes() == double.tobytes(), f"{case.name}: two threads give other bits than one"


def compare(got: np.ndarray, want: np.ndarray, name: str, slack: float = 1.0) -> None:
    """Same shape, NaN and infinities in the same places, and values within the tolerance of the dtype."""
    assert got.shape == want.shape, f"{name}: shape {got.shape}, expected {want.shape}"
    dtype = from_numpy(got.dtype)
    if not is_float(dtype):
        np.testing.assert_array_equal(got, want.astype(got.dtype), name)
        return
    with np.errstate(all="ignore"):
        a, b = got.astype("f8"), want.astype(got.dtype).astype("f8")
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), f"{name}: NaN in other places")
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)], f"{name}: infinities")
    if finite.any():
        limit = TOLERANCES[dtype] * slack * max(1.0, float(np.abs(b[finite]).max()))
        error = np.abs(a[finite] - b[finite])
        assert error.max() <= limit, f"{name} of {dtype}: off by {error.max()}, allowed {limit}"


def noise(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Random values of ordinary size."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith("u"):
        return generator.integers(0, 9, shape).astype(dtype)
    if dtype.startswith("int"):
        return generator.integers(-9, 9, shape).astype(dtype)
    return np.asarray(generator.standard_normal(shape)).astype(to_numpy(dtype))
