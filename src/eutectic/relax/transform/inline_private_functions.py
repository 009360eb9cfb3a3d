"""InlinePrivateFunctions: the bodies of private graph functions in place of their calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.calls import detect_recursion
from eutectic.relax.analysis.copying import copy_with_new_vars
from eutectic.relax.expr import Call, DataflowBlock, Function, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.transform.remove_unused_parameters import substituted


@dataclass(frozen=True)
class InlinePrivateFunctions(Pass):
    """Put the bodies of private graph functions in place of their calls, and drop those that nobody calls any more.

    Functions that call themselves stay, and those that a library takes (`Codegen`, `Composite`, `Primitive`).
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Inline until no call of a private function is left."""
        recursive = {gv.name_hint for group in detect_recursion(mod) for gv in group}
        bodies = {
            gv.name_hint: f
            for gv, f in mod.functions_items()
            if isinstance(f, Function) and _is_private(f) and gv.name_hint not in recursive
        }
        if not bodies:
            return mod
        rewriter = _Inliner(mod, bodies)
        kept = {}
        for gv, function in mod.functions.items():
            if gv.name_hint in bodies:
                continue
            kept[gv] = rewriter.visit_expr(function) if isinstance(function, Function) else function
        return IRModule(kept, mod.attrs, mod.global_infos)


def _is_private(function: Function) -> bool:
    taken = any(function.attr(key) for key in ("Codegen", "Composite", "Primitive"))
    return function.attr("global_symbol") is None and not taken


class _Inliner(PyExprMutator):
    def __init__(self, mod: IRModule, bodies: dict[str, Function]) -> None:
        super().__init__(mod)
        self._bodies = bodies

    def visit_call_(self, call: Call) -> Any:
        """Emit the bindings of the callee for the arguments of the call."""
        visited: Any = super().visit_call_(call)
        callee = visited.op if isinstance(visited, Call) else None
        if not isinstance(callee, GlobalVar) or callee.name_hint not in self._bodies:
            return visited
        function = copy_with_new_vars(self._bodies[callee.name_hint])
        body = substituted(function, dict(zip(function.params, visited.args, strict=True)))
        for block in body.blocks:
            self._emit(block)
        return self.visit_expr(body.body)

    def _emit(self, block: Any) -> None:
        """Emit bindings; in a dataflow block all of them are, and elsewhere none."""
        inside = self.builder_.current_block_is_dataflow()
        for binding in block.bindings:
            if isinstance(block, DataflowBlock) is inside or not isinstance(binding, VarBinding):
                self.visit_binding(binding)
            else:
                self.set_var_remap(binding.var, self.builder_.emit(self.visit_expr(binding.value)))
