"""BindParams: turn parameters of a function into constants, checked against their struct info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, as_prim
from eutectic.ir.prim_expr import Var as ScalarVar
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.base import Expr
from eutectic.relax.expr import Constant, Function, MatchCast, Var, describe_info, set_binder
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.struct_info_relations import (
    BaseCheckResult,
    bind_sizes,
    free_symbolic_vars,
    struct_info_base_check,
    substitute,
    substitute_info,
)
from eutectic.support.errors import BindError
from eutectic.support.spelling import did_you_mean


@dataclass(frozen=True)
class BindParams(Pass):
    """Bind parameters of one function to constants; they disappear from its signature.

    Symbolic sizes that a constant's shape determines are replaced everywhere in the function.

    Attributes:
        func_name: A public function's `global_symbol`, or a private one's name.
        params: Arrays, tensors or constants by parameter name or variable.

    Raises:
        BindError: no such function or parameter, an ambiguous name, a parameter bound
            twice, or a value whose dtype, rank or sizes do not fit.
    """

    func_name: str
    params: Mapping[Any, Any]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Replace the function by one with constants."""
        for gv, function in mod.functions_items():
            if not isinstance(function, Function):
                continue
            if function.attr("global_symbol", gv.name_hint) == self.func_name:
                out = mod.clone()
                out.update_func(gv, bind_params(function, self.params))
                return out
        known = [gv.name_hint for gv in mod.get_global_vars()]
        raise BindError(
            f"no function {self.func_name!r} to bind parameters of; the module has: {', '.join(known)}",
            help=did_you_mean(self.func_name, known),
        )


def bind_params(function: Function, binding: Mapping[Any, Any]) -> Function:
    """A function with parameters replaced by constants.

    Raises:
        BindError: as described at `BindParams`.
    """
    if not binding:
        return function
    values: dict[Var, Constant] = {}
    sizes: dict[ScalarVar, PrimExpr] = {}
    for key, value in binding.items():
        param = _param(function, key)
        if param in values:
            raise BindError(f"parameter {param.name_hint} is bound twice")
        values[param] = _constant(value, param)
    for param, constant in values.items():
        _check(param, constant, sizes)
    kept = [param for param in function.params if param not in values]
    fresh = _Substitute(dict(values), sizes).visit_expr(
        Function(kept, function.body, function.ret_struct_info, function.is_pure, function.attrs, function.span)
    )
    assert isinstance(fresh, Function)
    return fresh


def _param(function: Function, key: Any) -> Var:
    if isinstance(key, Var):
        if key not in function.params:
            raise BindError(f"{key.name_hint} is not a parameter of the function")
        return key
    candidates = [param for param in function.params if param.name_hint == key]
    if len(candidates) == 1:
        return candidates[0]
    names = [param.name_hint for param in function.params]
    if not candidates:
        raise BindError(
            f"no parameter {key!r}; the function has: {', '.join(names)}", help=did_you_mean(str(key), names)
        )
    raise BindError(f"{len(candidates)} parameters are called {key!r}", help="use the variable itself as the key")


def _constant(value: Any, param: Var) -> Constant:
    if isinstance(value, Constant):
        return value
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        return Constant(value)
    raise BindError(
        f"parameter {param.name_hint} cannot be bound to a {type(value).__name__}",
        help="give a NumPy array, a tensor or a relax.Constant",
    )


def _check(param: Var, constant: Constant, sizes: dict[ScalarVar, PrimExpr]) -> None:
    assert param.struct_info is not None and constant.struct_info is not None
    bind_sizes(param.struct_info, constant.struct_info, sizes)
    wanted = substitute_info(param.struct_info, sizes)
    if struct_info_base_check(wanted, constant.struct_info) is not BaseCheckResult.PASS:
        raise BindError(
            f"parameter {param.name_hint} is {describe_info(wanted)}, "
            f"the value is {describe_info(constant.struct_info)}",
            help="convert the value to the parameter's dtype and shape",
        )


