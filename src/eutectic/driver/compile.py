"""compile(): a model in, something that runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from eutectic.backend.outline import check_precision
from eutectic.backend.registry import available, backend
from eutectic.backend.registry import loader as loader_of
from eutectic.driver.compiled import CompiledModel, array_signature
from eutectic.driver.fallback import region_program
from eutectic.driver.libraries import Libraries, libraries_of
from eutectic.driver.link import link
from eutectic.driver.native import NativeBuilder
from eutectic.driver.pipeline import before_loops, default_target, get_pipeline
from eutectic.driver.pipeline import pipeline as passes_for
from eutectic.driver.pipeline_text import Pipeline, members_to_run
from eutectic.driver.plan_records import plan_record
from eutectic.driver.records import Stages, declined, region_records, unfused_records
from eutectic.driver.report import CompileReport, host_records
from eutectic.driver.shelf import aligned_constants
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.expr import Function
from eutectic.relax.struct_info import ObjectStructInfo
from eutectic.runtime.executable import Executable
from eutectic.runtime.loading import Loading
from eutectic.runtime.signature import Signature
from eutectic.runtime.team import available_threads
from eutectic.support.config import default_threads
from eutectic.support.errors import CodegenError, EutecticError, FrontendError, PassError
from eutectic.support.heap import give_back
from eutectic.support.timeline import Timeline
from eutectic.target import Target
from eutectic.tir.transform.check_bounds import checked_module

Progress = Callable[[str, int, int], None]


def compile(
    model: Any,
    inputs: Sequence[Any] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    precision: str = "default",
    target: str | Target | None = None,
    pipeline: str | Pass | None = None,
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
        pipeline: Passes in place of those for the target: the name of a pipeline, a text such as
            `"Partition{backend=dnnl},LegalizeOps,FuseTIR"`, or a pass; `precision` is then an option of `Partition`.
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
    check_precision(precision)
    threads = threads if threads is not None else default_threads()
    if threads is not None and threads < 1:
        raise PassError(f"threads={threads}: expected a positive number, or None")
    asked = target if target is not None else Target.current()
    chosen, notes = default_target() if asked is None else (_checked(Target(asked)), [])
    plan = before_loops(passes_for(asked, precision) if pipeline is None else _pipeline(pipeline), chosen)
    with PassContext(remarks=True, verify=verify, validate=validate) as ctx:
        steps = _Steps(progress, len(plan), ctx.timeline)
        with steps.step("import"):
            mod, signature = _import(model, inputs, kwargs, dynamic_shapes)
        lowered = steps.run(plan, mod, ctx)
        with steps.step("load"):
            align = aligned_constants(lowered)
            lowered = align(lowered)
            libraries = libraries_for(lowered, threads)
            native = NativeBuilder(chosen, threads)
            executable = link(lowered, libraries, "main", native)
    stages = Stages(ctx.records, lowered)
    partitioned, kept = libraries.shelf.put(align(stages.partitioned)), libraries.shelf.put(lowered)
    notes += [f"{remark.title} is not used: {remark.reason}" for remark in declined(ctx.remarks)]
    passes = tuple(ctx.timeline.outermost())
    report = CompileReport(
        regions=region_records(stages, chosen),
        unfused=unfused_records(stages, ctx.remarks),
        notes=tuple(notes),
        seconds=sum(seconds for _, seconds in passes),
        passes=passes,
        host_operators=host_records(executable.program),
        plan=plan_record(stages, ctx.remarks, chosen.kind.name, native.traces()),
    )

    def apart() -> Executable:
        return link(kept.module, libraries, "main", NativeBuilder(chosen, threads, one_by_one=True))

    compiled = CompiledModel(executable, signature, report, (partitioned, kept), apart=apart, threads=threads)
    del mod, lowered, stages, ctx, align
    give_back()
    return compiled


def _checked(target: Target) -> Target:
    """A target whose libraries are all there.

    Raises:
        CodegenError: one is not.
    """
    for name in target.libs:
        library = backend(name)
        state = available(library, target)
        if not state.ok:
            raise CodegenError(
                f"target {target}: {library.title} is not there: {state.reason}", help=f"leave -libs={name} out"
            )
    return target


def _pipeline(pipeline: str | Pass) -> Pipeline:
    resolved = get_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    return resolved if isinstance(resolved, Pipeline) else Pipeline((resolved,))


def _import(
    model: Any, inputs: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> tuple[IRModule, Signature]:
    """The model as a module with `main`, and how to call it."""
    if isinstance(model, IRModule):
        main = model.get("main")
        if not isinstance(main, Function):
            raise FrontendError("the module has no graph function main", help='name the entry function "main"')
        names = [param.name_hint for param in main.params]
        return checked_module(model), array_signature(names, main.ret_struct_info or ObjectStructInfo())
    if find_spec("torch") is None:
        raise FrontendError(
            f"cannot compile a {type(model).__name__}: torch is not installed",
            help="pip install 'eutectic[torch]', or give an IRModule",
        )
    from eutectic.relax.frontend.torch import (  # heavy, and only for torch models
        export_model,
        from_exported_program,
        signature_of,
    )

    program = export_model(model, inputs, kwargs, dynamic_shapes)
    mod = from_exported_program(program)
    return mod, signature_of(program)


def libraries_for(mod: IRModule, threads: int | None) -> Libraries:
    """The kernels of libraries that a lowered module calls, each with the loader of its backend."""
    loading = Loading(loader_of, available_threads(threads))
    return libraries_of(mod.attrs.get("external_mods", ()), loading, partial(region_program, threads=threads))


class _Steps:
    """The steps of a compilation, each announced and timed."""

    def __init__(self, progress: Progress | None, passes: int, timeline: Timeline) -> None:
        self._progress, self._timeline = progress, timeline
        self._count, self._total = 0, 2 + passes

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step that is no pass."""
        with self._announced(name), self._timeline.step(name):
            yield

    def run(self, plan: Pipeline, mod: IRModule, ctx: PassContext) -> IRModule:
        """The passes of a pipeline, which the context times."""
        for member in members_to_run(plan, ctx):
            with self._announced(member.info.name):
                try:
                    mod = member(mod)
                except EutecticError as error:
                    error.with_note(f"while compiling, in step {member.info.name}")
                    raise
        return mod

    @contextmanager
    def _announced(self, name: str) -> Iterator[None]:
        self._tell(name)
        yield
        self._count += 1
        self._tell(name)

    def _tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, self._count, self._total)
