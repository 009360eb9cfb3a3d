"""Statements that bind a name, or state something, for what follows or for the body of a `with`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim
from eutectic.ir.prim_type import PointerType, PrimType
from eutectic.ir.span import Span
from eutectic.script.dtypes import DType
from eutectic.script.tir_statements import AllocateOf, AssertOf, AttrOf, BufferSpec, LaunchOf, LetOf
from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import Allocate, AssertStmt, AttrStmt, DeclBuffer, LetStmt, Stmt

Wrap: TypeAlias = Callable[[Stmt], Stmt]
Scoped: TypeAlias = AllocateOf | AssertOf | AttrOf | BufferSpec | LaunchOf | LetOf


def scoped(value: Scoped, name: str, span: Span) -> tuple[Any, Wrap]:
    """What a name stands for, and what becomes of the statements in which it does.

    Args:
        value: The statement.
        name: The name it binds; empty when it binds none.
        span: Where it stands.
    """
    match value:
        case AttrOf():
            return None, lambda rest: AttrStmt(value.node, value.key, value.value, rest, span=span)
        case AssertOf():
            message: Any = value.message  # the node makes an expression of it
            return None, lambda rest: AssertStmt(value.condition, message, rest, span=span)
        case LaunchOf():
            dom = Range(0, value.extent)
            axis = IterVar(dom, Var(name, dom.extent.dtype), "thread_index", value.thread)
            return axis.var, lambda rest: AttrStmt(axis, "thread_extent", dom.extent, rest, span=span)
        case AllocateOf():
            data = Var(name, "handle", type_annotation=PointerType(PrimType(value.dtype), value.scope))
            condition = as_prim(value.condition, "bool")
            notes: Any = value.annotations  # the node freezes them
            return data, lambda rest: Allocate(data, value.dtype, value.extents, condition, rest, notes, span=span)
        case LetOf():
            var = _let_variable(value, name)
            converted = as_prim(value.value, var.dtype)
            return var, lambda rest: LetStmt(var, converted, rest, span=span)
        case BufferSpec():
            buffer = value.build(name)
            if value.options["data"] is not None:
                return buffer, lambda rest: DeclBuffer(buffer, rest, span=span)
            return buffer, lambda rest: _with_memory(buffer, rest, span)


def _let_variable(value: LetOf, name: str) -> Var:
    if isinstance(value.var, Var):
        return value.var
    if isinstance(value.type, Var):
        return replace(value.type, name=name)
    if isinstance(value.type, DType):
        return Var(name, value.type.dtype)
    expr = value.value if isinstance(value.value, PrimExpr) else as_prim(value.value, "int32")
    return Var(name, expr.dtype)


def _with_memory(buffer: Buffer, rest: Stmt, span: Span) -> Stmt:
    declared = DeclBuffer(buffer, rest, span=span)
    return Allocate(buffer.data, buffer.dtype, buffer.shape, IntImm("bool", 1), declared, span=span)
