"""Bindings without other names of variables that exist."""

from __future__ import annotations

from typing import Any

from eutectic.relax.analysis.unused import remove_all_unused
from eutectic.relax.analysis.uses import walk_blocks
from eutectic.relax.base import Expr
from eutectic.relax.expr import DataflowBlock, DataflowVar, Function, MatchCast, Tuple, TupleGetItem, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.struct_info_relations import BaseCheckResult, struct_info_base_check


def with_canonical_bindings(function: Function) -> Function:
    """A function without aliases, fields of known tuples, and casts that say nothing new."""
    fresh = _Canonical(_outputs_in_place(function)).visit_expr(function)
    assert isinstance(fresh, Function)
    return function if fresh is function else remove_all_unused(fresh)


def _outputs_in_place(function: Function) -> dict[Var, Var]:
    """Dataflow variables whose only purpose is to be an output: defined under the output's name instead."""
    out: dict[Var, Var] = {}
    for block in walk_blocks(function.body):
        if not isinstance(block, DataflowBlock):
            continue
        origin: dict[Var, Var] = {}
        for binding in block.bindings:
            value = binding.value
            if not (isinstance(binding, VarBinding) and isinstance(value, Var)):
                continue
            source = origin.get(value, value)
            origin[binding.var] = source
            if isinstance(source, DataflowVar) and not isinstance(binding.var, DataflowVar) and source not in out:
                out[source] = binding.var
    return out


class _Canonical(PyExprMutator):
    def __init__(self, renamed: dict[Var, Var]) -> None:
        super().__init__()
        self._renamed = renamed

    def visit_var_def(self, var: Var) -> Var:
        """The output's variable where one was found."""
        wanted = self._renamed.get(var)
        if wanted is None:
            return super().visit_var_def(var)
        fresh = Var(wanted.name_hint, var.struct_info, var.span)
        self.set_var_remap(var, fresh)
        self.set_var_remap(wanted, fresh)
        return fresh

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Drop aliases; keep everything else."""
        value = self.visit_expr(binding.value) if isinstance(binding.value, (Var, TupleGetItem)) else binding.value
        if isinstance(value, Var) and (isinstance(binding.var, DataflowVar) or not isinstance(value, DataflowVar)):
            self.set_var_remap(binding.var, value)
            return
        super().visit_var_binding_(binding)

    def visit_tuple_getitem_(self, expr: TupleGetItem) -> Expr:
        """A field of a tuple whose fields are known."""
        fresh: Any = super().visit_tuple_getitem_(expr)
        bound = self.lookup_binding(fresh.tuple_value)
        result: Expr = bound.fields[fresh.index] if isinstance(bound, Tuple) else fresh
        return result

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """A cast that says nothing new is an alias."""
        value = self.visit_expr(binding.value)
        info = getattr(value, "struct_info", None)
        if isinstance(value, Var) and info is not None and isinstance(binding.var, DataflowVar):
            same = struct_info_base_check(binding.struct_info, info) is BaseCheckResult.PASS
            if same and struct_info_base_check(info, binding.struct_info) is BaseCheckResult.PASS:
                self.set_var_remap(binding.var, value)
                return
        super().visit_match_cast_(binding)
