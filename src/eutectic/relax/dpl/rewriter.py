"""Rewriters: rewriting as a pass, made of a pattern and a function, or of a module with both as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from eutectic.arith import simplify
from eutectic.ir.module import BaseFunc, GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.ir.visit import post_order, rewrite
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr, ShapeExpr, StructInfo
from eutectic.relax.dpl.constructors import wildcard
from eutectic.relax.dpl.context import Matches
from eutectic.relax.dpl.pattern import (
    CallPattern,
    DFPattern,
    ExprPattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.rewrite import CallRewriter, describe_pattern, propose_matches, rewrite_function
from eutectic.relax.dpl.run import Run
from eutectic.relax.expr import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    describe_info,
)
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    bind_sizes,
    erase_to_well_defined,
    free_symbolic_vars,
    struct_info_base_check,
    substitute,
    substitute_info,
)
from eutectic.support.deep import deep
from eutectic.support.errors import PatternError
from eutectic.support.spelling import did_you_mean


class PatternMatchingRewriter(Pass):
    """Base of rewriters: passes that replace what they match until nothing changes.

    Call one with a function or a module; `a | b` tries `a` first. Made by `from_pattern`
    and `from_module`.
    """

    @staticmethod
    def from_pattern(pattern: DFPattern, func: CallRewriter) -> PatternMatchingRewriter:
        """A rewriter that does what `rewrite_call(pattern, func, ...)` does.

        Raises:
            TypeError: `pattern` is not one.
        """
        return TupleRewriter(pattern, func) if isinstance(pattern, TuplePattern) else ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """A rewriter that replaces the body of the function `pattern` by that of `replacement`.

        The parameters of `pattern` match any value of their type; their symbolic sizes
        stand for the same size everywhere. Calls match with all their options. Other
        functions of the module come along where the replacement calls them.

        Args:
            mod: Has `pattern` and `replacement`, graph functions of one signature.

        Raises:
            TypeError: `mod` is not a module.
            PatternError: a function is missing, the signatures differ, or `pattern` has
                something that cannot be matched.
        """
        return _ModuleRewriter(mod)

    def propose(self, run: Run) -> None:
        """Propose replacements for bindings that are searched together."""
        raise PatternError(f"{type(self).__name__} does not implement propose")

    def describe(self) -> str:
        """What is looked for, for errors."""
        return type(self).__name__

    def subroutines(self) -> Mapping[GlobalVar, BaseFunc]:
        """Functions that replacements may call and that a module needs then."""
        return {}

    def renamed_for(self, mod: IRModule) -> PatternMatchingRewriter:
        """The same rewriter with subroutines whose names do not mean something else in `mod`."""
        return self

    @overload
    def __call__(self, target: Function) -> Function: ...

    @overload
    def __call__(self, target: IRModule) -> IRModule: ...

    def __call__(self, target: Any) -> Any:
        """The function or module with matches replaced; the same object when there are none.

        Raises:
            TypeError: `target` is neither.
            PatternError: a replacement cannot stand where the value was, the rewriting does
                not end, or it needs functions that only a module can have.
        """
        if isinstance(target, IRModule):
            return super().__call__(target)
        fresh = rewrite_function(target, self.propose, self.describe())
        needed = [gv.name_hint for gv in _reachable([fresh], self.subroutines())]
        if needed and fresh is not target:
            raise PatternError(
                f"the replacement of {self.describe()} calls {', '.join(needed)}, which a function alone cannot bring",
                help="call the rewriter with the module",
            )
        return fresh

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite each graph function, and add the subroutines that are called now."""
        rewriter = self.renamed_for(mod)
        scope = with_functions(mod, dict(rewriter.subroutines()))
        changed: dict[Any, Any] = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function):
                fresh = rewrite_function(function, rewriter.propose, rewriter.describe(), scope)
                if fresh is not function:
                    changed[gv] = fresh
        subroutines = rewriter.subroutines()
        added = {gv: subroutines[gv] for gv in _reachable(changed.values(), subroutines) if gv not in mod}
        return with_functions(mod, {**changed, **added})

    def __or__(self, other: PatternMatchingRewriter) -> OrRewriter:
        return OrRewriter(self, other)


