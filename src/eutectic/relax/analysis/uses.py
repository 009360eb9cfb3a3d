"""Who reads what: bindings, users and free variables of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node
from eutectic.ir.visit import post_order
from eutectic.relax.base import Expr
from eutectic.relax.expr import Binding, BindingBlock, Call, DataflowBlock, Function, If, SeqExpr, Tuple, Var
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep


def walk_blocks(body: Expr) -> Iterator[BindingBlock]:
    """All blocks of a body, each followed by those in branches of its conditionals; not nested functions."""
    todo: list[Expr | BindingBlock] = [body]
    while todo:
        item = todo.pop()
        if isinstance(item, SeqExpr):
            todo.extend(reversed(item.blocks))
        elif isinstance(item, BindingBlock):
            yield item
            todo.extend(branch for binding in reversed(item.bindings) for branch in reversed(_branches(binding)))


def _branches(binding: Binding) -> tuple[Expr, ...]:
    value = binding.value
    return (value.true_branch, value.false_branch) if isinstance(value, If) else ()


def walk_bindings(function: Function) -> Iterator[Binding]:
    """All bindings of a function in the order of execution: those of branches before the conditional's own."""
    todo: list[tuple[Expr | Binding, bool]] = [(function.body, False)]
    while todo:
        item, done = todo.pop()
        if isinstance(item, Binding):
            if done or not isinstance(item.value, If):
                yield item
            else:
                todo.append((item, True))
                todo.extend((branch, False) for branch in reversed(_branches(item)))
        elif isinstance(item, SeqExpr):
            bindings = [binding for block in item.blocks for binding in block.bindings]
            todo.extend((binding, False) for binding in reversed(bindings))


def walk_calls(function: Function) -> Iterator[Call]:
    """All calls that something is bound to, in the order of `walk_bindings`."""
    return (binding.value for binding in walk_bindings(function) if isinstance(binding.value, Call))


def operands_of(call: Call) -> Iterator[Expr]:
    """The tensors among the arguments of a call, fields of tuples one by one."""
    for arg in call.args:
        fields = arg.fields if isinstance(arg, Tuple) else (arg,)
        yield from (item for item in fields if isinstance(item.struct_info, TensorStructInfo))


def holds_tensors(arg: Expr) -> bool:
    """Whether an argument of a call is a tensor, or a tuple with one; others say numbers, as where a slice begins."""
    fields = arg.fields if isinstance(arg, Tuple) else (arg,)
    return any(isinstance(field.struct_info, TensorStructInfo) for field in fields)


def used_vars(expr: Node) -> list[Var]:
    """Variables read by `expr`, each once, nested functions and branches included."""
    return [item for item in post_order(expr) if isinstance(item, Var)]


def reads(binding: Binding) -> list[Var]:
    """Variables that the value of a binding reads; branches and inner functions count as one value."""
    return used_vars(binding.value)


def users_of(function: Function) -> dict[Var, list[Var | None]]:
    """For each variable the variables bound to values that read it; None stands for a result of a body."""
    users: dict[Var, list[Var | None]] = {}

    @deep
    def body(expr: SeqExpr) -> None:
        for block in expr.blocks:
            for binding in block.bindings:
                if isinstance(binding.value, If):
                    note(binding.value.cond, binding.var)
                    for branch in (binding.value.true_branch, binding.value.false_branch):
                        if isinstance(branch, SeqExpr):
                            body(branch)
                    continue
                note(binding.value, binding.var)
        note(expr.body, None)

    def note(expr: Expr, user: Var | None) -> None:
        for var in used_vars(expr):
            users.setdefault(var, []).append(user)

    body(function.body)
    return users


def get_var2val(function: Function) -> dict[Var, Expr]:
    """Value of each bound variable."""
    return {binding.var: binding.value for binding in walk_bindings(function)}


def read_once(function: Function) -> Callable[[Expr], Call | None]:
    """What tells the call whose result an expression is, provided that nobody else reads it; None of all others."""
    values, users = get_var2val(function), users_of(function)

    def call_of(expr: Expr) -> Call | None:
        value = values.get(expr) if isinstance(expr, Var) and len(users.get(expr, ())) == 1 else None
        return value if isinstance(value, Call) else None

    return call_of


def is_call_of(value: object, name: str) -> bool:
    """Whether something is a call of the operator of a name."""
    return isinstance(value, Call) and getattr(value.op, "name", "") == name


def udchain(block: DataflowBlock) -> dict[Var, list[Var]]:
    """For each variable defined or read in a dataflow block, the variables whose values read it."""
    chain: dict[Var, list[Var]] = {}
    for binding in block.bindings:
        chain.setdefault(binding.var, [])
        for var in used_vars(binding.value):
            chain.setdefault(var, []).append(binding.var)
    return chain


def name_to_binding(function: Function) -> dict[str, list[Binding]]:
    """Bindings by the name of their variable."""
    out: dict[str, list[Binding]] = {}
    for binding in walk_bindings(function):
        out.setdefault(binding.var.name_hint, []).append(binding)
    return out


def bound_vars(expr: Expr) -> list[Var]:
    """Variables bound inside `expr`: parameters and bindings."""
    out: dict[Var, None] = {}
    for item in post_order(expr):
        if isinstance(item, Function):
            out.update(dict.fromkeys(item.params))
        elif isinstance(item, Binding):
            out[item.var] = None
    return list(out)


def all_vars(expr: Expr) -> list[Var]:
    """Variables that occur in `expr`."""
    return used_vars(expr)


def free_vars(expr: Expr) -> list[Var]:
    """Variables that occur in `expr` but are not bound inside it."""
    bound = set(bound_vars(expr))
    return [var for var in all_vars(expr) if var not in bound]


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """Functions of the module that `expr` refers to, each once."""
    return [item for item in post_order(expr) if isinstance(item, GlobalVar)]


def post_order_visit(expr: Expr, visit: Callable[[Node], None]) -> None:
    """Call `visit` on every node below `expr`, operands first."""
    for item in post_order(expr):
        visit(item)
