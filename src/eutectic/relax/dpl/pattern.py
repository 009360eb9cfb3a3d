"""The pattern language: what a piece of a dataflow graph looks like.

Patterns are plain objects compared by identity, so that one pattern used twice in
a larger one means "the same value". The matcher is in `match.py`; what a pattern
cannot say (shapes that must fit, limits of a library) belongs into the check of a
`FusionPattern`.

Reference: the names and meaning follow TVM's `tvm.relax.dpl`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.dpl.bias import Condition
from eutectic.relax.expr import DataflowBlock, Var
from eutectic.support.deep import carried
from eutectic.support.errors import PatternError


class DFPattern:
    """Base of patterns.

    Attributes:
        name: Set by `named`; under which a check finds the matched value.
    """

    name: str | None = None

    def named(self, name: str) -> DFPattern:
        """Give the matched value a name for checks and remarks; returns the same pattern."""
        self.name = name
        return self

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of what this pattern matches."""
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Also require attributes: all of `attrs` on the call, operator or function."""
        return AttrPattern(self, dict(attrs))

    def has_struct_info(self, struct_info: StructInfo) -> StructInfoPattern:
        """Also require a struct info that covers the value's."""
        return StructInfoPattern(self, struct_info)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Also require an element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[int | PrimExpr]) -> ShapePattern:
        """Also require a shape, provably equal size by size."""
        return ShapePattern(self, tuple(shape))

    def where(self, condition: Condition) -> WherePattern:
        """Also require a condition over all values matched so far, such as `bias.channel_bias`."""
        return WherePattern(self, condition)

    def match(self, expr: Expr, var2val: Mapping[Any, Expr] | None = None) -> bool:
        """Whether `expr` matches; variables are looked through with `var2val`."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Any, Expr] | None = None
    ) -> dict[DFPattern, Expr] | None:
        """The matched value of each pattern, or None when `expr` does not match."""
        return _MATCHER[0](self, expr, var2val)

    def same_shape_as(self, *others: DFPattern) -> SameShapeConstraint:
        """Require equal shapes; inside a `PatternContext` only."""
        return SameShapeConstraint(self, *others)

    def dup(self) -> DFPattern:
        """A copy that is another pattern."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """`other` reads this value, at argument `index` unless that is -1."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """`other` is the only reader of this value."""
        return PatternSeq([self]).only_used_by(other, index)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def fork_to(self, *others: DFPattern) -> None:
        """Each of `others` reads this value."""
        for other in others:
            self.used_by(other)


Match: TypeAlias = "dict[DFPattern, Expr] | None"
_MATCHER: Final[list[Callable[[DFPattern, Expr, Mapping[Any, Expr] | None], Match]]] = []


def set_matcher(matcher: Callable[[DFPattern, Expr, Mapping[Any, Expr] | None], Match]) -> None:
    """Let the methods of patterns match by a function that dispatches on the classes of this module."""
    _MATCHER[:] = [matcher]


class ExprPattern(DFPattern):
    """Structurally equal to a given expression or operator."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


class WildcardPattern(DFPattern):
    """Any value."""


class VarPattern(DFPattern):
    """A variable, not its value; an empty name means any."""

    def __init__(self, var_name: str = "") -> None:
        self.var_name = var_name


class DataflowVarPattern(VarPattern):
    """A dataflow variable, not its value."""


class GlobalVarPattern(DFPattern):
    """A function of the module whose name contains `var_name`."""

    def __init__(self, var_name: str = "") -> None:
        self.var_name = var_name


class ExternFuncPattern(DFPattern):
    """An external function; an empty symbol means any."""

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol


class ConstantPattern(DFPattern):
    """A tensor constant."""


class PrimArrPattern(DFPattern):
    """A shape literal with the given sizes."""

    def __init__(self, shape: Sequence[int | PrimExpr]) -> None:
        self.shape = tuple(shape)


