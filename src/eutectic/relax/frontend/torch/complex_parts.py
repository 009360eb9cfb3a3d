"""Complex numbers as pairs of real ones: `ComplexParts`, and the operators that are converted for them.

A tensor of complex numbers is one of real numbers with a last axis of two, as `view_as_real` gives it. Operators that
move elements are those of `TABLE`, on all other axes; products and sums are written out by parts, as torch computes
them. What is not here is left to torch, which gets the numbers it knows (`EagerCalls.complex_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeGuard

import torch

from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Constant, Var
from eutectic.relax.frontend.core import Converters, Refused, ndim_of, number
from eutectic.relax.frontend.torch.dtypes import dtype_name
from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.ops_shape import view
from eutectic.relax.frontend.torch.table import Context, axis_of
from eutectic.relax.op import add, broadcast_to, concat, cos, expand_dims, multiply, negative, sin, split, subtract
from eutectic.relax.op import sum as total

COMPLEX: Final = Converters()
"""Converters of operators that take or give complex numbers, by names as in `TABLE`."""

converts = COMPLEX.converts
Pair = tuple[Expr, Expr]
_PARTS: Final = MappingProxyType({torch.complex64: torch.float32, torch.complex128: torch.float64})


@dataclass(frozen=True, eq=False)
class ComplexParts:
    """Complex numbers in a graph.

    Attributes:
        parts: Real and imaginary parts along the last axis.
    """

    parts: Expr


class PartsContext(Context):
    """A node whose result is complex, as one whose result has an axis more."""

    @property
    def out_dtype(self) -> str:
        """Dtype of the parts."""
        value = self.value
        return parts_dtype(value if isinstance(value, torch.Tensor) else value[0])

    @property
    def out_shape(self) -> tuple[PrimExpr, ...]:
        """Sizes of the result, and two parts."""
        return (*super().out_shape, as_prim(2, "int64"))


def is_of_parts(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a tensor is of complex numbers whose parts have a dtype of ours."""
    return isinstance(value, torch.Tensor) and value.dtype in _PARTS and value.layout is torch.strided


