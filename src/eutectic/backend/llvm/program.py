"""A plan as native code: its entry and its kernels compiled, with everything they need, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np

from eutectic.backend.kernel import Built
from eutectic.backend.llvm.entry import entry_symbol, entry_text
from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.optimize import object_code
from eutectic.backend.llvm.pool_text import team_code
from eutectic.backend.plan import Bounds, KernelStep, LibraryStep, Plan
from eutectic.ir.prim_expr import IntImm, Var
from eutectic.runtime.library import LibraryKernel
from eutectic.runtime.native_code import NativeCode, TimedCode
from eutectic.runtime.team import available_threads
from eutectic.support.errors import CodegenError
from eutectic.tir.analysis.flops import count_flops, is_counted

SMALL_FLOPS: Final = 2_000_000  # some tens of microseconds
ALONE_FLOPS: Final = 250_000  # with `ALONE_BYTES` some three microseconds: until a second thread has come, it is done
ALONE_BYTES: Final = 300_000


def native_code(
    plan: Plan,
    arrays: Sequence[np.ndarray[Any, Any]],
    machine: Machine,
    *,
    libraries: Mapping[str, LibraryKernel] | None = None,
    threads: int | None = None,
    bounds: Mapping[Var, Bounds] | None = None,
    elsewhere: bool = False,
    timed: bool = False,
) -> NativeCode:
    """Compile a plan.

    Args:
        plan: What to do.
        arrays: Values of its constants.
        machine: What the code is for.
        libraries: Kernels of libraries, by the names in the plan.
        threads: Threads of a call; None takes what is available.
        bounds: Ranges of symbolic sizes.
        elsewhere: Whether it may be for a machine that this one is not.
        timed: Whether it is to take the times of its steps; gives a `TimedCode`.

    Raises:
        CodegenError: the code is not for this machine.
    """
    if not machine.is_host and not elsewhere:
        raise CodegenError(
            f"code for {machine.cpu} cannot run here", help='read it with mod.show("asm"), or use target="llvm"'
        )
    entry = object_code(entry_text(plan, machine, bounds or {}, timed), machine)
    kernels = {kernel.symbol: kernel.code for kernel in plan_kernels(plan)}
    known, flops = libraries or {}, plan_flops(plan)
    kind = partial(TimedCode, steps=tuple(step.name for step in plan.timed)) if timed else NativeCode
    return kind(
        plan.name,
        entry_symbol(plan.name),
        (*kernels.values(), entry),
        team_code(),
        tuple(arrays),
        tuple(known[symbol] for symbol in plan.libraries),
        tuple(_workspaces(plan)),
        1 if _is_for_one(plan, flops) else available_threads(threads),
        flops < SMALL_FLOPS,
        machine.used_features,
    )


def _workspaces(plan: Plan) -> list[int]:
    """Bytes that each library is given; 0 where that varies."""
    workspaces = [0] * len(plan.libraries)
    for step in plan.steps:
        if isinstance(step, LibraryStep) and step.workspaces:
            size = step.workspaces[0].bytes
            workspaces[step.number] = size.value if isinstance(size, IntImm) else 0
    return workspaces


def plan_flops(plan: Plan) -> int:
    """Floating-point operations of a call; kernels with symbolic sizes, and libraries, count as large."""
    calls = Counter(step.kernel.symbol for step in plan.steps if isinstance(step, KernelStep))
    total = SMALL_FLOPS * sum(isinstance(step, LibraryStep) for step in plan.steps)
    for kernel in plan_kernels(plan):
        total += calls[kernel.symbol] * (SMALL_FLOPS if kernel.shape_vars else count_flops(kernel.function))
    return total


def _is_for_one(plan: Plan, flops: int) -> bool:
    """Whether one thread has done everything before others would have helped, as far as that is known."""
    if flops >= ALONE_FLOPS or not all(is_counted(kernel.function) for kernel in plan_kernels(plan)):
        return False
    sizes = [tensor.bytes for step in plan.steps for tensor in step.tensors]
    known = [size.value for size in sizes if isinstance(size, IntImm)]
    return len(known) == len(sizes) and sum(known) < ALONE_BYTES


def plan_kernels(plan: Plan) -> list[Built]:
    """The kernels of a plan, each once."""
    return list({step.kernel.symbol: step.kernel for step in plan.steps if isinstance(step, KernelStep)}.values())


@cache
def library_code(text: str, machine: Machine) -> bytes:
    """Object code of the function by which native code calls a library's kernels."""
    return object_code(text, machine)
