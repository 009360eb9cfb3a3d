"""Names of the package `tvm` itself."""

from __future__ import annotations

from typing import Any

from eutectic.ir.module import IRModule
from eutectic.relax.expr import Function
from eutectic.runtime.tensor import cpu, cuda, device, gpu
from eutectic.support.registry import register_global_func as register_func
from eutectic.tir.function import PrimFunc

# In TVM v0.23 `tvm.TVMError` is Python's own Exception: tests catch everything with it.
TVMError = Exception

__all__ = ["IRModule", "TVMError", "build", "compile", "cpu", "cuda", "device", "gpu", "register_func"]


def compile(mod: IRModule | Function | PrimFunc, target: Any = None, *args: Any, **options: Any) -> Any:
    """Compile a program to native code; the same as `eutectic.build`.

    Args:
        mod: A module, a graph function, or a tensor program.
        target: What for; None takes the current target, else this machine.
        args: Further arguments of `eutectic.build`.
        options: Its options.

    Reference: TVM tvm.compile.
    """
    from eutectic.driver.build import build as build_any  # heavy: loads the backends

    return build_any(mod, target, *args, **options)


build = compile
