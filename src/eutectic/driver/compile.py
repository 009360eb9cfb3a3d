"""compile(): a model in, something that runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from eutectic.backend.outline import check_precision
from eutectic.backend.registry import available, backend
from eutectic.backend.registry import loader as loader_of
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.fallback import region_program
from eutectic.driver.importing import Imported, import_model, import_with_weights
from eutectic.driver.libraries import Libraries, libraries_of
from eutectic.driver.link import link
from eutectic.driver.live import Live, watch_weights
from eutectic.driver.native import NativeBuilder
from eutectic.driver.other_code import needs_other_code, other_code
from eutectic.driver.pipeline import before_loops, default_target, get_pipeline
from eutectic.driver.pipeline import pipeline as passes_for
from eutectic.driver.pipeline_text import Pipeline, members_to_run
from eutectic.driver.plan_records import plan_record
from eutectic.driver.plan_sizes import size_records
from eutectic.driver.precision_notes import precision_notes
from eutectic.driver.progress import Report, reports
from eutectic.driver.records import Stages, declined, region_records, unfused_records
from eutectic.driver.report import CompileReport, EagerRecord, host_records
from eutectic.driver.shelf import aligned_constants
from eutectic.driver.tuned import NOTHING, measured_for, tuned_notes
from eutectic.ir.module import IRModule
from eutectic.ir.services import Measured, Services
from eutectic.ir.transform import Pass, PassContext
from eutectic.runtime.executable import Executable
from eutectic.runtime.loading import Loading
from eutectic.runtime.program import Program
from eutectic.runtime.team import available_threads
from eutectic.support.choices import check_choice
from eutectic.support.config import default_threads
from eutectic.support.errors import CodegenError, EutecticError, PassError
from eutectic.support.heap import give_back, without_cycle_search
from eutectic.support.shown import shown
from eutectic.support.timeline import Timeline
from eutectic.target import Target


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
    fallback: str = "eager",
    weights: str = "frozen",
    custom_convert_map: Mapping[Any, Callable[..., Any]] | None = None,
    tuned: Any = True,
    verify: bool = False,
    validate: bool = False,
    progress: Report | bool | None = None,
) -> CompiledModel:
    """Compile a model to native code.

    The passes run in the current `PassContext`: with its level, disabled passes, options, and instruments.

    Args:
        model: `torch.nn.Module` in inference mode, `torch.export.ExportedProgram`, or
            `IRModule` with a function `main`.
        inputs: Example arguments of a torch module; they fix dtypes and sizes.
        kwargs: Example keyword arguments of a torch module.
        dynamic_shapes: Sizes that may change from call to call, as `torch.export.export` takes them.
        threads: Threads of each call; None takes `EUTECTIC_THREADS`, else what OpenMP would use.
        precision: `default`; or `strict`: nothing that loses NaN or infinities of eager is handed to a library; or
            `bf16`: convolutions and matrix products read bfloat16 where oneDNN is faster with it, else they stay
            float32, and the notes of the report say why; or `f16`: the same with float16, refused where that is not
            faster. Sums, biases and activations are float32 in each; results keep their dtypes.
        target: What code is made for. `llvm` makes all of it here; `llvm -libs=dnnl` gives operators to oneDNN
            where that takes them, and is what None means where oneDNN is installed, except for models without
            convolutions whose matrix products are small.
        pipeline: Passes in place of those for the target: the name of a pipeline, a text such as
            `"Partition{backend=dnnl},LegalizeOps,FuseTIR"`, or a pass; `precision` is then an option of `Partition`.
        fallback: What becomes of operators of a torch model that cannot be imported. `eager`: torch runs them between
            compiled parts; one warning names them with module path, source line and reason, and the report has them in
            `eager_operators`. `error`: the model is refused.
        weights: `frozen`: the parameters of a torch model are part of what is compiled; when they change afterwards,
            the next call warns once. `live`: the compiled model follows changes in place, `load_state_dict` and
            replaced parameters; calls after the first two changes compile again, with kernels from the cache, and from
            the third on weights are inputs. Buffers that the model changes itself are read and written in the torch
            module either way.
        custom_convert_map: Converters of a torch model by operator, as `from_exported_program` takes them.
        tuned: Measured choices to use, of this processor and number of threads. True takes the user's database, which
            `eutectic tune` fills, when there is one; a path or a `tune.Database` is another one; False takes none.
        verify: Check the module after every pass.
        validate: Run the module before and after every pass on generated inputs, and refuse a pass that changes
            the results; takes long.
        progress: A function that is called with (step, done, total) before and after each step. True shows a bar on the
            error stream, on a terminal or in a notebook, after a second of work.

    Returns:
        A callable that takes what the model takes and gives what it gives.

    Raises:
        FrontendError: the model cannot be imported; lists everything unsupported at once.
        EutecticError: another stage refused it.
    """
    check_choice(f"fallback={shown(fallback)}", fallback, ("eager", "error"))
    check_choice(f"weights={shown(weights)}", weights, ("frozen", "live"))
    settings = settings_of(target, threads, precision, pipeline, tuned)
    importing = partial(
        import_model,
        model,
        inputs,
        kwargs,
        dynamic_shapes,
        leaves_to_torch=fallback == "eager",
        custom_convert_map=custom_convert_map,
    )
    with reports(progress) as report:
        compiled, imported = _imported_and_compiled(
            importing, settings, report, context_of(settings, verify=verify, validate=validate)
        )
    give_back()
    options: dict[str, Any] = {"pipeline": pipeline, "custom_convert_map": custom_convert_map, "fallback": fallback}
    options["tuned"] = settings.measured
    again = partial(compile, target=target, threads=threads, precision=precision, **options)
    example = partial(again, model, inputs, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
    with_weights = partial(
        import_with_weights,
        imported.program,
        imported.source,
        leaves_to_torch=fallback == "eager",
        custom_convert_map=custom_convert_map,
    )
    live = Live(partial(again, imported.program), example, lambda: compile_imported(with_weights(), settings))
    watch_weights(compiled, imported, weights, live)
    return compiled


@dataclass(frozen=True)
class Settings:
    """What is compiled for, and how.

    Attributes:
        target: The target.
        threads: Threads of each call; None takes what is available.
        plan: The passes.
        precision: What libraries may take.
        notes: What the report says about the choice of the target.
        measured: Measured choices.
    """

    target: Target
    threads: int | None
    plan: Pipeline
    precision: str = "default"
    notes: tuple[str, ...] = ()
    measured: Measured = NOTHING


def context_of(settings: Settings, *, verify: bool = False, validate: bool = False) -> PassContext:
    """What the passes of a compilation run in: within the current context, whose instruments see them.

    Args:
        settings: What is compiled for.
        verify: As for `compile`.
        validate: As for `compile`.
    """
    services = Services(settings.measured)
    return PassContext.current().inner(remarks=True, verify=verify, validate=validate, services=services)


def settings_of(
    target: str | Target | None = None,
    threads: int | None = None,
    precision: str = "default",
    pipeline: str | Pass | None = None,
    tuned: Any = True,
) -> Settings:
    """Checked settings of `compile`; see there.

    Raises:
        EutecticError: a setting is unknown, or a library is not there.
    """
    check_precision(precision)
    threads = threads if threads is not None else default_threads()
    if threads is not None and threads < 1:
        raise PassError(f"threads={threads}: expected a positive number, or None")
    asked = target if target is not None else Target.current()
    chosen, notes = default_target() if asked is None else (_checked(Target(asked)), [])
    plan = before_loops(passes_for(asked, precision) if pipeline is None else _pipeline(pipeline), chosen)
    measured = measured_for(tuned, chosen, threads)
    return Settings(chosen, threads, plan, precision, tuple(notes), measured)


def compile_imported(imported: Imported, settings: Settings) -> CompiledModel:
    """Compile a model that is imported already.

    Raises:
        EutecticError: a stage refused it.
    """
    compiled, _ = _imported_and_compiled(lambda: imported, settings, None, context_of(settings))
    give_back()
    return compiled


def _imported_and_compiled(
    importing: Callable[[], Imported], settings: Settings, progress: Report | None, context: PassContext
) -> tuple[CompiledModel, Imported]:
    """Afterwards nothing holds the modules of the stages, whose constants are several copies of the weights."""
    with context as ctx:
        steps = _Steps(progress, len(settings.plan), ctx.timeline)
        with steps.step("import"):
            imported = importing()
        with without_cycle_search():
            return _compiled(imported, settings, steps, ctx), imported.without_module()


def _compiled(imported: Imported, settings: Settings, steps: _Steps, ctx: PassContext) -> CompiledModel:
    target, threads = settings.target, settings.threads
    lowered = steps.run(settings.plan, imported.mod, ctx)
    with steps.step("load"):
        align = aligned_constants(lowered)
        lowered = align(lowered)
        libraries = libraries_for(lowered, threads, target)
        native, stages = NativeBuilder(target, threads), Stages(ctx.records, lowered)
        aligned = align(stages.partitioned)

        def all_values() -> IRModule:
            return other_code(partitioned.module, target)

        other = all_values if needs_other_code(aligned) else None
        executable = link(lowered, libraries, "main", native, other)
    partitioned, kept = libraries.shelf.put(aligned), libraries.shelf.put(lowered)
    refusals = tuple(f"{remark.title} is not used: {remark.reason}" for remark in declined(ctx.remarks))
    refusals += tuple(precision_notes(settings.precision, ctx.remarks))
    refusals += tuple(tuned_notes(ctx.remarks))
    report = report_of(
        stages, ctx, native, settings.notes + refusals, executable.program, imported.eager, imported.sizes
    )

    @cache
    def timed() -> Executable:
        return link(kept.module, libraries, "main", NativeBuilder(target, threads, timed=True), other)

    return CompiledModel(
        executable,
        imported.signature,
        report,
        (partitioned, kept),
        timed=timed,
        threads=threads,
        target=str(target),
        precision=settings.precision,
        state=imported.state,
    )


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


def libraries_for(mod: IRModule, threads: int | None, target: Target, *, elsewhere: bool = False) -> Libraries:
    """The kernels of libraries that a lowered module calls, each with the loader of its backend.

    Args:
        mod: The module.
        threads: Threads of a call.
        target: What the native code is for that calls them.
        elsewhere: As in `NativeBuilder`.
    """
    loading = Loading(loader_of, available_threads(threads))
    reference = partial(region_program, threads=threads, target=target, elsewhere=elsewhere)
    return libraries_of(mod.attrs.get("external_mods", ()), loading, reference, target)


class _Steps:
    """The steps of a compilation, each announced and timed."""

    def __init__(self, progress: Report | None, passes: int, timeline: Timeline) -> None:
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