class ExprPatternRewriter(PatternMatchingRewriter):
    """Replaces values that match a pattern.

    Args:
        pattern: What to look for.
        func: Called with the value and the values of all patterns; returns the
            replacement, or the value itself.

    Raises:
        TypeError: `pattern` is not one.
    """

    def __init__(self, pattern: DFPattern, func: CallRewriter) -> None:
        if not isinstance(pattern, DFPattern):
            raise TypeError(f"a rewriter needs a pattern, got {type(pattern).__name__}")
        self.pattern, self.func = pattern, func

    def propose(self, run: Run) -> None:
        """Propose a replacement for each value that matches."""
        propose_matches(run, self.pattern, self.func)

    def describe(self) -> str:
        """The operator at the root of the pattern."""
        return describe_pattern(self.pattern)


class TupleRewriter(ExprPatternRewriter):
    """Replaces tuples, and up to three separate bindings that match the fields of one.

    Args:
        patterns: A tuple pattern, or the patterns of its fields.
        func: As for `ExprPatternRewriter`; what it returns is a tuple again. For separate
            bindings it gets a tuple of their variables.
    """

    def __init__(self, patterns: TuplePattern | Sequence[DFPattern], func: CallRewriter) -> None:
        super().__init__(patterns if isinstance(patterns, TuplePattern) else TuplePattern(patterns), func)


class OrRewriter(PatternMatchingRewriter):
    """Two rewriters: the second one gets what the first one leaves.

    Args:
        left: Goes first in each round.
        right: Goes second.

    Raises:
        TypeError: one of them is not a rewriter.
    """

    def __init__(self, left: PatternMatchingRewriter, right: PatternMatchingRewriter) -> None:
        for side in (left, right):
            if not isinstance(side, PatternMatchingRewriter):
                raise TypeError(f"`|` of rewriters needs another rewriter, got {type(side).__name__}")
        self.left, self.right = left, right

    def propose(self, run: Run) -> None:
        """Let the left one propose, then the right one."""
        self.left.propose(run)
        self.right.propose(run)

    def describe(self) -> str:
        """Both."""
        return f"{self.left.describe()} | {self.right.describe()}"

    def subroutines(self) -> Mapping[GlobalVar, BaseFunc]:
        """Those of both."""
        return {**self.right.subroutines(), **self.left.subroutines()}

    def renamed_for(self, mod: IRModule) -> PatternMatchingRewriter:
        """Both, renamed so that they do not clash with each other either."""
        left = self.left.renamed_for(mod)
        right = self.right.renamed_for(with_functions(mod, dict(left.subroutines())))
        return self if left is self.left and right is self.right else OrRewriter(left, right)


class _ModuleRewriter(ExprPatternRewriter):
    """What `from_module` makes.

    Attributes:
        source: The module it was made of.
    """

    def __init__(self, source: IRModule) -> None:
        if not isinstance(source, IRModule):
            raise TypeError(f"from_module takes an IRModule, got {type(source).__name__}")
        pattern, replacement = _graph_function(source, "pattern"), _graph_function(source, "replacement")
        _check_signatures(pattern, replacement)
        function_pattern = _FunctionPattern(pattern)
        _check_params_matched(function_pattern, pattern, replacement)
        self.source = source

        def instantiate(_: Expr, matches: Matches) -> Expr:
            return _instantiate(replacement, [matches.get(param) for param in function_pattern.params])

        super().__init__(function_pattern.root, instantiate)

    def subroutines(self) -> Mapping[GlobalVar, BaseFunc]:
        """The other functions of the module."""
        return {gv: f for gv, f in self.source.functions.items() if gv.name_hint not in ("pattern", "replacement")}

    def renamed_for(self, mod: IRModule) -> PatternMatchingRewriter:
        """Made again of a module whose other functions have names that are free."""
        own = self.subroutines()
        clash = [gv for gv, f in own.items() if gv in mod and not structural_equal(mod[gv], f)]
        if not clash:
            return self
        taken = {gv.name_hint for gv in (*mod, *own)}
        names: dict[str, GlobalVar] = {}
        for gv in clash:
            number = 1
            while f"{gv.name_hint}{number}" in taken:
                number += 1
            name = f"{gv.name_hint}{number}"
            taken.add(name)
            names[gv.name_hint] = GlobalVar(name, struct_info=gv.struct_info)

        def change(item: Node) -> Node | None:
            return names.get(item.name_hint) if isinstance(item, GlobalVar) else None

        functions: dict[Any, Any] = {}
        for gv, function in self.source.functions.items():
            fresh: Any = rewrite(function, change)
            if gv.name_hint in names and fresh.attr("global_symbol") is not None:
                fresh = fresh.with_attr("global_symbol", names[gv.name_hint].name_hint)
            functions[names.get(gv.name_hint, gv)] = fresh
        return _ModuleRewriter(IRModule(functions))


