"""Tensor programs. So far the scalar expressions that shapes are made of."""

from eutectic.ir.prim_expr import (
    Add,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    SizeVar,
    Sub,
    Var,
)

__all__ = [
    "Add",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "Max",
    "Min",
    "Mul",
    "PrimExpr",
    "SizeVar",
    "Sub",
    "Var",
]
