"""Operators, comparisons and conversions in every dtype and in vectors, bit by bit as the interpreter has them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from tests.backend.llvm.lanes import DTYPES, INTEGERS, compute, pairs, same

from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
)
from eutectic.tir.interpret.scalar import arithmetic, casting, comparing

OPERATORS = (Add, Sub, Mul, Div, FloorDiv, FloorMod, TruncDiv, TruncMod, Max, Min)
DIVISIONS = (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)
COMPARISONS = (EQ, NE, LT, LE, GT, GE)


def items(x: np.ndarray, dtype: str) -> list[Any]:
    """Elements as the interpreter holds them."""
    return list(x) if is_float(dtype) else x.tolist()


def expected(kind: type, dtype: str, a: list[Any], b: list[Any]) -> np.ndarray:
    """What the interpreter makes of pairs; divisions of integers by zero, which it refuses, give 0."""
    compute_one = arithmetic(kind, dtype)
    zero_is_left_out = kind in DIVISIONS and not is_float(dtype)
    with np.errstate(all="ignore"):
        made = [0 if zero_is_left_out and y == 0 else compute_one(x, y) for x, y in zip(a, b, strict=True)]
    return np.array(made, to_numpy(dtype))


def operators_of(dtype: str) -> tuple[type, ...]:
    return tuple(op for op in OPERATORS if op not in DIVISIONS) if dtype == "bool" else OPERATORS


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary(dtype: str):
    a, b = pairs(dtype)
    kinds = operators_of(dtype)
    names = {kind.__name__: kind for kind in (*kinds, *COMPARISONS)}
    dtypes = {name: "bool" if kind in COMPARISONS else dtype for name, kind in names.items()}
    got = compute(names, dtypes, a, b)
    left, right = items(a, dtype), items(b, dtype)
    for kind in kinds:
        same(got[kind.__name__], expected(kind, dtype, left, right), f"{kind.__name__} of {dtype}")
    for kind in COMPARISONS:
        want = np.array([comparing(kind)(x, y) for x, y in zip(left, right, strict=True)])
        same(got[kind.__name__], want, f"{kind.__name__} of {dtype}")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_constants(dtype: str):
    a, _ = pairs(dtype)
    divisors = {1, 3, 8, int(np.iinfo(dtype).max)} | (
        {-1, -3, -8, int(np.iinfo(dtype).min)} if dtype[0] == "i" else {10}
    )
    cases = {f"{kind.__name__}_{d}".replace("-", "m"): (kind, d) for kind in DIVISIONS[1:] for d in sorted(divisors)}
    expressions = {name: lambda x, k=kind, d=d: k(x, IntImm(dtype, d)) for name, (kind, d) in cases.items()}
    small = np.unique(a)
    small = np.resize(small, -(-len(small) // 312) * 312)
    got = compute(expressions, dict.fromkeys(expressions, dtype), small)
    for name, (kind, divisor) in cases.items():
        want = expected(kind, dtype, small.tolist(), [divisor] * len(small))
        same(got[name], want, f"{kind.__name__} of {dtype} by {divisor}")


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: str):
    a, _ = pairs(source)
    names = {f"to_{target}": target for target in DTYPES}
    got = compute({name: lambda x, t=target: cast(t, x) for name, target in names.items()}, names, a)
    for target in DTYPES:
        convert = casting(source, target)
        with np.errstate(all="ignore"):
            want = np.array([convert(x) for x in items(a, source)], to_numpy(target))
        same(got[f"to_{target}"], want, f"{source} to {target}")


def cast(target: str, x: PrimExpr) -> PrimExpr:
    return x if x.dtype == target else Cast(target, x)


def test_logic():
    a, b = pairs("bool")
    expressions = {
        "and_": And,
        "or_": Or,
        "not_": lambda x, y: Not(x),
        "select": lambda x, y: Select(x, y, Not(y)),
        "short": lambda x, y: And(Not(x), Or(x, y)),
    }
    got = compute(expressions, dict.fromkeys(expressions, "bool"), a, b)
    same(got["and_"], a & b, "and")
    same(got["or_"], a | b, "or")
    same(got["not_"], ~a, "not")
    same(got["select"], np.where(a, b, ~b), "select")
    same(got["short"], ~a & b, "a nested condition")


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "bfloat16", "bool"])
def test_select(dtype: str):
    a, b = pairs(dtype)
    got = compute({"larger": lambda x, y: Select(x > y, x, y)}, {"larger": dtype}, a, b)
    with np.errstate(all="ignore"):
        same(got["larger"], np.where(operator.gt(a, b), a, b), f"select of {dtype}")