class CallPattern(DFPattern):
    """A call.

    Attributes:
        op: Pattern of the callee.
        args: Patterns of the arguments.
        varg_default_wildcard: Whether the call may have further arguments.
    """

    def __init__(
        self, op: DFPattern, args: Sequence[DFPattern], varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> None:
        self.op, self.args, self.varg_default_wildcard = op, tuple(args), varg_default_wildcard
        for i, arg in enumerate(self.args):
            if not isinstance(arg, DFPattern):
                raise PatternError(f"argument {i} of a call pattern is a {type(arg).__name__}, not a pattern")
        context = current_context()
        if add_constraint and context is not None:
            for i, arg in enumerate(self.args):
                context.add_edge(arg, self, i, only_use=False)


class FunctionPattern(DFPattern):
    """A function with parameters and a result."""

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params, self.body = tuple(params), body


class TuplePattern(DFPattern):
    """A tuple, field by field."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple pattern with {len(self.fields)} fields")
        return TupleGetItemPattern(self, index % len(self.fields))

    def __len__(self) -> int:
        return len(self.fields)


class UnorderedTuplePattern(DFPattern):
    """A tuple whose fields match in some order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def __len__(self) -> int:
        return len(self.fields)


class TupleGetItemPattern(DFPattern):
    """A field of a tuple; index None means any."""

    def __init__(self, tuple_: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = tuple_, None if index == -1 else index


class OrPattern(DFPattern):
    """Either pattern; the left one is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class AndPattern(DFPattern):
    """Both patterns on one value."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class NotPattern(DFPattern):
    """Not the given pattern."""

    def __init__(self, reject: DFPattern) -> None:
        self.reject = reject


class StructInfoPattern(DFPattern):
    """A pattern whose value is covered by a struct info."""

    def __init__(self, pattern: DFPattern, struct_info: StructInfo) -> None:
        self.pattern, self.struct_info = pattern, struct_info


class DataTypePattern(DFPattern):
    """A pattern whose value has a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(DFPattern):
    """A pattern whose value has a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[int | PrimExpr]) -> None:
        self.pattern, self.shape = pattern, tuple(shape)


class AttrPattern(DFPattern):
    """A pattern whose value has attributes."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs)


class WherePattern(DFPattern):
    """A pattern with a condition over the values matched so far."""

    def __init__(self, pattern: DFPattern, condition: Condition) -> None:
        self.pattern, self.condition = pattern, condition


class SameShapeConstraint:
    """Values of several patterns have equal shapes.

    Raises:
        PatternError: no `PatternContext` is entered.
    """

    def __init__(self, *patterns: DFPattern) -> None:
        context = current_context()
        if context is None:
            raise PatternError(
                "same_shape_as needs a PatternContext", help="use it inside `with PatternContext() as ctx:`"
            )
        self.patterns = patterns
        context.add_constraint(self)


# ---- patterns that read each other


class PatternContext:
    """Collects "is used by" edges and constraints between the patterns made inside it.

    Args:
        incremental: Whether the edges of the enclosing context are kept too.
    """

    _local: ClassVar[threading.local] = carried(threading.local())

    def __init__(self, incremental: bool = False) -> None:
        outer = current_context() if incremental else None
        self.edges: list[tuple[Any, Any, int, bool]] = list(outer.edges) if outer else []
        self.constraints: list[Any] = list(outer.constraints) if outer else []

    def add_edge(self, producer: DFPattern, consumer: DFPattern, index: int, *, only_use: bool) -> None:
        """`consumer` reads `producer`, at argument `index` unless -1; alone when `only_use`."""
        self.edges.append((producer, consumer, index, only_use))

    def add_constraint(self, constraint: Any) -> None:
        """A condition over several patterns."""
        self.constraints.append(constraint)

    def match_dfb(
        self, dfb: DataflowBlock, start_hint: Var | None = None, must_include_hint: bool = False
    ) -> dict[DFPattern, Any] | None:
        """The first match in a dataflow block: for each pattern its variable; None when there is none.

        Each pattern has a variable of its own. A variable that nothing reads can only match
        as the reader of another one, and an output of the block has a reader outside of it.

        Args:
            dfb: The block to search, in program order.
            start_hint: Matches with this variable are preferred.
            must_include_hint: Take no other matches.

        Returns:
            Patterns with the variables they matched. A pattern of an argument that is not
            a variable, such as a constant, comes with the argument.

        Raises:
            TypeError: `dfb` is not a dataflow block, or the hint is not a variable.
            PatternError: the hint must be included, but there is none.
        """
        return _BLOCK_MATCHER[0](self, dfb, start_hint, must_include_hint)

    def __enter__(self) -> PatternContext:
        stack = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._local.stack.pop()


def current_context() -> PatternContext | None:
    """The innermost entered context of this thread, or None."""
    stack = getattr(PatternContext._local, "stack", None)
    return stack[-1] if stack else None


_BLOCK_MATCHER: Final[list[Callable[[PatternContext, Any, Var | None, bool], dict[DFPattern, Any] | None]]] = []


def set_block_matcher(
    matcher: Callable[[PatternContext, Any, Var | None, bool], dict[DFPattern, Any] | None],
) -> None:
    """Let contexts match by a function that takes apart the patterns that were made in them."""
    _BLOCK_MATCHER[:] = [matcher]


class PatternSeq:
    """A chain of patterns, each read by the next.

    Args:
        patterns: Producers before consumers.
        only_use: Whether each is read by the next alone.
    """

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        self.pairs: list[tuple[int, bool]] = []
        for left, right in zip(self.patterns, self.patterns[1:], strict=False):
            self._link(left, right, -1, only_use)

    def _link(self, left: DFPattern, right: DFPattern, index: int, only_use: bool) -> None:
        self.pairs.append((index, only_use))
        context = current_context()
        if context is not None:
            context.add_edge(left, right, index, only_use=only_use)

    def _extend(self, other: DFPattern | PatternSeq, index: int, only_use: bool) -> PatternSeq:
        tail = other.patterns if isinstance(other, PatternSeq) else [other]
        self._link(self.patterns[-1], tail[0], index, only_use)
        joined = object.__new__(PatternSeq)
        joined.patterns = [*self.patterns, *tail]
        joined.pairs = [*self.pairs, *(other.pairs if isinstance(other, PatternSeq) else [])]
        return joined

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last pattern is read by the first of `other`."""
        return self._extend(other, index, only_use=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last pattern is read by the first of `other` alone."""
        return self._extend(other, index, only_use=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """The same chain of fresh copies."""
        copy = PatternSeq([pattern.dup() for pattern in self.patterns[:1]])
        for pattern, (index, only_use) in zip(self.patterns[1:], self.pairs, strict=True):
            copy = copy._extend(pattern.dup(), index, only_use)
        return copy
