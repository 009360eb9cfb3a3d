"""Examples of scalar functions, under `tvm.tir`, `tvm.te` and `T`, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tvm
from tests.compat.surface.examples import example
from tests.compat.surface.running import close, floats, whole
from tvm import te, tir
from tvm.script import from_source
from tvm.script import tir as T

from eutectic.compat.surface import SURFACES
from eutectic.tir.interpret import run

ERF = np.vectorize(math.erf)

UNARY: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(np, name)
        for name in [
            "exp",
            "exp2",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
        ]
    },
    **{name: getattr(np, name) for name in ["floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "abs", "fabs"]},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ["sin", "cos", "tan", "sinh", "tanh"]},
    "acosh": np.arccosh,
    "exp10": lambda x: 10.0**x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": ERF,
    "round": np.rint,
    "nearbyint": np.rint,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "fmod": np.fmod,
    "pow": np.power,
    "power": np.power,
    "logaddexp": np.logaddexp,
    "max": np.maximum,
    "min": np.minimum,
    "div": np.divide,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
}
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "indexdiv": np.floor_divide,
    "indexmod": np.mod,
    "truncdiv": lambda a, b: np.trunc(a / b),
    "truncmod": np.fmod,
    "ceildiv": lambda a, b: -(-a // b),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
COUNTS: dict[str, Callable[[Any], Any]] = {
    "bitwise_not": np.invert,
    "popcount": np.vectorize(lambda x: bin(x).count("1")),
    "clz": np.vectorize(lambda x: 32 - int(x).bit_length()),
}


def _listed(module: str, name: str) -> bool:
    return any(known.name == name for known in SURFACES[module].names())


def _samples(name: str) -> Any:
    return floats(7, low=1.1, high=3.0) if name == "acosh" else floats(7)


def _unary(module: Any, name: str) -> None:
    values = _samples(name)
    x = te.placeholder((7,), name="x")
    close(te.compute((7,), lambda i: getattr(module, name)(x[i])), {x: values}, UNARY[name](values))


def _binary(module: Any, name: str, reference: Callable[[Any, Any], Any], dtype: str) -> None:
    a, b = (floats(7), floats(7)) if dtype == "float32" else (whole(7, high=100), whole(7))
    x, y = te.placeholder((7,), dtype, name="x"), te.placeholder((7,), dtype, name="y")
    close(te.compute((7,), lambda i: getattr(module, name)(x[i], y[i])), {x: a, y: b}, reference(a, b))


def _count(module: Any, name: str) -> None:
    values = whole(7, high=1000)
    x = te.placeholder((7,), "int32", name="x")
    close(te.compute((7,), lambda i: getattr(module, name)(x[i])), {x: values}, COUNTS[name](values))


for _path, _module in (("tvm.tir", tir), ("tvm.te", te)):
    for _name in filter(partial(_listed, _path), UNARY):
        example(f"{_path}.{_name}")(partial(_unary, _module, _name))
    for _name in filter(partial(_listed, _path), BINARY):
        example(f"{_path}.{_name}")(partial(_binary, _module, _name, BINARY[_name], "float32"))
    for _name in filter(partial(_listed, _path), INTEGERS):
        example(f"{_path}.{_name}")(partial(_binary, _module, _name, INTEGERS[_name], "int32"))
    for _name in filter(partial(_listed, _path), COUNTS):
        example(f"{_path}.{_name}")(partial(_count, _module, _name))


def _in_script(call: str, dtype: str, *arrays: Any) -> Any:
    """Evaluate an expression in `A[v]` and `B[v]` as a script."""
    names = "AB"[: len(arrays)]
    params = ", ".join(f'{name}: T.Buffer((7,), "{array.dtype}")' for name, array in zip(names, arrays, strict=True))
    func = from_source(f"""
@T.prim_func
def f({params}, Out: T.Buffer((7,), "{dtype}")):
    for i in range(7):
        with T.block("b"):
            v = T.axis.spatial(7, i)
            Out[v] = {call}
