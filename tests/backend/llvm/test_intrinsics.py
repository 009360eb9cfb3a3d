"""Every intrinsic that can be compiled, in every dtype and in vectors, beside the reference interpreter."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.backend.llvm.lanes import FLOATS, INTEGERS, LANES, compute, pairs, same

from eutectic import tir
from eutectic.backend.llvm import expr, intrinsics
from eutectic.ir.dtype import is_float, to_numpy
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Call, Cast, FloatImm, PrimExpr, Var, with_lanes
from eutectic.runtime.symbols import register_symbol
from eutectic.runtime.team import available_threads
from eutectic.support.errors import CodegenError
from eutectic.testing.native import run_native
from eutectic.tir import Buffer, BufferStore, Evaluate, For, PrimFunc
from eutectic.tir.interpret.intrinsics import intrinsic_meaning
from eutectic.tir.interpret.intrinsics import reinterpret as reinterpreted

EXACT = ("floor", "ceil", "trunc", "fabs", "sqrt", "nearbyint", "round")
# name -> largest distance in units in the last place of float32 and float64; 16-bit floats are within 1.
UNARY = {
    **dict.fromkeys(EXACT, 0),
    **{"exp": 2, "log": 1, "sigmoid": 3, "tanh": 3, "erf": 3, "rsqrt": 2},
    **dict.fromkeys(("exp2", "exp10", "log2", "log10", "log1p", "sin", "cos", "asin", "acos", "atan"), 2),
    **dict.fromkeys(("tan", "sinh", "cosh", "asinh", "acosh", "atanh"), 3),
}
BINARY = {"pow": 2, "atan2": 2, "hypot": 2, "fmod": 0, "copysign": 0, "nextafter": 0}
# What the code generator for CPUs leaves to others, and why.
LEFT_OUT = {
    "address_of": "pointers are not values here",
    "call_packed": "kernels call no functions of Python",
    "ret": "kernels return nothing",
    "tvm_tuple": "only an argument of call_packed",
}


def op(name: str, dtype: str, *args: PrimExpr) -> PrimExpr:
    return Call(dtype, Op.get(f"tir.{name}"), args)


def spacing(x: np.ndarray) -> np.ndarray:
    """Distance of each value to the next larger one of its dtype."""
    with np.errstate(all="ignore"):
        if x.dtype.name != "bfloat16":
            return np.spacing(np.abs(x)).astype("f8")
        return np.spacing(np.abs(x).astype("f4")).astype("f8") * 2.0**16


def near(got: np.ndarray, want: np.ndarray, most: float, what: str) -> None:
    """NaN and infinities in the same places, everything else within so many units in the last place."""
    if most == 0:
        same(got, want, what)
        return
    unit = spacing(want)
    want = want.astype("f8")
    for lanes, row in zip(LANES, got.astype("f8"), strict=True):
        np.testing.assert_array_equal(np.isnan(row), np.isnan(want), f"{what}, {lanes} lanes")
        np.testing.assert_array_equal(np.isinf(row), np.isinf(want), f"{what}, {lanes} lanes")
        finite = np.isfinite(want)
        error = np.abs(row[finite] - want[finite]) / unit[finite]
        assert error.max() <= most, f"{what}, {lanes} lanes: off by {error.max()} at {int(error.argmax())}"


def reference(name: str, dtype: str, *columns: np.ndarray, result: str | None = None) -> np.ndarray:
    meaning = intrinsic_meaning(name, result or dtype, [dtype] * len(columns))
    assert meaning is not None
    rows = zip(*(list(x) if is_float(dtype) else x.tolist() for x in columns), strict=True)
    with np.errstate(all="ignore"):
        return np.array([meaning(*row) for row in rows], to_numpy(result or dtype))


def finite_exponents(x: np.ndarray) -> np.ndarray:
    return np.clip(np.nan_to_num(x.astype("f8")), -2e9, 2e9).astype("int32")


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions(dtype: str):
    x, y = pairs(dtype)
    chosen = np.unique(np.concatenate([x[-400:], x[:900]]).astype("f8"))
    count = -(-max(len(chosen), 1) // 312) * 312
    x, y = x[-count:], y[-count:]
    expressions: dict[str, Any] = {name: lambda a, b, n=name: op(n, a.dtype, a) for name in UNARY}
    expressions |= {name: lambda a, b, n=name: op(n, a.dtype, a, b) for name in BINARY if name != "nextafter"}
    if dtype in ("float32", "float64"):
        expressions["nextafter"] = lambda a, b: op("nextafter", a.dtype, a, b)
    expressions["fma"] = lambda a, b: op("fma", a.dtype, a, b, a)
    got = compute(expressions, dict.fromkeys(expressions, dtype), x, y)
    narrow = dtype in ("float16", "bfloat16")
    for name in expressions:
        if name == "fma":
            near(got[name], reference("fma", dtype, x, y, x), 0 if not narrow else 1, f"fma of {dtype}")
            continue
        columns = (x, y) if name in BINARY else (x,)
        most = {**UNARY, **BINARY}[name]
        near(got[name], reference(name, dtype, *columns), min(most, 1) if narrow else most, f"{name} of {dtype}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_classes_and_ldexp(dtype: str):
    x, y = pairs(dtype)
    powers = finite_exponents(y)
    expressions: dict[str, Any] = {
        name: lambda a, b, n=name: op(n, with_lanes("bool", 1), a) for name in ("isnan", "isinf", "isfinite")
    }
    expressions["ldexp"] = lambda a, b: op("ldexp", a.dtype, a, b)
    got = compute(expressions, {**dict.fromkeys(expressions, "bool"), "ldexp": dtype}, x, powers)
    wide = x.astype("f8")
    for name in ("isnan", "isinf", "isfinite"):
        same(got[name], getattr(np, name)(wide), f"{name} of {dtype}")
    meaning = intrinsic_meaning("ldexp", dtype, [dtype, "int32"])
    assert meaning is not None
    with np.errstate(all="ignore"):
        want = np.array([meaning(a, b) for a, b in zip(x, powers.tolist(), strict=True)], to_numpy(dtype))
    near(got["ldexp"], want, 1 if dtype in ("float16", "bfloat16") else 0, f"ldexp of {dtype}")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str):
    a, b = pairs(dtype)
    bits = a.dtype.itemsize * 8
    shifts = (b.astype("int64") & (bits - 1)).astype(dtype)
    expressions = {
        "bitwise_and": lambda x, y, s: op("bitwise_and", x.dtype, x, y),
        "bitwise_or": lambda x, y, s: op("bitwise_or", x.dtype, x, y),
        "bitwise_xor": lambda x, y, s: op("bitwise_xor", x.dtype, x, y),
        "bitwise_not": lambda x, y, s: op("bitwise_not", x.dtype, x),
        "shift_left": lambda x, y, s: op("shift_left", x.dtype, x, s),
        "shift_right": lambda x, y, s: op("shift_right", x.dtype, x, s),
        "popcount": lambda x, y, s: op("popcount", x.dtype, x),
        "clz": lambda x, y, s: tir.clz(x),
        "too_far": lambda x, y, s: op("shift_left", x.dtype, x, y),
        "too_far_right": lambda x, y, s: op("shift_right", x.dtype, x, y),
    }
    got = compute(expressions, {**dict.fromkeys(expressions, dtype), "clz": "int32"}, a, b, shifts)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        same(got[name], reference(name, dtype, a, b), f"{name} of {dtype}")
    for name in ("shift_left", "shift_right"):
        same(got[name], reference(name, dtype, a, shifts), f"{name} of {dtype}")
    same(got["bitwise_not"], reference("bitwise_not", dtype, a), f"not of {dtype}")
    same(got["popcount"], reference("popcount", dtype, a), f"popcount of {dtype}")
    same(got["clz"], reference("clz", dtype, a, result="int32"), f"clz of {dtype}")
    fits = (b.astype("f8") >= 0) & (b.astype("f8") < bits)
    left = np.where(fits, a << np.where(fits, b, 0).astype(dtype), 0).astype(dtype)
    right = np.where(fits, a >> np.where(fits, b, 0).astype(dtype), np.where(a < 0, -1, 0).astype(dtype)).astype(dtype)
    same(got["too_far"], left, f"shift of {dtype} by too much")
    same(got["too_far_right"], right, f"right shift of {dtype} by too much")


def test_bits_of_bools():
    a, b = pairs("bool")
    names = ("bitwise_and", "bitwise_or", "bitwise_xor")
    expressions: dict[str, Any] = {name: lambda x, y, n=name: op(n, x.dtype, x, y) for name in names}
    expressions["bitwise_not"] = lambda x, y: op("bitwise_not", x.dtype, x)
    got = compute(expressions, dict.fromkeys(expressions, "bool"), a, b)
    for name, want in zip(expressions, (a & b, a | b, a ^ b, ~a), strict=True):
        same(got[name], want, name)


PUNS = ("float32 int32", "int32 float32", "float64 uint64", "uint16 float16", "bfloat16 int16", "int8 uint8")


@pytest.mark.parametrize(("source", "target"), [pun.split() for pun in PUNS])
def test_reinterpret(source: str, target: str):
    a, _ = pairs(source)
    got = compute({"made": lambda x: tir.reinterpret(target, x)}, {"made": target}, a)
    values = list(a) if is_float(source) else a.tolist()
    want = np.array([reinterpreted((x,), source, target)[0] for x in values], to_numpy(target))
    same(got["made"], want, f"{source} as {target}")


def test_choices():
    a, b = pairs("float32")
    expressions = {
        "chosen": lambda x, y: tir.if_then_else(x > y, x, tir.exp(y)),
        "lazy": lambda x, y: tir.if_then_else(tir.likely(x > 0), tir.sqrt(x), 0.0),
        "nothing": lambda x, y: tir.if_then_else(x > y, x, tir.op.undef("float32") * 0),
    }
    got = compute(expressions, dict.fromkeys(expressions, "float32"), a, b)
    with np.errstate(all="ignore"):
        near(got["chosen"], np.where(a > b, a, np.exp(b.astype("f8")).astype("f4")), 2, "if_then_else")
        same(got["lazy"], np.where(a > 0, np.sqrt(a), 0).astype("f4"), "if_then_else of likely")
        same(got["nothing"], np.where(a > b, a, 0).astype("f4"), "undef")


def test_extern_functions_must_be_registered():
    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    def thrice(x: float) -> float:
        return 3 * x

    address = ctypes.cast(thrice, ctypes.c_void_p).value
    assert address is not None
    out = Buffer("out", (1,), "float64")
    func = PrimFunc(
        (out,), BufferStore(out, tir.call_extern("float64", "eutectic_test_thrice", FloatImm("float64", 2.5)), (0,))
    )
    result = np.zeros(1)
    with pytest.raises(CodegenError, match="no such function is registered"):
        run_native(func, result)
    register_symbol("eutectic_test_thrice", address)
    run_native(func, result)
    assert result[0] == 7.5
    with pytest.raises(CodegenError, match="with another address"):
        register_symbol("eutectic_test_thrice", address + 8)
    with pytest.raises(CodegenError, match="cannot be the name"):
        register_symbol("not a name", address)


def test_functions_of_python_are_called_by_any_thread():
    """Small work keeps Python's lock, unless it calls Python: a worker that waits for the lock would never end."""
    threads: set[int] = set()

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    def noted(x: float) -> float:
        threads.add(threading.get_ident())
        time.sleep(1e-4)
        return x + 1

    address = ctypes.cast(noted, ctypes.c_void_p).value
    assert address is not None
    register_symbol("eutectic_test_noted", address)
    out, i = Buffer("out", (64,), "float64"), Var("i", "int32")
    value = tir.call_extern("float64", "eutectic_test_noted", Cast("float64", i))
    func = PrimFunc((out,), For(i, 0, 64, "parallel", BufferStore(out, value, (i,))))
    for _ in range(10):
        result = np.zeros(64)
        run_native(func, result)
        np.testing.assert_array_equal(result, np.arange(64) + 1.0)
    assert threading.get_ident() in threads
    assert len(threads) > 1 or available_threads() == 1


def test_statements_that_do_nothing():
    out = Buffer("out", (1,), "float32")
    parts = [
        Evaluate(tir.op.assume(out[0] < 1)),
        Evaluate(tir.op.tvm_storage_sync("shared")),
        BufferStore(out, 2.0, (0,)),
    ]
    result = np.zeros(1, "float32")
    run_native(PrimFunc((out,), tir.stmt.seq(*parts)), result)
    assert result[0] == 2


def test_every_intrinsic_is_compiled_or_left_out_for_a_reason():
    assert intrinsics is not None
    known = {name.removeprefix("tir.") for name in Op.list_op_names() if name.startswith("tir.")}
    known = {name for name in known if not name.startswith("test_")}  # other tests make some
    compiled = set(expr._INTRINSICS)
    assert not compiled - known
    assert known - compiled == set(LEFT_OUT)
