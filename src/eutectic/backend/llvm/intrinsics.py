"""Intrinsic calls: those of LLVM, vector code of our own, and the C math library lane by lane.

An operator is added with one decorated function, or a row in a table.
"""

from __future__ import annotations

import math
from typing import Final

from eutectic.backend.llvm import lockstep
from eutectic.backend.llvm.arithmetic import overload
from eutectic.backend.llvm.casts import cast
from eutectic.backend.llvm.expr import ExprEmitter, has_load, intrinsic
from eutectic.backend.llvm.memory import lane_indices
from eutectic.backend.llvm.types import constant, register_type, splat, vector
from eutectic.backend.llvm.vector_functions import FUNCTIONS
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import (
    Broadcast,
    Call,
    Cast,
    FloatImm,
    PrimExpr,
    StringImm,
    element_dtype,
    lanes_of,
    with_lanes,
)
from eutectic.runtime.symbols import is_registered
from eutectic.support.errors import CodegenError

_SAME: Final = ("floor", "ceil", "trunc", "fabs", "sqrt")  # one LLVM intrinsic of the same name
_RENAMED: Final = {"nearbyint": "rint", "round": "rint"}
_POWERS: Final[dict[float | None, str]] = {2: "exp2", 10: "exp10"}  # functions that are powers of a number
_BITWISE: Final = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def _name(call: Call) -> str:
    return str(getattr(call.op, "name", "")).removeprefix("tir.")


def _promoted(emitter: ExprEmitter, arg: PrimExpr) -> tuple[str, str]:
    """A float argument, and its dtype; 16-bit ones are computed in float32."""
    element, lanes = element_dtype(arg.dtype), lanes_of(arg.dtype)
    value = emitter.value(arg)
    if element in ("float16", "bfloat16"):
        wide = with_lanes("float32", lanes)
        return cast(emitter.text, arg.dtype, wide, value), wide
    return value, arg.dtype


def _returned(emitter: ExprEmitter, computed: str, call: Call, value: str) -> str:
    return value if computed == call.dtype else cast(emitter.text, computed, call.dtype, value)


@intrinsic(*_SAME, *_RENAMED)
def _llvm(emitter: ExprEmitter, call: Call) -> str:
    name = _name(call)
    if not is_float(element_dtype(call.dtype)):
        return emitter.value(call.args[0])  # rounding an integer
    value, dtype = _promoted(emitter, call.args[0])
    kind = register_type(dtype)
    return _returned(
        emitter,
        dtype,
        call,
        emitter.text.call(kind, f"llvm.{_RENAMED.get(name, name)}.{overload(kind)}", [(kind, value)]),
    )


@intrinsic("rsqrt")
def _rsqrt(emitter: ExprEmitter, call: Call) -> str:
    value, dtype = _promoted(emitter, call.args[0])
    kind = register_type(dtype)
    root = emitter.text.call(kind, f"llvm.sqrt.{overload(kind)}", [(kind, value)])
    one = splat(register_type(element_dtype(dtype)), constant(element_dtype(dtype), 1.0), lanes_of(dtype))
    return _returned(emitter, dtype, call, emitter.text.assign(f"fdiv {kind} {one}, {root}"))


@intrinsic(*FUNCTIONS)
def _vector(emitter: ExprEmitter, call: Call) -> str:
    pairs = [_promoted(emitter, arg) for arg in call.args]
    dtype, values = pairs[0][1], [value for value, _ in pairs]
    lanes, name = lanes_of(dtype), _name(call)
    if name == "pow" and _number(call.args[1]) == 2:
        result = emitter.text.assign(f"fmul {register_type(dtype)} {values[0]}, {values[0]}")
    elif element_dtype(dtype) != "float32":
        result = _of_doubles(emitter, call, dtype, values)
    elif name == "pow" and (base := _number(call.args[0])) in _POWERS:
        (result,) = lockstep.of_values(emitter, _POWERS[base], lanes, [values[1:]])
    else:
        (result,) = lockstep.of_values(emitter, name, lanes, [values])
    return _returned(emitter, dtype, call, result)


def _of_doubles(emitter: ExprEmitter, call: Call, dtype: str, values: list[str]) -> str:
    name = _name(call)
    if name == "sigmoid":
        return _double_sigmoid(emitter, dtype, values[0])
    if name == "exp10":
        ten = splat("double", constant("float64", 10.0), lanes_of(dtype))
        return _lanewise(emitter, "pow", dtype, [ten, *values])
    return _lanewise(emitter, name, dtype, values, known=not _is_power_of_power(call))


