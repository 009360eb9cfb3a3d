"""Bases of passes over tensor programs, and the decorator for user passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, UserPass, make_pass_decorator, with_functions
from eutectic.support.errors import PassError
from eutectic.tir.function import PrimFunc


class PrimFuncPass(Pass):
    """A pass over each tensor function; subclasses implement `run_function`."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The new function, or the same object when nothing changed."""
        raise PassError(f"{type(self).__name__} does not implement run_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Apply `run_function` to every tensor function."""
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items():
            if isinstance(func, PrimFunc):
                fresh = self.run_function(func, mod, ctx)
                if fresh is not func:
                    changed[gv] = fresh
        return with_functions(mod, changed)


class _UserPrimFuncPass(UserPass, PrimFuncPass):
    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        result = self._transform(func, mod, ctx)
        if not isinstance(result, PrimFunc):
            raise PassError(f"pass {self._info.name} returned {type(result).__name__} for a tensor function")
        return result


def prim_func_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function `(func, mod, ctx) -> func` or of a class with `transform_function`."""
    return make_pass_decorator("transform_function", _UserPrimFuncPass, pass_func, opt_level, name, required)


def with_body(func: PrimFunc, body: Any) -> PrimFunc:
    """`func` with another body; itself when it is the same."""
    return func if body is func.body else func.with_body(body)
