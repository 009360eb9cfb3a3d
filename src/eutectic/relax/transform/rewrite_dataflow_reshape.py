"""RewriteDataflowReshape: call nothing where a tensor keeps its elements and changes its shape only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eutectic.arith import prove_equal
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.prim_expr import IntImm, PrimExpr, mul
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.reshape_pattern import has_reshape_pattern
from eutectic.relax.analysis.uses import used_vars, walk_bindings
from eutectic.relax.base import Expr, ShapeExpr
from eutectic.relax.expr import Call, DataflowVar, Function, Tuple, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.reshape import reshape
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.relax.transform.fuse_ops import is_call_tir
from eutectic.relax.transform.infra import FunctionPass
from eutectic.tir.function import PrimFunc


@dataclass(frozen=True)
class RewriteDataflowReshape(FunctionPass):
    """Write `reshape` for calls of tensor programs that do no more, since it moves no data.

    Only within dataflow blocks, and not for a value that leaves its block: that has memory of its own.

    before:                                             after:
        lv = call_tir(reshape, (x,), Tensor((4, 6)))        lv = reshape(x, (4, 6))

    Reference: TVM `relax.transform.RewriteDataflowReshape`.
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function; the inside of a group stays as it is."""
        if function.attr("Primitive") or not any(is_call_tir(b.value) for b in walk_bindings(function)):
            return function
        fresh = _Rewriter(mod, _leaving(function)).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


def _leaving(function: Function) -> set[Var]:
    """Variables whose value leaves its block, under their own or another name, or in a tuple."""
    leaving: set[Var] = set()
    for binding in reversed(list(walk_bindings(function))):
        if not isinstance(binding.var, DataflowVar) or binding.var in leaving:
            leaving.add(binding.var)
            if isinstance(binding.value, (Var, Tuple)):
                leaving.update(used_vars(binding.value))
    return leaving


def _count(sizes: Iterable[PrimExpr]) -> PrimExpr:
    count: PrimExpr = IntImm("int64", 1)
    for size in sizes:
        count = mul(count, _wide(size))
    return count


def _wide(size: PrimExpr) -> PrimExpr:
    return IntImm("int64", size.value) if isinstance(size, IntImm) else size


class _Rewriter(PyExprMutator):
    def __init__(self, mod: IRModule, leaving: set[Var]) -> None:
        super().__init__()
        self._mod, self._leaving = mod, leaving
        self._known: dict[str, bool] = {}

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrite the value of a variable that stays in its block."""
        fresh = None if binding.var in self._leaving else self._reshape(binding.value)
        super().visit_var_binding_(binding if fresh is None else VarBinding(binding.var, fresh))

    def _reshape(self, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not is_call_tir(value) or not self._is_reshape(value.args[0]):
            return None
        args, out = value.args[1], value.sinfo_args[0]
        if not isinstance(args, Tuple) or len(args) != 1 or not isinstance(out, TensorStructInfo) or out.dims is None:
            return None
        info = args[0].struct_info
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype != out.dtype:
            return None
        if any(isinstance(size, IntImm) and size.value <= 0 for size in out.dims):
            return None  # the operator reads a zero as "copy the size"
        if not prove_equal(_count(info.dims), _count(out.dims)):
            return None
        return reshape(args[0], ShapeExpr(tuple(map(_wide, out.dims))), span=value.span)

    def _is_reshape(self, target: Expr) -> bool:
        """Whether a tensor program was proved to be a reshape."""
        if not isinstance(target, GlobalVar) or not isinstance(self._mod.get(target), PrimFunc):
            return False
        if target.name_hint not in self._known:
            self._known[target.name_hint] = has_reshape_pattern(self._mod[target])
        return self._known[target.name_hint]