def _number(expr: PrimExpr) -> float | None:
    """The number that an expression is, in all lanes, if it is one."""
    while isinstance(expr, (Broadcast, Cast)):
        expr = expr.value
    return expr.value if isinstance(expr, FloatImm) else None


def _double_sigmoid(emitter: ExprEmitter, dtype: str, value: str) -> str:
    kind, lanes = register_type(dtype), lanes_of(dtype)
    text, one, zero = emitter.text, *(splat("double", constant("float64", x), lanes) for x in (1.0, 0.0))
    size = text.call(kind, f"llvm.fabs.{overload(kind)}", [(kind, value)])
    grown = _lanewise(emitter, "exp", dtype, [text.assign(f"fneg {kind} {size}")])
    positive = text.assign(f"fcmp oge {kind} {value}, {zero}")
    top = text.assign(f"select {vector('i1', lanes)} {positive}, {kind} {one}, {kind} {grown}")
    return text.assign(f"fdiv {kind} {top}, {text.assign(f'fadd {kind} {grown}, {one}')}")


@intrinsic("nextafter")
def _nextafter(emitter: ExprEmitter, call: Call) -> str:
    pairs = [_promoted(emitter, arg) for arg in call.args]
    dtype, values = pairs[0][1], [value for value, _ in pairs]
    return _returned(emitter, dtype, call, _lanewise(emitter, _name(call), dtype, values))


def _is_power_of_power(call: Call) -> bool:
    """Whether it is a power of `2^n`, which LLVM makes `exp2(n x)` of, with the rounding error of that product."""
    base = _number(call.args[0])
    if _name(call) != "pow" or base is None or not 0 < base < math.inf:
        return False
    part, exponent = math.frexp(base)
    return part == 0.5 and abs(exponent - 1) > 1


def _lanewise(emitter: ExprEmitter, name: str, dtype: str, values: list[str], *, known: bool = True) -> str:
    """A function of C's math library for each lane; `known` as for `FunctionText.call`."""
    single = register_type(element_dtype(dtype))
    symbol = name if single == "double" else f"{name}f"
    text, lanes, kind = emitter.text, lanes_of(dtype), register_type(dtype)
    if lanes == 1:
        return text.call(single, symbol, [(single, value) for value in values], known=known)
    results = []
    for i in range(lanes):
        args = [(single, text.assign(f"extractelement {kind} {value}, i64 {i}")) for value in values]
        results.append(text.call(single, symbol, args, known=known))
    return emitter.gather_lanes(single, results)


@intrinsic("ldexp")
def _ldexp(emitter: ExprEmitter, call: Call) -> str:
    value, dtype = _promoted(emitter, call.args[0])
    lanes, single = lanes_of(dtype), register_type(element_dtype(dtype))
    power = cast(emitter.text, call.args[1].dtype, with_lanes("int32", lanes), emitter.value(call.args[1]))
    kind, whole = register_type(dtype), vector("i32", lanes)
    symbol, results = "ldexp" if single == "double" else "ldexpf", []
    if lanes == 1:
        return _returned(emitter, dtype, call, emitter.text.call(single, symbol, [(single, value), ("i32", power)]))
    for i in range(lanes):
        x = emitter.text.assign(f"extractelement {kind} {value}, i64 {i}")
        n = emitter.text.assign(f"extractelement {whole} {power}, i64 {i}")
        results.append(emitter.text.call(single, symbol, [(single, x), ("i32", n)]))
    return _returned(emitter, dtype, call, emitter.gather_lanes(single, results))


@intrinsic("copysign")
def _copysign(emitter: ExprEmitter, call: Call) -> str:
    (a, dtype), (b, _) = (_promoted(emitter, arg) for arg in call.args)
    kind = register_type(dtype)
    return _returned(
        emitter, dtype, call, emitter.text.call(kind, f"llvm.copysign.{overload(kind)}", [(kind, a), (kind, b)])
    )


