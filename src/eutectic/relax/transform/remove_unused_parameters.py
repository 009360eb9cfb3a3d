"""RemoveUnusedParameters and ExpandTupleArguments: signatures of private functions, and the calls of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.transform import Pass, PassContext
from eutectic.ir.visit import post_order, rewrite
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, Function, SeqExpr, Tuple, TupleGetItem, Var
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.relax.struct_info_relations import free_symbolic_vars

Arguments = Callable[[tuple[Expr, ...]], tuple[Expr, ...]]


def substituted(function: Function, values: Mapping[Var, Expr]) -> SeqExpr:
    """The body of a function with expressions in place of variables."""
    known = {id(var): value for var, value in values.items()}
    body = rewrite(function.body, lambda item: known.get(id(item)))
    assert isinstance(body, SeqExpr)
    return body


@dataclass(frozen=True)
class RemoveUnusedParameters(Pass):
    """Drop parameters of private functions that nothing reads, and the arguments for them.

    A parameter whose type defines a symbolic size that is used elsewhere stays.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite signatures first, then calls."""
        return _with_signatures(mod, _without_unused)


@dataclass(frozen=True)
class ExpandTupleArguments(Pass):
    """Give private functions a parameter for each field of a tuple that they take."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite signatures until no parameter is a tuple, then calls."""
        before = None
        while before is not mod:
            before, mod = mod, _with_signatures(mod, _expanded)
        return mod


def _without_unused(function: Function) -> tuple[Function, Arguments] | None:
    read = {id(var) for var in used_vars(function.body)}
    kept = [i for i, param in enumerate(function.params) if id(param) in read]
    defined = {var for i in kept for var in _sizes(function.params[i])}
    needed = set(free_symbolic_vars(function.body)) | set(free_symbolic_vars(function.ret_struct_info or ()))
    for i, param in enumerate(function.params):
        if i not in kept and _sizes(param) & (needed - defined):
            kept.append(i)
    if len(kept) == len(function.params):
        return None
    kept.sort()
    params = tuple(function.params[i] for i in kept)
    return _replaced(function, params, function.body), lambda args: tuple(args[i] for i in kept)


def _sizes(param: Var) -> set[Any]:
    return set(free_symbolic_vars(param.struct_info or ()))


def _replaced(function: Function, params: tuple[Var, ...], body: Expr) -> Function:
    return Function(params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)


def _expanded(function: Function) -> tuple[Function, Arguments] | None:
    params: list[Var] = []
    values: dict[Var, Expr] = {}
    counts: list[int] = []
    for param in function.params:
        info = param.struct_info
        if not isinstance(info, TupleStructInfo):
            params.append(param)
            counts.append(-1)
            continue
        parts = [Var(f"{param.name_hint}_{i}", field) for i, field in enumerate(info.fields)]
        values[param] = Tuple(tuple(parts))
        params += parts
        counts.append(len(parts))
    if not values:
        return None

    def spread(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(part for arg, count in zip(args, counts, strict=True) for part in _fields(arg, count))

    return _replaced(function, tuple(params), _projected(substituted(function, values))), spread


def _projected(body: SeqExpr) -> SeqExpr:
    """Fields in place of what takes them out of a tuple that is written down."""

    def change(item: Node) -> Node | None:
        if isinstance(item, TupleGetItem) and isinstance(item.tuple_value, Tuple):
            return item.tuple_value.fields[item.index]
        return None

    fresh = rewrite(body, change)
    assert isinstance(fresh, SeqExpr)
    return fresh


def _fields(arg: Expr, count: int) -> tuple[Expr, ...]:
    if count < 0:
        return (arg,)
    if isinstance(arg, Tuple):
        return arg.fields
    return tuple(TupleGetItem(arg, i) for i in range(count))


def _with_signatures(mod: IRModule, change: Callable[[Function], tuple[Function, Arguments] | None]) -> IRModule:
    """A module in which private functions that are only called have another signature."""
    held = _held_as_values(mod)
    changes: dict[str, Arguments] = {}
    functions: dict[GlobalVar, Any] = dict(mod.functions)
    for gv, function in mod.functions.items():
        if not isinstance(function, Function) or function.attr("global_symbol") is not None or gv.name_hint in held:
            continue
        outcome = change(function)
        if outcome is not None:
            functions[gv], changes[gv.name_hint] = outcome
    if not changes:
        return mod
    renewed = {name: GlobalVar(name, struct_info=mod_f.struct_info) for name, mod_f in _changed(functions, changes)}
    rewriter = _Calls(changes, renewed)
    out = {
        renewed.get(gv.name_hint, gv): rewriter.visit_expr(f) if isinstance(f, Function) else f
        for gv, f in functions.items()
    }
    return IRModule(out, mod.attrs, mod.global_infos)


def _changed(functions: Mapping[GlobalVar, Any], changes: Mapping[str, Arguments]) -> list[tuple[str, Any]]:
    return [(gv.name_hint, function) for gv, function in functions.items() if gv.name_hint in changes]


def _held_as_values(mod: IRModule) -> set[str]:
    """Functions that are arguments or results somewhere, whose callers cannot be listed."""
    callees: set[int] = set()
    held: set[str] = set()
    for _, function in mod.functions_items():
        if not isinstance(function, Function):
            continue
        items = list(post_order(function))
        callees = {id(item) for item in items if isinstance(item, Call)}
        for item in items:
            parts = item.args if isinstance(item, Call) and id(item) in callees else getattr(item, "fields", ())
            held |= {part.name_hint for part in parts if isinstance(part, GlobalVar)}
    return held


class _Calls(PyExprMutator):
    def __init__(self, changes: Mapping[str, Arguments], renewed: Mapping[str, GlobalVar]) -> None:
        super().__init__()
        self._changes, self._renewed = changes, renewed

    def visit_call_(self, call: Call) -> Any:
        """Pass the arguments of the new signature."""
        visited: Any = super().visit_call_(call)
        callee = visited.op if isinstance(visited, Call) else None
        if not isinstance(callee, GlobalVar) or callee.name_hint not in self._changes:
            return visited
        name = callee.name_hint
        args = self._changes[name](visited.args)
        return Call(self._renewed[name], args, visited.attrs, visited.sinfo_args, visited.span)
