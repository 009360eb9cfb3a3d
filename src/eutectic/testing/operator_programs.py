"""Samples of operators compiled for several targets, each different program once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from eutectic.driver.compile import compile_imported
from eutectic.driver.importing import Imported, import_model
from eutectic.driver.pipeline import prepare
from eutectic.driver.pipeline_text import Pipeline
from eutectic.driver.settings import settings_of
from eutectic.ir.module import IRModule
from eutectic.ir.structural import structural_equal
from eutectic.ir.transform import PassContext
from eutectic.relax.frontend.torch import export_model
from eutectic.testing.operator_samples import Calls

_FIRST_WITHOUT_LIBRARIES: Final = "AssignLayouts"  # passes from this one on do not ask which libraries a target has


def results_of(calls: Calls, wanted: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """What samples give, compiled for targets.

    A target is left out when its libraries take nothing, so that the module after `Partition` is structurally equal
    to that of an earlier target: what is compiled of it is the same program.

    Args:
        calls: The samples.
        wanted: The targets.

    Returns:
        Target and results, a list with one item for each sample.

    Raises:
        EutecticError: they cannot be exported, or a step of the compiler refuses them.
    """
    program = export_model(calls.eval(), calls.inputs())
    imported = import_model(program, None, None, None, leaves_to_torch=False, custom_convert_map=None)
    for target, module in different_modules(imported, wanted):
        settings = settings_of(target, threads=1)
        _, rest = settings.plan.split(_FIRST_WITHOUT_LIBRARIES)
        compiled = compile_imported(replace(imported, mod=module), replace(settings, plan=rest))
        with torch.no_grad():
            yield target, compiled(*calls.inputs())


def different_modules(imported: Imported, wanted: Sequence[str]) -> Iterator[tuple[str, IRModule]]:
    """The module after libraries took their part, for each target for which it differs from those before.

    Args:
        imported: A model.
        wanted: The targets.
    """
    shared = prepare()
    seen: list[IRModule] = []
    with PassContext() as ctx:
        prepared = shared.run(imported.mod, ctx)
    for target in wanted:
        before, _ = settings_of(target).plan.split(_FIRST_WITHOUT_LIBRARIES)
        with PassContext() as ctx:
            module = Pipeline(before.passes[len(shared) :]).run(prepared, ctx)
        if not any(structural_equal(module, other) for other in seen):
            seen.append(module)
            yield target, module
