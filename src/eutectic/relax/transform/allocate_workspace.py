"""AllocateWorkspace: give functions of a backend the scratch memory that they ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import all_global_vars
from eutectic.relax.expr import BindingBlock, Call, DataflowBlock, Function, SeqExpr, Var, VarBinding
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.relax.op.builtin import alloc_tensor
from eutectic.relax.struct_info import TensorStructInfo, tensor
from eutectic.relax.transform.entry import entry_functions_of


@dataclass(frozen=True)
class AllocateWorkspace(Pass):
    """Pass a workspace to functions with `Codegen` and `WorkspaceSize`.

    Such a function gets a last parameter `workspace`, of that many bytes as uint8, and
    hands it on to its composites with `WorkspaceSize`. A caller allocates one workspace,
    of the largest size it needs, at the start of its first block that calls one, and
    passes it to all: they run one after another. A second run changes nothing.

    before:                                 after:
        lv = fused_attention_cutlass(q, k, v)   workspace_main = builtin.alloc_tensor((65536,), "uint8")
                                                lv = fused_attention_cutlass(q, k, v, workspace_main)

    Reference: TVM's `relax.transform.AllocateWorkspace`, which visits `main` only.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Add parameters, then arguments."""
        sizes = {gv.name_hint: size for gv, f in mod.functions_items() if (size := _wanted(f))}
        if not sizes:
            return mod
        out = mod.clone()
        largest = max(sizes.values())
        for name in sizes:
            out[name] = _with_parameter(mod[name], largest)
        for gv, function in entry_functions_of(mod, None):
            called = [sizes[g.name_hint] for g in all_global_vars(function) if g.name_hint in sizes]
            if called:
                out.update_func(gv, _Provider(out, frozenset(sizes), largest).visit_expr(function))
        return out


def _wanted(function: object) -> int:
    """Bytes of workspace that a backend's function asks for and does not get yet."""
    if not isinstance(function, Function) or not function.attr("Codegen"):
        return 0
    last = function.params[-1] if function.params else None
    has = last is not None and last.name_hint == "workspace" and getattr(last.struct_info, "dtype", "") == "uint8"
    return 0 if has else int(function.attr("WorkspaceSize") or 0)


def _with_parameter(function: Function, size: int) -> Function:
    """A function with a last parameter `workspace`, handed on to its composites."""
    workspace = Var("workspace", tensor((size,), "uint8"))
    fresh = _HandOn(workspace).visit_expr(function)
    assert isinstance(fresh, Function)
    return Function((*fresh.params, workspace), fresh.body, fresh.ret_struct_info, fresh.is_pure, fresh.attrs)


class _HandOn(PyExprMutator):
    """Adds the parameter to inner composites that want it, and the argument to their calls."""

    def __init__(self, workspace: Var) -> None:
        super().__init__()
        self._workspace = workspace
        self._locals: set[Var] = set()

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrite an inner composite."""
        value = binding.value
        if isinstance(value, Function) and value.attr("WorkspaceSize"):
            inner = Var("workspace", self._workspace.struct_info)
            params = (*value.params, inner)
            fresh = Function(params, value.body, value.ret_struct_info, value.is_pure, value.attrs)
            var = self.with_struct_info(binding.var, fresh.struct_info)  # type: ignore[arg-type]  # functions have it
            self.set_var_remap(binding.var, var)
            self._locals.add(binding.var)
            self.builder_.emit_normalized(VarBinding(var, fresh))
            return
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Call) -> Any:
        """Add the argument."""
        wants = isinstance(call.op, Var) and call.op in self._locals
        args = (*map(self.visit_expr, call.args), *([self._workspace] if wants else []))
        if not wants:
            return super().visit_call_(call)
        return Call(self.visit_expr(call.op), args, None, (), call.span)


class _Provider(PyExprMutator):
    """Allocates the workspace where it is first needed, and passes it."""

    def __init__(self, mod: IRModule, names: frozenset[str], size: int) -> None:
        super().__init__(mod)
        self._names, self._size = names, size
        self._workspace: Var | None = None

    def visit_seq_expr_(self, seq: SeqExpr) -> SeqExpr:
        """A body; what one branch of a conditional allocates the other does not see."""
        outer = self._workspace
        fresh = super().visit_seq_expr_(seq)
        self._workspace = outer
        return fresh  # type: ignore[return-value]  # bodies stay bodies

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """Start a block with the allocation."""
        return self._visit_block(block)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Start a block with the allocation."""
        return self._visit_block(block)

    def _visit_block(self, block: BindingBlock) -> BindingBlock:
        is_dataflow = isinstance(block, DataflowBlock)
        self.builder_.begin_block(is_dataflow)
        outer = self._workspace
        if outer is None and any(self._calls(b.value) for b in block.bindings):
            self._workspace = self.builder_.emit(alloc_tensor((self._size,), "uint8"), "workspace_main")
        for binding in block.bindings:
            self.visit_binding(binding)
        if is_dataflow:
            self._workspace = outer  # a dataflow variable is not visible behind its block
        return self.builder_.end_block()

    def _calls(self, value: object) -> bool:
        return isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name_hint in self._names

    def visit_call_(self, call: Call) -> Any:
        """Pass the workspace."""
        if not self._calls(call):
            return super().visit_call_(call)
        assert self._workspace is not None and isinstance(self._workspace.struct_info, TensorStructInfo)
        args = (*map(self.visit_expr, call.args), self._workspace)
        return Call(call.op, args, None, (), call.span)
