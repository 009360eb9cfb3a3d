"""Default schedules of element-wise programs, broadcasts, and what moves elements, beside torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backend.llvm.batch import Case, check, noise

from eutectic import te, topi
from eutectic.ir.dtype import is_float

SHAPES = [(), (0,), (1,), (5,), (16, 70), (3, 1, 33), (67, 65)]
# topi's name -> the same of torch, on float32 and the other floats.
FLOAT_UNARY: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("abs", "acosh", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "floor", "isfinite", "isinf"),
            *("isnan", "log", "log10", "log1p", "log2", "logical_not", "negative", "round", "rsqrt", "sigmoid", "sign"),
            *("sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "acos", "asin", "atanh", "erfc"),
        )
    },
    "identity": lambda x: x,
    "nn.elu": torch.nn.functional.elu,
    "nn.gelu": torch.nn.functional.gelu,
    "nn.gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "nn.hardsigmoid": torch.nn.functional.hardsigmoid,
    "nn.hardswish": torch.nn.functional.hardswish,
    "nn.relu": torch.relu,
    "nn.selu": torch.selu,
    "nn.silu": torch.nn.functional.silu,
    "nn.softplus": torch.nn.functional.softplus,
}
INTEGER_UNARY: dict[str, Callable[..., Any]] = {
    "abs": torch.abs,
    "bitwise_not": torch.bitwise_not,
    "ceil": lambda x: x,
    "floor": lambda x: x,
    "identity": lambda x: x,
    "logical_not": torch.logical_not,
    "negative": torch.negative,
    "sign": torch.sign,
    "square": torch.square,
    "nn.relu": torch.relu,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "divide": lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc"),
    "equal": torch.eq,
    "floor_divide": torch.floor_divide,
    "floor_mod": torch.remainder,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "less": torch.lt,
    "less_equal": torch.le,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": torch.fmod,
    "multiply": torch.multiply,
    "not_equal": torch.ne,
    "subtract": torch.subtract,
}
OF_FLOATS = {
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "log_add_exp": torch.logaddexp,
    "power": torch.pow,
}
OF_INTEGERS = {
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": lambda a, b: torch.bitwise_left_shift(a, b),
    "right_shift": lambda a, b: torch.bitwise_right_shift(a, b),
    "power": lambda a, b: torch.pow(a, b),
}


def definition(name: str) -> Callable[..., Any]:
    found: Any = topi
    for part in name.split("."):
        found = getattr(found, part)
    return found


def slow(*dtypes: str) -> list[Any]:
    return [pytest.param(dtype, marks=pytest.mark.slow) for dtype in dtypes]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", *slow("float16", "float64")])
def test_functions_of_floats(dtype: str):
    shapes = itertools.cycle(SHAPES)
    cases = []
    for name, reference in FLOAT_UNARY.items():
        x = noise(len(name), *next(shapes), dtype=dtype)
        if name in ("round", "logical_not"):
            x = np.round(x * 2) / np.asarray(2, x.dtype)
        cases.append(Case(name, definition(name), [x], reference))
    check(cases)


def test_functions_of_special_floats():
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42, 3e38, -3e38, 0.5, -1.0, 1.0, 20.0, 100.0, -100.0]
    x = np.array(special * 3, "float32")
    left_out = ("sinh", "cosh", "square", "nn.gelu_tanh", "nn.hardswish", "nn.silu")  # overflow only in float32
    cases = [Case(n, definition(n), [x[:13]], r) for n, r in FLOAT_UNARY.items() if n not in left_out]
    check(cases)


@pytest.mark.parametrize("dtype", ["int8", "int64", *slow("int32", "uint8")])
def test_functions_of_integers(dtype: str):
    shapes = itertools.cycle(SHAPES[2:])
    names = {
        n: r for n, r in INTEGER_UNARY.items() if dtype[0] != "u" or n not in ("negative", "abs", "sign", "nn.relu")
    }
    check([Case(n, definition(n), [noise(1, *next(shapes), dtype=dtype)], r) for n, r in names.items()])


PAIRS = [
    ((7,), (7,)),
    ((5, 1), (1, 9)),
    ((16, 70), (70,)),
    ((4, 1, 17), (3, 1)),
    ((0, 3), (1, 3)),
    ((65, 67), ()),
    ((2, 33), (2, 1)),
]


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "int8", "bool", *slow("float16", "float64", "int32", "int64")]
)
def test_operators_with_broadcasts(dtype: str):
    pairs = itertools.cycle(PAIRS)
    rows = {**BINARY, **(OF_FLOATS if is_float(dtype) else OF_INTEGERS)}
    if dtype == "bool":
        logic = ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
        rows = {n: rows[n] for n in (*logic, "equal", "not_equal", "maximum", "minimum", "add", "multiply", "less")}
        rows |= {"maximum": torch.logical_or, "minimum": torch.logical_and}
    cases = []
    for name, reference in rows.items():
        a, b = (noise(k, *shape, dtype=dtype) for k, shape in enumerate(next(pairs)))
        if dtype != "bool" and not is_float(dtype):
            b = np.where(b == 0, 3, b).astype(dtype)
        if name in ("left_shift", "right_shift", "power") or (name == "power" and is_float(dtype)):
            a, b = (np.abs(a) if is_float(dtype) else a), (b if is_float(dtype) else np.abs(b) % 4)
        cases.append(Case(name, definition(name), [a, np.asarray(b).astype(a.dtype)], reference))
    check(cases)


def test_maximum_and_minimum_of_nan():
    a = np.array([np.nan, 1, np.nan, 2, -0.0, 0.0, np.inf, -np.inf] * 5, "float32")
    b = np.array([1, np.nan, np.nan, 3, 0.0, -0.0, -np.inf, np.nan] * 5, "float32")
    cases = [Case(n, definition(n), [a, b], BINARY[n]) for n in ("maximum", "minimum", "less", "equal", "not_equal")]
    check([*cases, Case("clip", lambda x: topi.clip(x, -0.5, 1.5), [a], lambda x: torch.clip(x, -0.5, 1.5))])


def test_other_elementwise_operators():
    x, y, z = noise(0, 16, 70), noise(1, 16, 70), noise(2, 16, 70)
    condition = noise(3, 16, 1, dtype="bool")
    functional = torch.nn.functional
    check(
        [
            Case("clip", lambda a: topi.clip(a, -0.5, 1.5), [x], lambda a: torch.clip(a, -0.5, 1.5)),
            Case("where", topi.where, [condition, x, y], torch.where),
            Case("ewise_fma", topi.ewise_fma, [x, y, z], lambda a, b, c: a * b + c),
            Case("leaky_relu", lambda a: topi.nn.leaky_relu(a, 0.1), [x], lambda a: functional.leaky_relu(a, 0.1)),
            Case("prelu", lambda a, b: topi.nn.prelu(a, b, 1), [x, noise(4, 70)], functional.prelu),
            Case("broadcast_to", lambda a: topi.broadcast_to(a, (3, 16, 70)), [x], lambda a: a.expand(3, 16, 70)),
            Case("full", lambda: topi.full((3, 33), "int8", 7), [], lambda: torch.full((3, 33), 7)),
            Case("full_like", lambda a: topi.full_like(a, 2.5), [x], lambda a: torch.full_like(a, 2.5)),
            Case("arange", lambda: topi.arange(3, 40, 2, "int64"), [], lambda: torch.arange(3, 40, 2)),
            Case("arange_of", lambda: topi.arange_of((33,), 1, 3, "int32"), [], lambda: torch.arange(33) * 3 + 1),
            Case("listed", lambda: topi.listed([5, 3, 8], "int64"), [], lambda: torch.tensor([5, 3, 8])),
            Case(
                "causal_mask",
                lambda a: topi.nn.causal_mask(a, "TopLeft"),
                [x],
                lambda a: a.masked_fill(torch.ones(16, 70).triu(1).bool(), -torch.inf),
            ),
            Case(
                "sequence_mask",
                lambda a, q, k: topi.nn.sequence_mask(a, q, k, None),
                [x, np.array([0, 4, 16], "int32"), np.array([0, 60, 70], "int32")],
                sequences,
            ),
            Case(
                "without_empty_sequences",
                topi.nn.without_empty_sequences,
                [noise(5, 1, 6, 2, 9), np.array([0, 2, 4, 6], "int32"), np.array([0, 3, 3, 5], "int32")],
                lambda a, q, k: a * torch.tensor([1.0, 1, 0, 0, 1, 1]).reshape(1, 6, 1, 1),
            ),
            Case(
                "quantize",
                lambda a, s, p: topi.quantize(a, s, p, 1, "int8"),
                [x, np.full(70, 0.05, "float32"), np.full(70, 3, "int8")],
                lambda a, s, p: torch.clip(torch.round(a / s) + p, -128, 127),
            ),
            Case(
                "dequantize",
                lambda a, s, p: topi.dequantize(a, s, p, 1),
                [noise(6, 16, 70, dtype="int8"), np.full(70, 0.05, "float32"), np.full(70, 3, "int8")],
                lambda a, s, p: (a.double() - p) * s,
            ),
        ]
    )


def sequences(scores: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    seen = torch.zeros(16, 70, dtype=torch.bool)
    seen[:4, :60] = seen[4:, 60:] = True
    return scores.masked_fill(~seen, -torch.inf)


@pytest.mark.parametrize("source", ["float32", "float16", "int8", "int64", "bool", "bfloat16"])
def test_casts(source: str):
    x = noise(0, 3, 41, dtype=source)
    kinds = {"float32": torch.float32, "float64": torch.float64, "int32": torch.int32, "uint8": torch.uint8}
    kinds |= {"bool": torch.bool, "int64": torch.int64, "float16": torch.float16}
    if source == "float32":
        x = np.abs(x) * 20  # torch leaves negative floats to uint8 open
    if source in ("float16", "bfloat16"):
        x = np.abs(x)
    check([Case(f"to {t}", lambda a, t=t: topi.cast(a, t), [x], lambda a, k=k: a.to(k)) for t, k in kinds.items()])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float64", "bfloat16"])
def test_transposes(dtype: str):
    """All orders of two to four axes."""
    cases = []
    for shape in [(17, 33), (70, 16), (1, 9), (5, 17, 9), (2, 3, 9, 17)]:
        x = noise(len(shape), *shape, dtype=dtype)
        orders = list(itertools.permutations(range(len(shape))))
        for axes in orders if dtype == "float32" else orders[-4:]:
            cases.append(
                Case(f"{shape} by {axes}", lambda a, o=axes: topi.transpose(a, o), [x], lambda a, o=axes: a.permute(o))
            )
    check(cases)


def moves() -> list[Case]:
    x, y, t = noise(0, 5, 17, 9), noise(1, 5, 3, 9), noise(2, 4, 33)
    return [
        Case("concatenate", lambda a, b: topi.concatenate([a, b, a], 1), [x, y], lambda a, b: torch.cat([a, b, a], 1)),
        Case(
            "concatenate last",
            lambda a, b: topi.concatenate([a, b], -1),
            [x, x[:, :, :3].copy()],
            lambda a, b: torch.cat([a, b], -1),
        ),
        Case(
            "concatenate transposed",
            lambda a, b, c: topi.concatenate([topi.transpose(a), b, topi.transpose(c)], 1),
            [noise(6, 37, 70), noise(7, 70, 19), noise(8, 3, 70)],
            lambda a, b, c: torch.cat([a.T, b, c.T], 1),
        ),
        Case("stack", lambda a, b: topi.stack([a, b], 1), [t, t], lambda a, b: torch.stack([a, b], 1)),
        Case("split", lambda a: topi.split(a, 3, 1), [t], lambda a: torch.split(a, 11, 1)),
        Case(
            "split_at",
            lambda a: topi.split_at(a, [te.const(3, "int64"), te.const(30, "int64")], 1),
            [t],
            lambda a: torch.split(a, [3, 30], 1),
        ),
        Case("split by places", lambda a: topi.split(a, [3, 10], 1), [t], lambda a: torch.split(a, [3, 7, 23], 1)),
        Case("expand_dims", lambda a: topi.expand_dims(a, [0, 2]), [t], lambda a: a[None, :, None]),
        Case("squeeze", lambda a: topi.squeeze(a, 1), [noise(4, 33, 1)], lambda a: a[:, 0]),
        Case("reshape", lambda a: topi.reshape(a, (17, 45)), [x], lambda a: a.reshape(17, 45)),
        Case(
            "reshape of a sum",
            lambda a: topi.reshape(topi.exp(topi.transpose(a)), (9, 85)),
            [x],
            lambda a: torch.exp(a.permute(2, 1, 0)).reshape(9, 85),
        ),
        Case("flip", lambda a: topi.flip(a, 1), [t], lambda a: a.flip(1)),
        Case("flip rows", lambda a: topi.flip(a, 0), [t], lambda a: a.flip(0)),
        Case("repeat", lambda a: topi.repeat(a, 3, 1), [t], lambda a: a.repeat_interleave(3, 1)),
        Case("repeat all", lambda a: topi.repeat(a, 2), [t], lambda a: a.repeat_interleave(2)),
        Case("tile", lambda a: topi.tile(a, (2, 1, 3)), [t], lambda a: a.tile(2, 1, 3)),
    ]


def points() -> list[Case]:
    """Blocks of channels, or tensors, as blocks of points; conditions and places change from lane to lane."""
    x, halves = noise(4, 1, 24, 9, 21), [noise(5 + k, 1, 6, 9, 21) for k in range(4)]
    last, blocks = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), noise(9, 1, 4, 9, 5, 16)

    def shuffled(a: torch.Tensor, down: int, right: int) -> torch.Tensor:
        parts = a.unflatten(1, (down, right, -1))
        return parts.permute(0, 3, 4, 1, 5, 2).reshape(1, -1, down * a.shape[2], right * a.shape[3])

    def of_blocks(a: torch.Tensor) -> torch.Tensor:
        whole = shuffled(a.permute(0, 1, 4, 2, 3).flatten(1, 2), 2, 2)
        return whole.unflatten(1, (-1, 16)).permute(0, 1, 3, 4, 2)

    return [
        Case("depth_to_space", lambda a: topi.nn.depth_to_space(a, 2), [x], lambda a: shuffled(a, 2, 2)),
        Case("of 3 columns", lambda a: topi.nn.depth_to_space(a, (1, 3)), [x], lambda a: shuffled(a, 1, 3)),
        Case(
            "with crops",
            lambda a: topi.nn.depth_to_space(a, 2, (1, 1, 0, 3)),
            [x],
            lambda a: shuffled(a, 2, 2)[:, :, 1:, 1:-3],
        ),
        Case(
            "of tensors",
            lambda *parts: topi.nn.depth_to_space(parts, 2, (0, 1, 1, 0)),
            halves,
            lambda *parts: shuffled(torch.cat(parts, 1), 2, 2)[:, :, :-1, 1:],
        ),
        Case(
            "channels last",
            lambda a: topi.nn.depth_to_space(a, 2, layout="NHWC"),
            [last],
            lambda a: shuffled(a.permute(0, 3, 1, 2), 2, 2).permute(0, 2, 3, 1),
        ),
        Case(
            "space_to_batch",
            lambda a: topi.nn.space_to_batch(a, (2, 3), (2, 3, 1, 3)),
            [x],
            lambda a: torch.cat(
                [torch.nn.functional.pad(a, (3, 3, 2, 1))[:, :, i::2, j::3] for i in (0, 1) for j in range(3)]
            ),
        ),
        Case(
            "of blocks",
            lambda a: topi.nn.space_to_batch(a, 2, (1, 0, 0, 1), "NCHW16c"),
            [blocks],
            lambda a: torch.cat(
                [torch.nn.functional.pad(a, (0, 0, 0, 1, 1, 0))[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
            ),
        ),
        Case(
            "batch_to_space",
            lambda *parts: topi.nn.batch_to_space(topi.concatenate(parts, 0), 2, (1, 0, 0, 2)),
            halves,
            lambda *parts: (
                torch.stack(parts).unflatten(0, (2, 2)).permute(2, 3, 4, 0, 5, 1).reshape(1, 6, 18, 42)[:, :, 1:, :-2]
            ),
        ),
        Case("channels in blocks", lambda a: topi.nn.depth_to_space(a, 2, layout="NCHW16c"), [blocks], of_blocks),
    ]


def choices() -> list[Case]:
    x, t, whole = noise(0, 5, 17, 9), noise(2, 4, 33), noise(3, 67, 65)
    at = np.array([[0, 4, 2], [3, 3, 1]], "int64")
    return [
        Case("upper", lambda a: topi.trilu(a, 2, True), [whole], lambda a: a.triu(2)),
        Case("lower", lambda a: topi.trilu(a, -1, False), [whole], lambda a: a.tril(-1)),
        Case("take", lambda a, i: topi.take(a, i, 1), [x, at], lambda a, i: a[:, i]),
        Case("take rows", lambda a, i: topi.take(a, i, 0, "fast"), [whole, at], lambda a, i: a[i]),
        Case("take all", lambda a, i: topi.take(a, i), [x, at], lambda a, i: a.flatten()[i]),
        Case(
            "take nan",
            lambda a, i: topi.take(a, i, 0, "nan"),
            [t, np.array([0, 9, 3])],
            lambda a, i: torch.stack([a[0], a[0] * torch.nan, a[3]]),
        ),
        Case("take wrap", lambda a, i: topi.take(a, i, 0, "wrap"), [t, np.array([-1, 9, 3])], lambda a, i: a[i % 4]),
        Case(
            "gather", lambda a, i: topi.gather(a, 1, i), [t, np.tile(np.arange(5), (4, 1))], lambda a, i: a.gather(1, i)
        ),
        Case(
            "strided_slice",
            lambda a: topi.strided_slice(a, [1, 30], [4, 2], [1, -3]),
            [t],
            lambda a: a[1:4, 3:31].flip(1)[:, ::3],
        ),
        Case("every other", lambda a: topi.strided_slice(a, [0, 1], [4, 33], [1, 2]), [t], lambda a: a[:, 1::2]),
        Case(
            "dynamic_strided_slice",
            lambda a: topi.dynamic_strided_slice(a, [1], [te.const(3, "int64")], [2], (4, 9)),
            [t],
            lambda a: a[:, 3:21:2],
        ),
    ]


def paddings() -> list[Case]:
    t = noise(2, 4, 33)
    return [
        Case(
            "pad",
            lambda a: topi.nn.pad(a, (1, 2), (0, 3), 1.5),
            [t],
            lambda a: torch.nn.functional.pad(a, (2, 3, 1, 0), value=1.5),
        ),
        Case(
            "pad and cut", lambda a: topi.nn.pad(a, (0, -2), (0, 3)), [t], lambda a: torch.nn.functional.pad(a, (-2, 3))
        ),
        Case(
            "pad reflect",
            lambda a: topi.nn.pad_from(a, (1, 2), (2, 3), "reflect"),
            [t],
            lambda a: torch.nn.functional.pad(a[None], (2, 3, 1, 2), mode="reflect")[0],
        ),
        Case(
            "pad edge",
            lambda a: topi.nn.pad_from(a, (1, 2), (2, 3), "edge"),
            [t],
            lambda a: torch.nn.functional.pad(a[None], (2, 3, 1, 2), mode="replicate")[0],
        ),
        Case("nothing", lambda a, b: topi.concatenate([a, b], 0), [noise(5, 0, 7), noise(6, 2, 7)], lambda a, b: b),
    ]


def test_what_moves_elements():
    check([*moves(), *points(), *choices(), *paddings()])


# ---- chains


STEPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exp": (lambda x: topi.exp(topi.minimum(x, 2.0)), lambda x: torch.exp(torch.clip(x, max=2.0))),
    "tanh": (topi.tanh, torch.tanh),
    "relu": (topi.nn.relu, torch.relu),
    "transpose": (topi.transpose, lambda x: x.permute(*reversed(range(x.ndim)))),
    "flip": (lambda x: topi.flip(x, -1), lambda x: x.flip(-1)),
    "centre": (
        lambda x: topi.subtract(x, topi.sum(x, -1, True) * (1.0 / 64)),
        lambda x: x - x.sum(-1, keepdim=True) / 64,
    ),
    "largest": (lambda x: topi.subtract(x, topi.max(x, 0, True)), lambda x: x - x.amax(0, keepdim=True)),
    "double": (lambda x: topi.concatenate([x, topi.negative(x)], 0), lambda x: torch.cat([x, -x], 0)),
    "pad": (
        lambda x: topi.nn.pad(x, [1] * len(x.shape), [2] * len(x.shape), 0.5),
        lambda x: torch.nn.functional.pad(x, [1, 2] * x.ndim, value=0.5),
    ),
    "flat": (
        lambda x: (
            topi.reshape(x, (math.prod(int(n) for n in x.shape[:-1]), x.shape[-1]))
            if len(x.shape) > 1
            else topi.identity(x)
        ),
        lambda x: x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x,
    ),
}


def chain(names: list[str], side: int) -> Callable[..., Any]:
    def apply(x: Any) -> Any:
        for name in names:
            x = STEPS[name][side](x)
        return x

    return apply


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=5),
    st.lists(st.sampled_from([1, 3, 8, 17, 33]), min_size=1, max_size=3),
    st.integers(0, 99),
)
@settings(max_examples=25)
def test_chains(names: list[str], shape: list[int], seed: int):
    names = [name for k, name in enumerate(names) if name not in ("double", "pad") or names.index(name) == k]
    check([Case(f"{' '.join(names)} of {shape}", chain(names, 0), [noise(seed, *shape)], chain(names, 1), 4)])
