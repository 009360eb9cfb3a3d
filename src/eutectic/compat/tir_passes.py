"""`tvm.tir.transform`: passes of a line or two, which our own pipeline does not need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eutectic.compat.tir_analysis import verify_ssa
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.support.errors import PassError
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.infra import PrimFuncPass

__all__ = ["AnnotateEntryFunc", "Apply", "BindTarget", "Filter", "VerifySSA"]


@dataclass(frozen=True)
class Apply(PrimFuncPass):
    """Each tensor function as a Python function changes it.

    Attributes:
        ftransform: Takes a function and returns one.
    """

    ftransform: Callable[[PrimFunc], PrimFunc]

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return self.ftransform(func)


@dataclass(frozen=True)
class Filter(Pass):
    """The tensor functions for which a condition holds; other functions stay.

    Attributes:
        fcond: Takes a function.
    """

    fcond: Callable[[PrimFunc], bool]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        kept = {
            name: func for name, func in mod.functions_items() if not isinstance(func, PrimFunc) or self.fcond(func)
        }
        return IRModule(kept, attrs=mod.attrs)


@dataclass(frozen=True)
class BindTarget(PrimFuncPass):
    """Tensor functions with the attribute `target`, where they have none.

    Attributes:
        target: The target.
    """

    target: Any

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return func if func.attr("target") is not None else func.with_attr("target", self.target)


@dataclass(frozen=True)
class AnnotateEntryFunc(PrimFuncPass):
    """The only tensor function of a module, or the one called `main`, marked as the entry."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        names = {name.name_hint: f for name, f in mod.functions_items() if isinstance(f, PrimFunc)}
        entry = names.get("main") if len(names) > 1 else func
        return func.with_attr("tir.is_entry_func", True) if func is entry else func


@dataclass(frozen=True)
class VerifySSA(PrimFuncPass):
    """Functions in which each variable is bound in one place.

    Raises:
        PassError: there is another one.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        if not verify_ssa(func):
            raise PassError("a variable is bound in several places", help="tir.transform.ConvertSSA gives each its own")
        return func
