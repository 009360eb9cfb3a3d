"""Symbolic sizes of a function under construction, and types that mention them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, Final

from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.base import StructInfo
from eutectic.script.annotations import Annotation, Deferred, is_symbol, resolve_type, texts_in
from eutectic.script.parser.evaluate import Evaluator
from eutectic.support.deep import deep
from eutectic.support.errors import ScriptError
from eutectic.support.spelling import did_you_mean

MAX_SIZE_TEXT: Final = 10_000
_INTEGERS: Final = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


class Symbols:
    """The symbols of one function (a nested function sees those around it).

    Args:
        evaluator: For sizes that are expressions.
        outer: Symbols of the function around this one.
        dtypes: Dtypes that the body declares for symbols; int64 otherwise.
    """

    def __init__(self, evaluator: Evaluator, outer: Symbols | None, dtypes: dict[str, str]) -> None:
        self._evaluator, self._dtypes = evaluator, dtypes
        self.known: dict[str, ScalarVar] = dict(outer.known) if outer is not None else {}

    def declare(self, name: str, dtype: str | None = None, *, kind: type[ScalarVar] = ScalarVar) -> ScalarVar:
        """The symbol called `name`, made when it is new.

        Raises:
            ValueError: it is known with another dtype.
        """
        if name not in self.known:
            self.known[name] = kind(name, dtype or self._dtypes.get(name, "int64"))
        symbol = self.known[name]
        if dtype is not None and symbol.dtype != dtype:
            raise ValueError(f"symbol {name} is {symbol.dtype} already, not {dtype}")
        return symbol

    def define_in(self, types: Iterable[Any]) -> None:
        """Declare the symbols that stand alone in some types."""
        for value in types:
            for text in texts_in(value):
                if is_symbol(text):
                    self.declare(text)

    def resolve(self, value: Any, node: ast.AST, *, define: bool = False) -> StructInfo:
        """An annotation's value as struct info.

        Args:
            value: What the annotation evaluated to.
            node: Where errors point.
            define: Whether names in quotes may be new symbols.

        Raises:
            ScriptError: not a type, or a size cannot be understood.
        """
        if define:
            self.define_in([value])
        source = self._evaluator.source
        try:
            return resolve_type(value, lambda text: self._size(text, node))
        except ScriptError:
            raise
        except (TypeError, ValueError) as error:
            at = source.excerpt(node)
            raise ScriptError(
                getattr(error, "message", str(error)), at=at, help=getattr(error, "help", None)
            ) from error

    @deep
    def types_in(self, value: Any, node: ast.AST, *, define: bool = False) -> Any:
        """`value` with annotations in it, also in lists and tuples, as struct info."""
        if isinstance(value, (Annotation, Deferred)):
            return self.resolve(value, node, define=define)
        if isinstance(value, (list, tuple)) and any(isinstance(v, (Annotation, Deferred, list, tuple)) for v in value):
            return type(value)(self.types_in(item, node, define=define) for item in value)
        return value

    def _size(self, text: str, node: ast.AST) -> PrimExpr:
        source = self._evaluator.source
        if is_symbol(text):
            if text not in self.known:
                help = did_you_mean(text, self.known) or f"declare it first: {text} = T.int64()"
                source.refuse(node, f"undefined symbol {text!r} in a type", help=help)
            return self.known[text]
        if len(text) > MAX_SIZE_TEXT:
            source.refuse(node, "a size in quotes is too long")
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            source.refuse(node, f"the size {text!r} is not an expression")
        for part in ast.walk(tree):
            if isinstance(part, ast.expr):
                ast.copy_location(part, node)
        with self._evaluator.scopes.frame() as frame:
            frame.update(self.known)
            size = self._evaluator.value(tree)
        if isinstance(size, bool) or not isinstance(size, (int, PrimExpr)):
            source.refuse(node, f"the size {text!r} is a {type(size).__name__}, not an integer")
        return size  # type: ignore[return-value]  # integers are converted by the type


def declared_dtypes(body: list[ast.stmt]) -> dict[str, str]:
    """Dtypes of symbols that statements such as `n = T.int32()` declare, wherever they stand."""
    out: dict[str, str] = {}
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr=dtype), args=[]))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Attribute(attr=dtype), args=[]))
            ) if dtype in _INTEGERS:
                out.setdefault(name, dtype)
    return out
