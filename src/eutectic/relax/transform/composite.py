"""Composites and the functions that carry them to a backend."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.base import Expr
from eutectic.relax.block_builder import BlockBuilder
from eutectic.relax.expr import BindingBlock, Call, Function, SeqExpr, Tuple, Var, VarBinding


def as_local(function: Function) -> Function:
    """A composite as an inner function, with variables of its own, since it may be placed in several regions.

    Of its attributes `Primitive` and `global_symbol` are dropped.
    """
    copied = copy_with_new_vars(function)
    return copied.without_attr("Primitive").without_attr("global_symbol")  # type: ignore[no-any-return]  # with_* return Any


def wrap_for_codegen(function: Function, name: str, codegen: str, builder: BlockBuilder) -> tuple[Function, str]:
    """A public function with a `Codegen` attribute around one composite.

    Returns:
        The function, and its unique name `<name>_<codegen>`.
    """
    symbol = unique_symbol(builder, name, codegen)
    params = tuple(Var(p.name_hint, p.struct_info, p.span) for p in function.params)
    local = as_local(function)
    local_var = Var("local_func", local.struct_info)
    call = Call(local_var, params, struct_info=function.ret_struct_info)
    output = Var("output", function.ret_struct_info)
    block = BindingBlock((VarBinding(local_var, local), VarBinding(output, call)))
    attrs = {"Codegen": codegen, "global_symbol": symbol}
    return Function(params, SeqExpr((block,), output), function.ret_struct_info, True, attrs), symbol


def region_function(
    params: Sequence[Var], bindings: Sequence[VarBinding], outputs: Sequence[Expr], symbol: str, codegen: str
) -> Function:
    """A public function with a `Codegen` attribute over several composites."""
    result: Expr = outputs[0] if len(outputs) == 1 else Tuple(tuple(outputs))
    body = SeqExpr((BindingBlock(tuple(bindings)),), result)
    return Function(params, body, result.struct_info, True, {"Codegen": codegen, "global_symbol": symbol})


def composite_calls(region: Function) -> list[tuple[Var, Call, Function]]:
    """The composites that a region calls, in order: the variable of the result, the call, and the composite."""
    bindings = [binding for block in region.body.blocks for binding in block.bindings]
    local = {binding.var: binding.value for binding in bindings if isinstance(binding.value, Function)}
    calls = [(binding.var, binding.value) for binding in bindings if isinstance(binding.value, Call)]
    return [(var, call, local[call.op]) for var, call in calls if isinstance(call.op, Var) and call.op in local]


def unique_symbol(builder: BlockBuilder, name: str, codegen: str) -> str:
    """`<name>_<codegen>`; when in use, `name` is numbered before the suffix."""
    number, base = 0, name
    while f"{base}_{codegen}" in builder.get() or base in builder.get():
        number += 1
        base = f"{name}{number}"
    return f"{base}_{codegen}"
