"""UpdateParamStructInfo, BindSymbolicVars, BundleModelParams: other types, sizes and groups of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.ir.visit import rewrite
from eutectic.relax.base import Expr, StructInfo
from eutectic.relax.expr import Function, TupleGetItem, Var
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.struct_info import ObjectStructInfo, TupleStructInfo
from eutectic.relax.transform.bind_params import bind_symbolic_vars
from eutectic.relax.transform.infra import FunctionPass
from eutectic.support.errors import PassError


@dataclass(frozen=True)
class UpdateParamStructInfo(FunctionPass):
    """Give parameters other types; those of everything else are inferred again.

    Attributes:
        sinfo_func: Takes a parameter, gives its struct info, or None to leave it as it is.

    Raises:
        TypeInferenceError: an operator refuses what it now gets.
    """

    sinfo_func: Callable[[Var], StructInfo | None]

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function."""
        wanted = {param: self.sinfo_func(param) for param in function.params}
        fresh = {
            id(var): type(var)(var.name_hint, info, var.span)
            for var, info in wanted.items()
            if info is not None and info != var.struct_info
        }
        if not fresh:
            return function
        visited = _Inferring(fresh).visit_expr(function)
        assert isinstance(visited, Function)
        return visited


class _Inferring(PyExprMutator):
    def __init__(self, fresh: Mapping[int, Var]) -> None:
        super().__init__()
        self._fresh = fresh

    def visit_var_def_(self, var: Var) -> Var:
        """The parameter with its new type."""
        if id(var) in self._fresh:
            self.set_var_remap(var, self._fresh[id(var)])
        return super().visit_var_def_(var)


@dataclass(frozen=True)
class BindSymbolicVars(Pass):
    """Give symbolic sizes values.

    Attributes:
        binding_map: Integers or expressions, by the name of a size or by the variable.
        func_name: The only function that is changed; None takes all that have the sizes.

    Raises:
        BindError: the function that is named has no such size.
    """

    binding_map: Mapping[Any, Any]
    func_name: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Replace the sizes."""
        changed: dict[Any, Any] = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function) and self.func_name in (None, gv.name_hint):
                changed[gv] = bind_symbolic_vars(function, self.binding_map)
        if self.func_name is not None and not changed:
            raise PassError(f"no function {self.func_name!r} to bind sizes of")
        return with_functions(mod, changed)


@dataclass(frozen=True)
class BundleModelParams(FunctionPass):
    """Take the parameters of a model, those after the first `num_input`, as one tuple.

    Attributes:
        param_tuple_name: Name of the tuple; None takes `model_params`.
    """

    param_tuple_name: str | None = None

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function that says how many inputs it has."""
        count = function.attr("num_input")
        if count is None:
            return function
        count = int(count)
        weights = function.params[count:]
        infos = tuple(param.struct_info or ObjectStructInfo() for param in weights)
        whole = Var(self.param_tuple_name or "model_params", TupleStructInfo(infos))
        fields = {id(param): i for i, param in enumerate(weights)}

        def change(item: Node) -> Node | None:
            return TupleGetItem(whole, fields[id(item)]) if id(item) in fields else None

        body = rewrite(function.body, change)
        assert isinstance(body, Expr)
        params = (*function.params[:count], whole)
        bundled = Function(params, body, function.ret_struct_info, function.is_pure, function.attrs, function.span)
        normal = PyExprMutator().visit_expr(bundled)
        assert isinstance(normal, Function)
        return normal
