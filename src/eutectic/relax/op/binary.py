"""Element-wise operators of two tensors: arithmetic, comparisons, logic and bits, all broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

import numpy as np

from eutectic import topi
from eutectic.ir.dtype import is_float, is_integer, to_numpy
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, convert
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.lowering import embedded
from eutectic.relax.op.numerics import Array, cast, dtype_of, widen
from eutectic.relax.op.registry import Trait, call, define_op, number_like, refuse, short_name
from eutectic.relax.op.shapes import broadcast, tensor_info
from eutectic.relax.struct_info import PrimStructInfo, StructInfo, TensorStructInfo
from eutectic.support.errors import CallError
from eutectic.te import Tensor


class BinaryConstructor(Protocol):
    """A constructor of two tensor arguments."""

    def __call__(self, x1: Expr | float, x2: Expr | float, *, span: Any = None) -> Call:
        """Apply the operator to `x1` and `x2`."""
        ...


_TAKES: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "any": (lambda dtype: True, "any dtype"),
    "number": (lambda dtype: dtype != "bool", "numbers"),
    "integer": (lambda dtype: is_integer(dtype) or dtype == "bool", "integers or bool"),
    "shift": (is_integer, "integers"),
    "float": (is_float, "floats"),
}


def _tensor_like(info: StructInfo | None) -> TensorStructInfo | None:
    """Struct info of an operand; scalars count as tensors without axes."""
    if isinstance(info, PrimStructInfo):
        return tensor_info((), info.dtype or "")
    return info if isinstance(info, TensorStructInfo) else None


def infer_binary(c: Call, takes: str, result: str | None) -> TensorStructInfo:
    """Struct info of a broadcasting operator of operands of one dtype."""
    infos: list[TensorStructInfo] = []
    for i, arg in enumerate(c.args):
        info = _tensor_like(arg.struct_info)
        if info is None:
            refuse(c, f"argument {i} of {short_name(c)} must be a tensor")
        infos.append(info)
    known = [info.dtype for info in infos if info.dtype]
    if len(set(known)) > 1:
        refuse(
            c,
            f"Binary operators must have the same datatype for both operands: {short_name(c)} got "
            + " and ".join(known),
            help="cast one side with astype",
        )
    accepts, wants = _TAKES[takes]
    if known and not accepts(known[0]):
        refuse(c, f"{short_name(c)} is defined for {wants}, not for {known[0]}", help="cast with astype first")
    dtype = result or (known[0] if len(known) == len(infos) else "")
    dims, ndim = broadcast(c, infos)
    if dims is None and infos[0].shape is not None and all(info.shape is infos[0].shape for info in infos):
        return TensorStructInfo(infos[0].shape, dtype)
    return tensor_info(dims, dtype, ndim)


def _binary(
    name: str,
    compute: Callable[[Array, Array], Array],
    summary: str,
    *,
    takes: str = "number",
    result: str | None = None,
    traits: Collection[Trait] = (),
) -> BinaryConstructor:
    """Define one broadcasting operator and return its constructor."""
    op = define_op(f"relax.{name}", arity=2, fusion="broadcast", traits=["pointwise", *traits])

    def constructor(x1: Expr | float, x2: Expr | float, *, span: Any = None) -> Call:
        left, right = x1, x2
        if not isinstance(x2, (bool, int, float)):
            left = number_like(x1, convert(x2))
        if not isinstance(x1, (bool, int, float)):
            right = number_like(x2, convert(x1))
        return call(op, left, right, span=span)

    @op.infer
    def _infer(c: Call) -> TensorStructInfo:
        return infer_binary(c, takes, result)

    @op.reference
    def _reference(attrs: None, x1: Any, x2: Any) -> Array:
        a, b = _arrays(x1, x2)
        return cast(compute(widen(a), widen(b)), result or dtype_of(a))

    @op.legalize
    def _legalize(builder: Builder, c: Call) -> Expr:
        return builder.call_te(program, *map(embedded, c.args), primfunc_name_hint=name)

    def program(a: Any, b: Any) -> Tensor:
        value = getattr(topi, name)(a, b)
        return value if isinstance(value, Tensor) else topi.full((), value.dtype, value)

    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"""{summary}

    Args:
        x1: Left operand; {_TAKES[takes][1]}. A Python number becomes a constant of the other's dtype.
        x2: Right operand, same dtype; shapes broadcast.
        span: Python source of the call, for errors.

    Returns:
        The broadcast shape, dtype {result or "of the operands"}.

    Raises:
        TypeInferenceError: different dtypes, a dtype without this operator, or sizes that do not broadcast.

    Accuracy: 16-bit floats are computed in float32 and rounded once; integers wrap around.
    Reference: TVM relax.{name}; NumPy's broadcasting.
    """
    return constructor


def _arrays(x1: Any, x2: Any) -> tuple[Array, Array]:
    """Both operands as arrays; a Python number takes the other's dtype."""
    if not isinstance(x1, np.ndarray):
        return cast(x1, dtype_of(x2)), x2
    return x1, x2 if isinstance(x2, np.ndarray) else cast(x2, dtype_of(x1))


def _no_zero(divisor: Array) -> None:
    if not is_float(dtype_of(divisor)) and not divisor.all():
        raise CallError("integer division by zero", help="guard the divisor with where or maximum")


