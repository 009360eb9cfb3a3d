"""Expressions that only tensor programs have; the others are in `eutectic.ir.prim_expr`."""

from __future__ import annotations

from eutectic.ir.node import field, init_field, node
from eutectic.ir.prim_expr import Broadcast, Call, PrimExpr, Ramp, Shuffle, StringImm, TypedExpr, Var, as_prim
from eutectic.tir.buffer import BufferLoad

__all__ = ["Broadcast", "BufferLoad", "Call", "Let", "Ramp", "Shuffle", "StringImm"]


@node("tir.Let")
class Let(TypedExpr):
    """`body`, in which `var` stands for `value`.

    Attributes:
        var: Variable bound here.
        value: Its value, of the same dtype.
        body: The result.

    Raises:
        TypeError: the dtypes of `var` and `value` differ.
    """

    var: Var = field(role="def")
    value: PrimExpr
    body: PrimExpr

    def __post_init__(self) -> None:
        init_field(self, "value", as_prim(self.value, self.var.dtype))
        init_field(self, "body", as_prim(self.body, "int32"))
        if self.value.dtype != self.var.dtype:
            raise TypeError(f"Let binds {self.var.name} of {self.var.dtype} to a value of {self.value.dtype}")
        init_field(self, "dtype", self.body.dtype)
