"""compile(): a model in, something that runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from eutectic.driver.compiled import CompiledModel
from eutectic.driver.importing import Imported, import_model, import_with_weights
from eutectic.driver.kept import Kept, keep, key_of, read
from eutectic.driver.kernel_sharing import helpers_begin
from eutectic.driver.linked import Linked, linked
from eutectic.driver.live import Live, watch_weights
from eutectic.driver.native import may_share
from eutectic.driver.pipeline_text import Pipeline, members_to_run
from eutectic.driver.precision_notes import precision_notes
from eutectic.driver.progress import Report, reports
from eutectic.driver.records import Stages, declined
from eutectic.driver.report import CompileReport
from eutectic.driver.reporting import report_of
from eutectic.driver.settings import Settings, context_of, settings_of
from eutectic.driver.tuned import tuned_notes
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Function
from eutectic.runtime.executable import Executable
from eutectic.support.choices import check_choice
from eutectic.support.errors import EutecticError
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

    The passes run in the current `PassContext`: with its level, disabled passes, options, and instruments. A model that
    was compiled before is read from the cache on disk in place of that, when all it depends on is the same; its report
    has the note `compiled before, and read from the cache`.

    Args:
        model: `torch.nn.Module` in inference mode, `torch.export.ExportedProgram`, or
            `IRModule` with a function `main`.
        inputs: Example arguments of a torch module; they fix dtypes and sizes.
        kwargs: Example keyword arguments of a torch module.
        dynamic_shapes: Sizes that may change from call to call, as `torch.export.export` takes them.
        threads: Threads of each call; None takes `EUTECTIC_THREADS`, else what OpenMP would use.
        precision: `default`; or `strict`: nothing that loses NaN or infinities of eager is handed to a library; or
            `bf16`: convolutions and matrix products read bfloat16 where oneDNN is faster with it, else they stay
            float32, and the notes of the report say why, but for constant matrices of products of few rows, which
            are kept in bfloat16; or `f16`: the same with float16, refused where neither is faster. Sums, biases and
            activations are float32 in each; results keep their dtypes.
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
    context = context_of(settings, verify=verify, validate=validate)
    ways: dict[str, Any] = {"leaves_to_torch": fallback == "eager", "custom_convert_map": custom_convert_map}
    importing = partial(import_model, model, inputs, kwargs, dynamic_shapes, **ways)
    is_kept = pipeline is None and weights == "frozen"
    with reports(progress) as report:
        done = _imported_and_compiled(importing, settings, report, context, is_kept=is_kept)
    give_back()
    program, source = done.imported.program, done.imported.source
    live = Live(
        again=lambda: _anew(partial(import_model, program, None, None, None, **ways), settings),
        anew=lambda: _anew(importing, settings),
        with_weights=lambda: _anew(partial(import_with_weights, program, source, **ways), settings),
    )
    watch_weights(done.model, done.imported, weights, live)
    if done.key is not None:
        keep(done.key, done.model)  # last, as it takes a processor for a while
    return done.model


def compile_imported(imported: Imported, settings: Settings) -> CompiledModel:
    """Compile a model that is imported already, and is not kept on disk.

    Raises:
        EutecticError: a stage refused it.
    """
    return _anew(lambda: imported, settings)


def _anew(importing: Callable[[], Imported], settings: Settings) -> CompiledModel:
    """Compile a model that is not kept: it is one of several that come one after the other."""
    done = _imported_and_compiled(importing, settings, None, context_of(settings), is_kept=False)
    give_back()
    return done.model


@dataclass(frozen=True)
class _Done:
    """A model, compiled.

    Attributes:
        model: It.
        imported: What it was imported with. Nothing holds the modules of the stages any more, whose constants are
            several copies of the weights.
        key: What it is to be kept under; None when it is kept already, or not to be.
    """

    model: CompiledModel
    imported: Imported
    key: str | None = None


def _imported_and_compiled(
    importing: Callable[[], Imported],
    settings: Settings,
    progress: Report | None,
    context: PassContext,
    *,
    is_kept: bool,
) -> _Done:
    with context as ctx:
        steps = _Steps(progress, len(settings.plan) + is_kept, ctx.timeline)
        with steps.step("import"):
            imported = importing()
        rest = imported.without_module()
        with without_cycle_search():
            key, known = _looked_up(imported, settings, steps, ctx) if is_kept else (None, None)
            if known is not None:
                return _Done(_read(known, imported, settings, steps, ctx), rest)
            with _helpers(imported.mod, settings.target, ctx):
                return _Done(_compiled(imported, settings, steps, ctx), rest, key)


def _helpers(mod: IRModule, target: Target, ctx: PassContext) -> AbstractContextManager[None]:
    """Where processes begin that will help with the kernels of a model, if there may be any."""
    if not may_share(target, ctx):
        return nullcontext()
    functions = [function for _, function in mod.functions_items() if isinstance(function, Function)]
    return helpers_begin(sum(1 for function in functions for _ in walk_bindings(function)))


def _looked_up(
    imported: Imported, settings: Settings, steps: _Steps, ctx: PassContext
) -> tuple[str | None, Kept | None]:
    """What a model is kept under, and how it was kept; None where it is not."""
    with steps.step("look up"):
        key = key_of(imported, settings, ctx)
        return key, None if key is None else read(key, settings)


def _read(known: Kept, imported: Imported, settings: Settings, steps: _Steps, ctx: PassContext) -> CompiledModel:
    """A model as it was compiled before, with the times of now."""
    steps.leave_out_rest()
    passes = tuple(ctx.timeline.outermost())
    report = replace(known.report, passes=passes, seconds=sum(seconds for _, seconds in passes))
    return _model(known.executable, imported, settings, report, known.made)


def _compiled(imported: Imported, settings: Settings, steps: _Steps, ctx: PassContext) -> CompiledModel:
    lowered = steps.run(settings.plan, imported.mod, ctx)
    with steps.step("load"):
        stages = Stages(ctx.records, lowered)
        made = linked(lowered, stages.partitioned, settings)
    refusals = tuple(f"{remark.title} is not used: {remark.reason}" for remark in declined(ctx.remarks))
    refusals += tuple(precision_notes(settings.precision, ctx.remarks))
    refusals += tuple(tuned_notes(ctx.remarks))
    program, notes = made.executable.program, settings.notes + refusals
    report = report_of(stages, ctx, made.native, notes, program, imported.eager, imported.sizes)
    return _model(made.executable, imported, settings, report, lambda: made)


def _model(
    executable: Executable,
    imported: Imported,
    settings: Settings,
    report: CompileReport,
    made: Callable[[], Linked],
) -> CompiledModel:
    return CompiledModel(
        executable,
        imported.signature,
        report,
        made,
        threads=settings.threads,
        target=str(settings.target),
        precision=settings.precision,
        state=imported.state,
    )


class _Steps:
    """The steps of a compilation, each announced and timed."""

    def __init__(self, progress: Report | None, others: int, timeline: Timeline) -> None:
        self._progress, self._timeline = progress, timeline
        self._count, self._total = 0, 2 + others

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step that is no pass."""
        with self._announced(name), self._timeline.step(name):
            yield

    def leave_out_rest(self) -> None:
        """Nothing is left to do."""
        self._total = self._count
        self._tell("ready")

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