def _reachable(roots: Any, subroutines: Mapping[GlobalVar, BaseFunc]) -> list[GlobalVar]:
    """Subroutines that functions call, directly or through others, in order of discovery."""
    by_name = {gv.name_hint: gv for gv in subroutines}
    reached: dict[GlobalVar, None] = {}
    todo = list(roots) if subroutines else []
    while todo:
        for item in post_order(todo.pop(0)):
            gv = by_name.get(item.name_hint) if isinstance(item, GlobalVar) else None
            if gv is not None and gv not in reached:
                reached[gv] = None
                todo.append(subroutines[gv])
    return list(reached)


# ---- functions as patterns


def _graph_function(mod: IRModule, name: str) -> Function:
    names = [gv.name_hint for gv in mod.get_global_vars()]
    if name not in names:
        raise PatternError(
            f"the module of a rewriter has no function {name!r}; it has: {', '.join(names) or 'none'}",
            help=did_you_mean(name, names) or "give it the graph functions `pattern` and `replacement`",
        )
    function = mod[name]
    if not isinstance(function, Function):
        raise PatternError(f"{name} must be a graph function, got {type(function).__name__}")
    for block in function.body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, VarBinding) or not isinstance(binding.value, _SUPPORTED):
                kind = type(binding if not isinstance(binding, VarBinding) else binding.value).__name__
                raise PatternError(
                    f"{binding.var.name_hint} in {name} is a {kind}, which a rewriter's functions cannot have",
                    help="use calls, tuples, fields and constants only",
                )
    return function


_SUPPORTED = (Var, Call, Tuple, TupleGetItem, Constant, ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc)


def _check_signatures(pattern: Function, replacement: Function) -> None:
    counts = [len(f.params) for f in (pattern, replacement)]
    if counts[0] != counts[1]:
        raise PatternError(f"pattern has {counts[0]} parameters, replacement has {counts[1]}")
    sizes: dict[ScalarVar, PrimExpr] = {}
    for left, right in zip(pattern.params, replacement.params, strict=True):
        assert left.struct_info is not None and right.struct_info is not None  # parameters have one
        bind_sizes(right.struct_info, left.struct_info, sizes)
    pairs = [
        (f"parameter {a.name_hint}", a.struct_info, b.struct_info)
        for a, b in zip(pattern.params, replacement.params, strict=True)
    ]
    for what, wanted, actual in (*pairs, ("the result", pattern.ret_struct_info, replacement.ret_struct_info)):
        if wanted is None or actual is None or substitute_info(actual, sizes) != wanted:
            raise PatternError(
                f"{what} of pattern is {describe_info(wanted)}, of replacement {describe_info(actual)}",
                help="give both functions the same signature",
            )


