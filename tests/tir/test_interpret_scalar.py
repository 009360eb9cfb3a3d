"""Single operations of the reference interpreter: rounding, wrapping, and what hardware leaves open."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eutectic import tir
from eutectic.ir.dtype import FLOATS, SIGNED, UNSIGNED, to_numpy
from eutectic.ir.prim_call import intrinsic
from eutectic.ir.prim_expr import (
    EQ,
    LT,
    NE,
    Add,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    element_dtype,
    lanes_of,
)
from eutectic.ir.visit import post_order
from eutectic.script import tir as T
from eutectic.support.errors import CodegenError, InternalError
from eutectic.tir import Buffer, BufferStore, Let, PrimFunc
from eutectic.tir.interpret import run
from eutectic.tir.interpret.scalar import rounding

NAN, INF = math.nan, math.inf


def value(expr: PrimExpr, **given: Any) -> Any:
    """The value of an expression, with its free variables given by name; vectors as arrays."""
    free = {v.name: v for v in tir_vars(expr)}
    out = Buffer("out", (lanes_of(expr.dtype),), element_dtype(expr.dtype))
    index: Any = Ramp(0, 1, lanes_of(expr.dtype)) if lanes_of(expr.dtype) > 1 else 0
    func = PrimFunc((*(free[name] for name in given), out), BufferStore(out, expr, (index,)))
    found = np.zeros(lanes_of(expr.dtype), to_numpy(element_dtype(expr.dtype)))
    run(func, *given.values(), found)
    return found if lanes_of(expr.dtype) > 1 else found[0]


def tir_vars(expr: PrimExpr) -> list[Var]:
    return [v for v in post_order(expr) if isinstance(v, Var)]


def apply(make: Any, dtype: str, *args: Any) -> Any:
    """The value of `make(a, b, ...)` on scalars of `dtype`."""
    names = "abc"[: len(args)]
    return value(make(*(Var(n, dtype) for n in names)), **dict(zip(names, args, strict=True)))


def same(a: Any, b: Any) -> bool:
    """Equal with the same sign of zero, or both NaN."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


# ---- integers


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_integers_wrap_around(dtype):
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    assert apply(Add, dtype, high, 1) == low
    assert apply(Sub, dtype, low, 1) == high
    assert apply(Mul, dtype, high, 2) == (-2 if low else high - 1)
    assert apply(Mul, dtype, high, high) == 1
    assert apply(Add, dtype, 3, 4) == 7


@pytest.mark.parametrize("dtype", SIGNED)
def test_the_one_quotient_that_is_out_of_range_wraps(dtype):
    low = int(np.iinfo(dtype).min)
    assert apply(FloorDiv, dtype, low, -1) == low
    assert apply(TruncDiv, dtype, low, -1) == low
    assert apply(FloorMod, dtype, low, -1) == 0
    assert apply(TruncMod, dtype, low, -1) == 0


@pytest.mark.parametrize(
    ("a", "b", "floored", "truncated"),
    [(7, 2, (3, 1), (3, 1)), (-7, 2, (-4, 1), (-3, -1)), (7, -2, (-4, -1), (-3, 1)), (-7, -2, (3, -1), (3, -1))],
)
def test_division_of_integers(a, b, floored, truncated):
    assert (apply(FloorDiv, "int32", a, b), apply(FloorMod, "int32", a, b)) == floored
    assert (apply(TruncDiv, "int32", a, b), apply(TruncMod, "int32", a, b)) == truncated


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod, TruncDiv, TruncMod])
def test_division_by_zero_names_the_place(kind):
    with pytest.raises(InternalError, match="integer division by zero in ") as error:
        apply(kind, "int32", 1, 0)
    assert "in the statement\n      out[0] = " in str(error.value)


def test_shifts():
    assert apply(tir.shift_left, "int8", 3, 6) == -64
    assert apply(tir.shift_left, "uint8", 3, 7) == 128
    assert apply(tir.shift_right, "int32", -5, 1) == -3
    assert apply(tir.shift_right, "uint8", 200, 3) == 25
    for by in (-1, 32):
        with pytest.raises(InternalError, match=f"shift_left of a int32 by {by} bits"):
            apply(tir.shift_left, "int32", 1, by)