class _Substitute(PyExprMutator):
    """Replaces variables by expressions and symbolic sizes by values."""

    def __init__(self, values: Mapping[Var, Expr], sizes: Mapping[ScalarVar, PrimExpr]) -> None:
        super().__init__()
        self._values, self._sizes = values, sizes

    def visit_var_(self, var: Var) -> Expr:
        """A bound parameter's value, or the variable."""
        return self._values.get(var) or super().visit_var_(var)

    def visit_var_def_(self, var: Var) -> Var:
        """The variable with its sizes replaced."""
        return self._sized(super().visit_var_def_(var))

    def visit_dataflow_var_def_(self, var: Any) -> Var:
        """The variable with its sizes replaced."""
        return self._sized(super().visit_dataflow_var_def_(var))

    def _sized(self, var: Var) -> Var:
        if not self._sizes or var.struct_info is None:
            return var
        fresh = self.with_struct_info(var, substitute_info(var.struct_info, self._sizes))
        if fresh is not var:
            self.set_var_remap(var, fresh)
        return fresh

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """A cast to the struct info with its sizes replaced."""
        info = substitute_info(binding.struct_info, self._sizes)
        super().visit_match_cast_(
            binding if info is binding.struct_info else MatchCast(binding.var, binding.value, info)
        )

    def visit_shape_expr_(self, expr: Any) -> Any:
        """A shape with its sizes replaced."""
        return _clean(expr, self._sizes)

    def visit_prim_value_(self, expr: Any) -> Any:
        """A scalar with its symbols replaced."""
        return _clean(expr, self._sizes)

    def visit_call_(self, call: Any) -> Any:
        """A call with the sizes in its struct info arguments replaced."""
        fresh: Any = super().visit_call_(call)
        if self._sizes and fresh.sinfo_args:
            infos = tuple(substitute_info(info, self._sizes) for info in fresh.sinfo_args)
            return type(fresh)(fresh.op, fresh.args, fresh.attrs, infos, fresh.span)
        return fresh


def _clean(expr: Any, sizes: Mapping[ScalarVar, PrimExpr]) -> Any:
    """A literal with symbols replaced; made anew so that its struct info follows."""
    fresh: Node = substitute(expr, sizes)
    if fresh is expr:
        return expr
    return type(expr)(fresh.values) if hasattr(fresh, "values") else type(expr)(fresh.value)  # type: ignore[attr-defined]  # ShapeExpr or PrimValue


def bind_symbolic_vars(function: Function, binding: Mapping[Any, Any]) -> Function:
    """A function with symbolic sizes replaced.

    Args:
        function: The function.
        binding: Integers or scalar expressions by variable or name.

    Raises:
        BindError: an unknown or ambiguous name, or a key given twice.
    """
    known = free_symbolic_vars([p.struct_info for p in function.params if p.struct_info is not None])
    sizes: dict[ScalarVar, PrimExpr] = {}
    for key, value in binding.items():
        candidates = [var for var in known if var is key or var.name == key]
        if len(candidates) != 1:
            names = [var.name for var in known]
            raise BindError(
                f"{'no' if not candidates else len(candidates)} symbolic size {key!r}; "
                f"the function has: {', '.join(names) or 'none'}"
            )
        if candidates[0] in sizes:
            raise BindError(f"symbolic size {candidates[0].name} is bound twice")
        sizes[candidates[0]] = as_prim(value, candidates[0].dtype)
        if isinstance(sizes[candidates[0]], IntImm) and int(sizes[candidates[0]]) < 0:  # type: ignore[call-overload]  # an IntImm
            raise BindError(f"symbolic size {candidates[0].name} cannot be {value}")
    fresh = _Substitute({}, sizes).visit_expr(function)
    assert isinstance(fresh, Function)
    return fresh


set_binder(bind_symbolic_vars, bind_params)
