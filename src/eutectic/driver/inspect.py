"""What became of a program: its tensor programs, LLVM text, assembly, and spilled registers.

Nothing is loaded, so code for other processors can be read here as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from eutectic.backend.llvm.kernels import lowered_kernel
from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.llvm.optimize import assembly, optimized_text, spill_count
from eutectic.driver.pipeline import kernels
from eutectic.ir.module import IRModule
from eutectic.ir.printer import register_view, show_text
from eutectic.ir.transform import PassContext
from eutectic.relax.expr import Function
from eutectic.support.errors import CodegenError
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.lower_tir import lowered
from eutectic.tir.transform.schedule_for_target import scheduled

__all__ = ["KINDS", "InspectableCode", "kernel_source", "kernel_spills"]

KINDS: Final = ("tir", "scheduled", "lowered", "llvm", "asm")
_ARM_STACK: Final = re.compile(r"^\s+(?:str|ldr|stp|ldp)\s+[qdv]\d+.*\[sp", re.MULTILINE)


def kernel_source(func_or_mod: PrimFunc | IRModule, target: str | Target | None = None, kind: str = "llvm") -> str:
    """The code of tensor programs as text.

    Args:
        func_or_mod: One program, or a module; graph functions in it are lowered with the default pipeline first.
        target: What for; None takes the current target, else this machine. It need not be able to run here.
        kind: `tir` as it is, `scheduled` with the default schedule, `lowered` to flat loops, `llvm` after LLVM's
            clean-up, `asm` in the assembly of the processor.

    Raises:
        CodegenError: an unknown kind, or something cannot be compiled.
    """
    _check_kind(kind, KINDS)
    chosen = _target(target)
    return "\n".join(_text(name, func, chosen, kind) for name, func in _programs(func_or_mod).items())


def kernel_spills(func_or_mod: PrimFunc | IRModule, target: str | Target | None = None) -> dict[str, int]:
    """How many instructions of each program move a vector register to or from the stack.

    Args:
        func_or_mod: As for `kernel_source`.
        target: What for.

    Raises:
        CodegenError: something cannot be compiled, or the processor's assembly is not one that is understood.
    """
    chosen = _target(target)
    return {name: _spills(name, func, chosen) for name, func in _programs(func_or_mod).items()}


class InspectableCode:
    """Base of what `build` gives: shows the code of its kernels.

    Attributes:
        module: The module of kernels.
        target: What it was compiled for.
    """

    module: IRModule
    target: Target

    def source(self, kind: str = "llvm", kernel: str | None = None) -> str:
        """The code as text.

        Args:
            kind: `relax` for the whole module; else as in `kernel_source`.
            kernel: Name of a tensor program; None takes all.

        Raises:
            CodegenError: there is no such kind or kernel.
        """
        _check_kind(kind, ("relax", *KINDS))
        if kind == "relax":
            return self.module.script()
        programs = _prim_funcs(self.module)
        if kernel is not None:
            if kernel not in programs:
                known = list(programs)
                raise CodegenError(
                    f"there is no kernel {kernel!r}", help=did_you_mean(kernel, known) or f"have {', '.join(known)}"
                )
            programs = {kernel: programs[kernel]}
        return "\n".join(_text(name, func, self.target, kind) for name, func in programs.items())

    def show(self, kind: str = "relax", kernel: str | None = None) -> None:
        """Print `source(kind, kernel)`, with syntax colours on a terminal."""
        show_text(self.source(kind, kernel), {"llvm": "llvm", "asm": "gas"}.get(kind, "python"))

    def spills(self) -> dict[str, int]:
        """By kernel, how many instructions move a vector register to or from the stack."""
        return kernel_spills(IRModule(_prim_funcs(self.module)), self.target)


def _target(target: str | Target | None) -> Target:
    return Target(target) if target is not None else Target.current() or Target("llvm")


def _check_kind(kind: str, known: tuple[str, ...]) -> None:
    if kind not in known:
        raise CodegenError(
            f"unknown kind of code {kind!r}", help=did_you_mean(kind, known) or f"one of {', '.join(known)}"
        )


def _programs(given: PrimFunc | IRModule) -> dict[str, PrimFunc]:
    """The tensor programs of what is given, by name."""
    if isinstance(given, PrimFunc):
        return {str(given.attr("global_symbol") or "main"): given}
    if any(isinstance(function, Function) for _, function in given.functions_items()):
        with PassContext():
            given = kernels()(given)
    return _prim_funcs(given)


def _prim_funcs(mod: IRModule) -> dict[str, PrimFunc]:
    return {gv.name_hint: func for gv, func in mod.functions_items() if isinstance(func, PrimFunc)}


def _text(name: str, func: PrimFunc, target: Target, kind: str) -> str:
    machine = machine_of(target)
    if kind in ("llvm", "asm"):
        text = lowered_kernel(func, machine, re.sub(r"\W", "_", name, flags=re.ASCII)).text
        made = optimized_text(text, machine) if kind == "llvm" else assembly(text, machine)
        return f"{';' if kind == 'llvm' else '#'} {name}, for {machine.cpu}\n{made}"
    stages: Mapping[str, Any] = {
        "tir": lambda: func,
        "scheduled": lambda: scheduled(func, target),
        "lowered": lambda: lowered(scheduled(func, target)),
    }
    return IRModule({name: stages[kind]()}).script()


def _spills(name: str, func: PrimFunc, target: Target) -> int:
    text, machine = _text(name, func, target, "asm"), machine_of(target)
    if machine.triple.startswith(("x86_64", "i686", "amd64")):
        return spill_count(text)
    if machine.triple.startswith(("aarch64", "arm64")):
        return len(_ARM_STACK.findall(text))
    raise CodegenError(f"spills are counted in assembly of x86 and of 64-bit ARM, not of {machine.triple}")


def _view(kind: str) -> Any:
    def view(item: Any) -> str:
        if isinstance(item, Function):
            item = IRModule.from_expr(item)
        if not isinstance(item, (IRModule, PrimFunc)):
            raise CodegenError(f"a {type(item).__name__} has no native code", help="show a module or a tensor program")
        return kernel_source(item, None, kind)

    return view


register_view("llvm", "llvm", _view("llvm"))
register_view("asm", "gas", _view("asm"))
