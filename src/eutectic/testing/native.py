"""Run one tensor program natively, as `eutectic.tir.interpret.run` runs it in the reference interpreter."""

from __future__ import annotations

from typing import Any

from eutectic.driver.build_prim_func import NativePrimFunc
from eutectic.target import Target
from eutectic.tir.function import PrimFunc


def native(func: PrimFunc, *, threads: int = 2, schedule: bool = True) -> NativePrimFunc:
    """A tensor program as native code.

    Args:
        func: The program.
        threads: Threads of a call.
        schedule: Whether the default schedule is applied; without it loops stay as they are.
    """
    if not schedule:
        func = func.with_attr("tir.is_scheduled", True)
    return NativePrimFunc(func, Target("llvm"), threads, str(func.attr("global_symbol") or "main"))


def run_native(func: PrimFunc, *args: Any, threads: int = 2, schedule: bool = True) -> None:
    """Compile a tensor program and run it; results are in the arrays that it wrote."""
    native(func, threads=threads, schedule=schedule)(*args)
