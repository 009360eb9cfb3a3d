"""What the legalisation of an operator may ask of the builder that it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from eutectic.ir.module import BaseFunc, GlobalVar
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Call, Var


class Builder(Protocol):
    """The part of `relax.BlockBuilder` that operators use; that one is above them, and asks them for their types."""

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind an expression to a new variable."""

    def match_cast(self, value: Expr, struct_info: StructInfo, name_hint: str = "") -> Var:
        """Bind a value under another struct info, checked at run time."""

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """A call of the tensor program that a function of tensors defines."""

    def add_func(self, function: BaseFunc, name: str) -> GlobalVar:
        """Add a function to the module."""
