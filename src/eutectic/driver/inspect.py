"""What became of a program: its tensor programs, LLVM text, assembly, and spilled registers.

Nothing is loaded, so code for other processors can be read here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from eutectic.backend.registry import code_forms, code_generator
from eutectic.driver.pipeline import kernels
from eutectic.ir.module import IRModule
from eutectic.ir.printer import register_view, show_text
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Function
from eutectic.support.errors import CodegenError
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target, target_or_current
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.lower_tir import lowered
from eutectic.tir.transform.schedule_for_target import scheduled

__all__ = ["STAGES", "InspectableCode", "kernel_source", "kernel_spills"]

STAGES: Final[Mapping[str, Callable[[PrimFunc, Target], PrimFunc]]] = {
    "tir": lambda func, target: func,
    "scheduled": scheduled,
    "lowered": lambda func, target: lowered(scheduled(func, target)),
}


def kernel_source(func_or_mod: PrimFunc | IRModule, target: str | Target | None = None, kind: str | None = None) -> str:
    """The code of tensor programs as text.

    Args:
        func_or_mod: One program, or a module; graph functions in it are lowered with the default pipeline first.
        target: What for; None takes the current target, else this machine. It need not be able to run here.
        kind: `tir` as it is, `scheduled` with the default schedule, `lowered` to flat loops; or a form of the
            target's code generator: `llvm` after LLVM's clean-up, `asm` in the assembly of the processor. None takes
            the first of these.

    Raises:
        CodegenError: an unknown kind, or something cannot be compiled.
    """
    chosen = target_or_current(target)
    wanted = _checked_kind(kind, chosen)
    return "\n".join(_text(name, func, chosen, wanted) for name, func in _programs(func_or_mod).items())


def kernel_spills(func_or_mod: PrimFunc | IRModule, target: str | Target | None = None) -> dict[str, int]:
    """How many instructions of each program move a vector register to or from the stack.

    Args:
        func_or_mod: As for `kernel_source`.
        target: What for.

    Raises:
        CodegenError: something cannot be compiled, or the processor's assembly is not one that is understood.
    """
    chosen = target_or_current(target)
    generator = code_generator(chosen)
    return {name: generator.spills(func, name, chosen) for name, func in _programs(func_or_mod).items()}


class InspectableCode:
    """Base of what `build` gives: shows the code of its kernels.

    Attributes:
        module: The module of kernels.
        target: What it was compiled for.
    """

    module: IRModule
    target: Target

    def source(self, kind: str | None = None, kernel: str | None = None) -> str:
        """The code as text.

        Args:
            kind: `relax` for the whole module; else as in `kernel_source`.
            kernel: Name of a tensor program; None takes all.

        Raises:
            CodegenError: there is no such kind or kernel.
        """
        wanted = _checked_kind(kind, self.target, "relax")
        if wanted == "relax":
            return self.module.script()
        programs = _prim_funcs(self.module)
        if kernel is not None:
            if kernel not in programs:
                known = list(programs)
                raise CodegenError(
                    f"there is no kernel {kernel!r}", help=did_you_mean(kernel, known) or f"have {', '.join(known)}"
                )
            programs = {kernel: programs[kernel]}
        return "\n".join(_text(name, func, self.target, wanted) for name, func in programs.items())

    def show(self, kind: str = "relax", kernel: str | None = None) -> None:
        """Print `source(kind, kernel)`, with syntax colours on a terminal."""
        show_text(self.source(kind, kernel), code_forms().get(kind, "python"))

    def spills(self) -> dict[str, int]:
        """By kernel, how many instructions move a vector register to or from the stack."""
        return kernel_spills(IRModule(_prim_funcs(self.module)), self.target)


def _checked_kind(kind: str | None, target: Target, *more: str) -> str:
    """A kind of text that there is for a target; for None the form that its code generator writes itself.

    Raises:
        CodegenError: there is no such kind.
    """
    forms = code_generator(target).forms
    if kind is None:
        return next(iter(forms))
    known = (*more, *STAGES, *forms)
    if kind not in known:
        raise CodegenError(
            f"unknown kind of code {kind!r}", help=did_you_mean(kind, known) or f"one of {', '.join(known)}"
        )
    return kind


def _programs(mod: PrimFunc | IRModule) -> dict[str, PrimFunc]:
    """The tensor programs of what is given, by name."""
    if isinstance(mod, PrimFunc):
        return {str(mod.attr("global_symbol") or "main"): mod}
    if any(isinstance(function, Function) for _, function in mod.functions_items()):
        with PassContext():
            mod = kernels()(mod)
    return _prim_funcs(mod)


def _prim_funcs(mod: IRModule) -> dict[str, PrimFunc]:
    return {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}


def _text(name: str, func: PrimFunc, target: Target, kind: str) -> str:
    if kind in STAGES:
        return IRModule({name: STAGES[kind](func, target)}).script()
    return code_generator(target).source(func, name, target, kind)


def _view(kind: str) -> Any:
    def view(item: Any) -> str:
        if isinstance(item, Function):
            item = IRModule.from_expr(item)
        if not isinstance(item, (IRModule, PrimFunc)):
            raise CodegenError(f"a {type(item).__name__} has no native code", help="show a module or a tensor program")
        return kernel_source(item, None, kind)

    return view


for _form, _language in code_forms().items():
    register_view(_form, _language, _view(_form))
