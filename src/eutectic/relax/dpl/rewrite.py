"""Rewriting of matches: rounds of match, replace and tidy up, until nothing changes.

A round visits each block of a function. Within a dataflow block all bindings, and
elsewhere each run of bindings without side effects, form a `Run`: the strategy
(`propose_matches` for one pattern, `propose_context` for a `PatternContext`) proposes
replacements to it, and the run takes those that keep the program acyclic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, product
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.ir.structural import structural_equal
from eutectic.relax.analysis.unused import contains_impure_call, remove_all_unused
from eutectic.relax.analysis.uses import bound_vars, users_of, walk_bindings
from eutectic.relax.analysis.well_formed import problems_of
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.canonical_bindings import with_canonical_bindings
from eutectic.relax.common_subexpr import share_common_subexpr
from eutectic.relax.dpl.context import Matches, Search
from eutectic.relax.dpl.match import Matcher, match_expr, required_ops
from eutectic.relax.dpl.pattern import (
    CallPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    OrPattern,
    PatternContext,
    TuplePattern,
)
from eutectic.relax.dpl.run import Run
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    describe_info,
)
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.support.deep import deep
from eutectic.support.errors import PatternError

CallRewriter: TypeAlias = Callable[[Expr, Matches], Expr]
BindingsRewriter: TypeAlias = Callable[[Matches, Mapping[Var, Expr]], Mapping[Var, Expr]]

MAX_ROUNDS: Final = 100  # and one more for each binding of the function
MAX_GROWTH: Final = 100  # how many times longer a function may get
MAX_DECLINED: Final = 10_000  # matches of a context offered in vain in one run
MAX_IMPLICIT_FIELDS: Final = 3  # bindings matched as a tuple: the search tries all combinations
_TIDY_STEPS: Final = 16


def rewrite_call(pattern: DFPattern, rewriter: CallRewriter, function: Function) -> Function:
    """Replace every value that matches a pattern, until nothing changes.

    A round goes through each block in program order and does not look through values
    that it has replaced. It ends with the removal of aliases, common subexpressions and
    unused bindings.

    Args:
        pattern: What to look for. A tuple pattern of at most three fields also matches
            separate bindings; what replaces them is a tuple again.
        rewriter: Called with the matched value and the values of all patterns; returns
            the replacement, or the value itself to leave it alone. Matched values may
            stand in the replacement: they are not computed again.
        function: Where to look, branches and inner functions included.

    Returns:
        The new function, or `function` itself when nothing changed.

    Raises:
        TypeError: `pattern` or `function` is something else.
        PatternError: a replacement cannot stand where the value was, or the rewriting does not end.

    before:                     after relu(relu(x)) -> relu(x):
        lv = nn.relu(x)             lv = nn.relu(x)
        lv1 = nn.relu(lv)           lv1 = exp(lv)
        lv2 = exp(lv1)
    """
    if not isinstance(pattern, DFPattern):
        raise TypeError(f"rewrite_call takes a pattern, got {type(pattern).__name__}")
    return rewrite_function(function, lambda run: propose_matches(run, pattern, rewriter), describe_pattern(pattern))


def rewrite_bindings(context: PatternContext, rewriter: BindingsRewriter, function: Function) -> Function:
    """Replace bindings found together by a context, until nothing changes.

    After a match was replaced the search goes on with the bindings that are left. The
    new bindings are put in an order in which each comes after what it reads.

    Args:
        context: Patterns and how they are related.
        rewriter: Called with the variable of each pattern and the values of all
            bindings searched; returns new values for some of these variables. Empty or
            equal values decline the match, and the next one is offered. A match is left
            alone when its new values would need bindings that need what is replaced.
        function: Where to look, branches and inner functions included.

    Returns:
        The new function, or `function` itself when nothing changed.

    Raises:
        TypeError: `context` or `function` is something else.
        PatternError: a replacement cannot stand where the value was, needs itself, or the
            rewriting does not end.
    """
    if not isinstance(context, PatternContext):
        raise TypeError(f"rewrite_bindings takes a PatternContext, got {type(context).__name__}")
    what = describe_pattern(context.edges[-1][1]) if context.edges else "the context"
    return rewrite_function(function, lambda run: propose_context(run, context, rewriter), what)


@deep
def describe_pattern(pattern: DFPattern) -> str:
    """What a pattern looks for, by the operator at its root."""
    match pattern:
        case CallPattern():
            return describe_pattern(pattern.op)
        case ExprPattern():
            return pattern.expr.name if isinstance(pattern.expr, Op) else type(pattern.expr).__name__
        case ExternFuncPattern():
            return pattern.global_symbol or "ExternFunc"
        case OrPattern():
            return f"{describe_pattern(pattern.left)} | {describe_pattern(pattern.right)}"
        case TuplePattern():
            return f"({', '.join(map(describe_pattern, pattern.fields))})"
        case _:
            inner = getattr(pattern, "pattern", None)
            return describe_pattern(inner) if inner is not None else type(pattern).__name__.removesuffix("Pattern")


# ---- rounds


def rewrite_function(
    function: Function, propose: Callable[[Run], None], what: str, mod: IRModule | None = None
) -> Function:
    """Rounds of proposals on a function until nothing changes.

    Args:
        function: Where to look.
        propose: Strategy, called with each run of each round.
        what: Description of the pattern, for errors.
        mod: Functions that replacements may call.

    Raises:
        TypeError: `function` is something else.
        PatternError: a proposal is wrong, the result is ill-formed, or there is no end.
    """
    if not isinstance(function, Function):
        raise TypeError(f"expected a relax Function to rewrite, got {type(function).__name__}")
    size = sum(1 for _ in walk_bindings(function))
    builder = _Builder(mod, function)
    current, rounds = function, 0
    while True:
        fresh = _Round(propose, builder).function(current)
        if fresh is current:
            break
        _refuse_ill_formed(function, fresh, what)
        fresh = _tidy(fresh)
        if structural_equal(fresh, current):
            break
        current, rounds = fresh, rounds + 1
        now = sum(1 for _ in walk_bindings(current))
        if rounds > MAX_ROUNDS + size or now > MAX_GROWTH * (size + 10):
            raise PatternError(
                f"rewriting {what} does not end: after {rounds} rounds it still matches what the rewriter makes",
                notes=[f"the function had {size} bindings, and now has {now}"],
                help="return the matched value itself where nothing is left to do, or make the pattern more specific",
            )
    if current is function or current.ret_struct_info is function.ret_struct_info:
        return current
    ret = function.ret_struct_info
    return Function(current.params, current.body, ret, current.is_pure, current.attrs, current.span)


def _refuse_ill_formed(before: Function, after: Function, what: str) -> None:
    problems = problems_of(after)
    if problems:
        was = ["the function was ill-formed before already"] if problems_of(before) else []
        raise PatternError(
            f"rewriting {what} made an ill-formed function: {problems[0]}",
            notes=[*problems[1:], *was],
            help="replacements may read variables that are visible at the matched value, and have no side effects",
        )


def _tidy(function: Function) -> Function:
    """Without aliases, common subexpressions and unused bindings."""
    for _ in range(_TIDY_STEPS):
        before = function
        function = with_canonical_bindings(function)
        function = share_common_subexpr(function)
        function = remove_all_unused(function)
        if function is before:
            break
    return function


class _Builder(BlockBuilder):
    """A builder whose names are new to a function."""

    def __init__(self, mod: IRModule | None, function: Function) -> None:
        super().__init__(mod)
        self._taken = {var.name_hint for var in bound_vars(function)}
        self.begin_scope(function.params)

    def get_unique_name(self, hint: str) -> str:
        """A name that is not in use."""
        name = super().get_unique_name(hint)
        while name in self._taken:
            name = super().get_unique_name(hint)
        return name


class _Readers:
    """Who reads a variable, in a function and in those around it."""

    def __init__(self, function: Function, outer: _Readers | None) -> None:
        self._function, self._outer = function, outer

    @cached_property
    def _users(self) -> dict[Var, list[Var | None]]:
        return users_of(self._function)

    @cached_property
    def _own(self) -> set[Var]:
        return set(bound_vars(self._function))

    def of(self, var: Var) -> list[Var | None]:
        """Variables bound to values that read `var`; None stands for a result."""
        if self._outer is not None and var not in self._own:
            return self._outer.of(var)
        return self._users.get(var, [])


class _Round:
    """One walk over a function: proposals for every run, applied."""

    def __init__(self, propose: Callable[[Run], None], builder: BlockBuilder) -> None:
        self._propose, self._builder = propose, builder
        self._readers: _Readers | None = None

    def function(self, function: Function) -> Function:
        """The function after the round; the same object when nothing was replaced."""
        outer = self._readers
        self._readers = _Readers(function, outer)
        body = self._seq(function.body)
        self._readers = outer
        if body is function.body:
            return function
        return Function(
            function.params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span
        )

    def _seq(self, body: Any) -> Any:
        if not isinstance(body, SeqExpr):
            return body
        blocks = tuple(map(self._block, body.blocks))
        if all(a is b for a, b in zip(blocks, body.blocks, strict=True)):
            return body
        return SeqExpr(blocks, body.body, struct_info=body.struct_info, span=body.span)

    @deep
    def _block(self, block: BindingBlock) -> BindingBlock:
        inside = [self._inside(binding) for binding in block.bindings]
        is_dataflow = isinstance(block, DataflowBlock)
        fresh: list[Binding] = []
        for bindings, is_searched in [(inside, True)] if is_dataflow else _pure_runs(inside):
            fresh.extend(self._run(bindings, is_dataflow) if is_searched else bindings)
        same = len(fresh) == len(block.bindings) and all(a is b for a, b in zip(fresh, block.bindings, strict=True))
        return block if same else type(block)(tuple(fresh))

    def _run(self, bindings: Sequence[Binding], is_dataflow: bool) -> Sequence[Binding]:
        own, readers = {binding.var for binding in bindings}, self._readers
        assert readers is not None

        def read_outside(var: Var) -> bool:
            return any(user not in own for user in readers.of(var))

        run = Run(bindings, read_outside)
        self._propose(run)
        return run.rebuilt(self._builder, is_dataflow) if run.replaced else bindings

    def _inside(self, binding: Binding) -> Binding:
        """A binding whose branches or inner function went through the round."""
        value = binding.value
        if isinstance(value, Function):
            fresh: Expr = self.function(value)
        elif isinstance(value, If):
            branches = (self._seq(value.true_branch), self._seq(value.false_branch))
            same = branches[0] is value.true_branch and branches[1] is value.false_branch
            fresh = value if same else If(value.cond, *branches, struct_info=value.struct_info, span=value.span)
        else:
            return binding
        return binding if fresh is value else VarBinding(binding.var, fresh)


def _pure_runs(bindings: Sequence[Binding]) -> Iterator[tuple[list[Binding], bool]]:
    """Longest stretches of bindings without side effects and conditionals, and the others."""

    def is_searched(binding: Binding) -> bool:
        return not isinstance(binding.value, If) and not contains_impure_call(binding.value)

    for searched, group in groupby(bindings, is_searched):
        yield list(group), searched


# ---- strategies


@deep
def propose_matches(run: Run, pattern: DFPattern, rewriter: CallRewriter, also: Sequence[DFPattern] = ()) -> None:
    """Propose a replacement for each value that matches, in program order.

    Args:
        run: Where to look.
        pattern: What to look for.
        rewriter: Makes the replacement.
        also: Patterns that stand for the matched value too: alternatives it is a side of.
    """
    if isinstance(pattern, OrPattern) and _has_tuple(pattern):
        for side in (pattern.left, pattern.right):
            propose_matches(run, side, rewriter, (*also, pattern))
        return
    if not required_ops(pattern) <= run.op_names:
        return
    values: dict[Var, Expr] = {}
    for binding in run.open():
        if not isinstance(binding, VarBinding):
            continue
        if not isinstance(binding.value, Var):  # another name of a value is not a value of its own
            matches = match_expr(pattern, binding.value, values)
            if matches is not None:
                fresh = rewriter(binding.value, {**matches, **dict.fromkeys(also, binding.value)})
                if run.accept({binding.var: fresh}):
                    continue
        values[binding.var] = binding.value
    if isinstance(pattern, TuplePattern) and len(pattern) <= MAX_IMPLICIT_FIELDS:
        _propose_tuples(run, pattern, rewriter, also)


@deep
def _has_tuple(pattern: DFPattern) -> bool:
    if isinstance(pattern, OrPattern):
        return _has_tuple(pattern.left) or _has_tuple(pattern.right)
    return isinstance(pattern, TuplePattern)


def _propose_tuples(run: Run, pattern: TuplePattern, rewriter: CallRewriter, also: Sequence[DFPattern]) -> None:
    """Propose replacements for separate bindings that match the fields of a tuple."""
    values = run.values()
    own = [var for var, value in values.items() if not isinstance(value, Var)]
    candidates = [[var for var in own if match_expr(field, var, values) is not None] for field in pattern.fields]
    for chosen in product(*candidates):
        if len(set(chosen)) < len(chosen) or any(var in run.replaced for var in chosen):
            continue
        matches = _match_fields(pattern, chosen, values)
        if matches is None or any(run.reaches(var, set(chosen)) for var in chosen):
            continue
        whole = Tuple(chosen)
        fresh = rewriter(whole, {**matches, **dict.fromkeys((pattern, *also), whole)})
        if fresh is not whole and run.accept(dict(zip(chosen, _parts_of(fresh, chosen), strict=True)), may_refuse=True):
            for var in chosen:
                values.pop(var, None)


def _match_fields(pattern: TuplePattern, chosen: Sequence[Var], values: Mapping[Any, Expr]) -> Matches | None:
    state = Matcher(values)
    for _ in state.solve_all(pattern.fields, chosen):
        return dict(state.matches)
    return None


def _parts_of(value: Any, chosen: Sequence[Var]) -> list[Any]:
    """The fields of what replaces several variables."""
    info = getattr(value, "struct_info", None)
    count = len(value) if isinstance(value, Tuple) else len(info.fields) if isinstance(info, TupleStructInfo) else None
    if not isinstance(value, Expr) or (count is None and info is not None) or count not in (None, len(chosen)):
        returned = describe_info(info) if isinstance(value, Expr) else "None" if value is None else type(value).__name__
        raise PatternError(
            f"the rewriter returned {returned} for {len(chosen)} bindings ({', '.join(v.name_hint for v in chosen)})",
            help=f"return a tuple of {len(chosen)} values",
        )
    if isinstance(value, Tuple):
        return list(value.fields)
    return [TupleGetItem(value, i) for i in range(len(chosen))]


def propose_context(run: Run, context: PatternContext, rewriter: BindingsRewriter) -> None:
    """Propose replacements for the matches of a context, until none is left or all were declined."""
    declined: set[frozenset[Any]] = set()
    is_done = False
    while not is_done:  # what was replaced last may make earlier bindings match
        search, values = Search(context, run.open(), run.read_outside), run.values()
        is_done = True
        for matches in search.solutions():
            key = frozenset(matches.values())
            if key in declined:
                continue
            proposed = rewriter(dict(matches), MappingProxyType(values))
            if not isinstance(proposed, Mapping):
                raise PatternError(
                    f"the rewriter returned {type(proposed).__name__}, not a mapping of variables to new values",
                    help="return {} to leave the match alone",
                )
            if not run.accept(proposed):
                declined.add(key)
                if len(declined) >= MAX_DECLINED:
                    return
                continue
            is_done = False
            replaced = [var for var in proposed if values.get(var) is not None and var in run.replaced]
            search.remove(replaced)
            for var in replaced:
                del values[var]