@intrinsic("fma")
def _fma(emitter: ExprEmitter, call: Call) -> str:
    if not is_float(element_dtype(call.dtype)):
        kind = register_type(call.dtype)
        a, b, c = (emitter.value(arg) for arg in call.args)
        return emitter.text.assign(f"add {kind} {emitter.text.assign(f'mul {kind} {a}, {b}')}, {c}")
    pairs = [_promoted(emitter, arg) for arg in call.args]
    kind = register_type(pairs[0][1])
    result = emitter.text.call(kind, f"llvm.fma.{overload(kind)}", [(kind, value) for value, _ in pairs])
    return _returned(emitter, pairs[0][1], call, result)


@intrinsic("isnan", "isinf", "isfinite")
def _classify(emitter: ExprEmitter, call: Call) -> str:
    arg = call.args[0]
    lanes, name, text = lanes_of(arg.dtype), _name(call), emitter.text
    if not is_float(element_dtype(arg.dtype)):
        return splat("i1", "true" if name == "isfinite" else "false", lanes)
    value, dtype = _promoted(emitter, arg)
    kind = register_type(dtype)
    if name == "isnan":
        return text.assign(f"fcmp uno {kind} {value}, {value}")
    infinity = splat(register_type(element_dtype(dtype)), constant(element_dtype(dtype), math.inf), lanes)
    size = text.call(kind, f"llvm.fabs.{overload(kind)}", [(kind, value)])
    return text.assign(f"fcmp {'oeq' if name == 'isinf' else 'olt'} {kind} {size}, {infinity}")


@intrinsic(*_BITWISE, "bitwise_not")
def _bitwise(emitter: ExprEmitter, call: Call) -> str:
    kind, name = register_type(call.dtype), _name(call)
    a = emitter.value(call.args[0])
    if name == "bitwise_not":
        single = register_type(element_dtype(call.dtype))
        return emitter.text.assign(
            f"xor {kind} {a}, {splat(single, '-1' if single != 'i1' else 'true', lanes_of(call.dtype))}"
        )
    return emitter.text.assign(f"{_BITWISE[name]} {kind} {a}, {emitter.value(call.args[1])}")


@intrinsic("shift_left", "shift_right")
def _shift(emitter: ExprEmitter, call: Call) -> str:
    """Shifts by too much, which the reference interpreter refuses, give 0, or the sign for `>>`, as NumPy does."""
    kind, lanes = register_type(call.dtype), lanes_of(call.dtype)
    single = register_type(element_dtype(call.dtype))
    a, b = emitter.value(call.args[0]), emitter.value(call.args[1])
    bits = int(single[1:])
    text, flags = emitter.text, vector("i1", lanes)
    fits = text.assign(f"icmp ult {kind} {b}, {splat(single, str(bits), lanes)}")
    safe = text.assign(f"select {flags} {fits}, {kind} {b}, {kind} {splat(single, str(bits - 1), lanes)}")
    if _name(call) == "shift_right" and not call.dtype.startswith("uint"):
        return text.assign(f"ashr {kind} {a}, {safe}")
    moved = text.assign(f"{'shl' if _name(call) == 'shift_left' else 'lshr'} {kind} {a}, {safe}")
    return text.assign(f"select {flags} {fits}, {kind} {moved}, {kind} {splat(single, '0', lanes)}")


@intrinsic("popcount", "clz")
def _bits(emitter: ExprEmitter, call: Call) -> str:
    arg = call.args[0]
    kind, value = register_type(arg.dtype), emitter.value(arg)
    if _name(call) == "popcount":
        count = emitter.text.call(kind, f"llvm.ctpop.{overload(kind)}", [(kind, value)])
    else:
        name = f"llvm.ctlz.{overload(kind)}"
        emitter.text.declare(kind, name, [kind, "i1 immarg"])
        count = emitter.text.call(kind, name, [(kind, value), ("i1", "false")])
    return cast(emitter.text, arg.dtype.replace("uint", "int"), call.dtype, count)


@intrinsic("if_then_else")
def _if_then_else(emitter: ExprEmitter, call: Call) -> str:
    """Only the value that is chosen is computed, unless both are cheap and read nothing."""
    condition, yes, no = call.args
    kind = register_type(call.dtype)
    if lanes_of(condition.dtype) > 1:
        flags = register_type(condition.dtype)
        values = [emitter.value(arg) for arg in (condition, yes, no)]
        return emitter.text.assign(f"select {flags} {values[0]}, {kind} {values[1]}, {kind} {values[2]}")
    decided = emitter.value(condition)
    if has_load(yes) or has_load(no):
        return emitter.choose(decided, kind, lambda: emitter.value(yes), lambda: emitter.value(no))
    return emitter.text.assign(f"select i1 {decided}, {kind} {emitter.value(yes)}, {kind} {emitter.value(no)}")