def _divide(a: Array, b: Array) -> Array:
    """Quotient; of integers truncated towards zero."""
    if is_float(dtype_of(a)):
        return np.divide(a, b)
    _no_zero(b)
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return np.asarray(quotient + inexact.astype(a.dtype))


def _floor_divide(a: Array, b: Array) -> Array:
    """Quotient rounded down, by the remainder as C++ and torch do; of a zero divisor the plain quotient."""
    if not is_float(dtype_of(a)):
        _no_zero(b)
        return np.floor_divide(a, b)
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    quotient = np.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    return np.where(b == 0, a / b, np.where(quotient != 0, whole, np.copysign(np.zeros((), a.dtype), a / b)))


def _floor_mod(a: Array, b: Array) -> Array:
    """Remainder with the sign of the divisor."""
    if not is_float(dtype_of(a)):
        _no_zero(b)
        return np.mod(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


def _mod(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend."""
    _no_zero(b)
    return np.fmod(a, b)


def _power(a: Array, b: Array) -> Array:
    """Power; of integers by squaring with wrap-around, and a negative exponent truncates towards zero."""
    if is_float(dtype_of(a)):
        out = np.power(a, b)
        root = (b == 0.5) & ((a == 0) | (a == -np.inf))  # NumPy takes a square root, which differs at these two
        return np.where(root, np.abs(a), out)
    negative = b < 0
    if not negative.any():
        return np.power(a, b)
    tiny = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(negative, tiny, np.power(a, np.where(negative, 0, b)))


def _log_add_exp(a: Array, b: Array) -> Array:
    return np.logaddexp(a, b)


def _shift(
    function: Callable[[Array, Array], Array], overshoot: Callable[[Array], Array]
) -> Callable[[Array, Array], Array]:
    """A shift that is defined for counts at or above the width, and refuses negative ones."""

    def compute(a: Array, b: Array) -> Array:
        if (b < 0).any():
            raise CallError("shift by a negative count", help="use the opposite shift")
        width = 8 * to_numpy(dtype_of(a)).itemsize
        inside = b < width
        return np.where(inside, function(a, np.where(inside, b, 0)), overshoot(a))

    return compute


add = _binary("add", np.add, "`x1 + x2`; of bool the logical or.", takes="any", traits=["commutative"])
subtract = _binary("subtract", np.subtract, "`x1 - x2`.")
multiply = _binary("multiply", np.multiply, "`x1 * x2`; of bool the logical and.", takes="any", traits=["commutative"])
divide = _binary("divide", _divide, "`x1 / x2`; integers truncate towards zero and keep their dtype.")
floor_divide = _binary("floor_divide", _floor_divide, "`x1 / x2` rounded towards minus infinity.")
mod = _binary("mod", _mod, "Remainder of the division, with the sign of `x1`.")
floor_mod = _binary("floor_mod", _floor_mod, "Remainder of the division, with the sign of `x2`.")
power = _binary("power", _power, "`x1` to the power `x2`.")
log_add_exp = _binary("log_add_exp", _log_add_exp, "`log(exp(x1) + exp(x2))` without overflow.", takes="float")
atan2 = _binary("atan2", np.arctan2, "Angle of the point with height `x1` and width `x2`.", takes="float")
copysign = _binary("copysign", np.copysign, "`x1` with the sign of `x2`, which zeros and NaN have, too.", takes="float")
hypot = _binary("hypot", np.hypot, "Distance of the point `(x1, x2)` from the origin, without overflow.", takes="float")
maximum = _binary("maximum", np.maximum, "The larger element; NaN if either is.", takes="any")
minimum = _binary("minimum", np.minimum, "The smaller element; NaN if either is.", takes="any")
equal = _binary("equal", np.equal, "Whether equal; NaN never is.", takes="any", result="bool")
not_equal = _binary("not_equal", np.not_equal, "Whether different; NaN always is.", takes="any", result="bool")
less = _binary("less", np.less, "Whether `x1 < x2`.", takes="any", result="bool")
less_equal = _binary("less_equal", np.less_equal, "Whether `x1 <= x2`.", takes="any", result="bool")
greater = _binary("greater", np.greater, "Whether `x1 > x2`.", takes="any", result="bool")
greater_equal = _binary("greater_equal", np.greater_equal, "Whether `x1 >= x2`.", takes="any", result="bool")
logical_and = _binary("logical_and", np.logical_and, "Whether both are not zero.", takes="any", result="bool")
logical_or = _binary("logical_or", np.logical_or, "Whether one is not zero.", takes="any", result="bool")
logical_xor = _binary("logical_xor", np.logical_xor, "Whether exactly one is not zero.", takes="any", result="bool")
bitwise_and = _binary("bitwise_and", np.bitwise_and, "Bits set in both.", takes="integer")
bitwise_or = _binary("bitwise_or", np.bitwise_or, "Bits set in one or both.", takes="integer")
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "Bits set in exactly one.", takes="integer")
left_shift = _binary(
    "left_shift",
    _shift(np.left_shift, np.zeros_like),
    "`x1` times two to the power `x2`, wrapping around.",
    takes="shift",
)
right_shift = _binary(
    "right_shift",
    _shift(np.right_shift, lambda a: np.where(a < 0, -1, 0)),
    "`x1` shifted right by `x2` bits, keeping the sign.",
    takes="shift",
)
