"""compile(): a model in, something that runs out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from eutectic.backend.dnnl import pipeline as dnnl
from eutectic.backend.dnnl.library import availability
from eutectic.backend.llvm.sequence import native_sequence_runner
from eutectic.driver import fallback as _fallback  # noqa: F401 - registers eutectic.compile_region
from eutectic.driver.compiled import ArraySignature, CompiledModel, Signature
from eutectic.driver.link import link
from eutectic.driver.native import NativeCode
from eutectic.driver.pipeline import from_groups, to_groups, to_kernels, to_programs
from eutectic.driver.records import kernel_records, region_records, unfused_records
from eutectic.driver.report import CompileReport, RegionRecord
from eutectic.driver.size import is_small
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.expr import Function
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.support.config import default_threads
from eutectic.support.errors import CodegenError, EutecticError, FrontendError, PassError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target
from eutectic.tir.transform.check_bounds import checked_module

Progress = Callable[[str, int, int], None]
PRECISIONS: Final = ("default", "strict")


def compile(
    model: Any,
    inputs: Sequence[Any] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    precision: str = "default",
    target: str | Target | None = None,
    verify: bool = False,
    validate: bool = False,
    progress: Progress | None = None,
) -> CompiledModel:
    """Compile a model to native code.

    Args:
        model: `torch.nn.Module` in inference mode, `torch.export.ExportedProgram`, or
            `IRModule` with a function `main`.
        inputs: Example arguments of a torch module; they fix dtypes and sizes.
        kwargs: Example keyword arguments of a torch module.
        dynamic_shapes: Sizes that may change from call to call, as `torch.export.export` takes them.
        threads: Threads of each call; None takes `EUTECTIC_THREADS`, else what OpenMP would use.
        precision: `default`, or `strict`: nothing that loses NaN or infinities of eager is handed to a library.
        target: What code is made for. `llvm` makes all of it here; `llvm -libs=dnnl` gives operators to oneDNN
            where that takes them, and is what None means where oneDNN is installed, except for models without
            convolutions whose matrix products are small.
        verify: Check the module after every pass.
        validate: Run the module before and after every pass on generated inputs, and refuse a pass that changes
            the results; takes long.
        progress: Called with (step, done, total) as compilation goes on.

    Returns:
        A callable that takes what the model takes and gives what it gives.

    Raises:
        FrontendError: the model cannot be imported; lists everything unsupported at once.
        EutecticError: another stage refused it.
    """
    start = time.perf_counter()
    if precision not in PRECISIONS:
        near = did_you_mean(str(precision), PRECISIONS)
        raise PassError(f"unknown precision {shown(precision)}", help=near or f"one of {', '.join(PRECISIONS)}")
    threads = threads if threads is not None else default_threads()
    if threads is not None and threads < 1:
        raise PassError(f"threads={threads}: expected a positive number, or None")
    chosen, notes = _target(target)
    steps = _Steps(progress, chosen)
    mod, signature = _import(model, inputs, kwargs, dynamic_shapes, steps)
    with PassContext(remarks=True, verify=verify, validate=validate) as ctx:
        mod = steps.run(dnnl.prepare(), mod)
        regions: tuple[RegionRecord, ...] = ()
        partitioned = mod
        if target is None and chosen.libs and is_small(mod):
            chosen = Target("llvm")
            notes.append(
                "oneDNN is not used: the model is so small that calls into a library would cost more than they save"
            )
        if "dnnl" in chosen.libs:
            partitioned = steps.run(dnnl.partition(precision), mod)
            regions = region_records(partitioned)
            mod = steps.run(dnnl.lower(), partitioned)
        programs = steps.run(to_programs(), mod)
        groups = steps.run(to_groups(), programs)
        lowered = steps.run(from_groups(), groups)
        kernels = kernel_records(mod, programs, groups, lowered)
        unfused = unfused_records(mod, ctx.remarks, "dnnl") if chosen.libs else ()
        steps.begin("load")
        executable = link(lowered, _load_regions(lowered, threads), "main", NativeCode(chosen, threads))
        steps.done()
    seconds = time.perf_counter() - start
    report = CompileReport((*regions, *kernels), unfused, tuple(notes), seconds, tuple(steps.times))
    return CompiledModel(executable, signature, report, partitioned, lowered)


def _target(target: str | Target | None) -> tuple[Target, list[str]]:
    """What to compile for, and what has to be said about it."""
    if target is not None:
        chosen = Target(target)
        found = availability()
        if "dnnl" in chosen.libs and not found.ok:
            raise CodegenError(f"target {chosen}: oneDNN is not there: {found.reason}", help="leave -libs=dnnl out")
        return chosen, []
    current = Target.current()
    if current is not None:
        return current, []
    found = availability()
    notes = [] if found.ok else [f"oneDNN is not used: {found.reason}"]
    return Target("llvm -libs=dnnl" if found.ok else "llvm"), notes


def _import(
    model: Any, inputs: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, steps: _Steps
) -> tuple[IRModule, Signature]:
    """The model as a module with `main`, and how to call it."""
    steps.begin("import")
    if isinstance(model, IRModule):
        main = model.get("main")
        if not isinstance(main, Function):
            raise FrontendError("the module has no graph function main", help='name the entry function "main"')
        steps.done()
        names = [param.name_hint for param in main.params]
        return checked_module(model), ArraySignature(names, main.ret_struct_info or ObjectStructInfo())
    if find_spec("torch") is None:
        raise FrontendError(
            f"cannot compile a {type(model).__name__}: torch is not installed",
            help="pip install 'eutectic[torch]', or give an IRModule",
        )
    from eutectic.relax.frontend.torch import (  # heavy, and only for torch models
        TorchSignature,
        export_model,
        from_exported_program,
    )

    program = export_model(model, inputs, kwargs, dynamic_shapes)
    mod = from_exported_program(program)
    steps.done()
    return mod, TorchSignature(program)


def _load_regions(mod: IRModule, threads: int | None) -> dict[str, Any]:
    runner = native_sequence_runner()
    return {m.symbol: m.load(threads, runner) for m in mod.attrs.get("external_mods", ())}


class _Steps:
    """Runs passes and reports progress and seconds."""

    def __init__(self, progress: Progress | None, target: Target) -> None:
        self._progress, self._count = progress, 0
        self._total = 2 + len(dnnl.prepare()) + len(to_kernels())
        if "dnnl" in target.libs:
            self._total += len(dnnl.partition()) + len(dnnl.lower())
        self._name, self._start = "", 0.0
        self.times: list[tuple[str, float]] = []

    def begin(self, name: str) -> None:
        self._name, self._start = name, time.perf_counter()
        if self._progress is not None:
            self._progress(name, self._count, self._total)

    def done(self) -> None:
        self._count += 1
        self.times.append((self._name, time.perf_counter() - self._start))
        if self._progress is not None:
            self._progress(self._name, self._count, self._total)

    def run(self, passes: Sequence[Pass], mod: IRModule) -> IRModule:
        for step in passes:
            self.begin(step.info.name)
            try:
                mod = step(mod)
            except EutecticError as error:
                error.with_note(f"while compiling, in step {step.info.name}")
                raise
            self.done()
        return mod