def test_bits():
    assert apply(tir.bitwise_and, "int8", -2, 7) == 6
    assert apply(tir.bitwise_or, "int8", -128, 1) == -127
    assert apply(tir.bitwise_xor, "uint16", 0xFFFF, 1) == 0xFFFE
    assert apply(tir.bitwise_not, "uint8", 1) == 254
    assert apply(tir.bitwise_not, "int8", 1) == -2
    assert [apply(tir.popcount, "int8", x) for x in (-1, 0, 5)] == [8, 0, 2]
    assert [apply(tir.clz, "int32", x) for x in (0, 1, -1)] == [32, 31, 0]
    assert apply(tir.clz, "uint64", 1) == 63


def test_constants_that_were_folded_beyond_their_range_wrap():
    assert value(IntImm("int8", 200)) == -56


# ---- floats


def test_each_operation_is_rounded():
    assert apply(Add, "float16", 2048, 1) == 2048
    assert apply(lambda a, b: Add(Add(a, b), b), "float16", 2048, 1) == 2048
    assert apply(Add, "bfloat16", 256, 1) == 256
    assert apply(Add, "float32", 2.0**24, 1) == 2.0**24
    assert apply(Add, "float64", 2.0**24, 1) == 2.0**24 + 1
    assert apply(Mul, "float8_e4m3fn", 15, 15) == 224
    assert apply(Div, "float32", 1, 3) == np.float32(1) / np.float32(3)
    assert apply(Mul, "float16", 60000, 2) == INF
    assert same(apply(Mul, "float8_e4m3fn", 448, 2), NAN)  # has no infinity


def test_division_of_floats_by_zero():
    assert apply(Div, "float32", 1, 0) == INF
    assert apply(Div, "bfloat16", -1, 0) == -INF
    assert same(apply(Div, "float64", 0, 0), NAN)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extrema_keep_nan_and_order_zeros(dtype):
    for kind, zero in ((Max, 0.0), (Min, -0.0)):
        assert same(apply(kind, dtype, NAN, 1), NAN)
        assert same(apply(kind, dtype, 1, NAN), NAN)
        assert same(apply(kind, dtype, -0.0, 0.0), zero)
        assert same(apply(kind, dtype, 0.0, -0.0), zero)
    assert same(apply(Max, dtype, -0.0, -0.0), -0.0)
    assert (apply(Max, dtype, 1, 2), apply(Min, dtype, 1, 2)) == (2, 1)


def test_comparisons_with_nan():
    assert not apply(EQ, "float32", NAN, NAN)
    assert apply(NE, "float32", NAN, NAN)
    assert not apply(LT, "bfloat16", NAN, 1)
    assert apply(LT, "uint8", 1, 255)


def test_fma_rounds_once():
    for dtype, e in (("float32", 2.0**-12), ("float64", 2.0**-27), ("float16", 2.0**-6), ("bfloat16", 2.0**-5)):
        a = 1 + e
        exact = Fraction(a) * Fraction(a) - Fraction(1 + 2 * e)
        assert apply(tir.fma, dtype, a, a, -(1 + 2 * e)) == float(exact) == e * e
    assert apply(tir.fma, "float32", 2, INF, 1) == INF
    assert same(apply(tir.fma, "float32", 0, INF, 1), NAN)
    assert same(apply(tir.fma, "float32", -1, 0, -0.0), -0.0)
    assert apply(tir.fma, "float64", 1e308, 10, -INF) == -INF
    assert apply(tir.fma, "float64", 1e308, 10, 0) == INF
    # A tie that a tiny addend breaks: rounding to double first would lose it.
    assert apply(tir.fma, "float32", 1 + 2.0**-12, 1 + 2.0**-12, 2.0**-100) == np.float32(1 + 2.0**-11 + 2.0**-23)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_from_double_happens_once(dtype):
    kind: Any = to_numpy(dtype).type
    one, above = 1.0, float(np.nextafter(kind(1), kind(2)))
    tie = (one + above) / 2
    make = rounding(dtype)
    assert make(tie) == one
    assert make(tie + 2.0**-50) == above
    assert make(tie - 2.0**-50) == one
    assert same(make(-tie - 2.0**-50), -above)