""")
    result = np.zeros(7, dtype)
    run(func, *arrays, result)
    return result


def _call(name: str, reference: Callable[..., Any], *arrays: Any) -> None:
    wanted = reference(*arrays)
    dtype = "bool" if wanted.dtype == bool else "int32" if name == "clz" else str(arrays[0].dtype)
    operands = ", ".join(f"{letter}[v]" for letter in "AB"[: len(arrays)])
    for options in ("", f', dtype="{dtype}"'):
        np.testing.assert_allclose(_in_script(f"T.{name}({operands}{options})", dtype, *arrays), wanted, rtol=2e-5)


for _name in filter(partial(_listed, "tvm.script.tir"), UNARY):
    example(f"tvm.script.tir.{_name}")(partial(_call, _name, UNARY[_name], _samples(_name)))
for _name in filter(partial(_listed, "tvm.script.tir"), BINARY):
    example(f"tvm.script.tir.{_name}")(partial(_call, _name, BINARY[_name], floats(7), floats(7)))
for _name in filter(partial(_listed, "tvm.script.tir"), INTEGERS):
    example(f"tvm.script.tir.{_name}")(partial(_call, _name, INTEGERS[_name], whole(7, high=100), whole(7)))
for _name in filter(partial(_listed, "tvm.script.tir"), COUNTS):
    example(f"tvm.script.tir.{_name}")(partial(_call, _name, COUNTS[_name], whole(7, high=1000)))


@example("tvm.tir.ldexp", "tvm.script.tir.ldexp")
def _ldexp() -> None:
    values, powers = floats(7), whole(7)
    for call in ("T.ldexp(A[v], B[v])", 'T.ldexp(x1=A[v], x2=B[v], dtype="float32")'):
        np.testing.assert_allclose(_in_script(call, "float32", values, powers), np.ldexp(values, powers))
    assert tir.ldexp(tir.Var("x", "float32"), 2).dtype == "float32"


@example("tvm.tir.fma", "tvm.script.tir.fma")
def _fma() -> None:
    values = floats(7)
    np.testing.assert_allclose(
        _in_script("T.fma(A[v], A[v], A[v])", "float32", values), values * values + values, rtol=1e-6
    )
    assert tir.fma(*[tir.Var("x", "float64")] * 3).dtype == "float64"


@example(
    "tvm.tir.if_then_else", "tvm.te.if_then_else", "tvm.script.tir.if_then_else",
    "tvm.tir.likely", "tvm.script.tir.likely", "tvm.tir.all", "tvm.tir.any", "tvm.te.all", "tvm.te.any",
)  # fmt: skip
def _choices() -> None:
    values = floats(7)
    call = 'T.if_then_else(T.likely(v < 3), A[v], T.float32(0), dtype="float32")'
    wanted = np.where(np.arange(7) < 3, values, 0)
    np.testing.assert_allclose(_in_script(call, "float32", values), wanted)
    x = te.placeholder((7,), name="x")
    for module in (tir, te):
        close(te.compute((7,), lambda i, m=module: m.if_then_else(tir.likely(i < 3), x[i], 0.0)), {x: values}, wanted)
        both = te.compute((7,), lambda i, m=module: m.all(i > 1, i < 4, x[i] > 0.0).astype("int32"))
        close(both, {x: values}, (np.arange(7) > 1) & (np.arange(7) < 4))
        one = te.compute((7,), lambda i, m=module: m.any(i < 1, i > 5).astype("int32"))
        close(one, {}, (np.arange(7) < 1) | (np.arange(7) > 5))


@example(
    "tvm.tir.reinterpret", "tvm.script.tir.reinterpret", "tvm.tir.isnullptr", "tvm.tir.address_of",
    "tvm.script.tir.address_of",
)  # fmt: skip
def _bits() -> None:
    values = floats(7)
    np.testing.assert_array_equal(_in_script('T.reinterpret("int32", A[v])', "int32", values), values.view("int32"))
    np.testing.assert_array_equal(
        _in_script('T.reinterpret(A[v], dtype="int32")', "int32", values), values.view("int32")
    )
    buffer = tir.decl_buffer((4,), name="A")
    pointer = tir.address_of(obj=buffer[2])
    assert pointer.dtype == "handle"
    assert T.address_of(buffer[2]).dtype == "handle"
    assert tir.isnullptr(pointer).dtype == "bool"


@example(
    "tvm.tir.const", "tvm.te.const", "tvm.tir.convert", "tvm.tir.infinity", "tvm.script.tir.infinity",
    *(f"{m}.{n}_value" for m in ("tvm.tir", "tvm.te", "tvm.script.tir") for n in ("min", "max")),
)  # fmt: skip
def _constants() -> None:
    for module in (tir, te):
        assert module.const(3, "int64").value == 3
        assert module.const(3, "int64").dtype == "int64"
        assert module.const(1.5).dtype == "float32"
    for module in (tir, te, T):
        assert module.max_value("int8").value == 127
        assert module.min_value("int8").value == -128
        assert module.max_value("float32").value == np.finfo("float32").max
    assert tir.infinity("float32").value == math.inf == T.infinity("float32").value
    assert [item.value for item in tir.convert([1, 2])] == [1, 2]
    assert tir.convert("text").value == "text"


@example(
    "tvm.tir.call_intrin", "tvm.tir.call_extern", "tvm.tir.call_pure_extern", "tvm.tir.call_packed",
    "tvm.tir.tvm_tuple",
    "tvm.tir.undef", "tvm.tir.assume", "tvm.tir.ret",
)  # fmt: skip
def _calls() -> None:
    x = tir.Var("x", "float32")
    assert tvm.ir.structural_equal(tir.call_intrin("float32", "tir.exp", x), tir.exp(x))
    assert tir.call_extern("float32", "cosf", x).op.name == "tir.call_extern"
    assert [a.value for a in tir.call_pure_extern("int32", "f", 1).args] == ["f", 1]
    assert tir.call_packed("tvm.f", 1).dtype == "int32"
    assert tir.tvm_tuple(x, 1).dtype == "handle"
    assert tir.undef().op.name == "tir.undef"
    assert tir.assume(x > 0.0).dtype == "bool"
    assert tir.ret(val=x).dtype == "float32"


@example(
    "tvm.script.tir.call_intrin", "tvm.script.tir.call_extern", "tvm.script.tir.call_pure_extern",
    "tvm.script.tir.call_packed", "tvm.script.tir.tvm_tuple", "tvm.script.tir.undef", "tvm.script.tir.assume",
    "tvm.script.tir.ret", "tvm.script.tir.tvm_storage_sync",
)  # fmt: skip
def _calls_in_scripts() -> None:
    values = floats(7)
    np.testing.assert_allclose(
        _in_script('T.call_intrin("float32", "tir.exp", A[v])', "float32", values), np.exp(values), rtol=1e-6
    )
    text = from_source("""