@intrinsic("likely")
def _likely(emitter: ExprEmitter, call: Call) -> str:
    return emitter.value(call.args[0])


@intrinsic("assume", "tvm_storage_sync")
def _nothing(emitter: ExprEmitter, call: Call) -> str:
    return "true" if call.dtype == "bool" else "0"


@intrinsic("checked_index")
def _checked_index(emitter: ExprEmitter, call: Call) -> str:
    """An index that is inside of an axis, else zero and a report; lanes that do not take part are zero."""
    index, extent, message, *conditions = call.args
    assert isinstance(message, StringImm)
    text, size = emitter.text, emitter.at_least_zero(emitter.index(extent))
    kind = register_type(element_dtype(call.dtype))
    lanes = [emitter.index(index)] if lanes_of(index.dtype) == 1 else lane_indices(emitter, index)
    flags = _lane_conditions(emitter, conditions[0], len(lanes)) if conditions else ["true"] * len(lanes)
    indices, right = [], "true"
    for lane, flag in zip(lanes, flags, strict=True):
        inside = text.assign(f"icmp ult i64 {lane}, {size}")
        idle = text.assign(f"xor i1 {flag}, true")
        right = text.assign(f"and i1 {right}, {text.assign(f'or i1 {inside}, {idle}')}")
        safe = text.assign(f"select i1 {inside}, i64 {lane}, i64 0")
        indices.append(safe if kind == "i64" else text.assign(f"trunc i64 {safe} to {kind}"))
    emitter.report_unless(right, message.value)
    return indices[0] if lanes_of(call.dtype) == 1 else emitter.gather_lanes(kind, indices)


def _lane_conditions(emitter: ExprEmitter, active: PrimExpr, lanes: int) -> list[str]:
    """Which lanes take part; the one index of several lanes counts where any of these does."""
    value, count = emitter.value(active), lanes_of(active.dtype)
    kind = register_type(active.dtype)
    if count == 1:
        return [value] * lanes
    if lanes == 1:
        return [emitter.text.call("i1", f"llvm.vector.reduce.or.{overload(kind)}", [(kind, value)])]
    return [emitter.text.assign(f"extractelement {kind} {value}, i64 {i}") for i in range(lanes)]


@intrinsic("checked")
def _checked(emitter: ExprEmitter, call: Call) -> str:
    value, condition, message = call.args
    holds, lanes = emitter.value(condition), lanes_of(condition.dtype)
    if lanes > 1:
        holds = emitter.text.call("i1", f"llvm.vector.reduce.and.v{lanes}i1", [(vector("i1", lanes), holds)])
    emitter.report_unless(holds, getattr(message, "value", None))
    return emitter.value(value)


@intrinsic("undef")
def _undef(emitter: ExprEmitter, call: Call) -> str:
    return "zeroinitializer" if lanes_of(call.dtype) > 1 else constant(call.dtype, 0)


@intrinsic("reinterpret")
def _reinterpret(emitter: ExprEmitter, call: Call) -> str:
    arg = call.args[0]
    have, want = register_type(arg.dtype), register_type(call.dtype)
    value = emitter.value(arg)
    if "i1" in (have, want):
        raise CodegenError("reinterpret of bools cannot be compiled")
    return value if have == want else emitter.text.assign(f"bitcast {have} {value} to {want}")


@intrinsic("call_extern", "call_pure_extern")
def _extern(emitter: ExprEmitter, call: Call) -> str:
    """Calls of functions that this process has registered; text from elsewhere must not reach others."""
    name = getattr(call.args[0], "value", None)
    if not isinstance(name, str) or not is_registered(name):
        raise CodegenError(
            f"call_extern of {name!r}: no such function is registered",
            help="register its address with eutectic.backend.llvm.register_symbol(name, address)",
        )
    args = [(register_type(arg.dtype), emitter.value(arg)) for arg in call.args[1:]]
    kind = "void" if call.dtype in ("", "void") else register_type(call.dtype)
    return emitter.text.call(kind, name, args)
