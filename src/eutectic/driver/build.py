"""build: a module as native functions; of graph functions, of tensor programs, or of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from eutectic.backend.registry import code_generator
from eutectic.driver.build_prim_func import Programs
from eutectic.driver.build_prim_func import build as build_programs
from eutectic.driver.compiled import array_signature
from eutectic.driver.inspect import InspectableCode
from eutectic.driver.link import link
from eutectic.driver.linked import libraries_for
from eutectic.driver.native import NativeBuilder
from eutectic.driver.pipeline import get_pipeline, register_pipeline
from eutectic.driver.profile import KernelTable, profile_function
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.expr import Function
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.relax.transform import BindParams
from eutectic.runtime.executable import Executable
from eutectic.runtime.signature import Signature
from eutectic.runtime.vm import VirtualMachine
from eutectic.support.door import open_doors
from eutectic.support.errors import CodegenError
from eutectic.support.shown import kind_of, shown
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target, target_or_current
from eutectic.tir.function import PrimFunc
from eutectic.tir.transform.check_bounds import checked_module

__all__ = ["VMExecutable", "VirtualMachine", "build", "get_pipeline", "register_pipeline"]

EXEC_MODES: Final = ("bytecode", "compiled", "interpreted")


class VMExecutable(InspectableCode):
    """The functions of a module as native code.

    Attributes:
        module: The module of kernels.
        target: What it was compiled for.
        functions: Linked functions by name; none when the target is not this machine.
        native: Its kernels and plans.
        programs: Tensor programs that can be called by name; each is compiled when it is called first.
    """

    def __init__(
        self,
        module: IRModule,
        target: Target,
        functions: Mapping[str, Executable],
        native: NativeBuilder,
        programs: Programs | None = None,
    ) -> None:
        self.module, self.target, self.functions, self.native = module, target, dict(functions), native
        self.programs = programs or Programs({}, target, native.threads)
        self._signatures = {name: _signature(module[name]) for name in functions}

    def function_names(self) -> list[str]:
        """Names of the functions."""
        return [*(name for name, _ in _entries(self.module)), *self.programs.funcs]

    def parameters(self, name: str) -> list[str]:
        """Names of the parameters of a function."""
        if name in self.programs.funcs:
            return [param.name for param in self.programs.funcs[name].params]
        return [param.name_hint for param in self.module[name].params]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return VirtualMachine(self)[name]

    def __call__(self, *args: Any) -> Any:
        """Call `main`."""
        return self["main"](*args)

    def invoke(self, name: str, args: Sequence[Any]) -> Any:
        """Results of a function for arrays: an array or a tuple; a tensor program gives None, and writes its own.

        Raises:
            CallError: an argument does not fit.
            CodegenError: the code is not for this machine.
        """
        if name in self.programs.funcs:
            return self.programs[name](*args)
        results = self._loaded(name).run(args)
        return self._signatures[name].unflatten(results, tuple(args), {})

    def profile(self, name: str, args: Sequence[Any]) -> KernelTable:
        """Cost of each kernel of one call."""
        self._loaded(name)
        return profile_function(self.module, self.target, name, args, self.native.threads)

    def _loaded(self, name: str) -> Executable:
        if name not in self.functions:
            raise CodegenError(
                f"code for {self.target} cannot run here", help=f'read it with show("asm"), or build for "{Target()}"'
            )
        return self.functions[name]

    def stats(self) -> str:
        """How many functions and kernels there are, and how much memory a call needs."""
        lines = [f"functions: {', '.join(self.functions)}", f"kernels: {len(self.native.built)}"]
        for plan in self.native.plans:
            lines.append(
                f"{plan.name}: {len(plan.steps)} steps, arena {plan.arena_bytes} bytes "
                f"({plan.live_bytes} alive at most, {plan.unshared_bytes} without sharing)"
            )
        return "\n".join(lines)

    def as_text(self) -> str:
        """The module of kernels as text."""
        return self.module.script()

    def as_python(self) -> str:
        """The same text, which is Python."""
        return self.module.script()

    def jit(self) -> VMExecutable:
        """Itself: everything is compiled already."""
        return self

    def export_library(self, path: str, **_: Any) -> None:
        """Not possible yet.

        Raises:
            CodegenError: always.
        """
        raise CodegenError(
            "executables cannot be written to files yet", help="build the module again where it is needed"
        )


def build(
    mod: IRModule | Function | PrimFunc,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    relax_pipeline: str | Pass | None = "default",
    tir_pipeline: str | None = "default",
    exec_mode: str = "bytecode",
    *,
    system_lib: bool | None = None,
    threads: int | None = None,
    bounds: str = "checked",
) -> Any:
    """Compile graph functions, tensor programs, or a module of both to native code.

    Args:
        mod: A graph function, a tensor program, or a module of them.
        target: What for; None takes the current target, else this machine.
        params: Values of parameters of `main`, by name.
        relax_pipeline: Name of a pipeline, a text such as `"LegalizeOps,FuseTIR"`, a pass, or None to run none; by
            default operators are fused.
        tir_pipeline: Only `default`: tensor programs are scheduled and lowered.
        exec_mode: `bytecode` and `compiled` run as much as possible in one native function; `interpreted` runs
            kernel by kernel: one begins when all threads have ended the one before.
        system_lib: Only None or False.
        threads: Threads of a call; None takes `EUTECTIC_THREADS`, else what is available.
        bounds: `checked`: every access of a tensor program is proved to be inside of its buffer, or looked at when
            it happens. `trusted`: the programs of the module are believed; one that leaves its buffers then
            corrupts memory.

    Returns:
        With a graph function: a `VMExecutable`, which `VirtualMachine` runs; tensor programs with a symbol of their
        own can be called by name there, too. Code for another machine than this one can only be read: `show("asm")`.
        With tensor programs only: `NativeFunctions`, called with the results as last arguments.

    Raises:
        CodegenError: there is nothing to build, an option is not known, or something cannot be compiled.
        OutOfBoundsError: an access of a tensor program leaves its buffer whenever it is executed.

    Reference: TVM tvm.compile, relax.build, tir.build; unlike there the default pipeline fuses (tvm-bugs B28).
    """
    if exec_mode not in EXEC_MODES:
        known = ", ".join(EXEC_MODES)
        raise CodegenError(
            f"unknown exec_mode {shown(exec_mode)}", help=_near(exec_mode, EXEC_MODES, f"one of {known}")
        )
    if tir_pipeline not in (None, "default"):
        raise CodegenError(f"unknown tir_pipeline {shown(tir_pipeline)}", help="only the default one exists")
    if system_lib:
        raise CodegenError("system libraries cannot be made", help="leave system_lib out")
    chosen = target_or_current(target)
    mod, has_graph = _module(mod)
    if not has_graph:
        if params or relax_pipeline not in (None, "default"):
            option = "params" if params else "relax_pipeline"
            raise CodegenError(f"tensor programs are built without {option}", help="it is for graph functions")
        return build_programs(mod, chosen, threads=threads, bounds=bounds)
    programs = Programs(_symbols(mod), chosen, threads, bounds)
    if params:
        mod = BindParams("main", {name: _array(value) for name, value in params.items()})(mod)
    mod = checked_module(mod, bounds)
    pipeline = get_pipeline(relax_pipeline) if isinstance(relax_pipeline, str) else relax_pipeline
    with PassContext.current().inner():
        lowered = pipeline(mod) if pipeline is not None else mod
    native = NativeBuilder(chosen, threads, timed=exec_mode == "interpreted")
    names = [name for name, _ in _entries(lowered)] if code_generator(chosen).machine(chosen).is_host else []
    libraries = libraries_for(lowered, threads, chosen)
    functions = {name: link(lowered, libraries, name, native) for name in names}
    return VMExecutable(lowered, chosen, functions, native, programs)


def _module(mod: Any) -> tuple[IRModule, bool]:
    """What is to be built as a module, and whether it has graph functions.

    Raises:
        CodegenError: it is something else, or has nothing to build.
    """
    if isinstance(mod, PrimFunc):
        return IRModule({str(mod.attr("global_symbol") or "main"): mod}), False
    if isinstance(mod, Function):
        return IRModule.from_expr(mod), True
    if not isinstance(mod, IRModule):
        raise CodegenError(
            f"build takes an IRModule, a relax.Function or a tir.PrimFunc, got {kind_of(mod)}",
            help="models of torch are compiled by eutectic.compile(model, inputs)",
        )
    functions = [function for _, function in mod.functions_items()]
    has_graph = any(isinstance(function, Function) for function in functions)
    if not has_graph and not any(isinstance(function, PrimFunc) for function in functions):
        raise CodegenError("the module has neither graph functions nor tensor programs: there is nothing to build")
    return mod, has_graph


def _symbols(mod: IRModule) -> dict[str, PrimFunc]:
    """The tensor programs of a module that have a symbol of their own: those that can be called from outside."""
    return {
        gv.name_hint: function
        for gv, function in mod.functions_items()
        if isinstance(function, PrimFunc) and function.attr("global_symbol")
    }


def _near(name: Any, known: Iterable[str], otherwise: str) -> str:
    return (did_you_mean(name, known) if isinstance(name, str) else None) or otherwise


def _entries(mod: IRModule) -> list[tuple[str, Function]]:
    """The functions of a module that can be called from outside."""
    return [
        (gv.name_hint, function)
        for gv, function in mod.functions_items()
        if isinstance(function, Function) and not function.attr("Primitive") and function.attr("global_symbol")
    ]


def _signature(function: Function) -> Signature:
    names = [param.name_hint for param in function.params]
    return array_signature(names, function.ret_struct_info or ObjectStructInfo())


def _array(value: Any) -> Any:
    if isinstance(value, np.ndarray) or hasattr(value, "numpy"):
        return value
    return np.asarray(value)


open_doors(globals(), places=True, package="eutectic")
