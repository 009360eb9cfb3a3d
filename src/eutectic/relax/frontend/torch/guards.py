"""Equations between sizes that torch took for granted, as a reshape of one tensor to the size of another needs them.

Ranges say what one size may be. What torch found equal in the example may stand in the graph as one size for another,
or as the number that it was: with sizes for which that does not hold the program would compute something else.
"""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]  # it ships no types
import torch

from eutectic.relax.base import ShapeExpr, ShapeStructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.frontend.torch.symbols import Symbols
from eutectic.support.errors import FrontendError


def equations(program: Any) -> list[tuple[Any, Any]]:
    """Both sides of each equation that torch assumes of a program's sizes, as it names them; none that always hold.

    Args:
        program: An exported program.
    """
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    sizes: list[Any] = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    env = next((size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)), None)
    found = [env.simplify(guard.expr) for guard in env.guards] if env is not None else []
    return [tuple(expr.args) for expr in dict.fromkeys(found) if isinstance(expr, sympy.Eq)]


def assert_equations(program: Any, symbols: Symbols, builder: BlockBuilder) -> None:
    """Assert the equations between known sizes, in the function that is being built.

    Args:
        program: An exported program.
        symbols: Its sizes; those that inputs have are known.
        builder: Builds its function.
    """
    for left, right in equations(program):
        if {str(symbol) for symbol in left.free_symbols | right.free_symbols} <= symbols.variables.keys():
            try:
                sides = symbols.of_expression(left), symbols.of_expression(right)
            except FrontendError:
                continue  # it is of a form that no shape here has either
            builder.match_cast(ShapeExpr(sides[:1]), ShapeStructInfo(sides[1:]), "sizes")
