"""The graph dialect: expressions, operators, patterns, passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eutectic.relax import analysis, dpl, expr_functor, op, transform
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    extern,
    get_shape_of,
)
from eutectic.relax.expr_functor import PyExprMutator, PyExprVisitor
from eutectic.relax.op.call_packed import call_dps_packed, call_pure_packed, call_tir
from eutectic.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from eutectic.support.door import open_doors
from eutectic.support.lazy import lazy

__all__ = [
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "FuncStructInfo",
    "Function",
    "If",
    "MatchCast",
    "ObjectStructInfo",
    "PrimStructInfo",
    "PrimValue",
    "PyExprMutator",
    "PyExprVisitor",
    "SeqExpr",
    "ShapeExpr",
    "ShapeStructInfo",
    "StringImm",
    "StructInfo",
    "TensorStructInfo",
    "Tuple",
    "TupleGetItem",
    "TupleStructInfo",
    "VMExecutable",
    "Var",
    "VarBinding",
    "VirtualMachine",
    "analysis",
    "build",
    "call_dps_packed",
    "call_pure_packed",
    "call_tir",
    "const",
    "dpl",
    "expr_functor",
    "extern",
    "get_pipeline",
    "get_shape_of",
    "op",
    "register_pipeline",
    "transform",
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:  # some of the names above are lent by the driver, which is above this package
        ...


open_doors(globals())
lazy(globals())
