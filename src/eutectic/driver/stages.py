"""A model at every step of its way to kernels, as text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eutectic.backend.registry import code_forms
from eutectic.driver.importing import Imported
from eutectic.driver.inspect import STAGES as FORMS
from eutectic.driver.inspect import kernel_source
from eutectic.driver.pipeline_text import members_to_run
from eutectic.driver.records import Stages
from eutectic.driver.settings import Settings, context_of
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassRecord
from eutectic.support.errors import CodegenError
from eutectic.support.spelling import did_you_mean
from eutectic.target import Target
from eutectic.tir.function import PrimFunc

GRAPHS: Final = ("relax", "fused")
KERNELS: Final = (*FORMS, *code_forms())
STAGES: Final = ("torch", *GRAPHS, *KERNELS)


@dataclass(frozen=True)
class Lowering:
    """A model and what the passes made of it.

    Attributes:
        imported: The model.
        records: The module before and after each pass.
        kernels: The module in the end: a graph of kernels, and their programs.
        target: What for.
    """

    imported: Imported
    records: Sequence[PassRecord]
    kernels: IRModule
    target: Target

    def text(self, stage: str, kernel: str | None = None) -> str:
        """The model at one stage.

        Args:
            stage: One of `STAGES`.
            kernel: Name of one tensor program, for the stages of programs; None takes all.

        Raises:
            CodegenError: the stage or the kernel is unknown, or the stage has no kernels by themselves.
        """
        if stage not in STAGES:
            raise CodegenError(
                f"unknown stage {stage!r}: expected {', '.join(STAGES)}", help=did_you_mean(stage, STAGES)
            )
        if kernel is not None and stage not in KERNELS:
            raise CodegenError(
                f"stage {stage} shows the whole model, not the kernel {kernel} by itself",
                help=f"kernels by themselves are at the stages {', '.join(KERNELS)}",
            )
        if stage == "torch":
            return self._torch()
        if stage == "relax":
            return self.imported.mod.script()
        if stage == "fused":
            return Stages(self.records, self.kernels).groups.script()
        return kernel_source(self._programs(kernel), self.target, stage)

    def dump(self, folder: Path) -> list[Path]:
        """Write the module after each pass into numbered files, and what each pass changed beside it.

        Args:
            folder: Where; made when it is not there.

        Returns:
            The files of the modules.
        """
        folder.mkdir(parents=True, exist_ok=True)
        before = self.imported.mod.script()
        files = [folder / "00-imported.py"]
        files[0].write_text(before, encoding="utf-8")
        for number, record in enumerate((r for r in self.records if r.changed), 1):
            after = record.after.script()
            files.append(folder / f"{number:02}-{record.name}.py")
            files[-1].write_text(after, encoding="utf-8")
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", record.name, lineterm="")
            files[-1].with_suffix(".diff").write_text("\n".join(lines) + "\n", encoding="utf-8")
            before = after
        return files

    def _torch(self) -> str:
        if self.imported.program is None:
            raise CodegenError("the model is no torch model: it has no stage torch", help="take the stage relax")
        return str(self.imported.program)

    def _programs(self, kernel: str | None) -> IRModule:
        programs = {gv.name_hint: f for gv, f in self.kernels.functions_items() if isinstance(f, PrimFunc)}
        if kernel is None:
            return IRModule(dict(programs))
        if kernel not in programs:
            raise CodegenError(
                f"there is no kernel {kernel}: the model has {len(programs)}",
                help=did_you_mean(kernel, list(programs)) or f"they are {', '.join(programs) or 'none'}",
            )
        return IRModule({kernel: programs[kernel]})


def lowering(imported: Imported, settings: Settings) -> Lowering:
    """Run the passes of a compilation, without generating code.

    Args:
        imported: The model.
        settings: What for, and the passes.

    Raises:
        EutecticError: a pass refused the model.
    """
    mod = imported.mod
    with context_of(settings) as ctx:
        for member in members_to_run(settings.plan, ctx):
            mod = member(mod)
    return Lowering(imported, tuple(ctx.records), mod, settings.target)
