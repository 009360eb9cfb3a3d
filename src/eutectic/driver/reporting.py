"""The report of a compilation, from what its passes left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eutectic.driver.native import NativeBuilder
from eutectic.driver.plan_records import plan_record
from eutectic.driver.plan_sizes import size_records
from eutectic.driver.records import Stages, region_records, unfused_records
from eutectic.driver.report import CompileReport, EagerRecord, host_records
from eutectic.ir.transform import PassContext
from eutectic.runtime.program import Program


def report_of(
    stages: Stages,
    ctx: PassContext,
    native: NativeBuilder,
    notes: Sequence[str],
    program: Program,
    eager: tuple[EagerRecord, ...] = (),
    sizes: Mapping[str, int] | None = None,
) -> CompileReport:
    """What became of the operators of a module.

    Args:
        stages: The module on its way.
        ctx: The context of its passes.
        native: What made the kernels, and for which target.
        notes: Sentences about the compilation as a whole.
        program: What was linked.
        eager: What torch runs.
        sizes: Symbolic sizes of the example, by name.
    """
    passes, target = tuple(ctx.timeline.outermost()), native.target
    plan = plan_record(stages, ctx.remarks, target.kind.name, native.kernels())
    return CompileReport(
        regions=region_records(stages, target),
        unfused=unfused_records(stages, ctx.remarks),
        notes=tuple(notes),
        seconds=sum(seconds for _, seconds in passes),
        passes=passes,
        host_operators=host_records(program),
        eager_operators=eager,
        plan=replace(plan, sizes=size_records(sizes or {})),
    )
