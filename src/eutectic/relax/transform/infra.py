"""Bases of graph passes: per module, per function, per dataflow block; and the decorators for user passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, UserPass, make_pass_decorator, with_functions
from eutectic.relax.analysis.unused import remove_all_unused
from eutectic.relax.expr import BindingBlock, DataflowBlock, Function
from eutectic.relax.expr_functor import PyExprMutator
from eutectic.support.errors import PassError, WellFormedError


class FunctionPass(Pass):
    """A pass over each Relax function; subclasses implement `run_function`."""

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The new function, or the same object when nothing changed."""
        raise PassError(f"{type(self).__name__} does not implement run_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply `run_function` to every Relax function."""
        changed = {}
        for gv, function in mod.functions_items():
            if isinstance(function, Function):
                fresh = self.run_function(function, mod, ctx)
                if fresh is not function:
                    changed[gv] = fresh
        return with_functions(mod, changed)


def mutated(function: Function, mutator: PyExprMutator) -> Function:
    """What a mutator makes of a function, without what nothing reads any more; the same object when nothing changed."""
    fresh = mutator.visit_expr(function)
    assert isinstance(fresh, Function)
    return function if fresh is function else remove_all_unused(fresh)


class _UserFunctionPass(UserPass, FunctionPass):
    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        result = self._transform(function, mod, ctx)
        if not isinstance(result, Function):
            raise PassError(f"pass {self._info.name} returned {type(result).__name__} for a function")
        return result


class _UserBlockPass(_UserFunctionPass):
    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        fresh = _BlockRewriter(lambda block: self._checked(block, mod, ctx)).visit_expr(function)
        assert isinstance(fresh, Function)
        return fresh

    def _checked(self, block: DataflowBlock, mod: IRModule, ctx: PassContext) -> BindingBlock:
        fresh: Any = self._transform(block, mod, ctx)
        lost = [v.name_hint for v in _outputs(block) if v not in _outputs(fresh)]
        if lost:
            raise WellFormedError(f"pass {self._info.name} lost outputs of a dataflow block: {', '.join(lost)}")
        return fresh  # type: ignore[no-any-return]  # a block, by contract of the decorator


def _outputs(block: BindingBlock) -> list[Any]:
    return [b.var for b in block.bindings if type(b.var).__name__ == "Var"]


class _BlockRewriter(PyExprMutator):
    def __init__(self, rewrite: Callable[[DataflowBlock], BindingBlock]) -> None:
        super().__init__()
        self._rewrite = rewrite

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        fresh = self._rewrite(block)
        self.builder_.begin_block(is_dataflow=True)
        for binding in fresh.bindings:
            self.builder_.emit_normalized(binding)
        self.builder_.end_block()
        return fresh


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function `(func, mod, ctx) -> func` or of a class with `transform_function`."""
    return make_pass_decorator("transform_function", _UserFunctionPass, pass_func, opt_level, name, required, traceable)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function `(block, mod, ctx) -> block` or of a class with `transform_dataflowblock`."""
    return make_pass_decorator(
        "transform_dataflowblock", _UserBlockPass, pass_func, opt_level, name, required, traceable
    )
