"""The matcher: walks a pattern and an expression together, with backtracking.

Every way to match is a generator that yields once per solution and undoes its
records when resumed, so that a later failure tries the other side of an `Or`, the
swapped operands of a commutative operator, or another order of a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from eutectic.arith import prove_equal
from eutectic.ir.attrs import freeze
from eutectic.ir.module import GlobalVar
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import IntImm, as_prim
from eutectic.ir.structural import structural_equal
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.dpl.pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PrimArrPattern,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WherePattern,
    WildcardPattern,
)
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.expr import Call, Constant, DataflowVar, ExternFunc, Function, Tuple, TupleGetItem, Var
from eutectic.relax.op.registry import has_trait
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.struct_info_relations import BaseCheckResult, struct_info_base_check
from eutectic.support.deep import deep
from eutectic.support.errors import PatternError

Solutions: TypeAlias = Iterator[None]
ABSENT: Final = object()  # what `attr_of` gives for an attribute that is not there


def match_expr(
    pattern: DFPattern, expr: Expr, var2val: Mapping[Any, Expr] | None = None
) -> dict[DFPattern, Expr] | None:
    """The matched value of each pattern that took part, or None.

    Args:
        pattern: What to look for.
        expr: Root to compare with.
        var2val: Values of bound variables; without it variables match as themselves.
    """
    state = Matcher(var2val or {})
    for _ in state.solve(pattern, expr):
        return dict(state.matches)
    return None


@deep
def required_ops(pattern: DFPattern) -> frozenset[str]:
    """Operators that every match must contain; lets a search skip patterns that cannot match."""
    match pattern:
        case ExprPattern() if isinstance(pattern.expr, Op):
            return frozenset([pattern.expr.name])
        case CallPattern():
            return frozenset().union(required_ops(pattern.op), *map(required_ops, pattern.args))
        case TuplePattern() | UnorderedTuplePattern():
            return frozenset().union(*map(required_ops, pattern.fields))
        case TupleGetItemPattern():
            return required_ops(pattern.tuple)
        case OrPattern():
            return required_ops(pattern.left) & required_ops(pattern.right)
        case AndPattern():
            return required_ops(pattern.left) | required_ops(pattern.right)
        case StructInfoPattern() | DataTypePattern() | ShapePattern() | AttrPattern() | WherePattern():
            return required_ops(pattern.pattern)
        case _:
            return frozenset()


@deep
def most_calls(pattern: DFPattern) -> int:
    """No match of the pattern has more calls than this."""
    match pattern:
        case CallPattern():
            return 1 + sum(map(most_calls, pattern.args))
        case TuplePattern() | UnorderedTuplePattern():
            return sum(map(most_calls, pattern.fields))
        case TupleGetItemPattern():
            return most_calls(pattern.tuple)
        case OrPattern():
            return max(most_calls(pattern.left), most_calls(pattern.right))
        case AndPattern():
            return most_calls(pattern.left) + most_calls(pattern.right)
        case StructInfoPattern() | DataTypePattern() | ShapePattern() | AttrPattern() | WherePattern():
            return most_calls(pattern.pattern)
        case _:
            return 0


@deep
def root_ops(pattern: DFPattern) -> frozenset[str] | None:
    """Operators that the call at the root of a match can be of; None when it can be any value."""
    match pattern:
        case CallPattern():
            callee = pattern.op.expr if isinstance(pattern.op, ExprPattern) else None
            return frozenset([callee.name]) if isinstance(callee, Op) else None
        case OrPattern():
            left, right = root_ops(pattern.left), root_ops(pattern.right)
            return None if left is None or right is None else left | right
        case AndPattern():
            left, right = root_ops(pattern.left), root_ops(pattern.right)
            return right if left is None else left if right is None else left & right
        case StructInfoPattern() | DataTypePattern() | ShapePattern() | AttrPattern() | WherePattern():
            return root_ops(pattern.pattern)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Miss:
    """Where an attempt to match ended.

    Attributes:
        progress: How much had matched by then; a larger one is a nearer miss.
        calls: How many operators of the pattern had matched by then.
        pattern: The pattern that did not match.
        value: What it was compared with, bound variables looked through.
        expr: The same as the graph names it: a variable, where there is one.
        refusal: What a condition said, when everything else matched.
        other: The value that `pattern` had matched before, when it occurs twice.
    """

    progress: tuple[int, bool]
    calls: int
    pattern: DFPattern
    value: Any
    expr: Any
    refusal: Refusal | None = None
    other: Any = None


class Matcher:
    """State of one match.

    Attributes:
        matches: Matched value per pattern; a value bound to a variable is recorded, not the variable.
        furthest: The nearest miss so far, for remarks.
        refusals: What conditions said against matches that fit otherwise.
    """

    def __init__(self, var2val: Mapping[Any, Expr]) -> None:
        self.var2val = var2val
        self.matches: dict[DFPattern, Expr] = {}
        self.furthest: Miss | None = None
        self.refusals: list[Refusal] = []

    def value(self, expr: Any) -> Any:
        """`expr` with bound variables looked through."""
        while isinstance(expr, Var) and expr in self.var2val:
            expr = self.var2val[expr]
        return expr

    def solve(self, pattern: DFPattern, expr: Any) -> Solutions:
        """Yield once per way in which `expr` matches."""
        keep = isinstance(pattern, (VarPattern, StructInfoPattern, DataTypePattern, ShapePattern))
        subject = expr if keep else self.value(expr)
        if pattern in self.matches:
            if self.matches[pattern] is subject:
                yield
            else:
                self.miss(pattern, subject, expr, other=self.matches[pattern])
            return
        handler = _HANDLERS.get(type(pattern))
        if handler is None:
            raise PatternError(f"{type(pattern).__name__} cannot be matched")
        matched = False
        for _ in handler(self, pattern, subject):
            matched = True
            self.matches[pattern] = subject
            yield
            del self.matches[pattern]
        if not matched:
            self.miss(pattern, subject, expr)

    def miss(
        self, pattern: DFPattern, value: Any, expr: Any, refusal: Refusal | None = None, other: Any = None
    ) -> None:
        """Remember a failure if nothing came further; operators are left to the call they belong to."""
        if isinstance(value, Op):
            return
        progress = (len(self.matches), isinstance(value, Call))
        if self.furthest is None or progress > self.furthest.progress:
            calls = sum(isinstance(matched, Op) for matched in self.matches.values())
            self.furthest = Miss(progress, calls, pattern, value, expr, refusal, other)

    def solve_all(self, patterns: Sequence[DFPattern], exprs: Sequence[Any]) -> Solutions:
        """Yield once per way in which all pairs match."""
        if not patterns:
            yield
            return
        for _ in self.solve(patterns[0], exprs[0]):
            yield from self.solve_all(patterns[1:], exprs[1:])


Handler: TypeAlias = Callable[[Matcher, Any, Any], Solutions]
_HANDLERS: Final[dict[type[DFPattern], Handler]] = {}


def _handles(kind: type[DFPattern]) -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        _HANDLERS[kind] = function
        return function

    return register


def _when(kind: type[DFPattern]) -> Callable[[Callable[[Any, Any], bool]], Callable[[Any, Any], bool]]:
    """Register a plain test `(pattern, value) -> bool`."""

    def register(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        def handler(_: Matcher, pattern: Any, expr: Any) -> Solutions:
            if test(pattern, expr):
                yield

        _HANDLERS[kind] = handler
        return test

    return register


@_when(WildcardPattern)
def _wildcard(_: WildcardPattern, expr: Any) -> bool:
    return not isinstance(expr, Op)


@_when(ExprPattern)
def _expr(pattern: ExprPattern, expr: Any) -> bool:
    return pattern.expr is expr or (not isinstance(expr, Op) and structural_equal(pattern.expr, expr))


@_when(VarPattern)
def _var(pattern: VarPattern, expr: Any) -> bool:
    return isinstance(expr, Var) and pattern.var_name in ("", expr.name_hint)


@_when(DataflowVarPattern)
def _dataflow_var(pattern: DataflowVarPattern, expr: Any) -> bool:
    return isinstance(expr, DataflowVar) and pattern.var_name in ("", expr.name_hint)


@_when(GlobalVarPattern)
def _global_var(pattern: GlobalVarPattern, expr: Any) -> bool:
    return isinstance(expr, GlobalVar) and pattern.var_name in expr.name_hint


@_when(ExternFuncPattern)
def _extern(pattern: ExternFuncPattern, expr: Any) -> bool:
    return isinstance(expr, ExternFunc) and pattern.global_symbol in ("", expr.global_symbol)


@_when(ConstantPattern)
def _constant(_: ConstantPattern, expr: Any) -> bool:
    return isinstance(expr, Constant)


@_when(PrimArrPattern)
def _shape_literal(pattern: PrimArrPattern, expr: Any) -> bool:
    return isinstance(expr, ShapeExpr) and _same_sizes(pattern.shape, expr.values)


def _same_sizes(wanted: Sequence[Any], actual: Sequence[Any] | None) -> bool:
    if actual is None or len(wanted) != len(actual):
        return False
    return all(prove_equal(as_prim(a), as_prim(b)) for a, b in zip(wanted, actual, strict=True))


@_handles(CallPattern)
def _call(state: Matcher, pattern: CallPattern, expr: Any) -> Solutions:
    if not isinstance(expr, Call):
        return
    wanted, actual = len(pattern.args), len(expr.args)
    fits = wanted == actual or (wanted < actual and pattern.varg_default_wildcard)
    for _ in state.solve(pattern.op, expr.op):
        if not fits:
            state.miss(pattern, expr, expr)
            continue
        yield from state.solve_all(pattern.args, expr.args[:wanted])
        if wanted == actual == 2 and has_trait(expr, "commutative"):
            yield from state.solve_all(pattern.args, (expr.args[1], expr.args[0]))


@_handles(FunctionPattern)
def _function(state: Matcher, pattern: FunctionPattern, expr: Any) -> Solutions:
    if not isinstance(expr, Function) or len(expr.params) != len(pattern.params):
        return
    values = {b.var: b.value for block in expr.body.blocks for b in block.bindings}
    inner = Matcher({**state.var2val, **values})
    inner.matches = state.matches
    for _ in inner.solve_all(pattern.params, expr.params):
        yield from inner.solve(pattern.body, expr.body.body)


@_handles(TuplePattern)
def _tuple(state: Matcher, pattern: TuplePattern, expr: Any) -> Solutions:
    if isinstance(expr, Tuple) and len(expr.fields) == len(pattern.fields):
        yield from state.solve_all(pattern.fields, expr.fields)


@_handles(UnorderedTuplePattern)
def _unordered(state: Matcher, pattern: UnorderedTuplePattern, expr: Any) -> Solutions:
    if not isinstance(expr, Tuple) or len(expr.fields) != len(pattern.fields):
        return
    yield from _assign(state, pattern.fields, list(expr.fields))


def _assign(state: Matcher, patterns: Sequence[DFPattern], left: list[Any]) -> Solutions:
    """Match each pattern with one of the fields that are left; prunes as it goes."""
    if not patterns:
        yield
        return
    for i, item in enumerate(left):
        for _ in state.solve(patterns[0], item):
            yield from _assign(state, patterns[1:], left[:i] + left[i + 1 :])


@_handles(TupleGetItemPattern)
def _get_item(state: Matcher, pattern: TupleGetItemPattern, expr: Any) -> Solutions:
    if isinstance(expr, TupleGetItem) and pattern.index in (None, expr.index):
        yield from state.solve(pattern.tuple, expr.tuple_value)


@_handles(OrPattern)
def _or(state: Matcher, pattern: OrPattern, expr: Any) -> Solutions:
    yield from state.solve(pattern.left, expr)
    yield from state.solve(pattern.right, expr)


@_handles(AndPattern)
def _and(state: Matcher, pattern: AndPattern, expr: Any) -> Solutions:
    for _ in state.solve(pattern.left, expr):
        yield from state.solve(pattern.right, expr)


@_handles(NotPattern)
def _not(state: Matcher, pattern: NotPattern, expr: Any) -> Solutions:
    before = dict(state.matches)
    for _ in state.solve(pattern.reject, expr):
        state.matches = before
        return
    yield


@_handles(StructInfoPattern)
def _struct_info(state: Matcher, pattern: StructInfoPattern, expr: Any) -> Solutions:
    info = getattr(expr, "struct_info", None)
    if info is not None and struct_info_base_check(pattern.struct_info, info) is BaseCheckResult.PASS:
        yield from state.solve(pattern.pattern, expr)


@_handles(DataTypePattern)
def _data_type(state: Matcher, pattern: DataTypePattern, expr: Any) -> Solutions:
    info = getattr(expr, "struct_info", None)
    if isinstance(info, TensorStructInfo) and info.dtype == pattern.dtype:
        yield from state.solve(pattern.pattern, expr)


@_handles(ShapePattern)
def _shape(state: Matcher, pattern: ShapePattern, expr: Any) -> Solutions:
    info = getattr(expr, "struct_info", None)
    if isinstance(info, TensorStructInfo) and _same_sizes(pattern.shape, info.dims):
        yield from state.solve(pattern.pattern, expr)


@_handles(AttrPattern)
def _attr(state: Matcher, pattern: AttrPattern, expr: Any) -> Solutions:
    if all(_has_attr(expr, key, value) for key, value in pattern.attrs.items()):
        yield from state.solve(pattern.pattern, expr)


@_handles(WherePattern)
def _where(state: Matcher, pattern: WherePattern, expr: Any) -> Solutions:
    for _ in state.solve(pattern.pattern, expr):
        refusal = pattern.condition(state.matches)
        if refusal is None:
            yield
        else:
            state.refusals.append(refusal)
            at = expr if refusal.at is None else refusal.at
            state.miss(pattern, at, at, refusal)


def _has_attr(expr: Any, key: str, wanted: Any) -> bool:
    value = attr_of(expr, key)
    return value is not ABSENT and bool(plain_attr(value) == plain_attr(wanted))


@deep
def attr_of(expr: Any, key: str) -> Any:
    """Attribute `key` of a call, function or operator, or `ABSENT`."""
    if isinstance(expr, Op):
        return expr.get_attr(key) if expr.has_attr(key) else ABSENT
    attrs = getattr(expr, "attrs", None)
    if attrs is not None and key in attrs.keys():  # noqa: SIM118  # DictAttrs is not a plain dict
        return attrs[key]
    return attr_of(expr.op, key) if isinstance(expr, Call) and isinstance(expr.op, Op) else ABSENT


@deep
def plain_attr(value: Any) -> Any:
    """An attribute with constants as Python numbers and lists as tuples."""
    value = freeze(value)
    if isinstance(value, IntImm):
        return value.value
    return tuple(map(plain_attr, value)) if isinstance(value, tuple) else value
