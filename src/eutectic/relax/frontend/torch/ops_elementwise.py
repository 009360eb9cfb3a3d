"""Arithmetic, comparisons and functions of single elements, with torch's promotion of dtypes.

The dtype of the result is what torch says; operands are cast before the operator runs, as torch does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.dtype import is_float, is_integer
from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax import op
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.frontend.core import dims_of, dtype_of, ndim_of, number
from eutectic.relax.frontend.torch.table import Context, converts
from eutectic.relax.op.numerics import integer_bounds

_NARROW: Final = ("float16", "bfloat16")
_ALL_EVEN: Final = 2**24  # from where on float32 has even numbers alone; torch keeps those of Python in float64
_FUNCTIONS: Final[dict[str, Callable[..., Call]]] = {
    "abs": op.abs,
    "acos": op.acos,
    "acosh": op.acosh,
    "asin": op.asin,
    "asinh": op.asinh,
    "atan": op.atan,
    "atanh": op.atanh,
    "bitwise_not": op.bitwise_not,
    "cos": op.cos,
    "cosh": op.cosh,
    "erf": op.erf,
    "erfc": op.erfc,
    "exp": op.exp,
    "log": op.log,
    "neg": op.negative,
    "rsqrt": op.rsqrt,
    "sin": op.sin,
    "sinh": op.sinh,
    "sqrt": op.sqrt,
    "square": op.square,
    "tan": op.tan,
    "ceil": op.ceil,
    "floor": op.floor,
    "round": op.round,
    "trunc": op.trunc,
}
_TESTS: Final[dict[str, Callable[..., Call]]] = {
    "isfinite": op.isfinite,
    "isinf": op.isinf,
    "isnan": op.isnan,
    "logical_not": op.logical_not,
}
_COMPARISONS: Final[dict[str, Callable[..., Call]]] = {
    "eq": op.equal,
    "ne": op.not_equal,
    "lt": op.less,
    "le": op.less_equal,
    "gt": op.greater,
    "ge": op.greater_equal,
}
_BITS: Final[dict[str, Callable[..., Call]]] = {
    "bitwise_and": op.bitwise_and,
    "bitwise_or": op.bitwise_or,
    "bitwise_xor": op.bitwise_xor,
    "__and__": op.bitwise_and,
    "__or__": op.bitwise_or,
    "__xor__": op.bitwise_xor,
    "bitwise_left_shift": op.left_shift,
    "bitwise_right_shift": op.right_shift,
    "__lshift__": op.left_shift,
    "__rshift__": op.right_shift,
}
_LOGIC: Final[dict[str, Callable[..., Call]]] = {
    "logical_and": op.logical_and,
    "logical_or": op.logical_or,
    "logical_xor": op.logical_xor,
}


def _family(ctx: Context) -> str:
    """Name of the operator without namespace and overload."""
    return str(ctx.node.target).split(".")[1]


@converts(*(f"aten.{name}.default" for name in _FUNCTIONS))
def function(ctx: Context, x: Expr) -> Expr:
    """A function of one element; integers become float32 where torch says so."""
    return ctx.call(_FUNCTIONS[_family(ctx)], ctx.cast(x, ctx.out_dtype))


@converts(*(f"aten.{name}.default" for name in _TESTS))
def test(ctx: Context, x: Expr) -> Expr:
    """A question about one element."""
    return ctx.call(_TESTS[_family(ctx)], x)


@converts("aten.sign.default", "aten.sgn.default")
def sign(ctx: Context, x: Expr) -> Expr:
    """-1, 0 or 1; bool stays as it is."""
    return x if dtype_of(x) == "bool" else ctx.call(op.sign, x)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, PrimExpr)


def _is_exact(value: float, dtype: str) -> bool:
    """Whether a 16-bit float holds a number without rounding."""
    return math.isnan(value) or float(number(value, dtype).data) == value


def _is_lone(value: Any) -> bool:
    """Whether an operand is a number, or a tensor without axes."""
    return not isinstance(value, Expr) or ndim_of(value) == 0


def _is_kept(value: Any, dtype: str) -> bool:
    """Whether a number, or a tensor without axes, may be one that a 16-bit float does not hold without rounding."""
    if _is_number(value):
        return not _is_exact(value, dtype)
    return isinstance(value, Expr) and ndim_of(value) == 0 and dtype_of(value) not in (dtype, "bool", "int8", "uint8")


def _arithmetic(ctx: Context, operator: Callable[..., Call], a: Any, b: Any) -> Expr:
    """An operator in the dtype of the result."""
    wanted = ctx.out_dtype
    return ctx.call(operator, ctx.tensor(a, wanted), ctx.tensor(b, wanted))


def _scaling(ctx: Context, operator: Callable[..., Call], a: Any, b: Any, then: Any = None) -> Expr:
    """Multiplication or division; torch does not round a number beside 16-bit floats, so these go by float32.

    A tensor without axes is such a number in the second place, and only there.
    """
    wanted = ctx.out_dtype
    work = "float32" if wanted in _NARROW and (then is not None or _is_kept(b, wanted)) else wanted
    left = ctx.cast(ctx.tensor(a, wanted), work)
    right = ctx.tensor(b, work) if _is_lone(b) else ctx.cast(ctx.tensor(b, wanted), work)
    scaled = ctx.call(operator, left, right)
    return ctx.cast(scaled if then is None else ctx.call(then, scaled), wanted)


def _sum(ctx: Context, operator: Callable[..., Call], a: Any, b: Any, alpha: float) -> Expr:
    """`a` plus or minus `alpha * b`; 16-bit floats are rounded once, at the end."""
    wanted = ctx.out_dtype
    if alpha == 1:
        return _arithmetic(ctx, operator, a, b)
    work = "float32" if wanted in _NARROW else wanted
    left, right = (ctx.cast(ctx.tensor(x, wanted), work) for x in (a, b))
    factor = number(number(alpha, wanted).data, work)
    return ctx.cast(ctx.call(operator, left, ctx.call(op.multiply, right, factor)), wanted)


@converts("aten.add.Tensor", "aten.add.Scalar")
def add(ctx: Context, a: Any, b: Any, alpha_by_place: float = 1, *, alpha: float = 1) -> Expr:
    """`a + alpha * b`; of bool the logical or."""
    return _sum(ctx, op.add, a, b, alpha * alpha_by_place)


@converts("aten.sub.Tensor", "aten.sub.Scalar")
def subtract(ctx: Context, a: Any, b: Any, alpha_by_place: float = 1, *, alpha: float = 1) -> Expr:
    """`a - alpha * b`."""
    return _sum(ctx, op.subtract, a, b, alpha * alpha_by_place)


@converts("aten.rsub.Tensor", "aten.rsub.Scalar")
def reversed_subtract(ctx: Context, a: Any, b: Any, alpha_by_place: float = 1, *, alpha: float = 1) -> Expr:
    """`b - alpha * a`."""
    return _sum(ctx, op.subtract, b, a, alpha * alpha_by_place)


@converts("aten.mul.Tensor", "aten.mul.Scalar")
def multiply(ctx: Context, a: Any, b: Any) -> Expr:
    """`a * b`; of bool the logical and."""
    return _scaling(ctx, op.multiply, a, b)


@converts("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def divide(ctx: Context, a: Any, b: Any) -> Expr:
    """True division: integers become float32 first."""
    return _scaling(ctx, op.divide, a, b)


@converts("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def divide_rounded(ctx: Context, a: Any, b: Any, *, rounding_mode: str | None = None) -> Expr:
    """Division rounded down, towards zero, or not.

    What is rounded towards zero is the quotient, which is one of the dtype where tensors are divided; by a number
    torch divides in float32, and the floor is that of the exact quotient.
    """
    if rounding_mode == "floor":
        return _scaling(ctx, op.floor_divide, a, b)
    if rounding_mode == "trunc" and is_float(ctx.out_dtype):
        if _is_number(b) or all(size == 1 for size in _static_sizes(b)):
            return _scaling(ctx, op.divide, a, b, then=op.trunc)
        return ctx.call(op.trunc, _scaling(ctx, op.divide, a, b))
    return _scaling(ctx, op.divide, a, b)


def _static_sizes(x: Expr) -> list[int | None]:
    """Sizes of a tensor; None where one varies."""
    return [getattr(size, "value", None) for size in dims_of(x)]


@converts("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(ctx: Context, a: Any, b: Any) -> Expr:
    """Division rounded down."""
    return _scaling(ctx, op.floor_divide, a, b)


@converts("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(ctx: Context, a: Any, b: Any) -> Expr:
    """Remainder with the sign of the divisor."""
    return _arithmetic(ctx, op.floor_mod, a, b)


@converts("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(ctx: Context, a: Any, b: Any) -> Expr:
    """Remainder with the sign of the dividend."""
    return _arithmetic(ctx, op.mod, a, b)


@converts("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(ctx: Context, a: Any, b: Any) -> Expr:
    """Power."""
    return _arithmetic(ctx, op.power, a, b)


@converts("aten.pow.Tensor_Scalar")
def power_of_number(ctx: Context, x: Expr, exponent: Any) -> Expr:
    """Power by a number; squares, cubes and roots as torch computes them."""
    dtype = ctx.out_dtype
    base = ctx.cast(x, dtype)
    if dtype_of(x) == "bool" and isinstance(exponent, bool):
        ctx.refuse("torch itself is not sure of the dtype of a bool to the power of a bool")
    if dtype == "bool" or not _is_number(exponent):
        return _arithmetic(ctx, op.power, x, exponent)
    if exponent == 1:
        return base
    if exponent == 2:
        return ctx.call(op.multiply, base, base)
    if exponent == 3 and dtype not in _NARROW:
        return ctx.call(op.multiply, ctx.call(op.multiply, base, base), base)
    if is_float(dtype) and dtype != "float16" and exponent in (0.5, -0.5):  # of which torch takes powers
        return ctx.call(op.sqrt if exponent > 0 else op.rsqrt, base)
    if is_float(dtype) and exponent == -1:
        return ctx.call(op.divide, number(1, dtype), base)
    if dtype == "float32" and abs(exponent) >= _ALL_EVEN and math.isfinite(exponent):
        wide = ctx.call(op.power, ctx.cast(base, "float64"), number(exponent, "float64"))
        return ctx.cast(wide, dtype)
    return _arithmetic(ctx, op.power, base, exponent)


@converts("aten.reciprocal.default")
def reciprocal(ctx: Context, x: Expr) -> Expr:
    """`1 / x`."""
    return _arithmetic(ctx, op.divide, 1, x)


@converts("aten.maximum.default", "aten.max.other", "aten.clamp_min.Tensor")
def maximum(ctx: Context, a: Any, b: Any) -> Expr:
    """The larger one; NaN if one is NaN."""
    return _arithmetic(ctx, op.maximum, a, b)


@converts("aten.minimum.default", "aten.min.other", "aten.clamp_max.Tensor")
def minimum(ctx: Context, a: Any, b: Any) -> Expr:
    """The smaller one; NaN if one is NaN."""
    return _arithmetic(ctx, op.minimum, a, b)


@converts("aten.fmax.default", "aten.fmin.default")
def extreme_number(ctx: Context, a: Expr, b: Expr) -> Expr:
    """The larger or smaller one; a NaN does not count beside a number."""
    dtype = ctx.out_dtype
    left, right = ctx.cast(a, dtype), ctx.cast(b, dtype)
    both: Expr = ctx.call(op.maximum if _family(ctx) == "fmax" else op.minimum, left, right)
    if not is_float(dtype):
        return both
    rest = ctx.call(op.where, ctx.call(op.isnan, right), left, both)
    return ctx.call(op.where, ctx.call(op.isnan, left), right, rest)


@converts("aten.atan2.default")
def angle_of_point(ctx: Context, y: Expr, x: Expr) -> Expr:
    """Angle of a point, in its quadrant."""
    return _arithmetic(ctx, op.atan2, y, x)


@converts("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(ctx: Context, x: Expr, sign: Any) -> Expr:
    """A number with the sign of another one; that of a literal is known, and a NaN keeps it in no constant."""
    if not _is_number(sign):
        return _arithmetic(ctx, op.copysign, x, sign)
    size: Expr = ctx.call(op.abs, ctx.tensor(x, ctx.out_dtype))
    return size if math.copysign(1.0, sign) > 0 else ctx.call(op.negative, size)


@converts("aten.signbit.default")
def signbit(ctx: Context, x: Expr) -> Expr:
    """Whether a number has a minus, as zero may have."""
    dtype = dtype_of(x)
    if not is_float(dtype):
        return ctx.call(op.less, x, number(0, dtype)) if dtype != "bool" else ctx.call(op.logical_xor, x, x)
    return ctx.call(op.less, ctx.call(op.copysign, number(1.0, dtype), x), number(0.0, dtype))


@converts("aten.hypot.default")
def hypot(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Distance of a point from the origin."""
    return _arithmetic(ctx, op.hypot, a, b)


