"""Sizes that torch knows as expressions of symbols, as data of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from eutectic.runtime.formulas import FUNCTIONS, Amount, Formula
from eutectic.runtime.sizes import OPERATIONS, SizeExpr
from eutectic.support.deep import deep
from eutectic.support.errors import FrontendError

# Classes of sympy and of torch's own, and the operations that they are; those of the first table take any number.
_FOLDS: Final = {"Add": "add", "Mul": "mul", "Max": "max", "Min": "min", "And": "and", "Or": "or"}
_CALLS: Final = {
    "Abs": "abs",
    "CeilToInt": "ceil",
    "CleanDiv": "floordiv",
    "Equality": "eq",
    "FloatPow": "pow",
    "FloatTrueDiv": "truediv",
    "FloorDiv": "floordiv",
    "FloorToInt": "floor",
    "GreaterThan": "ge",
    "IntTrueDiv": "truediv",
    "LShift": "lshift",
    "LessThan": "le",
    "Mod": "floormod",
    "Not": "not",
    "Pow": "pow",
    "PowByNatural": "pow",
    "PythonMod": "floormod",
    "RShift": "rshift",
    "RoundDecimal": "round",
    "RoundToInt": "round",
    "StrictGreaterThan": "gt",
    "StrictLessThan": "lt",
    "ToFloat": "float",
    "TruncToFloat": "trunc",
    "TruncToInt": "int",
    "Unequality": "ne",
    "Where": "select",
    "ceiling": "ceil",
    "floor": "floor",
    "sqrt": "sqrt",
}


@deep
def formula(expr: Any) -> Amount:
    """An expression of sympy as a size, or as a formula where sizes do not have its operations.

    Raises:
        FrontendError: it has an operation that is not known here.
    """
    kind = type(expr).__name__
    if expr.is_Symbol:
        return str(expr)
    if kind in ("BooleanTrue", "BooleanFalse"):
        return bool(expr)
    if expr.is_Integer:
        return int(expr)
    if expr.is_Float:
        return float(expr)
    if expr.is_Rational:
        return Formula("truediv", (int(expr.p), int(expr.q)))
    parts = [formula(arg) for arg in expr.args]
    if kind in _FOLDS:
        combine: Callable[[Amount, Amount], Amount] = lambda a, b: _made(_FOLDS[kind], a, b)  # noqa: E731
        return reduce(combine, parts)
    if kind == "ModularIndexing":
        return _made("floormod", _made("floordiv", parts[0], parts[1]), parts[2])
    name = _CALLS.get(kind) or kind.removeprefix("OpaqueUnaryFn_")
    if name not in FUNCTIONS:
        raise FrontendError(
            f"the model takes or returns a number that is computed from sizes as {expr}, and {kind} is not known here",
            help="compute it outside of the model, or export the model with that size fixed",
        )
    return _made(name, *parts)


def _made(op: str, *parts: Amount) -> Amount:
    """A size where it can be one: integers in, an integer out."""
    sizes = tuple(part for part in parts if isinstance(part, (int, str, SizeExpr)))
    if op in OPERATIONS and len(sizes) == len(parts):
        return SizeExpr(op, sizes)
    return Formula(op, parts)


def typed(value: Any) -> Amount:
    """A number that varies, as Python's kind of number that eager returns.

    Args:
        value: `SymInt`, `SymFloat` or `SymBool`.

    Raises:
        FrontendError: see `formula`.
    """
    kind = {"SymInt": "int", "SymFloat": "float", "SymBool": "bool"}[type(value).__name__]
    amount = formula(value.node.expr)
    return amount if kind == "int" and isinstance(amount, (int, str, SizeExpr)) else Formula(kind, (amount,))
