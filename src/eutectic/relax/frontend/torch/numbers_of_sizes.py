"""Fractions that are computed from sizes, such as the square root of one, as scalars of float64 in the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import torch
from torch import fx

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.relax.frontend.core import number
from eutectic.relax.frontend.torch.table import Context
from eutectic.relax.op import add, divide, exp, log, multiply, power, sqrt
from eutectic.support.deep import deep

_WIDE: Final = "float64"
_CALLS: Final[dict[str, Callable[..., Call]]] = {
    "Add": add,
    "FloatPow": power,
    "FloatTrueDiv": divide,
    "IntTrueDiv": divide,
    "Mul": multiply,
    "OpaqueUnaryFn_exp": exp,
    "OpaqueUnaryFn_log": log,
    "OpaqueUnaryFn_sqrt": sqrt,
}
_ARITHMETIC: Final = frozenset(
    f"aten.{name}.{form}" for name in ("add", "sub", "rsub", "mul", "div") for form in ("Tensor", "Scalar")
)
"""Operators that take a tensor where they take a number."""


def feeds_arithmetic(node: fx.Node) -> bool:
    """Whether a fraction is read by arithmetic of tensors only, or by numbers computed from it that are, too."""
    pending, seen = [node], {node}
    while pending:
        source = pending.pop()
        for user in source.users:
            if isinstance(user.meta.get("val"), (torch.SymFloat, torch.SymInt)):
                pending += [user] if user not in seen else []
                seen.add(user)
            elif str(user.target) not in _ARITHMETIC or source in user.kwargs.values():
                return False
    return True


@deep
def number_of(ctx: Context, expr: Any) -> Expr:
    """An expression of sympy as a scalar.

    Raises:
        Refused: it has an operation that is not known here.
    """
    kind = type(expr).__name__
    if expr.is_Float or expr.is_Rational:
        return number(float(expr), _WIDE)
    if kind == "ToFloat" or expr.is_integer:
        return ctx.tensor(ctx.symbols.of_expression(expr.args[0] if kind == "ToFloat" else expr), _WIDE)
    if kind not in _CALLS:
        ctx.refuse(f"a number that is computed from sizes as {expr}")
    first, *others = (number_of(ctx, arg) for arg in expr.args)
    if not others:
        return ctx.call(_CALLS[kind], first)
    return reduce(lambda a, b: ctx.call(_CALLS[kind], a, b), others, first)
