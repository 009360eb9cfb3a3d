"""What may be dropped: bindings nobody reads whose evaluation has no side effects."""

from __future__ import annotations

from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    ExternFunc,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from eutectic.relax.op.registry import op_def
from eutectic.relax.struct_info import FuncStructInfo
from eutectic.relax.struct_info_relations import defined_symbolic_vars, free_symbolic_vars
from eutectic.support.deep import deep


def remove_all_unused(function: Function) -> Function:
    """A function without unread pure bindings; calls with side effects and results are kept."""
    known = defined_symbolic_vars(param.struct_info for param in function.params)
    body = _trim(function.body, set(known))
    if body is function.body:
        return function
    return Function(function.params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)


@deep
def _trim(body: SeqExpr, known: set[ScalarVar]) -> SeqExpr:
    """Walk backwards, keeping what is live: values that are read, and casts that define sizes in use.

    Args:
        body: A function's or branch's body.
        known: Symbolic sizes that are defined outside of it.
    """
    live = set(used_vars(body.body))
    sizes = set(free_symbolic_vars(body.body)) - known
    blocks: list[BindingBlock] = []
    changed = False
    for block in reversed(body.blocks):
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            defines = isinstance(binding, MatchCast) and not sizes.isdisjoint(
                defined_symbolic_vars([binding.struct_info])
            )
            if binding.var not in live and not defines and _is_pure(binding):
                changed = True
                continue
            fresh = _trim_binding(binding, known)
            changed |= fresh is not binding
            kept.append(fresh)
            live |= set(used_vars(fresh.value))
            sizes |= set(free_symbolic_vars(fresh)) - known
        if kept:
            blocks.append(type(block)(tuple(reversed(kept))))
    if not changed:
        return body
    return SeqExpr(tuple(reversed(blocks)), body.body, span=body.span)


def _trim_binding(binding: Binding, known: set[ScalarVar]) -> Binding:
    value = binding.value
    if isinstance(value, Function):
        fresh: Expr = remove_all_unused(value)
    elif isinstance(value, If):
        branches = [_trim(b, known) if isinstance(b, SeqExpr) else b for b in (value.true_branch, value.false_branch)]
        same = branches[0] is value.true_branch and branches[1] is value.false_branch
        fresh = value if same else If(value.cond, *branches, struct_info=value.struct_info, span=value.span)
    else:
        return binding
    return binding if fresh is value else VarBinding(binding.var, fresh)


def _is_pure(binding: Binding) -> bool:
    """Whether dropping a binding cannot be noticed."""
    if isinstance(binding, MatchCast):
        return isinstance(binding.var, DataflowVar)  # a check outside dataflow may be relied upon
    return not contains_impure_call(binding.value)


@deep
def contains_impure_call(expr: Expr) -> bool:
    """Whether evaluating `expr` may have side effects; the body of a function value does not count."""
    match expr:
        case Call():
            return _callee_is_impure(expr) or any(
                contains_impure_call(arg) for arg in expr.args if isinstance(arg, Call)
            )
        case If():
            return contains_impure_call(expr.true_branch) or contains_impure_call(expr.false_branch)
        case SeqExpr():
            return any(contains_impure_call(b.value) for block in expr.blocks for b in block.bindings)
        case _:
            return False


def _callee_is_impure(call: Call) -> bool:
    if isinstance(call.op, Op):
        definition = op_def(call.op)
        return definition is not None and not definition.pure
    info = call.op.struct_info
    if isinstance(info, FuncStructInfo):
        return not info.purity
    return isinstance(call.op, ExternFunc)
