"""Saved models compiled again, from their text: for this processor, or for others, to be written to a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from eutectic.backend.choose_precision import fastest_in
from eutectic.backend.contract import NARROW
from eutectic.driver.compile import compile
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.inlined import without_regions
from eutectic.driver.left_to_torch import eager_records
from eutectic.driver.libraries import Libraries
from eutectic.driver.link import program_of
from eutectic.driver.linked import libraries_for
from eutectic.driver.native import NativeBuilder
from eutectic.driver.other_code import needs_other_code, other_code
from eutectic.driver.pipeline import before_loops, pipeline
from eutectic.driver.plain_layouts import with_plain_layouts
from eutectic.driver.records import Stages
from eutectic.driver.report import CompileReport
from eutectic.driver.reporting import report_of
from eutectic.driver.saved_text import constants_of, graph_of
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Constant, Function
from eutectic.relax.op.nn.dense_pack import DENSE_PACK
from eutectic.relax.transform.dense_pack.plain import ConvertDensePackToMatmul
from eutectic.relax.transform.winograd.direct import ConvertWinogradToConv2D
from eutectic.runtime.saved import SavedModel
from eutectic.support.errors import CodegenError
from eutectic.support.registry import register_global_func
from eutectic.target import KINDS, Target

_PROCESSOR: Final = re.compile(r"[\w.-]+")


def module_of(saved: SavedModel, target: Target) -> IRModule:
    """The graph that a model was made from.

    Args:
        saved: The model.
        target: What it is to be compiled for. Regions stay as they are when all are of its libraries; else the
            operators in them take their places. Layouts, convolutions by Winograd's method, and
            weights in panels, that were chosen for another processor, are taken back.

    Raises:
        LoadError: its text is no module.
        ScriptError: it does not parse.
    """
    module = with_plain_layouts(without_regions(graph_of(saved), kept=target.libs))
    return ConvertDensePackToMatmul()(ConvertWinogradToConv2D()(module))


def recompiled(saved: SavedModel, target: str | None = None) -> CompiledModel:
    """A model compiled again for this processor.

    Args:
        saved: The model as data.
        target: What for; None takes the libraries that it was compiled with, and the processor of this machine.

    Raises:
        EutecticError: its text does not parse, or cannot be compiled here.
    """
    chosen = Target(target) if target is not None else _of_this_machine(Target(saved.target))
    module = module_of(saved, chosen)
    model = compile(module, target=chosen, threads=saved.threads, precision=saved.precision)
    model.use_signature(saved.signature)
    model.use_state(saved.state)
    return model


def _of_this_machine(target: Target) -> Target:
    """A target without its processor."""
    options: dict[str, Any] = dict(target.options)
    return Target({"kind": target.kind.name, **options})


def variants(saved: SavedModel, targets: Sequence[str]) -> list[SavedModel]:
    """A model compiled for several processors, which need not be this one.

    Memory that a library needs for itself is planned as it is on this machine; where it needs more, its code is
    refused when it is loaded.

    Args:
        saved: The model as data.
        targets: Targets, or names of processors, which mean code without libraries.

    Raises:
        CodegenError: a target is not known, or given twice, or slow with the operands that a precision has narrowed.
    """
    if isinstance(targets, str):
        raise CodegenError(f"targets is the text {targets!r}, expected a list", help=f"targets=[{targets!r}]")
    chosen = [Target(name) if " " in name or name in KINDS else _processor(name) for name in targets]
    if len(set(map(str, chosen))) < len(chosen):
        raise CodegenError(f"a target is given twice: {', '.join(map(str, chosen))}")
    for target in chosen:
        _check_precision(saved, target)
    return [_variant(saved, target) for target in chosen]


def _check_precision(saved: SavedModel, target: Target) -> None:
    """Refuse to compile narrow operands for a target that is slower with them: the wide ones are gone.

    Weights in panels are no such operands: where narrow ones are slower, they are widened again.
    """
    dtype = NARROW.get(saved.precision, "")
    verdict = fastest_in(dtype, target.libs, target)
    if dtype and not verdict.ok and _has_narrow_operands(graph_of(saved), dtype):
        raise CodegenError(
            f'a model compiled with precision="{saved.precision}" cannot be saved for {target}: {verdict.reason}',
            help='compile it with precision="default" for that target, and save it by itself',
        )


def _has_narrow_operands(module: IRModule, dtype: str) -> bool:
    """Whether constants of a dtype are read by anything but products of float32 with weights in panels."""
    functions = [function for _, function in module.functions_items() if isinstance(function, Function)]
    calls = (call for function in functions for call in walk_calls(function) if call.op is not DENSE_PACK)
    read = (part for call in calls for arg in call.args for part in post_order(arg))
    return any(isinstance(part, Constant) and part.data.dtype.name == dtype for part in read)


def _processor(name: str) -> Target:
    kind = Target().kind.name
    if not _PROCESSOR.fullmatch(name):
        raise CodegenError(
            f"{name!r} names no processor", help=f"such as x86-64-v3, or a target: {kind} -mcpu=x86-64-v3"
        )
    return Target({"kind": kind, "mcpu": name})


def _variant(saved: SavedModel, target: Target) -> SavedModel:
    module = module_of(saved, target)
    plan = before_loops(pipeline(target, saved.precision, saved.threads), target)
    with PassContext(remarks=True) as ctx:
        lowered = plan(module)
        libraries = libraries_for(lowered, saved.threads, target, elsewhere=True)
        native = NativeBuilder(target, saved.threads, elsewhere=True)
        program = program_of(lowered, libraries, "main", native)
        stages, sizes = Stages(ctx.records, lowered), CompileReport.from_json(saved.report).plan.sizes
        partitioned, example = stages.partitioned, {size.name: size.value for size in sizes}
        if needs_other_code(partitioned):
            other = program_of(other_code(partitioned, target), Libraries(), "main", native)
            program = replace(program, otherwise=other)
        elif libraries.kernels:
            other = program_of(lowered, libraries, "main", native, by_reference=True)
            program = replace(program, otherwise=other)
    return replace(
        saved,
        program=program,
        report=report_of(stages, ctx, native, (), program, eager_records(module), example).to_json(),
        text=partitioned.script(),
        constants=constants_of(partitioned),
        target=str(target),
    )


register_global_func("eutectic.recompile", recompiled)
register_global_func("eutectic.variants", variants)