@given(st.sampled_from(FLOATS[:4]), st.floats(allow_nan=False))
def test_rounding_gives_the_nearest(dtype, number):
    kind: Any = to_numpy(dtype).type
    with np.errstate(all="ignore"):
        made = rounding(dtype)(number)
        neighbours = [float(np.nextafter(made, kind(limit))) for limit in (-INF, INF)]
    assert type(made) is kind
    for other in neighbours if math.isfinite(float(made)) else []:
        if math.isfinite(other):
            exact = Fraction(number)
            assert abs(exact - Fraction(float(made))) <= abs(exact - Fraction(other))


# ---- conversions


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("int32", 2.9, 2),
        ("int32", -2.9, -2),
        ("int32", NAN, 0),
        ("int32", INF, 2**31 - 1),
        ("int32", -1e20, -(2**31)),
        ("uint8", -1.0, 255),
        ("uint8", 300.0, 44),
        ("int64", 1e300, 2**63 - 1),
        ("bool", NAN, True),
        ("bool", -0.0, False),
        ("bool", 0.5, True),
    ],
)
def test_floats_to_integers(target, given, expected):
    assert value(Cast(target, Var("x", "float64")), x=given) == expected


@pytest.mark.parametrize(
    ("source", "target", "given", "expected"),
    [
        ("int32", "int8", 200, -56),
        ("int32", "uint8", -1, 255),
        ("int64", "int32", 2**31, -(2**31)),
        ("int32", "bool", 2, True),
        ("bool", "float32", True, 1.0),
        ("bool", "int8", True, 1),
        ("int64", "float32", 2**24 + 1, 2.0**24),
        ("int64", "float32", 2**60 + 2**36 + 1, 2.0**60 + 2.0**37),  # rounding to double first would tie to even
        ("int64", "float32", -(2**60) - 2**36 - 1, -(2.0**60) - 2.0**37),
        ("uint64", "float64", 2**64 - 1, 2.0**64),
        ("int32", "float16", 70000, INF),
        ("float32", "bfloat16", 1 + 2.0**-8, 1.0),
        ("float64", "bfloat16", 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
        ("float16", "float64", 0.1, float(np.float16(0.1))),
    ],
)
def test_other_conversions(source, target, given, expected):
    assert value(Cast(target, Var("x", source)), x=given) == expected


def test_reinterpret():
    bits = struct.unpack("<i", struct.pack("<f", 1.5))[0]
    assert value(tir.reinterpret("int32", Var("x", "float32")), x=1.5) == bits
    assert value(tir.reinterpret("float32", Var("x", "int32")), x=bits) == 1.5
    assert value(tir.reinterpret("uint16", Var("x", "bfloat16")), x=1) == 0x3F80
    assert list(value(tir.reinterpret("uint8x4", Var("x", "int32")), x=-2)) == [254, 255, 255, 255]
    with pytest.raises(InternalError, match="reinterpret"):
        value(tir.reinterpret("int64", Var("x", "int32")), x=1)


# ---- intrinsics

UNARY = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": math.erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "fabs": np.fabs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float(name):
    make, meaning = getattr(tir, name), UNARY[name]
    for x in (0.25, 0.8125):
        assert apply(make, "float64", x) == pytest.approx(float(meaning(np.float64(x))), rel=1e-15)
        assert apply(make, "float32", x) == np.float32(float(meaning(np.float64(x))))
        assert apply(make, "bfloat16", x) == ml_dtypes.bfloat16(float(meaning(np.float64(x))))
    assert same(apply(make, "float32", NAN), NAN)


def test_functions_at_their_limits():
    assert apply(tir.acosh, "float64", 1) == 0
    assert (apply(tir.exp, "float32", 1000), apply(tir.exp, "float32", -1000)) == (INF, 0)
    assert (apply(tir.log, "float32", 0), apply(tir.rsqrt, "float32", 0)) == (-INF, INF)
    assert same(apply(tir.log, "float32", -1), NAN)
    assert (apply(tir.sigmoid, "float32", -1000), apply(tir.sigmoid, "float32", 1000)) == (0, 1)
    assert apply(tir.erf, "float32", -INF) == -1


@pytest.mark.parametrize(
    ("x", "to_even"),
    [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-2.5, -2.0), (-3.5, -4.0), (-0.3, -0.0), (INF, INF)],
)
@pytest.mark.parametrize("rounding", [tir.nearbyint, tir.round])
def test_rounding_of_ties(x, to_even, rounding):
    assert same(apply(rounding, "float32", x), to_even)