def parts_of(tensor: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts of complex numbers, along a last axis of two."""
    return torch.view_as_real(tensor.detach().resolve_conj())


def parts_dtype(value: torch.Tensor) -> str:
    """Dtype of the parts of complex numbers.

    Raises:
        Refused: they are not complex, or the parts have no dtype of ours.
    """
    if value.dtype not in _PARTS:
        raise Refused(f"it gives {str(value.dtype).removeprefix('torch.')}")
    return dtype_name(_PARTS[value.dtype])


def is_about_complex(name: str, operands: Sequence[Any]) -> bool:
    """Whether an operator is converted here: it makes complex numbers of real ones, or an operand has them."""
    items = [item for operand in operands for item in (operand if isinstance(operand, list) else [operand])]
    return name in _MAKERS or any(isinstance(item, ComplexParts) for item in items)


def converted(context: Context, name: str, args: list[Any], keywords: Mapping[str, Any]) -> Any:
    """The result of an operator that takes or gives complex numbers.

    Raises:
        Refused: there is no converter for it, or it does not take such operands.
    """
    if name in COMPLEX:
        return COMPLEX[name](context, *args, **keywords)
    if name not in _MOVES:
        raise Refused("there is no converter for it on complex numbers")
    inner = PartsContext(context.node, context.span, context.block_builder, context.env, context.symbols)
    moved = TABLE[name](inner, *_MOVES[name]([_bare(arg) for arg in args]), **keywords)
    return [_wrapped(context, part) for part in moved] if isinstance(moved, list) else _wrapped(context, moved)


def _bare(argument: Any) -> Any:
    if isinstance(argument, ComplexParts):
        return argument.parts
    if not isinstance(argument, list) or not any(isinstance(item, ComplexParts) for item in argument):
        return argument
    if not all(isinstance(item, ComplexParts) for item in argument):
        raise Refused("it joins real and complex numbers")
    return [item.parts for item in argument]


def _wrapped(context: Context, parts: Expr) -> ComplexParts:
    return ComplexParts(parts if isinstance(parts, (Var, Constant)) else context.emit(parts))


# ---- operators that move elements: their arguments for the parts

Arguments = Callable[[list[Any]], list[Any]]


def _same(args: list[Any]) -> list[Any]:
    return args


def _axes_at(*places: int, more: int = 0) -> Arguments:
    """Arguments that are axes, of a result with so many more of them, counted from the front."""

    def counted(args: list[Any]) -> list[Any]:
        first = args[0][0] if isinstance(args[0], list) else args[0]
        ndim = ndim_of(first) - 1 + more

        def axis(value: Any) -> Any:
            return [axis_of(item, ndim) for item in value] if isinstance(value, list) else axis_of(value, ndim)

        return [axis(arg) if place in places else arg for place, arg in enumerate(args)]

    return counted


def _reduced(args: list[Any]) -> list[Any]:
    x, axes, *rest = args
    return _axes_at(1)([x, axes or list(range(ndim_of(x) - 1)), *rest])


def _permuted(args: list[Any]) -> list[Any]:
    x, order = _axes_at(1)(args)
    return [x, [*order, ndim_of(x) - 1]]


def _repeated(args: list[Any]) -> list[Any]:
    return [args[0], [*args[1], 1]]


_MOVES: Final[Mapping[str, Arguments]] = MappingProxyType(
    {
        **{name: _same for name, converter in TABLE.items() if converter is view},
        **dict.fromkeys(
            (
                "aten.expand.default",
                "aten.squeeze.default",
                "aten.clone.default",
                "aten.alias.default",
                "aten.detach.default",
                "aten.contiguous.default",
            ),
            _same,
        ),
        **dict.fromkeys(("aten.select.int", "aten.slice.Tensor", "aten.squeeze.dim", "aten.cat.default"), _axes_at(1)),
        **dict.fromkeys(("aten.squeeze.dims", "aten.flip.default", "aten.unbind.int"), _axes_at(1)),
        **dict.fromkeys(("aten.unsqueeze.default", "aten.stack.default"), _axes_at(1, more=1)),
        **dict.fromkeys(("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default"), _axes_at(2)),
        **dict.fromkeys(("aten.sum.dim_IntList", "aten.mean.dim"), _reduced),
        "aten.transpose.int": _axes_at(1, 2),
        "aten.permute.default": _permuted,
        "aten.repeat.default": _repeated,
    }
)


# ---- from and to real numbers


@converts("aten.view_as_complex.default")
def view_as_complex(ctx: Context, x: Expr) -> ComplexParts:
    """The last axis of two as the parts."""
    return ComplexParts(x)


@converts("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(ctx: Context, x: ComplexParts) -> Expr:
    """The parts along a last axis of two."""
    return x.parts


@converts("aten.complex.default")
def complex_(ctx: Context, real: Expr, imaginary: Expr) -> ComplexParts:
    """Two parts, broadcast."""
    return _joined(ctx, (_last(ctx, real), _last(ctx, imaginary)))


@converts("aten.polar.default")
def polar(ctx: Context, length: Expr, angle: Expr) -> ComplexParts:
    """A length times the cosine and the sine of an angle."""
    r, phi = _last(ctx, length), _last(ctx, angle)
    return _joined(ctx, (ctx.call(multiply, r, ctx.call(cos, phi)), ctx.call(multiply, r, ctx.call(sin, phi))))


_MAKERS: Final = ("aten.view_as_complex.default", "aten.complex.default", "aten.polar.default")


# ---- arithmetic


@converts("aten.mul.Tensor", "aten.mul.Scalar")
def mul(ctx: Context, x: Any, y: Any) -> ComplexParts:
    """`(a + b i)(c + d i)`."""
    (a, b), (c, d) = _pair(ctx, x), _pair(ctx, y)
    real = ctx.call(subtract, ctx.call(multiply, a, c), ctx.call(multiply, b, d))
    return _joined(ctx, (real, ctx.call(add, ctx.call(multiply, a, d), ctx.call(multiply, b, c))))


@converts("aten.add.Tensor", "aten.add.Scalar")
def add_(ctx: Context, x: Any, y: Any, alpha: Any = 1) -> ComplexParts:
    """By parts."""
    return _by_parts(ctx, add, x, y, alpha)


@converts("aten.sub.Tensor", "aten.sub.Scalar")
def sub(ctx: Context, x: Any, y: Any, alpha: Any = 1) -> ComplexParts:
    """By parts."""
    return _by_parts(ctx, subtract, x, y, alpha)


@converts("aten.neg.default")
def neg(ctx: Context, x: ComplexParts) -> ComplexParts:
    """Both parts negated."""
    return ComplexParts(ctx.call(negative, x.parts))


@converts("aten._conj.default", "aten.conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
def conj(ctx: Context, x: ComplexParts) -> ComplexParts:
    """The imaginary part negated."""
    real, imaginary = _pair(ctx, x)
    return _joined(ctx, (real, ctx.call(negative, imaginary)))


@converts("aten.resolve_conj.default")
def resolve_conj(ctx: Context, x: ComplexParts) -> ComplexParts:
    """The same numbers."""
    return x


@converts("aten.sum.default")
def sum_(ctx: Context, x: ComplexParts, dtype: Any = None) -> ComplexParts:
    """Each part over all axes."""
    return ComplexParts(ctx.call(total, ctx.cast(x.parts, parts_dtype(ctx.result())), [*range(ndim_of(x.parts) - 1)]))


def _by_parts(ctx: Context, operator: Any, x: Any, y: Any, alpha: Any) -> ComplexParts:
    if alpha != 1:
        ctx.refuse("it scales an operand")
    if isinstance(x, ComplexParts) and isinstance(y, ComplexParts):
        parts = [ctx.cast(item.parts, parts_dtype(ctx.result())) for item in (x, y)]
        return ComplexParts(ctx.call(operator, *parts))
    (a, b), (c, d) = _pair(ctx, x), _pair(ctx, y)
    return _joined(ctx, (ctx.call(operator, a, c), ctx.call(operator, b, d)))


def _pair(ctx: Context, operand: Any) -> Pair:
    """Real and imaginary part of an operand, along a last axis of one."""
    dtype = parts_dtype(ctx.result())
    if isinstance(operand, ComplexParts):
        both = ctx.call(split, ctx.cast(operand.parts, dtype), 2, ndim_of(operand.parts) - 1)
        return ctx.emit(ctx.item(both, 0)), ctx.emit(ctx.item(both, 1))
    if isinstance(operand, complex):
        return number(operand.real, dtype), number(operand.imag, dtype)
    real = ctx.tensor(operand, dtype)
    return _last(ctx, real) if ndim_of(real) else real, number(0.0, dtype)


def _last(ctx: Context, x: Expr) -> Expr:
    return ctx.call(expand_dims, x, ndim_of(x))


def _joined(ctx: Context, pair: Pair) -> ComplexParts:
    """The parts side by side, each broadcast to the shape of the result."""
    dtype = parts_dtype(ctx.result())
    shape = ShapeExpr((*ctx.symbols.shape(ctx.result().shape), as_prim(1, "int64")))
    whole = [ctx.call(broadcast_to, ctx.cast(part, dtype), shape) for part in pair]
    return ComplexParts(ctx.call(concat, whole, len(shape) - 1))
