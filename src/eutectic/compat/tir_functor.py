"""`tvm.tir.PyStmtExprVisitor` and `PyStmtExprMutator`: classes with a method for each kind of node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from eutectic.compat.stmt_functor import map_parts, parts
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.support.deep import deep
from eutectic.tir.stmt import Stmt

__all__ = ["PyStmtExprMutator", "PyStmtExprVisitor", "mutator", "visitor"]

C = TypeVar("C", bound=type)

_SPELLED: Final = {"FloorDiv": "floordiv", "FloorMod": "floormod", "TruncDiv": "div", "TruncMod": "mod"}
# fmt: off
_KINDS: Final = (
    "attr_stmt", "if_then_else", "let_stmt", "for", "while", "allocate", "decl_buffer", "buffer_store",
    "assert_stmt", "seq_stmt", "evaluate", "block", "block_realize", "var", "size_var", "buffer_load",
    "producer_load", "let", "call", "add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "reduce", "cast", "not", "select", "ramp", "broadcast",
    "shuffle", "int_imm", "float_imm", "string_imm",
)
# fmt: on


def _method(item: Node) -> str:
    """Name of the method for a node: `visit_buffer_store_` of a `BufferStore`."""
    name = type(item).__name__
    snake = _SPELLED.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f"visit_{snake}_"


class PyStmtExprVisitor:
    """A walk over statements and expressions; subclasses override `visit_for_`, `visit_add_`, ...

    An overriding method goes on below its node with `super().visit_for_(op)`.
    """

    @deep
    def visit_stmt(self, stmt: Stmt) -> None:
        """A statement, by the method of its kind."""
        self._visit(stmt)

    @deep
    def visit_expr(self, expr: PrimExpr) -> None:
        """An expression, by the method of its kind."""
        self._visit(expr)

    @deep
    def _visit(self, item: Node) -> None:
        getattr(self, _method(item), self._below)(item)

    @deep
    def _below(self, item: Node) -> None:
        for part in parts(item):
            if isinstance(part, Stmt):
                self.visit_stmt(part)
            elif isinstance(part, PrimExpr):
                self.visit_expr(part)


class PyStmtExprMutator:
    """A rewriting walk over statements and expressions; each method returns what takes the place of its node."""

    @deep
    def visit_stmt(self, stmt: Stmt) -> Any:
        """What takes the place of a statement."""
        return self._visit(stmt)

    @deep
    def visit_expr(self, expr: PrimExpr) -> Any:
        """What takes the place of an expression."""
        return self._visit(expr)

    @deep
    def _visit(self, item: Node) -> Any:
        return getattr(self, _method(item), self._below)(item)

    @deep
    def _below(self, item: Node) -> Any:
        return map_parts(item, lambda part: self.visit_stmt(part) if isinstance(part, Stmt) else self.visit_expr(part))  # type: ignore[arg-type]  # parts are statements and expressions


def _default(kind: str, of: type) -> Callable[[Any, Any], Any]:
    def method(self: Any, op: Any) -> Any:
        return self._below(op)

    method.__name__, method.__qualname__ = f"visit_{kind}_", f"{of.__name__}.visit_{kind}_"
    method.__doc__ = "What is below the node."
    return method


for _of in (PyStmtExprVisitor, PyStmtExprMutator):
    for _kind in _KINDS:
        setattr(_of, f"visit_{_kind}_", _default(_kind, _of))


def visitor(cls: C) -> C:
    """Decorator of classes that derive from `PyStmtExprVisitor`."""
    return _derived(cls, PyStmtExprVisitor)


def mutator(cls: C) -> C:
    """Decorator of classes that derive from `PyStmtExprMutator`."""
    return _derived(cls, PyStmtExprMutator)


def _derived(cls: C, base: type) -> C:
    if not issubclass(cls, base):
        raise TypeError(f"{cls.__name__} must derive from {base.__name__}")
    return cls