def test_rounding_just_below_a_half():
    assert apply(tir.round, "float64", 0.49999999999999994) == 0
    assert apply(tir.round, "float64", 2.0**52 + 1) == 2.0**52 + 1


def test_functions_of_two_floats():
    assert apply(tir.pow, "float32", 2, 10) == 1024
    assert same(apply(tir.pow, "float32", -8, 0.5), NAN)
    assert apply(tir.pow, "float64", NAN, 0) == 1
    assert (apply(tir.fmod, "float32", -7, 2), apply(tir.fmod, "float32", 7, -2)) == (-1, 1)
    assert apply(tir.atan2, "float64", -0.0, -1) == -math.pi
    assert apply(tir.hypot, "float32", 3, 4) == 5
    assert same(apply(tir.copysign, "float16", 0, -1), -0.0)
    assert apply(tir.nextafter, "float32", 1, 2) == np.nextafter(np.float32(1), np.float32(2))
    assert apply(tir.nextafter, "bfloat16", 1, 2) == 1 + 2.0**-7
    assert value(tir.ldexp(Var("x", "float32"), -3), x=12) == 1.5
    assert value(tir.ldexp(Var("x", "float32"), 2_000_000_000), x=1) == INF


def test_classes_of_floats():
    x = Var("x", "float16")
    for number, classes in ((1, (0, 0, 1)), (NAN, (1, 0, 0)), (-INF, (0, 1, 0))):
        found = tuple(int(value(f(x), x=number)) for f in (tir.isnan, tir.isinf, tir.isfinite))
        assert found == classes


def test_abs_of_integers_wraps():
    assert apply(tir.abs, "int8", -128) == -128
    assert apply(tir.abs, "int8", -5) == 5


# ---- choices


def test_only_the_chosen_value_of_if_then_else_is_computed():
    x = Var("x", "int32")
    safe = tir.if_then_else(x.not_equal(0), tir.floordiv(10, x), 0)
    assert [value(safe, x=n) for n in (3, 0)] == [3, 0]
    with pytest.raises(InternalError, match="division by zero"):
        value(Select(x.not_equal(0), tir.floordiv(10, x), 0), x=0)


def test_and_or_stop_early():
    x = Var("x", "int32")
    quotient = tir.floordiv(10, x) > 2
    both, either = tir.logical_and(x.not_equal(0), quotient), tir.logical_or(x.equal(0), quotient)
    assert [bool(value(both, x=n)) for n in (0, 3, 5)] == [False, True, False]
    assert [bool(value(either, x=n)) for n in (0, 3, 5)] == [True, True, False]
    with pytest.raises(InternalError, match="division by zero"):
        value(tir.logical_and(quotient, x.not_equal(0)), x=0)
    assert not value(tir.logical_not(x > 0), x=1)


def test_let():
    x, y = Var("x", "int32"), Var("y", "int32")
    assert value(Let(y, x + 1, y * y), x=4) == 25


def test_promises():
    x = Var("x", "int32")
    assert value(tir.likely(x > 0), x=1)
    with pytest.raises(InternalError, match="assumes a condition that does not hold"):
        value(tir.assume(x > 0), x=0)


# ---- vectors


def test_vectors_are_computed_lane_by_lane():
    x = Var("x", "int32")
    lanes = Ramp(x, 3, 4)
    assert list(value(lanes, x=1)) == [1, 4, 7, 10]
    assert list(value(lanes * Broadcast(x, 4), x=2)) == [4, 10, 16, 22]
    assert list(value(Cast("float32x4", lanes), x=1)) == [1, 4, 7, 10]
    assert list(value(tir.sqrt(Cast("float64x4", Ramp(x, 0, 4))), x=9)) == [3, 3, 3, 3]
    assert list(value(Select(lanes > Broadcast(IntImm("int32", 4), 4), lanes, Broadcast(x, 4)), x=1)) == [1, 1, 7, 10]
    assert list(value(Shuffle((lanes,), (3, 0)), x=1)) == [10, 1]
    assert value(Shuffle((lanes,), (2,)), x=1) == 7
    assert list(value(Ramp(Ramp(x, 1, 2), Broadcast(IntImm("int32", 10), 2), 2), x=1)) == [1, 2, 11, 12]
    assert list(value(Broadcast(Ramp(x, 1, 2), 2), x=1)) == [1, 2, 1, 2]
    assert list(value(Ramp(Var("b", "int8"), 100, 2), b=100)) == [100, -56]
    with pytest.raises(InternalError, match="takes lane 4 of 4"):
        value(Shuffle((lanes,), (4,)), x=1)


