"""Partition: hand parts of a graph to library backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eutectic.backend.contract import Backend, BackendRemark, Verdict
from eutectic.backend.left_out import left_out
from eutectic.backend.library_choice import library_verdict
from eutectic.backend.outline import check_precision, outlined_for
from eutectic.backend.registry import backend as backend_of
from eutectic.backend.registry import code_generator
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, run_pass
from eutectic.relax.transform import BindRegionConstants, RunCodegen
from eutectic.target import target_or_current


@dataclass(frozen=True)
class Partition(Pass):
    """Move what backends take into regions, and lower these to kernels of their libraries.

    Several backends are asked in turn: what an earlier one took, a later one does not see.

    before:                               after:
        lv = nn.conv2d(x, w)                  gv = call_dps_packed("fused_conv2d_relu_dnnl", (x,))
        gv = nn.relu(lv)

    Attributes:
        backend: Name of a backend, or several with commas between them, as in `-libs=`.
        precision: One of `PRECISIONS`; only `strict` leaves something out.
        if_worthwhile: Leave out backends that say of the module that it is not worth their calls, and those without
            which it was measured to be faster (`library_choice.py`).
        lower: Whether the regions become kernels at once. Otherwise they are functions of the module, which
            `AssignLayouts` may call in other layouts, until `RunCodegen` lowers them.

    Raises:
        PassError: an unknown precision.
        CodegenError: an unknown backend, or one that cannot lower what it took.
    """

    backend: str = ""
    precision: str = "default"
    if_worthwhile: bool = False
    lower: bool = True

    def __post_init__(self) -> None:
        check_precision(self.precision)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Outline for one backend after another, then lower where that is asked for."""
        target = target_or_current(None)
        for candidate in self._backends():
            verdict = Verdict(ok=True, reason="it was named")
            if self.if_worthwhile:
                verdict = library_verdict(mod, candidate, code_generator(target).machine(target), ctx)
            kind = "taken" if verdict.ok else "declined"
            ctx.remarks.append(BackendRemark(kind, candidate.name, candidate.title, verdict.reason))
            if not verdict.ok:
                continue
            if ctx.collect_remarks:
                ctx.remarks.extend(left_out(mod, candidate, self.precision))
            for step in candidate.outline(self.precision):
                mod = run_pass(step, mod, ctx)
        for step in (BindRegionConstants(), RunCodegen()) if self.lower else (BindRegionConstants(),):
            mod = run_pass(step, mod, ctx)
        return mod

    def _backends(self) -> Iterator[Backend]:
        yield from (backend_of(name.strip()) for name in self.backend.split(","))


def outlined(mod: IRModule, backend: str, precision: str = "default") -> IRModule:
    """`outlined_for` the backend of a name.

    Raises:
        CodegenError: there is no such backend.
        PassError: an unknown precision.
    """
    return outlined_for(mod, backend_of(backend), precision)
