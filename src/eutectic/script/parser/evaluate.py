"""Values of the expressions in a script, computed by walking their syntax; nothing is handed to Python to run."""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any, Final

from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_base import Deferred
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_logic import EQ, GE, GT, LE, LT, NE, compare, logical_and, logical_not, logical_or
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call
from eutectic.script.parser.environment import Environment, Namespace, Scopes
from eutectic.script.parser.source import Source
from eutectic.support.deep import deep
from eutectic.support.errors import EutecticError, ScriptError
from eutectic.support.spelling import did_you_mean

MAX_LAMBDA_CALLS: Final = 100_000  # in a text from outside
_MAX_EXPONENT: Final = 64
_MAX_INTEGER_BITS: Final = 64

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_PRIM_COMPARE: Final[dict[type[ast.cmpop], type[Any]]] = {
    ast.Eq: EQ,
    ast.NotEq: NE,
    ast.Lt: LT,
    ast.LtE: LE,
    ast.Gt: GT,
    ast.GtE: GE,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
# What a text from outside may ask of a value of the program.
SAFE_ATTRIBUTES: Final = frozenset(
    {
        "access_ptr",
        "astype",
        "data",
        "dtype",
        "elem_offset",
        "equal",
        "fields",
        "name_hint",
        "ndim",
        "offset_of",
        "scope",
        "shape",
        "strides",
        "struct_info",
        "value",
        "vload",
    }
)


class Evaluator:
    """Computes values of expressions.

    Args:
        source: Where errors point.
        scopes: Variables of the program.
        environment: Names around it.
    """

    def __init__(self, source: Source, scopes: Scopes, environment: Environment) -> None:
        self.source, self.scopes, self.environment = source, scopes, environment
        self._lambda_calls = 0

    def argument(self, value: Any, node: ast.expr) -> Any:
        """An argument of a call before it is handed over; dialects convert what only they understand."""
        return value

    def apply(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call; dialects may give calls of their own nodes another meaning."""
        return function(*args, **kwargs)

    def member(self, base: Any, name: str) -> Any:
        """What a dialect means by an attribute of a value; None when it is an ordinary one."""
        return None

    def value(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ScriptError: it has none, or may not be used here; points at the part that is wrong.
        """
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            self.source.refuse(node, f"{type(node).__name__} expressions are not part of the language")
        value = method(node)
        return self.guard(node, value.asobject) if isinstance(value, Deferred) else value  # as Python code gave it

    def _trusted_only(self, node: ast.expr, what: str) -> None:
        if not self.environment.trusted:
            self.source.refuse(node, f"{what} may not be used in a text from outside")

    # ---- names and access

    def _Name(self, node: ast.Name) -> Any:
        try:
            return self.scopes.find(node.id)
        except KeyError:
            pass
        if node.id in self.scopes.hidden:
            self.source.refuse(node, self.scopes.hidden[node.id])
        try:
            return self.environment.find(node.id)
        except KeyError:
            known = [*self.scopes.known(), *self.environment.known()]
        raise self.source.error(node, f"undefined variable {node.id!r}", help=did_you_mean(node.id, known))

    def _Attribute(self, node: ast.Attribute) -> Any:
        base = self.value(node.value)
        if isinstance(base, Namespace):
            if node.attr in base.members:
                return base.members[node.attr]
            hint = did_you_mean(node.attr, base.members)
            self.source.refuse(node, f"{base.title} has no {node.attr!r}", help=hint)
        if hasattr(type(base), "script_attribute"):  # a module under construction, for example
            return self.guard(node, lambda: base.script_attribute(node.attr))
        special = self.member(base, node.attr)
        if special is not None:
            return special
        safe = isinstance(base, Node) and node.attr in SAFE_ATTRIBUTES
        if not safe:
            self._trusted_only(node, f"attribute {node.attr!r} of a {type(base).__name__}")
        try:
            return getattr(base, node.attr)
        except AttributeError:
            names = [name for name in dir(base) if not name.startswith("_")]
            what = getattr(base, "__name__", type(base).__name__)
            why_not = getattr(type(base), "why_not", None)  # modules under other names know what to use instead
            help_text = (why_not and why_not(base, node.attr)) or did_you_mean(node.attr, names)
            self.source.refuse(node, f"{what} has no {node.attr!r}", help=help_text)

    def _Subscript(self, node: ast.Subscript) -> Any:
        base = self.value(node.value)
        index = self.value(node.slice)
        return self.guard(node, lambda: base[index])

    def _Slice(self, node: ast.Slice) -> slice:
        return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))

    # ---- literals and containers

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _List(self, node: ast.List) -> list[Any]:
        return list(self._items(node.elts))

    def _Set(self, node: ast.Set) -> set[Any]:
        return set(self._items(node.elts))

    def _Dict(self, node: ast.Dict) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out.update(self.value(value))
            else:
                out[self.value(key)] = self.value(value)
        return out

    def _items(self, nodes: Iterable[ast.expr]) -> Iterable[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self._spread(node)
            else:
                yield self.value(node)

    def _spread(self, node: ast.Starred) -> list[Any]:
        value = self.value(node.value)
        return list(self.guard(node, lambda: list(value)))

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        self._trusted_only(node, "a formatted string")
        return "".join(str(self.value(part)) for part in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> str:
        value, spec = self.value(node.value), self.value(node.format_spec) if node.format_spec else ""
        convert: Mapping[int, Callable[[Any], str]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
        return format(convert[node.conversion](value) if node.conversion in convert else value, spec)

    # ---- operators

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(operand, PrimExpr):
            return self.guard(node, lambda: logical_not(operand))
        return self.guard(node, lambda: _UNARY[type(node.op)](operand))

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if not self.environment.trusted:
            self._check_growth(node, left, right)
        value = self.guard(node, lambda: _BINARY[type(node.op)](left, right))
        return self._with_span(value, node)

    def _check_growth(self, node: ast.BinOp, left: Any, right: Any) -> None:
        """Refuse what makes large values of small texts."""
        sequences = (str, bytes, list, tuple)
        if isinstance(node.op, (ast.Mult, ast.Mod)) and (isinstance(left, sequences) or isinstance(right, sequences)):
            self.source.refuse(node, "sequences cannot be repeated or formatted in a text from outside")
        if isinstance(left, int) and isinstance(right, int):
            if isinstance(node.op, (ast.Pow, ast.LShift)) and abs(right) > _MAX_EXPONENT:
                self.source.refuse(node, f"{right} is too large to raise or shift by")
            if max(left.bit_length(), right.bit_length()) > _MAX_INTEGER_BITS:
                self.source.refuse(node, "an integer beyond 64 bits")

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        values: list[Any] = []
        for part in node.values:
            value = self.value(part)
            if not values and not isinstance(value, PrimExpr) and bool(value) is not is_and:
                return value  # decided, as Python decides it
            values.append(value)
        if not any(isinstance(value, PrimExpr) for value in values):
            return next((v for v in values if bool(v) is not is_and), values[-1])
        return self.guard(node, lambda: reduce(logical_and if is_and else logical_or, values))

    def _Compare(self, node: ast.Compare) -> Any:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        results = [self._compared(node, op, a, b) for op, a, b in pairs]
        if any(isinstance(result, PrimExpr) for result in results):
            return self.guard(node, lambda: reduce(logical_and, results))
        return results[0] if len(results) == 1 else all(results)

    def _compared(self, node: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        if type(op) in _PRIM_COMPARE and (isinstance(a, PrimExpr) or isinstance(b, PrimExpr)):
            return self.guard(node, lambda: compare(_PRIM_COMPARE[type(op)], a, b))
        if isinstance(op, (ast.Eq, ast.NotEq)) and (isinstance(a, Expr) or isinstance(b, Expr)):
            name = "equal" if isinstance(op, ast.Eq) else "not_equal"
            self.source.refuse(node, "== compares objects, not tensors", help=f"write R.{name}(x, y)")
        return self.guard(node, lambda: _COMPARE[type(op)](a, b))

    def _IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        if isinstance(test, Node):
            help = "write T.if_then_else(condition, a, b) or T.Select(condition, a, b)"
            self.source.refuse(node, "a conditional expression needs a condition known while parsing", help=help)
        return self.value(node.body if test else node.orelse)

    # ---- calls

    def _Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if not callable(function):
            self.source.refuse(node.func, f"{ast.unparse(node.func)} is a {type(function).__name__}, not a function")
        args = list(self._items(node.args))
        kwargs = self.keywords(node)
        if not getattr(function, "keeps_types", False):
            args = [self.argument(arg, node) for arg in args]
            kwargs = {key: self.argument(arg, node) for key, arg in kwargs.items()}
        if "span" not in kwargs and takes_span(function):
            kwargs["span"] = self.source.span(node)
        return self._with_span(self.guard(node, lambda: self.apply(function, args, kwargs)), node)

    def keywords(self, node: ast.Call) -> dict[str, Any]:
        """The keyword arguments of a call."""
        out: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is None:
                if not isinstance(value, Mapping):
                    self.source.refuse(keyword.value, f"** takes a dict, got {type(value).__name__}")
                out.update(value)
            else:
                out[keyword.arg] = value
        return out

    def _with_span(self, value: Any, node: ast.expr) -> Any:
        if isinstance(value, Call) and value.span is None:
            return replace(value, span=self.source.span(node))
        return value

    def guard(self, node: ast.AST, compute: Callable[[], Any]) -> Any:
        """What `compute` gives; whatever it raises becomes an error that points at the syntax."""
        try:
            return compute()
        except EutecticError as error:
            self.source.locate(error, node)
            raise
        except RecursionError:
            self.source.refuse(node, "nested too deeply")
        except Exception as error:
            text = str(error) if str(error) else type(error).__name__
            raise ScriptError(text[:2000], at=self.source.excerpt(node)) from error

    def _Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        names = [arg.arg for arg in node.args.args]
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.defaults:
            self.source.refuse(node, "a lambda in a script takes positional arguments only")

        def call(*args: Any) -> Any:
            if len(args) != len(names):
                raise TypeError(f"this lambda takes {len(names)} arguments, got {len(args)}")
            self._lambda_calls += 1
            if not self.environment.trusted and self._lambda_calls > MAX_LAMBDA_CALLS:
                self.source.refuse(node, "too many calls of lambdas")
            with self.scopes.frame() as frame:
                frame.update(zip(names, args, strict=True))
                return self.value(node.body)

        # Functions that take lambdas count their parameters.
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect reads
        return call

    # ---- comprehensions of the user's own source

    def _ListComp(self, node: ast.ListComp) -> list[Any]:
        return [self.value(node.elt) for _ in self._loops(node, node.generators)]

    def _SetComp(self, node: ast.SetComp) -> set[Any]:
        return {self.value(node.elt) for _ in self._loops(node, node.generators)}

    def _GeneratorExp(self, node: ast.GeneratorExp) -> list[Any]:
        return [self.value(node.elt) for _ in self._loops(node, node.generators)]

    def _DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {self.value(node.key): self.value(node.value) for _ in self._loops(node, node.generators)}

    def _loops(self, node: ast.expr, generators: list[ast.comprehension]) -> Iterable[None]:
        self._trusted_only(node, "a comprehension")
        if not generators:
            yield
            return
        first, *rest = generators
        for item in self.guard(first.iter, lambda: list(self.value(first.iter))):
            with self.scopes.frame() as frame:
                self.unpack(first.target, item, frame)
                if all(self.value(test) for test in first.ifs):
                    yield from self._loops(node, rest)

    @deep
    def unpack(self, target: ast.expr, value: Any, into: dict[str, Any]) -> None:
        """Give the names of a target their parts of a Python value."""
        if isinstance(target, ast.Name):
            into[target.id] = value
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            self.source.refuse(target, "only names can be assigned to")
        parts = self.guard(target, lambda: list(value))
        if len(parts) != len(target.elts):
            self.source.refuse(target, f"{len(target.elts)} names for {len(parts)} values")
        for part, item in zip(target.elts, parts, strict=True):
            self.unpack(part, item, into)


@lru_cache(maxsize=2048)
def _signature_takes_span(function: Callable[..., Any]) -> bool:
    try:
        return "span" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def takes_span(function: Any) -> bool:
    """Whether a constructor can be told where its call stands."""
    if isinstance(function, (Node, GlobalVar)) or not str(getattr(function, "__module__", "")).startswith("eutectic."):
        return False
    try:
        return _signature_takes_span(function)
    except TypeError:  # not hashable
        return False
