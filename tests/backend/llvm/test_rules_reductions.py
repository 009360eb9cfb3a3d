"""Default schedules of reductions and normalisations, beside torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.batch import Case, check, noise

from eutectic import topi
from eutectic.ir.dtype import is_float, to_numpy

FLOATS = ("float32", "float16", "bfloat16", "float64")
SHAPES = [(1,), (37,), (4, 33), (70, 17), (67, 65), (3, 9, 17), (16, 5, 40), (2, 3, 5, 9), (4, 1, 33, 8)]


def subsets(rank: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, rank + 1):
        yield from itertools.combinations(range(rank), size)


REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda x, axes: x.sum(axes, dtype=x.dtype),
    "max": lambda x, axes: x.amax(axes),
    "min": lambda x, axes: x.amin(axes),
    "prod": lambda x, axes: over(x, axes, torch.prod),
}
OF_FLOATS: dict[str, Callable[..., torch.Tensor]] = {
    "mean": lambda x, axes: x.mean(axes),
    "variance": lambda x, axes: x.var(axes, correction=0),
    "std": lambda x, axes: x.std(axes, correction=0),
}


def over(x: torch.Tensor, axes: tuple[int, ...], function: Callable[..., torch.Tensor]) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = function(x, axis)
    return x.to(torch.int64) if not x.is_floating_point() else x


SLOW = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float16", "float64", "int32", "int64", "uint8")]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", *SLOW])
def test_every_subset_of_axes(dtype: str):
    """The operators take turns; float32 has all of them for all subsets."""
    rows = {**REDUCTIONS, **(OF_FLOATS if is_float(dtype) else {})}
    names = itertools.cycle(rows)
    cases = []
    for shape in SHAPES:
        x = noise(len(shape), *shape, dtype=dtype)
        for axes in subsets(len(shape)):
            chosen = rows if dtype == "float32" and len(shape) < 3 else [next(names)]
            for name in chosen:
                given_x = (x * 0.5).astype(x.dtype) if name == "prod" and is_float(dtype) else x
                cases.append(
                    Case(
                        f"{name} of {dtype} {shape} over {axes}",
                        lambda a, n=name, s=axes: getattr(topi, n)(a, s),
                        [given_x],
                        lambda a, n=name, s=axes: rows[n](a, s),
                        4,
                    )
                )
    if not is_float(dtype):  # integers wrap around in their own dtype
        cases = [wrapped(case) for case in cases]
    check(cases)


def wrapped(case: Case) -> Case:
    kind = case.arrays[0].dtype
    reference = case.reference

    def narrow(x: torch.Tensor) -> torch.Tensor:
        wide = x if reference is None else reference(x.to(torch.int64))
        return torch.from_numpy(wide.numpy().astype(kind))

    return Case(case.name, case.define, case.arrays, narrow)


def test_keepdims_and_empty_axes():
    x, empty = noise(0, 5, 17), noise(1, 3, 0, 4)
    check(
        [
            Case("kept", lambda a: topi.sum(a, 1, True), [x], lambda a: a.sum(1, keepdim=True)),
            Case("all kept", lambda a: topi.max(a, None, True), [x], lambda a: a.amax((0, 1), keepdim=True)),
            Case("sum of nothing", lambda a: topi.sum(a, 1), [empty], lambda a: a.sum(1)),
            Case("product of nothing", lambda a: topi.prod(a, (1, 2)), [empty], lambda a: torch.ones(3)),
            Case("no results", lambda a: topi.sum(a, 0), [empty], lambda a: a.sum(0)),
        ]
    )


def test_any_and_all():
    """Reductions of bools are largest and smallest ones."""
    cases = []
    for shape in SHAPES[1:7]:
        x = noise(1, *shape, dtype="bool") | noise(2, *shape, dtype="bool")
        for axes in subsets(len(shape)):
            cases += [
                Case(f"any {shape} {axes}", lambda a, s=axes: topi.max(a, s), [~x], lambda a, s=axes: torch.any(a, s)),
                Case(f"all {shape} {axes}", lambda a, s=axes: topi.min(a, s), [x], lambda a, s=axes: torch.all(a, s)),
            ]
    check(cases)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_places_of_extremes(dtype: str):
    """The first of equal ones, and the first NaN."""
    cases = []
    for shape in [(37,), (4, 33), (70, 17), (67, 65), (3, 9, 17)]:
        x = noise(3, *shape, dtype=dtype)
        if is_float(dtype):
            x = np.round(x * 2).astype(x.dtype)
            x.reshape(-1)[5::23] = np.nan
        for axis in (None, *range(len(shape))):
            for name in ("argmax", "argmin"):
                cases.append(
                    Case(
                        f"{name} of {shape} along {axis}",
                        lambda a, n=name, s=axis: getattr(topi, n)(a, s),
                        [x],
                        lambda a, n=name, s=axis: first_place(a, n, s),
                    )
                )
    check(cases)


def first_place(x: torch.Tensor, name: str, axis: int | None) -> Any:
    return getattr(np, name)(x.numpy(), axis)  # NumPy takes the first one, NaN before all


def test_extremes_of_nan():
    x = noise(4, 67, 65)
    x[3, 4] = x[66, 64] = np.nan
    x[10] = -np.inf
    x[:, 7] = np.inf
    cases = []
    for axes in subsets(2):
        for name in ("max", "min", "sum", "mean"):
            wanted = {**REDUCTIONS, **OF_FLOATS}[name]
            cases.append(
                Case(
                    f"{name} over {axes}",
                    lambda a, n=name, s=axes: getattr(topi, n)(a, s),
                    [x],
                    lambda a, f=wanted, s=axes: f(a, s),
                    4,
                )
            )
    cases.append(Case("softmax", topi.nn.softmax, [x], lambda a: torch.softmax(a, -1)))
    check(cases)


# ---- normalisations


def norms(dtype: str) -> list[Case]:
    functional = torch.nn.functional
    cases = []
    for shape, axis in [((5, 17), -1), ((16, 70), -1), ((3, 9, 33), 1), ((2, 3, 5, 8), 1), ((67, 65), 0), ((1, 1), -1)]:
        x = (noise(1, *shape) * 3).astype(to_numpy(dtype))
        cases += [
            Case(
                f"softmax {shape} {axis}",
                lambda a, s=axis: topi.nn.softmax(a, s),
                [x],
                lambda a, s=axis: torch.softmax(a, s),
            ),
            Case(
                f"log_softmax {shape} {axis}",
                lambda a, s=axis: topi.nn.log_softmax(a, s),
                [x],
                lambda a, s=axis: torch.log_softmax(a, s),
            ),
        ]
    for shape, axes in [((5, 17), (-1,)), ((16, 70), (-1,)), ((3, 4, 9, 8), (-2, -1)), ((40, 2, 33), (-1,))]:
        x = noise(2, *shape, dtype=dtype)
        sizes = [shape[a] for a in axes]
        gamma, beta = noise(3, *sizes, dtype=dtype), noise(4, *sizes, dtype=dtype)
        cases += [
            Case(
                f"layer_norm {shape}",
                lambda a, g, b, s=axes: topi.nn.layer_norm(a, g, b, s),
                [x, gamma, beta],
                lambda a, g, b, s=sizes: functional.layer_norm(a, s, g, b, 1e-5),
                2,
            ),
            Case(
                f"rms_norm {shape}",
                lambda a, g, s=axes: topi.nn.rms_norm(a, g, s),
                [x, gamma],
                lambda a, g, s=sizes: functional.rms_norm(a, s, g, 1e-5),
                2,
            ),
        ]
    return cases


def group_norm_in_blocks(x: Any, gamma: Any, beta: Any, groups: int) -> Any:
    """Of `(n, c / 2, h, w, 2)`."""
    plain = x.permute(0, 1, 4, 2, 3)
    done = torch.nn.functional.group_norm(plain.flatten(1, 2), groups, gamma, beta, 1e-5)
    return done.reshape(plain.shape).permute(0, 1, 3, 4, 2)


def norms_of_channels(dtype: str) -> list[Case]:
    functional = torch.nn.functional
    x = noise(5, 2, 6, 9, 5, dtype=dtype)
    gamma, beta, mean, var = (noise(6 + k, 6, dtype=dtype) for k in range(4))
    var = (np.abs(var.astype("f4")) + 1).astype(var.dtype)
    return [
        Case(
            "group_norm",
            lambda a, g, b: topi.nn.group_norm(a, g, b, 3, 1, (2, 3)),
            [x, gamma, beta],
            lambda a, g, b: functional.group_norm(a, 3, g, b, 1e-5),
            2,
        ),
        *(
            Case(
                f"group_norm_in_blocks {groups}",
                lambda a, g, b, groups=groups: topi.nn.group_norm_in_blocks(a, g, b, groups),
                [x.reshape(2, 3, 2, 9, 5).transpose(0, 1, 3, 4, 2).copy(), gamma, beta],
                lambda a, g, b, groups=groups: group_norm_in_blocks(a, g, b, groups),
                2,
            )
            for groups in (6, 3, 2)  # a channel, a block, and a block and a half
        ),
        Case(
            "instance_norm",
            lambda a, g, b: topi.nn.instance_norm(a, g, b, 1, (2, 3)),
            [x, gamma, beta],
            lambda a, g, b: functional.instance_norm(a, weight=g, bias=b),
            2,
        ),
        Case(
            "batch_norm_inference",
            lambda a, g, b, m, v: topi.nn.batch_norm_inference(a, g, b, m, v),
            [x, gamma, beta, mean, var],
            lambda a, g, b, m, v: functional.batch_norm(a, m, v, g, b),
            2,
        ),
        Case(
            "batch_norm_training",
            lambda a, g, b, m, v: topi.nn.batch_norm_training(a, g, b, m, v, 1, 1e-5, 0.1),
            [x, gamma, beta, mean, var],
            batch_norm,
            2,
        ),
    ]


def batch_norm(
    a: torch.Tensor, g: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor
) -> list[torch.Tensor]:
    mean, var = a.mean((0, 2, 3)), a.var((0, 2, 3), correction=0)
    return [torch.nn.functional.batch_norm(a, mean, var, g, b), m * 0.9 + mean * 0.1, v * 0.9 + var * 0.1]


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow), *SLOW[:2]])
def test_norms(dtype: str):
    check([*norms(dtype), *norms_of_channels(dtype)])


# ---- random ones


@given(
    st.sampled_from(["sum", "max", "min", "mean"]),
    st.lists(st.sampled_from([1, 2, 3, 5, 8, 16, 17, 33, 70]), min_size=1, max_size=4),
    st.integers(1, 15),
    st.booleans(),
    st.sampled_from(FLOATS),
)
@settings(max_examples=25)
def test_random_reductions(name: str, shape: list[int], chosen: int, keep: bool, dtype: str):
    axes = tuple(a for a in range(len(shape)) if chosen >> a & 1) or (0,)
    shape = [*shape[:3], *(min(n, 9) for n in shape[3:])]
    rows = {**REDUCTIONS, **OF_FLOATS}

    def theirs(a: torch.Tensor) -> torch.Tensor:
        made = rows[name](a, axes)
        return made.reshape([1 if k in axes else n for k, n in enumerate(shape)]) if keep else made

    x = noise(len(shape), *shape, dtype=dtype)
    check([Case(f"{name} of {shape} over {axes}", lambda a: getattr(topi, name)(a, axes, keep), [x], theirs, 4)])
