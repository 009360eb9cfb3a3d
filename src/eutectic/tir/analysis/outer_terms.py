"""Quotients, remainders and products of values from outside of a statement: within it each is one unknown number.

Loops over sizes that are not known, put together, leave `f // n` and `f % n` as indices of what was one loop each. No
method for linear systems takes them, but to what an iteration does they are constants, and equal ones are equal.
"""

from __future__ import annotations

from collections.abc import Collection

from eutectic.ir.prim_expr import BinaryExpr, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var
from eutectic.ir.structural import StructuralKey
from eutectic.ir.visit import post_order
from eutectic.tir.statement_mutator import rewrite_expr, with_values


class OuterTerms:
    """Names of such terms.

    Attributes:
        values: What each name stands for.
    """

    def __init__(self) -> None:
        self.values: dict[Var, PrimExpr] = {}
        self._names: dict[StructuralKey, Var] = {}

    def named(self, expr: PrimExpr, inside: Collection[Var]) -> PrimExpr:
        """An expression with names for terms that are not affine, and have one value in all of a statement.

        Args:
            expr: An index.
            inside: Variables of the statement.
        """

        def change(item: PrimExpr) -> PrimExpr | None:
            return self._name(item) if _is_not_affine(item) and _is_from_outside(item, inside) else None

        return rewrite_expr(expr, change)

    def _name(self, item: PrimExpr) -> Var:
        value = with_values(item, self.values)
        key = StructuralKey(value)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = Var(f"outer{len(self._names)}", item.dtype)
            self.values[name] = value
        return name


def _is_not_affine(item: PrimExpr) -> bool:
    match item:
        case FloorDiv() | FloorMod():
            return not isinstance(item.b, IntImm)
        case Mul():
            return not isinstance(item.a, IntImm) and not isinstance(item.b, IntImm)
        case _:
            return False


def _is_from_outside(item: PrimExpr, inside: Collection[Var]) -> bool:
    """Whether nothing in a term changes within a statement: no variable of it, nothing from memory, no call."""
    return all(
        part not in inside if isinstance(part, Var) else isinstance(part, IntImm | BinaryExpr)
        for part in post_order(item)
    )
