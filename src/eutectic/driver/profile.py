"""What each kernel of a call costs: seconds, bytes, FLOPs, and how close that is to what the machine can do."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from eutectic.backend.plan import KernelStep, Tensor
from eutectic.driver.link import link
from eutectic.driver.native import NativeBuilder
from eutectic.ir.dtype import item_bytes
from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import IntImm
from eutectic.runtime.instructions import RunNative
from eutectic.target import Target
from eutectic.tir.analysis.flops import count_flops


@dataclass(frozen=True)
class KernelCost:
    """One kernel of one call.

    Attributes:
        name: The tensor program.
        seconds: Time of the call from Python, about a microsecond of which is the call.
        bytes: Of its arguments and results, each counted once.
        flops: Floating-point operations; 0 when sizes are symbolic.
    """

    name: str
    seconds: float
    bytes: int
    flops: int

    @property
    def gigabytes_per_second(self) -> float:
        """Rate of the bytes."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gigaflops(self) -> float:
        """Rate of the operations, in 1e9 per second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class KernelTable:
    """Costs of the kernels of a call, in order."""

    rows: tuple[KernelCost, ...]

    @property
    def seconds(self) -> float:
        """Sum over all kernels."""
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        table = Table("kernel", *_RIGHT, title=f"{len(self.rows)} kernels, {self.seconds * 1e3:.3f} ms")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in self.rows:
            share = row.seconds / self.seconds if self.seconds else 0.0
            table.add_row(
                row.name,
                f"{row.seconds * 1e6:.1f}",
                f"{share:.1%}",
                f"{row.bytes / 1e6:.3f}",
                f"{row.flops / 1e6:.2f}",
                f"{row.gigabytes_per_second:.1f}",
                f"{row.gigaflops:.1f}",
            )
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(table)
        return console.export_text()


_RIGHT = ("us", "share", "MB", "MFLOP", "GB/s", "GFLOP/s")


def profile_function(
    mod: IRModule, target: Target, name: str, args: Sequence[Any], threads: int | None, warm_up: int = 3
) -> KernelTable:
    """Run a function kernel by kernel and take the time of each.

    Args:
        mod: A module of kernels.
        target: The host.
        name: The function.
        args: Its arguments.
        threads: Threads of a call.
        warm_up: Calls before the one that is timed.
    """
    native = NativeBuilder(target, threads, timed=True)
    executable = link(mod, None, name, native)
    for _ in range(warm_up):
        executable.run(args)
    _, times = executable.profile(args)
    spent = [time for time in times if isinstance(executable.instructions[time.instruction], RunNative)]
    steps = [step for plan in native.plans for step in plan.steps if isinstance(step, KernelStep)]
    rows = [
        KernelCost(step.name, time.seconds, sum(map(_bytes, step.tensors)), count_flops(step.kernel.function))
        for step, time in zip(steps, spent, strict=True)
    ]
    return KernelTable(tuple(rows))


def _bytes(tensor: Tensor) -> int:
    count = tensor.elements
    return count.value * item_bytes(tensor.dtype) if isinstance(count, IntImm) else 0
