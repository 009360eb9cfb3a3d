"""Sizes that vary, as they were in the example that a program was made from."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.prim_expr import PrimExpr, Var, evaluate
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import EXAMPLE_SIZES, example_sizes


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


def with_size_in_example(func: PrimFunc, var: Var, size: PrimExpr) -> PrimFunc:
    """A program that knows what a new size of its own is in its example; sizes that it has no more are forgotten.

    Args:
        func: The program, which has the variable.
        var: The variable.
        size: What it stands for, in sizes that the program had before.
    """
    examples = example_sizes(func)
    value = size_in_example(size, examples)
    if value is None:
        return func
    left = {
        item.name
        for root in (func.body, *func.buffer_map.values())
        for item in post_order(root)
        if isinstance(item, Var)
    }
    known = {**examples, var.name: value}
    told: PrimFunc = func.with_attr(EXAMPLE_SIZES, {name: known[name] for name in sorted(known) if name in left})
    return told
