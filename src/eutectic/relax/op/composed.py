"""Operators that are made of others: their types and programs are those of what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call
from eutectic.relax.op.builder import Builder
from eutectic.relax.op.registry import OpDef
from eutectic.relax.struct_info import TensorStructInfo

Composition = Callable[[Call], Expr]


def composed(
    definition: OpDef, function: Composition, check: Callable[[Call], StructInfo | None] | None = None
) -> None:
    """Give an operator the type and the lowering of an expression of other operators.

    Args:
        definition: The operator.
        function: The expression that a call stands for.
        check: Refuses arguments; what it returns is the type where the expression cannot be written, such as of
            unknown shapes, and None where it can.
    """

    def known(c: Call) -> StructInfo | None:
        return check(c) if check is not None else None

    @definition.infer
    def _infer(c: Call) -> StructInfo:
        info = known(c)
        if info is not None:
            return info
        inner = function(c).struct_info
        assert inner is not None
        return inner

    @definition.legalize
    def _legalize(builder: Builder, c: Call) -> Any:
        return c if known(c) is not None else builder.emit(function(c))


def shape_known(info: StructInfo | None) -> bool:
    """Whether every size of a tensor is written down."""
    return isinstance(info, TensorStructInfo) and info.dims is not None and info.dtype != ""
