"""Default schedules of products, convolutions, pools and scans, beside torch and NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.batch import Case, check, compare, noise, run_with

from eutectic import topi
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import IntImm
from eutectic.testing.native import native

SLOW = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float16", "float64")]


PRODUCTS = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((1, 5), (5, 3)),
    ((2, 0), (0, 3)),
    ((16, 70), (70, 33)),
    ((67, 65), (65, 66)),
    ((2, 17, 9), (9, 31)),
    ((2, 1, 7, 4), (5, 4, 9)),
    ((4,), (2, 4, 3)),
    ((1, 64), (64, 64)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", *SLOW])
def test_matmul(dtype: str):
    cases = []
    for a, b in PRODUCTS if dtype in ("float32", "bfloat16") else PRODUCTS[3:8]:
        x, y = noise(0, *a, dtype=dtype), noise(1, *b, dtype=dtype)
        case = Case(f"matmul {a} {b}", topi.matmul, [x, y], torch.matmul, 4)
        cases.append(case if is_float(dtype) else integers(case))
    for flip_a, flip_b in itertools.product((False, True), repeat=2):
        for m, k, n in ((17, 9, 33), (66, 40, 65), (1, 33, 17)):
            x = noise(2, *((k, m) if flip_a else (m, k)), dtype=dtype)
            y = noise(3, *((n, k) if flip_b else (k, n)), dtype=dtype)
            case = Case(
                f"matmul {m} {k} {n} {flip_a} {flip_b}",
                lambda a, b, p=flip_a, q=flip_b: topi.matmul(a, b, p, q),
                [x, y],
                lambda a, b, p=flip_a, q=flip_b: torch.matmul(a.T if p else a, b.T if q else b),
                4,
            )
            cases.append(case if is_float(dtype) else integers(case))
    check(cases)


def integers(case: Case) -> Case:
    kind, reference = case.arrays[0].dtype, case.reference

    def narrow(*args: torch.Tensor) -> np.ndarray:
        made: np.ndarray = reference(*(a.to(torch.int64) for a in args)).numpy().astype(kind)
        return made

    return Case(case.name, case.define, case.arrays, narrow)


def test_other_products():
    x, y, bias = noise(0, 3, 17, 9), noise(1, 3, 33, 9), noise(2, 33)
    functional = torch.nn.functional
    check(
        [
            Case("batch_matmul", topi.nn.batch_matmul, [x, y], lambda a, b: a @ b.mT),
            Case(
                "batch_matmul both",
                lambda a, b: topi.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False),
                [noise(3, 3, 9, 17), noise(4, 3, 9, 16)],
                lambda a, b: a.mT @ b,
            ),
            Case("dense", topi.nn.dense, [noise(5, 20, 40), noise(6, 33, 40), bias], functional.linear),
            Case("nn.matmul", topi.nn.matmul, [noise(7, 8, 8), noise(8, 8, 8)], torch.matmul),
            Case(
                "wide",
                lambda a, b: topi.matmul(a, b, out_dtype="int32"),
                [noise(9, 20, 40, dtype="int8"), noise(10, 40, 33, dtype="int8")],
                lambda a, b: a.int() @ b.int(),
            ),
            Case(
                "einsum",
                lambda a, b: topi.einsum("bij,bkj->bki", a, b),
                [x, y],
                lambda a, b: torch.einsum("bij,bkj->bki", a, b),
            ),
            Case("trace", lambda a: topi.einsum("ii->i", a), [noise(11, 9, 9)], torch.diagonal),
            Case(
                "outer",
                lambda a, b: topi.einsum("i,j->ji", a, b),
                [noise(12, 33), noise(13, 17)],
                lambda a, b: torch.outer(b, a),
            ),
            Case(
                "with bias and relu",
                lambda a, w, b: topi.nn.relu(topi.add(topi.nn.dense(a, w), b)),
                [noise(14, 65, 70), noise(15, 33, 70), bias],
                lambda a, w, b: torch.relu(functional.linear(a, w, b)),
            ),
            Case(
                "with a transposed result",
                lambda a, w: topi.transpose(topi.nn.dense(a, w)),
                [noise(16, 65, 70), noise(17, 33, 70)],
                lambda a, w: functional.linear(a, w).T,
            ),
            Case("attention", attention(0), [noise(18 + k, 2, 17, 8) for k in range(3)], attention(1), 2),
        ],
    )


def attention(side: int) -> Callable[..., Any]:
    def ours(q: Any, k: Any, v: Any) -> Any:
        weights = topi.nn.softmax(topi.multiply(topi.nn.batch_matmul(q, k), 8**-0.5))
        return topi.nn.batch_matmul(weights, v, transpose_b=False)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return ours if side == 0 else theirs


# ---- convolutions and pools


def convolutions(dtype: str) -> Iterator[Case]:
    torch_conv = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}
    rows = [  # data, weight, stride, padding, dilation, groups
        ((1, 3, 33), (5, 3, 3), 1, 0, 1, 1),
        ((2, 4, 20), (6, 2, 4), 2, 2, 1, 2),
        ((1, 8, 17), (8, 1, 5), 1, 2, 2, 8),
        ((1, 3, 16, 17), (8, 3, 3, 3), 1, 1, 1, 1),
        ((2, 3, 19, 21), (16, 3, 7, 7), 2, 3, 1, 1),
        ((1, 16, 9, 9), (20, 16, 1, 1), 1, 0, 1, 1),
        ((1, 8, 12, 13), (8, 1, 3, 3), 1, 1, 1, 8),
        ((1, 8, 13, 12), (16, 1, 5, 5), 2, 2, 1, 8),
        ((2, 6, 9, 10), (9, 2, 3, 3), 1, 1, 1, 3),
        ((1, 4, 11, 12), (6, 4, 3, 2), 1, 2, 2, 1),
        ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), 1, 1, 1, 1),
        ((1, 2, 8, 7, 6), (4, 1, 2, 2, 2), 2, 0, 1, 2),
        ((1, 1, 1, 1), (1, 1, 1, 1), 1, 0, 1, 1),
    ]
    for data, weight, stride, padding, dilation, groups in rows:
        rank = len(data) - 2
        yield Case(
            f"conv{rank}d of {data} with {weight}, {stride} {padding} {dilation} {groups}",
            lambda a, w, r=rank, s=stride, p=padding, d=dilation, g=groups: getattr(topi.nn, f"conv{r}d")(
                a, w, s, p, d, g
            ),
            [noise(0, *data, dtype=dtype), noise(1, *weight, dtype=dtype)],
            lambda a, w, r=rank, s=stride, p=padding, d=dilation, g=groups: torch_conv[r](a, w, None, s, p, d, g),
            4,
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", *SLOW])
def test_convolutions(dtype: str):
    cases = list(convolutions(dtype))
    check(cases if is_float(dtype) else map(integers, cases))


def test_convolutions_in_other_layouts():
    x, w = noise(0, 2, 11, 13, 6), noise(1, 3, 3, 6, 8)
    depth = noise(2, 3, 3, 1, 6)
    conv = torch.nn.functional.conv2d
    check(
        [
            Case(
                "NHWC",
                lambda a, b: topi.nn.conv2d(a, b, 1, 1, 1, 1, "NHWC", "HWIO"),
                [x, w],
                lambda a, b: conv(a.permute(0, 3, 1, 2), b.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1),
            ),
            Case(
                "NHWC in steps",
                lambda a, b: topi.nn.conv2d(a, b, 2, (0, 1, 1, 2), 1, 1, "NHWC", "HWIO"),
                [x, w],
                lambda a, b: conv(
                    torch.nn.functional.pad(a.permute(0, 3, 1, 2), (1, 2, 0, 1)), b.permute(3, 2, 0, 1), stride=2
                ).permute(0, 2, 3, 1),
            ),
            Case(
                "depthwise NHWC",
                lambda a, b: topi.nn.conv2d(a, b, 1, 1, 1, 6, "NHWC", "HWIO"),
                [x, depth],
                lambda a, b: conv(a.permute(0, 3, 1, 2), b.permute(3, 2, 0, 1), padding=1, groups=6).permute(
                    0, 2, 3, 1
                ),
            ),
            Case(
                "to NHWC",
                lambda a, b: topi.nn.conv2d(a, b, 1, 0, 1, 1, "NCHW", "OIHW", "NHWC"),
                [noise(3, 1, 3, 9, 9), noise(4, 8, 3, 3, 3)],
                lambda a, b: conv(a, b).permute(0, 2, 3, 1),
            ),
            Case(
                "NWC",
                lambda a, b: topi.nn.conv1d(a, b, 1, 1, 1, 1, "NWC", "WIO"),
                [noise(5, 2, 20, 3), noise(6, 3, 3, 9)],
                lambda a, b: torch.nn.functional.conv1d(a.permute(0, 2, 1), b.permute(2, 1, 0), padding=1).permute(
                    0, 2, 1
                ),
            ),
            Case(
                "int8 into int32",
                lambda a, b: topi.nn.conv2d(a, b, 1, 1, out_dtype="int32"),
                [noise(7, 1, 4, 9, 9, dtype="int8"), noise(8, 5, 4, 3, 3, dtype="int8")],
                lambda a, b: conv(a.double(), b.double(), padding=1),
            ),
            Case(
                "with relu",
                lambda a, b: topi.nn.relu(topi.nn.conv2d(a, b, 1, 1)),
                [noise(9, 1, 8, 14, 14), noise(10, 16, 8, 3, 3)],
                lambda a, b: torch.relu(conv(a, b, padding=1)),
            ),
        ],
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_transposed_convolutions(dtype: str):
    functional = torch.nn.functional
    theirs = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
    rows = [  # data, weight, stride, padding, output padding, dilation, groups
        ((1, 3, 17), (3, 5, 3), 1, 0, 0, 1, 1),
        ((2, 4, 9), (4, 3, 4), 2, 1, 1, 1, 2),
        ((1, 3, 9, 8), (3, 8, 3, 3), 2, 1, 1, 1, 1),
        ((1, 4, 7, 9), (4, 4, 2, 2), 2, 0, 0, 1, 1),
        ((1, 4, 7, 6), (4, 2, 3, 3), 1, 1, 0, 2, 2),
        ((1, 2, 4, 5, 3), (2, 3, 3, 3, 3), 2, 1, 0, 1, 1),
    ]
    cases = []
    for data, weight, stride, padding, extra, dilation, groups in rows:
        rank = len(data) - 2

        def ours(a: Any, w: Any, r: int = rank, o: tuple[int, ...] = (stride, padding, extra, dilation, groups)) -> Any:
            return getattr(topi.nn, f"conv{r}d_transpose")(a, w, *o)

        def wanted(
            a: torch.Tensor,
            w: torch.Tensor,
            r: int = rank,
            o: tuple[int, ...] = (stride, padding, extra, groups, dilation),
        ) -> torch.Tensor:
            return theirs[r](a, w, None, *o)

        given_arrays = [noise(0, *data, dtype=dtype), noise(1, *weight, dtype=dtype)]
        cases.append(Case(f"conv{rank}d_transpose {data} {weight}", ours, given_arrays, wanted, 4))
    check(cases)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_pools(dtype: str):
    functional = torch.nn.functional
    largest = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
    mean = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}
    rows = [  # data, kernel, stride, padding, dilation, ceil_mode
        ((2, 3, 20), 3, 2, 1, 1, False),
        ((1, 3, 17), 2, 2, 0, 1, True),
        ((1, 4, 16, 17), 3, 2, 1, 1, False),
        ((2, 3, 15, 19), 3, 2, 1, 1, True),
        ((1, 8, 33, 40), 2, 2, 0, 1, False),
        ((1, 3, 14, 13), 3, 1, 1, 2, False),
        ((1, 2, 7, 8, 9), 3, 2, 1, 1, False),
        ((1, 2, 6, 7, 8), 2, 2, 0, 1, True),
    ]
    cases = []
    for data, kernel, stride, padding, dilation, ceil in rows:
        rank, x = len(data) - 2, noise(0, *data, dtype=dtype)

        def of(
            kind: str, padded: bool, options: tuple[Any, ...] = (rank, kernel, stride, dilation, padding, ceil)
        ) -> Any:
            r, k, s, d, p, c = options
            return lambda a: getattr(topi.nn, f"pool{r}d")(a, k, s, d, p, kind, c, count_include_pad=padded)

        def best(a: torch.Tensor, o: tuple[Any, ...] = (rank, kernel, stride, padding, dilation, ceil)) -> torch.Tensor:
            return largest[o[0]](a.double(), *o[1:])

        def average(
            a: torch.Tensor, padded: bool, o: tuple[Any, ...] = (rank, kernel, stride, padding, ceil)
        ) -> torch.Tensor:
            return mean[o[0]](a, *o[1:], padded)

        cases.append(Case(f"max pool of {data}", of("max", True), [x], best))
        if dilation == 1 and is_float(dtype):
            cases.append(Case(f"avg pool of {data}", of("avg", True), [x], lambda a, f=average: f(a, True)))
            cases.append(
                Case(f"avg pool of {data}, without padding", of("avg", False), [x], lambda a, f=average: f(a, False))
            )
    check(cases)


def test_adaptive_pools():
    x = noise(0, 2, 3, 13, 17)
    functional = torch.nn.functional
    check(
        [
            Case(
                "avg",
                lambda a: topi.nn.adaptive_pool(a, (4, 5), "avg"),
                [x],
                lambda a: functional.adaptive_avg_pool2d(a, (4, 5)),
            ),
            Case(
                "max",
                lambda a: topi.nn.adaptive_pool(a, (4, 17), "max"),
                [x],
                lambda a: functional.adaptive_max_pool2d(a, (4, 17)),
            ),
            Case("global avg", lambda a: topi.nn.global_pool(a, "avg"), [x], lambda a: a.mean((2, 3), keepdim=True)),
            Case("global max", lambda a: topi.nn.global_pool(a, "max"), [x], lambda a: a.amax((2, 3), keepdim=True)),
            Case("one", lambda a: topi.nn.adaptive_pool(a, (1, 1), "avg"), [x], lambda a: a.mean((2, 3), keepdim=True)),
        ]
    )


# ---- programs that are no tensor expressions


@pytest.mark.parametrize("kind", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_scans(kind: str, axis: int | None):
    for dtype, exclusive in (("float32", False), ("int32", True), ("float16", False)):
        x = (noise(0, 5, 33, 9, dtype=dtype) / (1 if dtype == "int32" else 2)).astype(to_numpy(dtype))
        shape = [IntImm("int64", n) for n in x.shape]
        function = native(topi.scan(kind, shape, dtype, axis, dtype, exclusive))
        flat = x if axis is not None else x.reshape(-1)
        with np.errstate(all="ignore"):
            want = getattr(np, kind)(flat, 0 if axis is None else axis, dtype="f8" if dtype[0] == "f" else "int64")
        if exclusive:
            want = np.roll(want, 1, axis or 0)
            first: list[Any] = [slice(None)] * flat.ndim
            first[axis or 0] = 0
            want[tuple(first)] = 0 if kind == "cumsum" else 1
        results = [np.full(want.shape, 77, x.dtype) for _ in range(2)]
        for threads, out in zip((1, 2), results, strict=True):
            run_with(function, threads, x, out)
        compare(results[0], want, f"{kind} of {dtype} along {axis}", 2)
        assert results[0].tobytes() == results[1].tobytes()


@given(
    st.tuples(*[st.sampled_from([1, 2, 3, 6, 7, 8, 12, 13, 16, 17, 31, 33, 65, 70])] * 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, "relu", "add", "exp"]),
)
@settings(max_examples=20)
def test_random_products(sizes: tuple[int, int, int], flip_a: bool, flip_b: bool, after: str | None):
    m, k, n = sizes
    a, b = noise(0, *((k, m) if flip_a else (m, k))), noise(1, *((n, k) if flip_b else (k, n)))
    bias = noise(2, n)

    def ours(x: Any, y: Any, z: Any) -> Any:
        made = topi.multiply(topi.matmul(x, y, flip_a, flip_b), 0.1)
        made = {"relu": topi.nn.relu, "exp": topi.exp}.get(after or "", topi.identity)(made)
        return topi.add(made, z)

    def theirs(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        made = (x.T if flip_a else x) @ (y.T if flip_b else y) * 0.1
        return {"relu": torch.relu, "exp": torch.exp}.get(after or "", torch.clone)(made) + z

    check([Case(f"{m} {k} {n} {flip_a} {flip_b} {after}", ours, [a, b, bias], theirs, 4)])
