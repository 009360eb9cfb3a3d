"""Names of the package `tvm` itself."""

from __future__ import annotations

from typing import Any

from eutectic.ir.module import IRModule
from eutectic.relax.expr import Function
from eutectic.runtime.tensor import cpu, cuda, device, gpu
from eutectic.tir.function import PrimFunc

# In TVM v0.23 `tvm.TVMError` is Python's own Exception: tests catch everything with it.
TVMError = Exception

__all__ = ["IRModule", "TVMError", "build", "compile", "cpu", "cuda", "device", "gpu"]


def compile(mod: IRModule | Function | PrimFunc, target: Any = None, **options: Any) -> Any:
    """Compile a program to native code.

    Args:
        mod: A module, a graph function, or a tensor program.
        target: What for; None takes the current target, else this machine.
        options: Those of `relax.build`, for a module with graph functions.

    Returns:
        What `relax.build` gives, when there is a graph function; else tensor programs to be called with their
        results as last arguments.

    Raises:
        CodegenError: an option is not known, or something cannot be compiled.
        TypeError: an option that tensor programs do not have.

    Reference: TVM tvm.compile.
    """
    from eutectic.driver.build import build as build_graph  # heavy: loads the backends
    from eutectic.driver.build_prim_func import build as build_programs

    functions = [func for _, func in mod.functions_items()] if isinstance(mod, IRModule) else [mod]
    if any(isinstance(func, Function) for func in functions):
        assert not isinstance(mod, PrimFunc)
        return build_graph(mod, target, **options)
    chosen = {key: value for key, value in options.items() if value not in (None, "default")}
    if chosen:
        raise TypeError(f"tensor programs are compiled without options, got {', '.join(chosen)}")
    assert not isinstance(mod, Function)
    return build_programs(mod, target)


def build(mod: IRModule | Function | PrimFunc, target: Any = None, **options: Any) -> Any:
    """The same as `compile`, under its older name."""
    return compile(mod, target, **options)