@T.prim_func
def f(A: T.Buffer((7,), "float32")):
    T.evaluate(T.assume(A[0] > T.float32(0)))
    T.evaluate(T.call_extern("work", A[0], dtype="int32"))
    T.evaluate(T.call_packed("tvm.f", T.tvm_tuple(A[1], A[2])))
    A[0] = T.call_pure_extern("cosf", A[1], dtype="float32")
    A[1] = T.undef("float32")
    T.evaluate(T.tvm_storage_sync(storage_scope="shared"))
    T.evaluate(T.ret(val=0))
""").script()
    assert 'T.call_extern("int32", "work", A[0])' in text
    assert 'A[0] = T.call_pure_extern("float32", "cosf", A[1])' in text
    for call in (
        "T.assume",
        'T.tvm_storage_sync("shared")',
        'T.call_packed("tvm.f"',
        "T.tvm_tuple",
        "T.undef",
        "ret(0)",
    ):
        assert call in text, text


@example(
    "tvm.tir.sum", "tvm.te.sum", "tvm.tir.comm_reducer", "tvm.te.comm_reducer", "tvm.tir.CommReducer", "tvm.tir.Reduce",
    "tvm.te.reduce_axis",
)  # fmt: skip
def _reductions() -> None:
    values = floats(3, 5)
    x = te.placeholder((3, 5), name="x")
    for module in (tir, te):
        k = te.reduce_axis((0, 5), "k")
        close(te.compute((3,), lambda i, m=module, r=k: m.sum(x[i, r], axis=r)), {x: values}, values.sum(1))
        k = te.reduce_axis((0, 5), "k")
        product = module.comm_reducer(lambda a, b: a * b, lambda dtype: tir.const(1, dtype), name="product")
        total = te.compute((3,), lambda i, p=product, r=k: p(x[i, r], axis=r))
        close(total, {x: values}, values.prod(1))
        assert isinstance(total.op.body[0], tir.Reduce)
        assert isinstance(total.op.body[0].combiner, tir.CommReducer)
        k = te.reduce_axis((0, 5), "k")
        high = te.compute((3,), lambda i, m=module, r=k: m.max(x[i, r], axis=r, where=r > 1))
        close(high, {x: values}, values[:, 2:].max(1))