def test_conditions_of_vectors():
    x = Var("x", "int32")
    lanes, two = Ramp(x, 1, 4), Broadcast(IntImm("int32", 2), 4)
    above, below = lanes > two, lanes < Broadcast(IntImm("int32", 4), 4)
    assert list(value(tir.logical_and(above, below), x=1)) == [False, False, True, False]
    assert list(value(tir.logical_or(tir.logical_not(above), tir.logical_not(below)), x=1)) == [True, True, False, True]
    chosen = tir.Call("int32x4", "tir.if_then_else", (above, lanes, two))
    assert list(value(chosen, x=1)) == [2, 2, 3, 4]
    assert list(value(tir.popcount(lanes), x=0)) == [0, 1, 1, 2]


def test_a_value_that_does_not_matter_is_poison():
    assert same(value(tir.undef("float16")), NAN)
    assert list(value(tir.undef("int8x2"))) == [0x6D, 0x6D]


# ---- random expressions against NumPy

_OPERATORS = {"add": (Add, np.add), "sub": (Sub, np.subtract), "mul": (Mul, np.multiply), "max": (Max, np.maximum)}
_OPERATORS |= {"min": (Min, np.minimum), "div": (FloorDiv, np.floor_divide), "mod": (FloorMod, np.remainder)}


def _trees() -> Any:
    leaves = st.sampled_from(["a", "b"]) | st.integers(0, 127)
    return st.recursive(leaves, lambda s: st.tuples(st.sampled_from(sorted(_OPERATORS)), s, s), max_leaves=12)


def _both(tree: Any, dtype: str, expressions: Any, arrays: Any) -> tuple[Any, Any]:
    """A tree as an expression, and its value in NumPy."""
    if isinstance(tree, str):
        return expressions[tree], arrays[tree]
    if isinstance(tree, int):
        return IntImm(dtype, tree), np.array([tree], dtype)
    kind, (a, x), (b, y) = tree[0], *(_both(t, dtype, expressions, arrays) for t in tree[1:])
    node, compute = _OPERATORS[kind]
    if kind in ("div", "mod"):  # never by zero
        b, y = Select(EQ(b, IntImm(dtype, 0)), IntImm(dtype, 1), b), np.where(y == 0, np.array([1], dtype), y)
    return node(a, b), compute(x, y)


@given(st.sampled_from([*SIGNED, *UNSIGNED]), _trees(), st.data())
def test_integer_expressions_agree_with_numpy(dtype, tree, data):
    limit = np.iinfo(dtype)
    given_values = {n: data.draw(st.integers(int(limit.min), int(limit.max)), n) for n in "ab"}
    variables = {n: Var(n, dtype) for n in "ab"}
    with np.errstate(all="ignore"):
        expr, expected = _both(tree, dtype, variables, {n: np.array([v], dtype) for n, v in given_values.items()})
    used = {v.name for v in tir_vars(expr)}
    assert expected.dtype == dtype
    assert value(expr, **{n: v for n, v in given_values.items() if n in used}) == expected[0]


@given(st.sampled_from(["float16", "float32", "float64"]), st.floats(width=16), st.floats(width=16))
def test_float_operators_agree_with_numpy(dtype, a, b):
    kind = np.dtype(dtype).type
    with np.errstate(all="ignore"):
        for node, compute in ((Add, np.add), (Sub, np.subtract), (Mul, np.multiply), (Div, np.true_divide)):
            assert same(apply(node, dtype, a, b), compute(kind(a), kind(b)))


# ---- what is not interpreted


def test_unknown_intrinsics_are_refused():
    op = intrinsic("tir.test_interpret_unknown")
    with pytest.raises(CodegenError, match=r"tir\.test_interpret_unknown cannot be interpreted"):
        value(T.call_intrin("float32", op, Var("x", "float32")), x=1)