@converts("aten.logaddexp.default")
def logaddexp(ctx: Context, a: Expr, b: Expr) -> Expr:
    """`log(exp(a) + exp(b))`."""
    return _arithmetic(ctx, op.log_add_exp, a, b)


def _refuse_beyond(ctx: Context, dtype: str, *values: Any) -> None:
    """Leave integers beside a number that their dtype cannot hold to torch, where it wraps around or is an error."""
    for value in values:
        low, high = integer_bounds(dtype)
        if _is_number(value) and is_integer(dtype) and not low <= value <= high:
            ctx.refuse(f"it compares {dtype} with {value}, which that dtype cannot hold")


@converts(*(f"aten.{name}.{form}" for name in _COMPARISONS for form in ("Tensor", "Scalar")))
def compare(ctx: Context, a: Any, b: Any) -> Expr:
    """A comparison in the dtype that both operands promote to."""
    dtype = ctx.result_type(*ctx.node.args[:2])
    _refuse_beyond(ctx, dtype, a, b)
    return ctx.call(_COMPARISONS[_family(ctx)], ctx.tensor(a, dtype), ctx.tensor(b, dtype))


@converts(*(f"aten.{name}.{form}" for name in _BITS for form in ("Tensor", "Scalar", "Scalar_Tensor", "Tensor_Scalar")))
def bits(ctx: Context, a: Any, b: Any) -> Expr:
    """Bitwise operators; of bool the logical ones."""
    return _arithmetic(ctx, _BITS[_family(ctx)], a, b)