@dataclass
class _FunctionPattern:
    """A graph function as a pattern.

    Attributes:
        function: The function.
        params: Pattern of each parameter.
        root: Pattern of the result.
    """

    function: Function
    params: list[DFPattern] = field(default_factory=list)
    root: DFPattern = field(init=False)
    _patterns: dict[Var, DFPattern] = field(default_factory=dict)
    _sized: list[tuple[DFPattern, StructInfo]] = field(default_factory=list)
    _typed: list[tuple[DFPattern, tuple[StructInfo, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for param in self.function.params:
            info = param.struct_info
            assert info is not None  # parameters have one
            self._patterns[param] = param_pattern = wildcard().has_struct_info(erase_to_well_defined(info, ()))
            self.params.append(param_pattern)
            if free_symbolic_vars(info):
                self._sized.append((param_pattern, info))
        for block in self.function.body.blocks:
            for binding in block.bindings:
                self._patterns[binding.var] = self.pattern_of(binding.value)
        root = self.pattern_of(self.function.body.body)
        if isinstance(root, StructInfoPattern):
            raise PatternError("pattern gives back a parameter, which would match everything")
        self.root = self._with_conditions(root)

    @deep
    def pattern_of(self, expr: Any) -> DFPattern:
        """Pattern of one value."""
        match expr:
            case Var():
                return self._patterns[expr]
            case Call():
                return self._call(expr)
            case Tuple():
                return TuplePattern([self.pattern_of(item) for item in expr.fields])
            case TupleGetItem():
                return TupleGetItemPattern(self.pattern_of(expr.tuple_value), expr.index)
            case ShapeExpr() | PrimValue() if free_symbolic_vars(expr):
                placeholder = wildcard()
                assert expr.struct_info is not None  # literals have one
                self._sized.append((placeholder, expr.struct_info))
                return placeholder
            case _:
                return ExprPattern(expr)

    def _call(self, call: Call) -> DFPattern:
        callee = self.pattern_of(call.op)
        call_pattern = CallPattern(callee, [self.pattern_of(arg) for arg in call.args], add_constraint=False)
        if call.sinfo_args:
            self._typed.append((call_pattern, call.sinfo_args))
        attrs = dict(call.attrs.items()) if call.attrs is not None else {}
        return call_pattern.has_attr(attrs) if attrs else call_pattern

    def _with_conditions(self, root: DFPattern) -> DFPattern:
        """`root` with the conditions on sizes, which need all values; on the last field of a tuple."""
        if not self._sized and not self._typed:
            return root
        if isinstance(root, TuplePattern) and root.fields:
            return TuplePattern([*root.fields[:-1], root.fields[-1].where(self._fits)])
        return root.where(self._fits)

    def _fits(self, matches: Mapping[Any, Any]) -> Refusal | None:
        """Whether one choice of symbolic sizes explains all types."""
        sizes: dict[ScalarVar, PrimExpr] = {}
        seen = [(matches[pattern], info) for pattern, info in self._sized if pattern in matches]
        for value, info in seen:
            if value.struct_info is not None:
                bind_sizes(info, value.struct_info, sizes)
        for value, info in seen:
            wanted, actual = substitute_info(info, sizes), value.struct_info
            if actual is None or struct_info_base_check(wanted, actual) is not BaseCheckResult.PASS:
                return Refusal(f"{describe_info(actual)} is not a {describe_info(wanted)}", value)
        for pattern, infos in self._typed:
            value = matches[pattern]
            if tuple(substitute_info(info, sizes) for info in infos) != value.sinfo_args:
                return Refusal("the call is declared with another result", value)
        return None


def _check_params_matched(function_pattern: _FunctionPattern, pattern: Function, replacement: Function) -> None:
    """Refuse a replacement that needs a value which the pattern does not find."""
    matched, needed = set(used_vars(pattern.body)), set(used_vars(replacement.body))
    for left, right in zip(pattern.params, replacement.params, strict=True):
        if right in needed and left not in matched:
            raise PatternError(
                f"replacement reads {right.name_hint}, but pattern does not read its parameter {left.name_hint}",
                help="a value can only be taken from what the pattern matches",
            )


def _instantiate(function: Function, operands: Sequence[Expr | None]) -> Expr:
    """The body of a function on operands, as one expression without struct info: it is inferred again."""
    sizes: dict[ScalarVar, PrimExpr] = {}
    values: dict[Var, Any] = dict(zip(function.params, operands, strict=True))
    for param, operand in values.items():
        if operand is not None and operand.struct_info is not None and param.struct_info is not None:
            bind_sizes(param.struct_info, operand.struct_info, sizes)

    @deep
    def expr(item: Any) -> Any:
        match item:
            case Var():
                return values[item]
            case Call():
                infos = tuple(substitute_info(info, sizes) for info in item.sinfo_args)
                return Call(expr(item.op), tuple(map(expr, item.args)), item.attrs, infos)
            case Tuple():
                return Tuple(tuple(map(expr, item.fields)))
            case TupleGetItem():
                return TupleGetItem(expr(item.tuple_value), item.index)
            case ShapeExpr():
                return ShapeExpr(tuple(simplify(_sized(value, sizes)) for value in item.values))
            case PrimValue():
                return PrimValue(_sized(item.value, sizes))
            case _:
                return item

    for block in function.body.blocks:
        for binding in block.bindings:
            values[binding.var] = expr(binding.value)
    return expr(function.body.body)  # type: ignore[no-any-return]  # built of expressions


def _sized(value: PrimExpr, sizes: Mapping[ScalarVar, PrimExpr]) -> PrimExpr:
    fresh: Any = substitute(value, sizes)
    result: PrimExpr = fresh
    return result
