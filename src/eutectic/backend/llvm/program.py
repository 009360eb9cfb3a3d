"""A plan as loaded native code: what Python calls."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eutectic.backend.llvm.entry import RAISE, Bounds, entry_symbol, entry_text
from eutectic.backend.llvm.jit import Library
from eutectic.backend.llvm.kernels import Built
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.plan import KernelStep, Plan
from eutectic.backend.llvm.pool import available_threads, runtime_library, team
from eutectic.backend.llvm.pool_text import SMALL
from eutectic.backend.llvm.team import BARRIER
from eutectic.ir.prim_expr import Var
from eutectic.runtime.native import NativeFunction, raise_address
from eutectic.support.errors import CodegenError
from eutectic.tir.analysis.flops import count_flops

SMALL_FLOPS = 2_000_000  # some tens of microseconds


class Program:
    """A plan, compiled and loaded; may be called from several threads at once.

    Attributes:
        plan: What it does.
        function: The native function: inputs, then outputs, then integers.
        threads: How many threads a call uses.
    """

    def __init__(
        self,
        plan: Plan,
        arrays: Sequence[np.ndarray[Any, Any]],
        machine: Machine,
        *,
        threads: int | None = None,
        bounds: Mapping[Var, Bounds] | None = None,
    ) -> None:
        """Load a plan.

        Args:
            plan: What to do.
            arrays: Values of its constants.
            machine: The host.
            threads: Threads of a call; None takes what is available.
            bounds: Ranges of symbolic sizes.

        Raises:
            CodegenError: the code is not for this machine.
        """
        if not machine.is_host:
            raise CodegenError(
                f"code for {machine.cpu} cannot run here", help='read it with mod.show("asm"), or use target="llvm"'
            )
        runtime = runtime_library()
        imports = {symbol: runtime.address(symbol) for symbol in (BARRIER, "eutectic_run")}
        code = object_code(entry_text(plan, machine, bounds or {}), machine)
        kernels = {kernel.symbol: kernel.code for kernel in plan_kernels(plan)}
        self.plan = plan
        self._library = Library([*kernels.values(), code], {**imports, RAISE: raise_address()})
        self._arrays = [_aligned(array) for array in arrays]
        table = (ctypes.c_void_p * max(len(arrays), 1)).from_address(self._library.data("constants"))
        for i, array in enumerate(self._arrays):
            table[i] = array.ctypes.data
        self.threads = available_threads(threads)
        ctypes.c_void_p.from_address(self._library.data("team")).value = team(self.threads)
        small = plan_flops(plan) < SMALL_FLOPS
        ctypes.c_int64.from_address(self._library.data("threads")).value = self.threads | (SMALL if small else 0)
        release = ctypes.CFUNCTYPE(None)(self._library.address("release"))
        weakref.finalize(self._library, release)
        self.function = NativeFunction(self._library.address(entry_symbol(plan.name)), (self._library, self._arrays))
        if small:
            self.function.keep_lock()

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Fill `outputs`; all of them C-contiguous arrays or tensors."""
        self.function(*inputs, *outputs)


def plan_flops(plan: Plan) -> int:
    """Floating-point operations of a call; kernels with symbolic sizes count as large."""
    total = 0
    for step in plan.steps:
        if isinstance(step, KernelStep):
            total += SMALL_FLOPS if step.kernel.shape_vars else count_flops(step.kernel.function)
    return total


def plan_kernels(plan: Plan) -> list[Built]:
    """The kernels of a plan, each once."""
    return list({step.kernel.symbol: step.kernel for step in plan.steps if isinstance(step, KernelStep)}.values())


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous array at an address that vectors like."""
    if array.flags.c_contiguous and array.ctypes.data % 64 == 0:
        return array
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    made: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
