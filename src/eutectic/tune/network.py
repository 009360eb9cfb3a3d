"""A model of which one kernel at a time can be replaced, the rest staying what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np

from eutectic.backend.contract import Machine
from eutectic.backend.kernel import Built
from eutectic.backend.plan import KernelStep
from eutectic.backend.registry import code_generator
from eutectic.driver.importing import Imported
from eutectic.driver.link import link
from eutectic.driver.linked import libraries_for
from eutectic.driver.native import NativeBuilder
from eutectic.driver.settings import Settings, context_of
from eutectic.driver.shelf import aligned_constants
from eutectic.ir.module import IRModule
from eutectic.relax.transform.offers_by_kind import ChoiceRemark
from eutectic.runtime.executable import Executable
from eutectic.runtime.instructions import RunNative
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.rules.choosing import with_decisions, workload_key
from eutectic.tir.schedule.rules.rule import Decisions

Array = np.ndarray[Any, Any]
_PROFILES: Final = 5
Chosen = Mapping[str, Mapping[str, Decisions]]  # decisions by workload and choice point


class Network:
    """A model compiled with some choices, and again and again with others for one of its kernels.

    What the kernels share is made once: the graph, weights, kernels of libraries, and kernels that stay.

    Args:
        imported: The model.
        settings: What it is compiled for, and the choices to begin with.
        built: Kernels made before, for the same target.

    Attributes:
        executable: The model with the choices to begin with.
        programs: Its tensor programs by workload, with the names that people know them by.
        choices: The choices between ways to compute operators that were made, one for each operator.
    """

    def __init__(self, imported: Imported, settings: Settings, built: dict[PrimFunc, Built] | None = None) -> None:
        self._settings, self._built = settings, {} if built is None else built
        with context_of(settings) as ctx:
            lowered: IRModule = settings.plan(imported.mod)
            lowered = aligned_constants(lowered)(lowered)
            self._libraries = libraries_for(lowered, settings.threads, settings.target)
            self.executable = link(lowered, self._libraries, "main", self._builder())
        self._kept = self._libraries.shelf.put(lowered)
        self.choices = tuple(remark for remark in ctx.remarks if isinstance(remark, ChoiceRemark))
        functions = [(gv.name_hint, func) for gv, func in lowered.functions_items() if isinstance(func, PrimFunc)]
        self.programs = {workload_key(func): (name, func) for name, func in reversed(functions)}

    @property
    def machine(self) -> Machine:
        """The processor."""
        return code_generator(self._settings.target).machine(self._settings.target)

    def with_choices(self, chosen: Chosen) -> Executable:
        """The model with other decisions for some of its tensor programs.

        Args:
            chosen: Decisions by workload and choice point; programs that are not there keep theirs.

        Raises:
            EutecticError: a kernel cannot be made.
        """
        return link(self._decided(chosen), self._libraries, "main", self._builder())

    def seconds_of_kernels(self, args: Sequence[Array], chosen: Chosen) -> dict[str, float]:
        """Seconds of a call that each workload takes, all uses of it together; that of libraries is not there.

        Args:
            args: Arguments of the call.
            chosen: As for `with_choices`.
        """
        builder = self._builder(timed=True)
        executable = link(self._decided(chosen), self._libraries, "main", builder)
        executable.run(args)
        rows = [executable.profile(args)[1] for _ in range(_PROFILES)]
        medians = [median(time.seconds for time in column) for column in zip(*rows, strict=True)]
        numbers, steps = [time.instruction for time in rows[0]], executable.instructions
        spent = [time for number, time in zip(numbers, medians, strict=True) if isinstance(steps[number], RunNative)]
        seconds: dict[str, float] = {}
        timed = (step for plan in builder.plans for step in plan.timed)
        for step, time in zip(timed, spent, strict=True):
            if isinstance(step, KernelStep):
                key = workload_key(step.kernel.function)
                seconds[key] = seconds.get(key, 0.0) + time
        return seconds

    def _decided(self, chosen: Chosen) -> IRModule:
        module = self._kept.module
        decided = module.clone()
        for gv, func in module.functions_items():
            if isinstance(func, PrimFunc) and (decisions := chosen.get(workload_key(func))) is not None:
                decided.update_func(gv, with_decisions(func, decisions))
        return decided

    def _builder(self, *, timed: bool = False) -> NativeBuilder:
        """Makes kernels, or takes those that were made before."""
        settings = self._settings
        return NativeBuilder(settings.target, settings.threads, timed=timed, built=self._built)
