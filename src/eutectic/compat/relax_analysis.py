"""`tvm.relax.analysis`: ours under TVM's names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eutectic.compat.relax_types import get_static_type
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.relax import analysis as _ours
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Binding, Call, DataflowBlock, Function, Var
from eutectic.relax.struct_info import FuncStructInfo
from eutectic.relax.struct_info_relations import substitute_info

__all__ = [
    "computable_at_compile_time",
    "contains_impure_call",
    "definable_tir_vars_in_struct_info",
    "defined_symbolic_vars",
    "derive_call_ret_struct_info",
    "erase_to_well_defined",
    "free_symbolic_vars",
    "get_static_type",
    "get_var2val",
    "name_to_binding",
    "post_order_visit",
    "remove_all_unused",
    "struct_info_lca",
    "tir_vars_in_struct_info",
    "udchain",
    "well_formed",
]


def well_formed(obj: Any, check_struct_info: bool = True) -> bool:
    """See `eutectic.relax.analysis.well_formed`; a function is looked at in a module of its own."""
    mod = obj if isinstance(obj, IRModule) else IRModule.from_expr(obj)
    return _ours.well_formed(mod, check_struct_info)


def contains_impure_call(expr: Expr, own_name: Any = None) -> bool:
    """Whether evaluating an expression, or the body of a function, may have side effects.

    Args:
        expr: The expression.
        own_name: A function, by variable or name, whose calls do not count: for functions that call themselves.
    """
    body = expr.body if isinstance(expr, Function) else expr
    if own_name is None:
        return _ours.contains_impure_call(body)
    name = getattr(own_name, "name_hint", own_name)
    calls: list[Call] = []
    _ours.post_order_visit(body, lambda item: calls.append(item) if isinstance(item, Call) else None)
    others = [call for call in calls if getattr(call.op, "name_hint", None) != name]
    return any(map(_ours.contains_impure_call, others))


def computable_at_compile_time(func: Function) -> list[Var]:
    """Variables that need only the parameters of a model, not its inputs."""
    return list(_ours.computable_at_compile_time(func))


def defined_symbolic_vars(func: Function) -> list[ScalarVar]:
    """Symbolic sizes that the parameters of a function define."""
    return _ours.defined_symbolic_vars(param.struct_info for param in func.params)


def free_symbolic_vars(func: Function) -> list[ScalarVar]:
    """Symbolic sizes that a function reads and nothing in it defines."""
    defined = {id(var) for var in defined_symbolic_vars(func)}
    for block in func.body.blocks:
        for binding in block.bindings:
            defined |= {id(var) for var in _ours.defined_symbolic_vars([getattr(binding, "struct_info", None)])}
    for gv in _ours.all_global_vars(func):  # the sizes of other functions are their own
        defined |= {id(var) for var in _ours.free_symbolic_vars(gv.struct_info or ())}
    return [var for var in _ours.free_symbolic_vars(func) if id(var) not in defined]


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[ScalarVar]:
    """Symbolic sizes of a type."""
    return _ours.free_symbolic_vars(sinfo)


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[ScalarVar]:
    """Symbolic sizes that a value of a type defines."""
    return _ours.defined_symbolic_vars([sinfo])


def derive_call_ret_struct_info(func_sinfo: FuncStructInfo, call: Call, ctx: Any = None) -> StructInfo:
    """Type of the result of a call; `ctx` is not needed."""
    return _ours.derive_call_ret_struct_info(func_sinfo, call)


def erase_to_well_defined(
    sinfo: StructInfo,
    shape_var_map: Mapping[ScalarVar, PrimExpr] | None = None,
    var_map: Mapping[Var, Expr] | None = None,
) -> StructInfo:
    """A type without what its place does not know.

    Args:
        sinfo: The type.
        shape_var_map: Symbolic sizes that are known there, with what they are there; others are erased.
        var_map: Variables that are known there, with what they are there.
    """
    sizes = dict(shape_var_map or {})
    kept = _ours.erase_to_well_defined(sinfo, sizes)
    renamed = {var: size for var, size in sizes.items() if var is not size}
    return substitute_info(kept, renamed) if renamed else kept


def get_var2val(func: Function) -> dict[Var, Expr]:
    """The value of each variable that a function binds."""
    return _ours.get_var2val(func)


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """The bindings of a function by the names of their variables."""
    return _ours.name_to_binding(func)


def post_order_visit(expr: Expr, fvisit: Callable[[Node], None]) -> None:
    """Call a function with an expression and all below it, these first."""
    _ours.post_order_visit(expr, fvisit)


def remove_all_unused(func: Function) -> Function:
    """A function without bindings that nothing reads."""
    return _ours.remove_all_unused(func)


def struct_info_lca(lhs: StructInfo, rhs: StructInfo) -> StructInfo:
    """The most specific type that covers both."""
    return _ours.struct_info_lca(lhs, rhs)


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """The users of each variable of a block."""
    return _ours.udchain(dfb)


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """Functions of the module that an expression names."""
    return _ours.all_global_vars(expr)
