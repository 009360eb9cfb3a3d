"""Intrinsics and arithmetic as functions, named as in TVM; `T.exp(x)` in the text form is `exp(x)` here.

Several names (`abs`, `all`, `any`, `max`, `min`, `pow`, `round`) hide Python's in
this module. The dtype of a result is that of the first argument unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeGuard

import ml_dtypes
import numpy as np

from eutectic.ir.dtype import is_float, is_integer, to_numpy
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_base import match_operands
from eutectic.ir.prim_call import intrinsic
from eutectic.ir.prim_expr import (
    Call,
    ExprOp,
    FloatImm,
    IntImm,
    Operand,
    PrimExpr,
    Select,
    StringImm,
    TypedExpr,
    add,
    as_prim,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    div,
    element_dtype,
    floordiv,
    floormod,
    lanes_of,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    shift_left,
    shift_right,
    sub,
    truncdiv,
    truncmod,
    with_lanes,
)
from eutectic.ir.prim_expr import broadcast as _broadcast
from eutectic.tir.buffer import BufferLoad

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cast",
    "div",
    "floordiv",
    "floormod",
    "logical_and",
    "logical_not",
    "logical_or",
    "shift_left",
    "shift_right",
    "truncdiv",
    "truncmod",
]


def _float_arguments(name: str, args: tuple[Any, ...]) -> tuple[PrimExpr, ...]:
    converted = tuple(as_prim(arg, "float32") for arg in args)
    wrong = [arg.dtype for arg in converted if not is_float(element_dtype(arg.dtype))]
    if wrong:
        raise TypeError(f"{name} needs floating-point arguments, got {wrong[0]}; convert with .astype(...)")
    return converted


def _unary(name: str) -> Callable[[Operand], PrimExpr]:
    op = intrinsic(f"tir.{name}")

    def apply(x: Operand) -> PrimExpr:
        args = _float_arguments(name, (x,))
        return Call(args[0].dtype, op, args)

    _describe(apply, name, f"`{name}` of a float, element by element.")
    return apply


def _binary(name: str) -> Callable[[Operand, Operand], PrimExpr]:
    op = intrinsic(f"tir.{name}")

    def apply(x: Operand, y: Operand) -> PrimExpr:
        left, right = _float_arguments(name, (x, y))
        args = match_operands(left, right, name)
        return Call(args[0].dtype, op, args)

    _describe(apply, name, f"`{name}` of two floats of one dtype.")
    return apply


def _of_two(name: str) -> Callable[[Operand, Operand], PrimExpr]:
    """As `_binary`, for those whose operands TVM calls `x1` and `x2`."""
    binary = _binary(name)

    def apply(x1: Operand, x2: Operand) -> PrimExpr:
        return binary(x1, x2)

    _describe(apply, name, f"`{name}` of two floats of one dtype.")
    return apply


def _rounding(name: str, meaning: str) -> Callable[[Operand], PrimExpr]:
    op = intrinsic(f"tir.{name}")

    def apply(x: Operand) -> PrimExpr:
        value = as_prim(x, "int32")
        return Call(value.dtype, op, (value,)) if is_float(element_dtype(value.dtype)) else value

    _describe(apply, name, f"A float rounded {meaning}; integers are returned as they are.")
    return apply


def _bool_like(args: tuple[Any, ...]) -> str:
    return with_lanes("bool", lanes_of(args[0].dtype))


def _classification(name: str, of_integers: bool) -> Callable[[Operand], PrimExpr]:
    op = intrinsic(f"tir.{name}", _bool_like)

    def apply(x: Operand) -> PrimExpr:
        value = as_prim(x, "float32")
        if not is_float(element_dtype(value.dtype)):
            return IntImm("bool", int(of_integers))
        return Call(_bool_like((value,)), op, (value,))

    _describe(apply, name, f"`{name}` of a float, as a bool; for integers it is {of_integers}.")
    return apply


def _describe(function: Any, name: str, doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc


exp, exp2, exp10 = _unary("exp"), _unary("exp2"), _unary("exp10")
log, log2, log10, log1p = _unary("log"), _unary("log2"), _unary("log10"), _unary("log1p")
sqrt, rsqrt = _unary("sqrt"), _unary("rsqrt")
sigmoid, erf, erfc = _unary("sigmoid"), _unary("erf"), _unary("erfc")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")
fabs = _unary("fabs")
atan2, hypot, copysign, nextafter = _of_two("atan2"), _of_two("hypot"), _of_two("copysign"), _of_two("nextafter")
fmod, pow = _binary("fmod"), _binary("pow")
power = pow
floor, ceil = _rounding("floor", "towards minus infinity"), _rounding("ceil", "towards plus infinity")
trunc, nearbyint = _rounding("trunc", "towards zero"), _rounding("nearbyint", "to nearest, halves to even")
round = _rounding("round", "to nearest, halves to even, as `nearbyint`")
isnan, isinf = _classification("isnan", False), _classification("isinf", False)
isfinite = _classification("isfinite", True)
min, max = minimum, maximum
truediv = div
indexdiv, indexmod = floordiv, floormod

_LDEXP, _FMA = intrinsic("tir.ldexp"), intrinsic("tir.fma")
_IF_THEN_ELSE: Final = intrinsic("tir.if_then_else", lambda args: str(args[1].dtype))
_LIKELY: Final = intrinsic("tir.likely")
_POPCOUNT: Final = intrinsic("tir.popcount")
_CLZ: Final = intrinsic("tir.clz", lambda args: with_lanes("int32", lanes_of(args[0].dtype)))
_REINTERPRET: Final = intrinsic("tir.reinterpret", None)
_RET: Final = intrinsic("tir.ret")
_ADDRESS_OF: Final = intrinsic("tir.address_of", lambda _: "handle")
_TUPLE: Final = intrinsic("tir.tvm_tuple", lambda _: "handle")
_SYNC: Final = intrinsic("tir.tvm_storage_sync", lambda _: "int32")
_ASSUME: Final = intrinsic("tir.assume", lambda _: "bool")
_CHECKED_INDEX: Final = intrinsic("tir.checked_index")
_UNDEF: Final = intrinsic("tir.undef", None)
_CHECKED: Final = intrinsic("tir.checked")
_CALL_PACKED: Final = intrinsic("tir.call_packed", lambda _: "int32")
_CALL_EXTERN: Final = intrinsic("tir.call_extern", None)
_CALL_PURE_EXTERN: Final = intrinsic("tir.call_pure_extern", None)


def abs(x: Operand) -> PrimExpr:
    """The absolute value: `fabs` of floats, a selection for signed integers."""
    value = as_prim(x, "int32")
    if is_float(element_dtype(value.dtype)):
        return fabs(value)
    if isinstance(value, IntImm):
        return IntImm(value.dtype, value.value if value.value >= 0 else -value.value)
    if value.dtype.startswith("uint"):
        return value
    return Select(value >= 0, value, sub(as_prim(0, value.dtype), value))


def ceildiv(lhs: Operand, rhs: Operand) -> PrimExpr:
    """`lhs / rhs` of integers, rounded up."""
    return floordiv(sub(add(lhs, rhs), 1), rhs)


def ldexp(x1: Operand, x2: Operand) -> PrimExpr:
    """`x1 * 2 ** x2`, with an int32 exponent."""
    value = _float_arguments("ldexp", (x1,))[0]
    return Call(value.dtype, _LDEXP, (value, as_prim(x2, "int32")))


def fma(x: Operand, y: Operand, z: Operand) -> PrimExpr:
    """`x * y + z`, rounded once."""
    args = _float_arguments("fma", (x, y, z))
    return Call(args[0].dtype, _FMA, args)


def if_then_else(cond: Operand | bool, t: Operand, f: Operand) -> PrimExpr:
    """`t` where `cond` holds, else `f`; only the chosen one is computed.

    Raises:
        TypeError: the condition is not bool, or the values have no common dtype.
    """
    condition = as_prim(cond, "bool")
    if condition.dtype != "bool":
        raise TypeError(f"the condition of if_then_else must be bool, got {condition.dtype}")
    yes, no = match_operands(*_pair(t, f), "if_then_else")
    if isinstance(condition, IntImm):
        return yes if condition.value else no
    return Call(yes.dtype, _IF_THEN_ELSE, (condition, yes, no))


def is_if_then_else(node: object) -> TypeGuard[Call]:
    """Whether a node is a call of `if_then_else`."""
    return isinstance(node, Call) and node.op is _IF_THEN_ELSE


def _pair(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    if isinstance(a, ExprOp) or isinstance(b, ExprOp):
        return a, b
    return as_prim(a, "int32"), b


def likely(cond: Operand | bool) -> PrimExpr:
    """`cond`, which is expected to hold."""
    condition = as_prim(cond, "bool")
    return condition if isinstance(condition, IntImm) else Call(condition.dtype, _LIKELY, (condition,))


def all(*args: Operand | bool) -> PrimExpr:
    """All conditions hold.

    Raises:
        ValueError: there are no arguments.
    """
    if not args:
        raise ValueError("all needs at least one condition")
    return reduce(logical_and, args[1:], as_prim(args[0], "bool"))


def any(*args: Operand | bool) -> PrimExpr:
    """Some condition holds.

    Raises:
        ValueError: there are no arguments.
    """
    if not args:
        raise ValueError("any needs at least one condition")
    return reduce(logical_or, args[1:], as_prim(args[0], "bool"))


def popcount(x: Operand) -> PrimExpr:
    """Number of bits that are set."""
    value = _integer("popcount", x)
    return Call(value.dtype, _POPCOUNT, (value,))


def clz(x: Operand) -> PrimExpr:
    """Number of zero bits above the highest that is set, as int32."""
    value = _integer("clz", x)
    return Call(with_lanes("int32", lanes_of(value.dtype)), _CLZ, (value,))


def _integer(name: str, x: Operand) -> PrimExpr:
    value = as_prim(x, "int32")
    if not is_integer(element_dtype(value.dtype)):
        raise TypeError(f"{name} needs integers, got {value.dtype}")
    return value


def reinterpret(dtype: str, value: Operand) -> PrimExpr:
    """The bits of `value` read as `dtype`."""
    return Call(dtype, _REINTERPRET, (as_prim(value, "int32"),))


def const(value: Any, dtype: str | None = None) -> PrimExpr:
    """A constant; without a dtype int32, float32 or bool by the kind of number."""
    return as_prim(value, "int32") if dtype is None else cast(dtype, as_prim(value, dtype))


def _largest(dtype: str) -> float:
    facts: Any = ml_dtypes.finfo(to_numpy(dtype))  # type: ignore[no-untyped-call]  # as ml_dtypes ships it
    return float(facts.max)


def max_value(dtype: str) -> PrimExpr:
    """The largest finite value of `dtype`."""
    if is_float(dtype):
        return FloatImm(dtype, _largest(dtype))
    return IntImm("bool", 1) if dtype == "bool" else IntImm(dtype, int(np.iinfo(to_numpy(dtype)).max))


def min_value(dtype: str) -> PrimExpr:
    """The smallest finite value of `dtype`."""
    if is_float(dtype):
        return FloatImm(dtype, -_largest(dtype))
    return IntImm("bool", 0) if dtype == "bool" else IntImm(dtype, int(np.iinfo(to_numpy(dtype)).min))


def infinity(dtype: str) -> PrimExpr:
    """Positive infinity.

    Raises:
        TypeError: `dtype` is not a float.
    """
    if not is_float(dtype):
        raise TypeError(f"{dtype} has no infinity; use max_value")
    return FloatImm(dtype, float("inf"))


def broadcast(value: Operand, lanes: int) -> PrimExpr:
    """`value` repeated `lanes` times, as a vector."""
    return _broadcast(as_prim(value, "int32"), lanes)


# ---- calls of what lies outside


def call_intrin(dtype: str, func_name: str | Op, *args: Any) -> PrimExpr:
    """A call of the intrinsic `func_name`."""
    return Call(dtype, Op.get(func_name) if isinstance(func_name, str) else func_name, args)


def call_extern(dtype: str, func_name: str, *args: Any) -> PrimExpr:
    """A call of the C function `func_name`."""
    return Call(dtype, _CALL_EXTERN, (StringImm(func_name), *args))


def call_pure_extern(dtype: str, func_name: str, *args: Any) -> PrimExpr:
    """A call of the C function `func_name`, which has no effect."""
    return Call(dtype, _CALL_PURE_EXTERN, (StringImm(func_name), *args))


def call_packed(*args: Any) -> PrimExpr:
    """A call of a registered function; the first argument is its name."""
    return Call("int32", _CALL_PACKED, args)


def tvm_tuple(*values: Any) -> PrimExpr:
    """Several values as one argument."""
    return Call("handle", _TUPLE, values)


def tvm_storage_sync(storage_scope: str) -> PrimExpr:
    """A barrier of the threads that share `storage_scope`."""
    return Call("int32", _SYNC, (StringImm(storage_scope),))


def ret(val: Operand) -> PrimExpr:
    """Return `val` from the function."""
    returned = as_prim(val, "int32")
    return Call(returned.dtype, _RET, (returned,))


def address_of(obj: BufferLoad | Any) -> PrimExpr:
    """Pointer to an element; a buffer stands for its first."""
    load = obj if isinstance(obj, Node) and isinstance(obj, TypedExpr) else _first_element(obj)
    return Call("handle", _ADDRESS_OF, (load,))


def _first_element(buffer: Any) -> PrimExpr:
    return BufferLoad(buffer, (IntImm("int32", 0),) * len(buffer.shape))


def assume(cond: Operand | bool) -> PrimExpr:
    """A promise that `cond` holds."""
    return Call("bool", _ASSUME, (as_prim(cond, "bool"),))


def checked_index(index: Operand, extent: Operand, message: str, active: PrimExpr | None = None) -> PrimExpr:
    """`index`, which is seen to be one of `range(extent)` when it is computed; where it is not, the call fails.

    Args:
        index: An integer, or a vector of them.
        extent: Elements of the axis.
        message: What is said when it is outside.
        active: Bool vector of the lanes that count; None for all.
    """
    value = _integer("checked_index", index)
    args = (value, as_prim(extent, element_dtype(value.dtype)), StringImm(message))
    return Call(value.dtype, _CHECKED_INDEX, args if active is None else (*args, active))


def checked(value: Operand, condition: Operand | bool, message: str) -> PrimExpr:
    """`value`, where `condition` must hold; where it does not, the call of the program fails with `message`.

    Other elements may be computed before the failure is reported, from the value as it is. A value that
    nothing reads is not checked.

    A message that begins with `support.errors.OTHERWISE` names what cannot compute this call: a compiled model makes it
    by other code, and who runs the program by itself gets `SpecialValues`.

    Raises:
        TypeError: the condition is not bool.
    """
    operand, holds = as_prim(value, "int32"), as_prim(condition, "bool")
    if element_dtype(holds.dtype) != "bool":
        raise TypeError(f"the condition of checked must be bool, got {holds.dtype}")
    if isinstance(holds, IntImm) and holds.value:
        return operand
    return Call(operand.dtype, _CHECKED, (operand, holds, StringImm(message)))


def undef(dtype: str = "float32") -> PrimExpr:
    """A value that does not matter."""
    return Call(dtype, _UNDEF, ())