@converts(*(f"aten.{name}.default" for name in _LOGIC))
def logic(ctx: Context, a: Expr, b: Expr) -> Expr:
    """Logical operators of any dtypes."""
    return ctx.call(_LOGIC[_family(ctx)], ctx.cast(a, "bool"), ctx.cast(b, "bool"))


@converts("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(ctx: Context, condition: Expr, a: Any, b: Any) -> Expr:
    """`a` where the condition holds, else `b`."""
    dtype = ctx.out_dtype
    return ctx.call(op.where, ctx.cast(condition, "bool"), ctx.tensor(a, dtype), ctx.tensor(b, dtype))


@converts("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(ctx: Context, x: Expr, mask: Expr, value: Any) -> Expr:
    """`value` where the mask holds, else `x`."""
    return ctx.call(op.where, mask, ctx.tensor(value, ctx.out_dtype), x)


def _clip(ctx: Context, x: Expr, low: Any, high: Any) -> Expr:
    _refuse_beyond(ctx, dtype_of(x), low, high)
    bounds = [-math.inf if low is None else low, math.inf if high is None else high]
    if any(isinstance(bound, PrimExpr) for bound in bounds):
        out = x if low is None else ctx.call(op.maximum, x, ctx.tensor(low, dtype_of(x)))
        return out if high is None else ctx.call(op.minimum, out, ctx.tensor(high, dtype_of(x)))
    return ctx.call(op.clip, x, *bounds)


@converts("aten.clamp.default", "aten.hardtanh.default", "aten.clip.default")
def clamp(ctx: Context, x: Expr, low: Any = None, high: Any = None) -> Expr:
    """Limited to a range, one end of which may be open."""
    return _clip(ctx, ctx.cast(x, ctx.out_dtype), low, high)


@converts("aten.clamp_min.default")
def clamp_min(ctx: Context, x: Expr, low: Any) -> Expr:
    """At least a number."""
    return _clip(ctx, ctx.cast(x, ctx.out_dtype), low, None)


@converts("aten.clamp_max.default")
def clamp_max(ctx: Context, x: Expr, high: Any) -> Expr:
    """At most a number."""
    return _clip(ctx, ctx.cast(x, ctx.out_dtype), None, high)


@converts("aten.clamp.Tensor")
def clamp_by_tensors(ctx: Context, x: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
    """Limited by tensors; where the bounds cross, the upper one wins."""
    dtype = ctx.out_dtype
    out = ctx.cast(x, dtype)
    if low is not None:
        out = ctx.call(op.maximum, out, ctx.cast(low, dtype))
    return out if high is None else ctx.call(op.minimum, out, ctx.cast(high, dtype))


@converts("aten.threshold.default")
def threshold(ctx: Context, x: Expr, limit: float, value: float) -> Expr:
    """`value` up to a limit, `x` above it; the limit of 16-bit floats is one of float32."""
    dtype = dtype_of(x)
    work = "float32" if dtype in _NARROW else dtype
    is_low = ctx.call(op.less_equal, ctx.cast(x, work), number(limit, work))
    return ctx.call(op.where, is_low, number(value, dtype), x)


@converts("aten.addcmul.default", "aten.addcdiv.default")
def add_product(ctx: Context, x: Expr, a: Expr, b: Expr, *, value: float = 1) -> Expr:
    """`x + value * a * b`, or with a quotient, in no less than float32; operands are rounded to the dtype before."""
    dtype = ctx.out_dtype
    work = "float32" if dtype in _NARROW else dtype
    x, a, b = (ctx.cast(ctx.cast(operand, dtype), work) for operand in (x, a, b))
    scaled = a if value == 1 else ctx.call(op.multiply, a, number(value, work))
    term = ctx.call(op.multiply if _family(ctx) == "addcmul" else op.divide, scaled, b)
    return ctx.cast(ctx.call(op.add, x, term), dtype)


@converts("aten.log2.default", "aten.log10.default")
def log_of_base(ctx: Context, x: Expr) -> Expr:
    """Logarithm of base 2 or 10, in no less than float32."""
    dtype = ctx.out_dtype
    wide = ctx.cast(x, "float32" if dtype in _NARROW else dtype)
    base = math.log(2 if _family(ctx) == "log2" else 10)
    return ctx.cast(ctx.call(op.divide, ctx.call(op.log, wide), number(base, dtype_of(wide))), dtype)


@converts("aten.exp2.default")
def exp2(ctx: Context, x: Expr) -> Expr:
    """Two to the power `x`."""
    return _arithmetic(ctx, op.power, 2, x)


@converts("aten.log1p.default")
def log1p(ctx: Context, x: Expr) -> Expr:
    """`log(1 + x)`, accurate near zero: the rounding of the sum is divided out."""
    return ctx.cast(_log1p(ctx, _widened(ctx, x)), ctx.out_dtype)


def _widened(ctx: Context, x: Any) -> Expr:
    """An operand, rounded to the dtype of the result as torch does, in no less than float32."""
    dtype = ctx.out_dtype
    return ctx.cast(ctx.tensor(x, dtype), "float32" if dtype in _NARROW else dtype)


def _log1p(ctx: Context, wide: Expr) -> Expr:
    kind = dtype_of(wide)
    one = number(1, kind)
    total = ctx.call(op.add, wide, one)
    ratio = ctx.call(op.divide, wide, ctx.call(op.subtract, total, one))
    value = ctx.call(op.multiply, ctx.call(op.log, total), ratio)
    infinite = ctx.call(op.equal, total, number(math.inf, kind))
    plain = ctx.call(op.logical_or, ctx.call(op.equal, total, one), infinite)
    return ctx.call(op.where, plain, wide, value)


@converts("aten.special_ndtr.default")
def normal_distribution(ctx: Context, x: Expr) -> Expr:
    """The part of a normal distribution below `x`, as `erfc(-x / sqrt(2)) / 2`, in which nothing is cancelled."""
    wide = _widened(ctx, x)
    kind = dtype_of(wide)
    above = ctx.call(op.erfc, ctx.call(op.multiply, wide, number(-math.sqrt(0.5), kind)))
    return ctx.cast(ctx.call(op.multiply, above, number(0.5, kind)), ctx.out_dtype)


@converts(
    *(f"aten.{name}" for name in ("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")),
    *(f"aten.special_xlog1py.{form}" for form in ("default", "other_scalar", "self_scalar")),
)
def product_with_logarithm(ctx: Context, x: Any, y: Any) -> Expr:
    """`x * log(y)` or `x * log(1 + y)`; 0 where `x` is, but for a `y` that is NaN."""
    left, right = _widened(ctx, x), _widened(ctx, y)
    logarithm = ctx.call(op.log, right) if _family(ctx) == "xlogy" else _log1p(ctx, right)
    zero = number(0, dtype_of(left))
    value = ctx.call(op.where, ctx.call(op.equal, left, zero), zero, ctx.call(op.multiply, left, logarithm))
    return ctx.cast(ctx.call(op.where, ctx.call(op.isnan, right), right, value), ctx.out_dtype)


@converts("aten.expm1.default")
def expm1(ctx: Context, x: Expr) -> Expr:
    """`exp(x) - 1`, accurate near zero, as `2 * sinh(x / 2) * exp(x / 2)`."""
    dtype = ctx.out_dtype
    wide = ctx.cast(x, "float32" if dtype in _NARROW else dtype)
    kind = dtype_of(wide)
    half = ctx.call(op.multiply, wide, number(0.5, kind))
    product = ctx.call(op.multiply, ctx.call(op.sinh, half), ctx.call(op.exp, half))
    value = ctx.call(op.multiply, product, number(2, kind))
    low = ctx.call(op.less, wide, number(-50, kind))
    return ctx.cast(ctx.call(op.where, low, number(-1, kind), value), dtype)


@converts("aten.frac.default")
def frac(ctx: Context, x: Expr) -> Expr:
    """What is left of `x` without its whole part."""
    return ctx.call(op.subtract, x, ctx.call(op.trunc, x))
