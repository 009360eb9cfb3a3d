"""Element-wise operators of two tensors with broadcasting, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.dtype import is_float, is_integer, item_bytes
from eutectic.ir.prim_expr import ExprOp, IntImm, PrimExpr, Var, as_prim
from eutectic.ir.prim_logic import Select
from eutectic.te import Tensor
from eutectic.te.tensor import TENSOR_OPERATORS, sizes_of
from eutectic.tir import op
from eutectic.tir.expr import Let
from eutectic.topi.shapes import broadcast_index, broadcast_shape, same_size, sizes_text, stage
from eutectic.topi.special_values import convert, nan_max, nan_min, widen

Operand = Tensor | PrimExpr | int | float
BinaryDefinition = Callable[[Any, Any], Any]

_TAKES: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "any": (lambda dtype: True, "any dtype"),
    "number": (lambda dtype: dtype != "bool", "numbers"),
    "integer": (lambda dtype: is_integer(dtype) or dtype == "bool", "integers or bool"),
    "shift": (is_integer, "integers"),
    "float": (is_float, "floats"),
}


def _binary(
    name: str,
    value: Callable[[PrimExpr, PrimExpr], PrimExpr],
    summary: str,
    *,
    takes: str = "number",
    result: str | None = None,
) -> BinaryDefinition:
    """Define one operator; `value` takes two elements, floats of 16 bits in float32."""
    accepts, wants = _TAKES[takes]

    def definition(lhs: Operand, rhs: Operand) -> Any:
        dtype = _dtype(name, lhs, rhs)
        if not accepts(dtype):
            raise TypeError(f"{name} is defined for {wants}, not for {dtype}")

        def element(a: PrimExpr, b: PrimExpr) -> PrimExpr:
            return convert(value(widen(a), widen(b)), result or dtype)

        shapes = [x.shape for x in (lhs, rhs) if isinstance(x, Tensor)]
        if not shapes:
            return element(as_prim(lhs, dtype), as_prim(rhs, dtype))
        shape = broadcast_shape(*shapes)
        return stage(
            shape, lambda *at: element(*(_read(x, at, shape, dtype) for x in (lhs, rhs))), f"T_{name}", "broadcast"
        )

    definition.__name__ = definition.__qualname__ = name
    definition.__doc__ = f"""{summary}

    Args:
        lhs: A tensor of {wants}, or a scalar.
        rhs: The same, of the same dtype; a Python number takes the other's.

    Returns:
        The broadcast shape, dtype {result or "of the operands"}; one stage `T_{name}`. Of two scalars an expression.

    Raises:
        TypeError: different dtypes, or one without this operator.
        ValueError: the shapes do not broadcast.

    Reference: TVM topi.{name}.
    """
    return definition


def _dtype(name: str, lhs: Any, rhs: Any) -> str:
    known = [x.dtype for x in (lhs, rhs) if isinstance(x, (Tensor, ExprOp))]
    if len(set(known)) > 1:
        raise TypeError(f"{name} of {known[0]} with {known[1]}: cast one side first")
    return known[0] if known else as_prim(lhs, "int32").dtype


def _read(x: Any, at: tuple[PrimExpr, ...], shape: tuple[PrimExpr, ...], dtype: str) -> PrimExpr:
    return x(*broadcast_index(x, at, shape)) if isinstance(x, Tensor) else as_prim(x, dtype)


def _by_kind(
    of_floats: Callable[[Any, Any], PrimExpr],
    of_integers: Callable[[Any, Any], PrimExpr],
    of_bools: Callable[[Any, Any], PrimExpr] | None = None,
) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    def value(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype == "bool" and of_bools is not None:
            return of_bools(a, b)
        return of_floats(a, b) if is_float(a.dtype) else of_integers(a, b)

    return value


def _named(name: str, value: PrimExpr, body: Callable[[PrimExpr], PrimExpr]) -> PrimExpr:
    """`body` of a value that is computed once."""
    var = Var(name, value.dtype)
    return Let(var, value, body(var))


def _floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Quotient rounded down by the remainder; of a zero divisor the plain quotient."""

    def rounded(quotient: PrimExpr) -> PrimExpr:
        zero = op.copysign(as_prim(0, a.dtype), a / b)
        whole = _named(
            "whole", op.floor(quotient), lambda floored: Select(quotient - floored > 0.5, floored + 1.0, floored)
        )
        return Select(b.equal(0), a / b, Select(quotient.not_equal(0), whole, zero))

    def below(rest: PrimExpr) -> PrimExpr:
        exact = (a - rest) / b
        return _named("quotient", Select(_signs_differ(rest, b), exact - 1.0, exact), rounded)

    return _named("rest", op.fmod(a, b), below)


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return _named("rest", op.fmod(a, b), lambda rest: Select(_signs_differ(rest, b), rest + b, rest))


