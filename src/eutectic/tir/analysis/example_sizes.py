"""Sizes that vary, as they were in the example that a program was made from."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.prim_expr import PrimExpr, evaluate
from eutectic.tir.analysis.conditions import variables


def size_in_example(size: PrimExpr, examples: Mapping[str, int]) -> int | None:
    """What a size is in an example; None where that is not known.

    Args:
        size: An integer expression.
        examples: Values of variables by name, as of `eutectic.tir.function_attributes.example_sizes`.
    """
    try:
        return evaluate(size, {var: examples[var.name] for var in variables(size) if var.name in examples})
    except (KeyError, TypeError, ZeroDivisionError):  # a variable without a value, or an expression
        return None
