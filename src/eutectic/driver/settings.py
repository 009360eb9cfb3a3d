"""What a model is compiled for, and how: what `compile` is told, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.backend.outline import check_precision
from eutectic.backend.registry import available, backend
from eutectic.driver.pipeline import before_loops, default_target, get_pipeline
from eutectic.driver.pipeline import pipeline as passes_for
from eutectic.driver.pipeline_text import Pipeline
from eutectic.driver.tuned import NOTHING, measured_for
from eutectic.ir.services import Measured, Services
from eutectic.ir.transform import Pass, PassContext
from eutectic.support.config import default_threads
from eutectic.support.errors import CodegenError, PassError
from eutectic.target import Target


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
    plan = before_loops(passes_for(asked, precision, threads) if pipeline is None else _pipeline(pipeline), chosen)
    measured = measured_for(tuned, chosen, threads)
    return Settings(chosen, threads, plan, precision, tuple(notes), measured)


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