def _signs_differ(rest: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    return op.logical_and(rest.not_equal(0), op.bitwise_xor(divisor < 0, rest < 0))


def _log_add_exp(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    apart = nan_max(a, b) + op.log1p(op.exp(-op.abs(a - b)))
    return Select(a.equal(b), a + math.log(2), apart)


def _of_integers(division: Callable[[Any, Any], PrimExpr]) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    """A division of integers, which fails where the divisor is zero."""
    return lambda a, b: division(a, op.checked(b, b.not_equal(0), "integer division by zero"))


def _squared(x: PrimExpr) -> PrimExpr:
    """`x * x`; of a constant with the bits that its dtype has, which constants fold without."""
    if not isinstance(x, IntImm):
        return x * x
    bits = 8 * item_bytes(x.dtype)
    low = 0 if x.dtype.startswith("uint") else -(1 << bits - 1)
    return IntImm(x.dtype, (x.value * x.value - low) % (1 << bits) + low)


def _integer_power(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Power by repeated squaring, which wraps around; a negative exponent truncates towards zero."""
    zero, one = as_prim(0, a.dtype), as_prim(1, a.dtype)
    unsigned = a.dtype.startswith("uint")
    bits = 8 * item_bytes(a.dtype) - (0 if unsigned else 1)

    def step(bit: int, result: PrimExpr, base: PrimExpr) -> PrimExpr:
        taken = op.bitwise_and(b >> as_prim(bit, b.dtype), as_prim(1, b.dtype)).not_equal(0)
        grown = Select(taken, result * base, result)
        if bit == bits - 1:
            return grown
        square = _squared(base)
        if isinstance(square, IntImm):
            return _named("result", grown, lambda r: step(bit + 1, r, square))
        return _named("result", grown, lambda r: _named("base", square, lambda again: step(bit + 1, r, again)))

    power = step(0, one, a)
    if unsigned:
        return power
    odd = op.bitwise_and(b, as_prim(1, b.dtype)).not_equal(0)
    tiny = Select(a.equal(1), one, Select(a.equal(-1), Select(odd, as_prim(-1, a.dtype), one), zero))
    return Select(b < 0, tiny, power)


def _left_shift(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    width = 8 * item_bytes(a.dtype)
    return Select(b < width, a << op.min(b, width - 1), as_prim(0, a.dtype))


def _right_shift(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    width = 8 * item_bytes(a.dtype)
    shifted = a >> op.min(b, width - 1)
    return Select(b < width, shifted, as_prim(0, a.dtype)) if a.dtype.startswith("uint") else shifted


def _of_conditions(function: Callable[[Any, Any], PrimExpr]) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    return lambda a, b: function(convert(a, "bool"), convert(b, "bool"))


add = _binary(
    "add",
    _by_kind(lambda a, b: a + b, lambda a, b: a + b, op.logical_or),
    "`lhs + rhs`; of bool the logical or.",
    takes="any",
)
subtract = _binary("subtract", lambda a, b: a - b, "`lhs - rhs`.")
multiply = _binary(
    "multiply",
    _by_kind(lambda a, b: a * b, lambda a, b: a * b, op.logical_and),
    "`lhs * rhs`; of bool the logical and.",
    takes="any",
)
divide = _binary("divide", _by_kind(op.div, _of_integers(op.truncdiv)), "`lhs / rhs`; integers truncate towards zero.")
floor_divide = _binary("floor_divide", _by_kind(_floor_divide, _of_integers(op.floordiv)), "The quotient rounded down.")
mod = _binary("mod", _by_kind(op.fmod, _of_integers(op.truncmod)), "Remainder with the sign of `lhs`.")
floor_mod = _binary("floor_mod", _by_kind(_floor_mod, _of_integers(op.floormod)), "Remainder with the sign of `rhs`.")
power = _binary("power", _by_kind(op.pow, _integer_power), "`lhs` to the power `rhs`; integers wrap around.")
log_add_exp = _binary("log_add_exp", _log_add_exp, "`log(exp(lhs) + exp(rhs))` without overflow.", takes="float")
atan2 = _binary("atan2", op.atan2, "Angle of the point with height `lhs` and width `rhs`.", takes="float")
copysign = _binary(
    "copysign", op.copysign, "`lhs` with the sign of `rhs`, which zeros and NaN have, too.", takes="float"
)
hypot = _binary(
    "hypot", op.hypot, "Distance of the point `(lhs, rhs)` from the origin, without overflow.", takes="float"
)
maximum = _binary("maximum", nan_max, "The larger; NaN if either is.", takes="any")
minimum = _binary("minimum", nan_min, "The smaller; NaN if either is.", takes="any")
equal = _binary("equal", lambda a, b: a.equal(b), "Whether equal.", takes="any", result="bool")
not_equal = _binary("not_equal", lambda a, b: a.not_equal(b), "Whether different.", takes="any", result="bool")
less = _binary("less", lambda a, b: a < b, "Whether `lhs < rhs`.", takes="any", result="bool")
less_equal = _binary("less_equal", lambda a, b: a <= b, "Whether `lhs <= rhs`.", takes="any", result="bool")
greater = _binary("greater", lambda a, b: a > b, "Whether `lhs > rhs`.", takes="any", result="bool")
greater_equal = _binary("greater_equal", lambda a, b: a >= b, "Whether `lhs >= rhs`.", takes="any", result="bool")
logical_and = _binary("logical_and", _of_conditions(op.logical_and), "Whether both hold.", takes="any", result="bool")
logical_or = _binary("logical_or", _of_conditions(op.logical_or), "Whether one holds.", takes="any", result="bool")
logical_xor = _binary("logical_xor", _of_conditions(op.bitwise_xor), "Whether just one.", takes="any", result="bool")
bitwise_and = _binary("bitwise_and", op.bitwise_and, "Bits set in both.", takes="integer")
bitwise_or = _binary("bitwise_or", op.bitwise_or, "Bits set in one or both.", takes="integer")
bitwise_xor = _binary("bitwise_xor", op.bitwise_xor, "Bits set in exactly one.", takes="integer")
left_shift = _binary(
    "left_shift", _left_shift, "`lhs` times two to the power `rhs`; zero beyond the width.", takes="shift"
)
right_shift = _binary("right_shift", _right_shift, "`lhs` shifted right, keeping the sign.", takes="shift")


def broadcast_to(data: Tensor, shape: Any) -> Tensor:
    """A tensor repeated along axes of size one, and along new axes in front.

    Args:
        data: Any shape and dtype.
        shape: The wanted shape.

    Returns:
        `shape`, dtype of `data`; one stage `T_broadcast_to`.

    Raises:
        ValueError: `data` does not broadcast to `shape`.
    """
    wanted = sizes_of(shape)
    common_shape = broadcast_shape(data.shape, wanted)
    if len(common_shape) != len(wanted) or not all(map(same_size, common_shape, wanted)):
        raise ValueError(f"a tensor of {sizes_text(data.shape)} does not broadcast to {sizes_text(wanted)}")
    return stage(wanted, lambda *at: data(*broadcast_index(data, at, wanted)), "T_broadcast_to", "broadcast")


def where(condition: Tensor, x: Operand, y: Operand) -> Tensor:
    """`x` where the condition holds, `y` elsewhere; shapes broadcast.

    Args:
        condition: A bool tensor, or numbers that count as true where not zero.
        x: A tensor or scalar.
        y: The same, of the same dtype.

    Returns:
        The broadcast shape; one stage `T_where`.

    Raises:
        TypeError: `x` and `y` differ in dtype.
        ValueError: the shapes do not broadcast.
    """
    dtype = _dtype("where", x, y)
    shape = broadcast_shape(*(t.shape for t in (condition, x, y) if isinstance(t, Tensor)))
    return stage(
        shape,
        lambda *at: Select(
            convert(_read(condition, at, shape, "bool"), "bool"),
            _read(x, at, shape, dtype),
            _read(y, at, shape, dtype),
        ),
        "T_where",
        "broadcast",
    )


def checked(x: Tensor, condition: Tensor, message: str) -> Tensor:
    """`x`, of which every element fails the call with `message` where the condition does not hold.

    Args:
        x: Any shape and dtype.
        condition: A bool tensor that broadcasts to the shape of `x`.
        message: What is said.

    Returns:
        Shape and dtype of `x`; one stage `T_checked`.

    Raises:
        TypeError: the condition is not bool.
    """

    def element(*at: PrimExpr) -> PrimExpr:
        return op.checked(x(*at), condition(*broadcast_index(condition, at, x.shape)), message)

    return stage(x.shape, element, "T_checked", "broadcast")


def ewise_fma(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
    """`x1 * x2 + x3`, element by element, product and sum rounded one after the other.

    Args:
        x1: Any shape and dtype.
        x2: Same shape and dtype.
        x3: Same shape and dtype.

    Returns:
        Shape and dtype of `x1`; one stage `T_ewise_fma`.

    Raises:
        TypeError: the dtypes differ.
        ValueError: the shapes differ.
    """
    dtype = _dtype("ewise_fma", x1, x2)
    _dtype("ewise_fma", x1, x3)
    if not all(len(x.shape) == len(x1.shape) and all(map(same_size, x.shape, x1.shape)) for x in (x2, x3)):
        raise ValueError(f"ewise_fma of {', '.join(sizes_text(x.shape) for x in (x1, x2, x3))}")

    def element(*at: PrimExpr) -> PrimExpr:
        a, b, c = (widen(x(*at)) for x in (x1, x2, x3))
        return op.logical_or(op.logical_and(a, b), c) if dtype == "bool" else (a * b + c).astype(dtype)

    return stage(x1.shape, element, "T_ewise_fma", "elemwise")


TENSOR_OPERATORS.update(add=add, subtract=subtract, multiply=multiply, divide=divide)
