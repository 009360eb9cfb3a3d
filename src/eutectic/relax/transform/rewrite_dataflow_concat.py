"""RewriteDataflowConcat: call nothing where tensors can be computed one after another in memory at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.op import Op
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.concat_pattern import concat_axis
from eutectic.relax.analysis.uses import used_vars
from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, DataflowVar, Function, Tuple, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.manipulate import concat
from eutectic.relax.op.registry import has_trait
from eutectic.relax.transform.fuse_ops import is_call_tir
from eutectic.relax.transform.infra import FunctionPass
from eutectic.tir.function import PrimFunc


@dataclass(frozen=True)
class RewriteDataflowConcat(FunctionPass):
    """Write `concat` for calls of tensor programs that do no more, where the parts can be computed in their places.

    The parts must lie in the result as they are, such as the channels of one image; each must be the result of one call
    in the same dataflow block, or other shapes of one, of which no other concat has a part. Native code then computes
    them in the memory of the result, and does nothing for the concat itself. Where that cannot be, a kernel copies
    faster than the linker would.

    before:                                                         after:
        a = call_tir(f, (x,), Tensor((1, 4, 6)))                        a = call_tir(f, (x,), Tensor((1, 4, 6)))
        b = call_tir(g, (x,), Tensor((1, 2, 6)))                        b = call_tir(g, (x,), Tensor((1, 2, 6)))
        c = call_tir(concatenate, (a, b), Tensor((1, 6, 6)))            c = concat((a, b), axis=1)
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function; the inside of a group stays as it is."""
        if function.attr("Primitive"):
            return function
        joined = _Parts(mod).joined(function)
        if not joined:
            return function
        fresh = _Rewriter(joined).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh


class _Parts:
    """Which values are parts of which.

    Attributes:
        axes: Along which axis a tensor program joins its buffers, by its name.
        roots: The variable whose memory each variable of the block is a name or a shape of.
        taken: Those whose memory is a part of another one.
    """

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self.axes: dict[str, int | None] = {}
        self.roots: dict[Var, Var] = {}
        self.taken: set[Var] = set()

    def joined(self, function: Function) -> Mapping[Var, Expr]:
        """A `concat` for each variable that is one; the last ones first, as one that is a part of another is whole."""
        joined: dict[Var, Expr] = {}
        for block in function.body.blocks:
            self.roots = {}
            for binding in block.bindings:
                if isinstance(binding, VarBinding):
                    self._note(binding)
            for binding in reversed(block.bindings):
                if isinstance(binding, VarBinding) and (fresh := self._concat(binding.value)) is not None:
                    joined[binding.var] = fresh
        return joined

    def _note(self, binding: VarBinding) -> None:
        """Remember whose memory the value of a binding is, if it is known."""
        var, value = binding.var, binding.value
        source = value.args[0] if isinstance(value, Call) and _is_view(value) else value
        if isinstance(source, Var):
            if source in self.roots:
                self.roots[var] = self.roots[source]
        elif is_call_tir(value):
            self.roots[var] = var
        if not isinstance(var, DataflowVar):  # it leaves the block
            self.taken.update(self.roots[used] for used in (var, *used_vars(value)) if self._is_same(used, var, value))

    def _is_same(self, used: Var, var: Var, value: Expr) -> bool:
        """Whether what leaves the block has the memory of a variable."""
        return used in self.roots and (used is var or not isinstance(value, Call) or _is_view(value))

    def _concat(self, value: Expr) -> Expr | None:
        if not isinstance(value, Call) or not is_call_tir(value) or len(value.args) != 2:
            return None
        callee, parts = value.args
        axis = self._axis(callee)
        if axis is None or not isinstance(parts, Tuple):
            return None
        roots = [self.roots.get(part) if isinstance(part, Var) else None for part in parts.fields]
        known = [root for root in roots if root is not None and root not in self.taken]
        if len(set(known)) != len(parts.fields):
            return None
        self.taken.update(known)
        return concat(parts, axis, span=value.span)

    def _axis(self, callee: Expr) -> int | None:
        if not isinstance(callee, GlobalVar):
            return None
        program = self._mod.get(callee)
        if callee.name_hint not in self.axes:
            self.axes[callee.name_hint] = concat_axis(program) if isinstance(program, PrimFunc) else None
        return self.axes[callee.name_hint]


def _is_view(call: Call) -> bool:
    return isinstance(call.op, Op) and has_trait(call, "view")


class _Rewriter(PyExprMutator):
    def __init__(self, joined: Mapping[Var, Expr]) -> None:
        super().__init__()
        self._joined = joined

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrite the value of a variable."""
        fresh = self._joined.get(binding.var)
        super().visit_var_binding_(binding if fresh is None else VarBinding(binding.var, fresh))
