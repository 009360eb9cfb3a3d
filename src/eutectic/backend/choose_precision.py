"""ChoosePrecision: narrow a module for a library that is faster so, and leave it as it is for others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eutectic.backend.contract import NARROW, Backend, BackendRemark, Verdict
from eutectic.backend.outline import check_precision
from eutectic.backend.registry import backend as backend_of
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, run_pass
from eutectic.relax.transform import ToMixedPrecision
from eutectic.support.errors import CodegenError
from eutectic.target import target_or_current


@dataclass(frozen=True)
class ChoosePrecision(Pass):
    """Run `ToMixedPrecision` where a library computes what it leaves faster than float32.

    What keeps a module in float32 is said in `PassContext.remarks`: a processor or a target without instructions for
    the dtype, a module that is too small for calls of a library, or no library at all. Kernels of our own multiply
    float32.

    Attributes:
        backend: Names of libraries as in `Partition`; may be empty.
        precision: `bf16` or `f16`; with any other the module stays as it is.
        target: What for, as the text of a target; when empty, the current target, else this machine.
        if_worthwhile: Leave the module as it is when the library says that it is not worth its calls.

    Raises:
        PassError: an unknown precision.
        CodegenError: `f16`, and no library is faster with it: results would have less range, for nothing.
    """

    backend: str = ""
    precision: str = "default"
    target: str = ""
    if_worthwhile: bool = False

    def __post_init__(self) -> None:
        check_precision(self.precision)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Ask the libraries in turn."""
        dtype = NARROW.get(self.precision)
        if dtype is None:
            return mod
        reasons: list[str] = []
        for candidate in self._backends():
            verdict = self._verdict(candidate, dtype, mod)
            if verdict.ok:
                ctx.remarks.append(BackendRemark("narrowed", candidate.name, candidate.title, verdict.reason))
                return run_pass(ToMixedPrecision(dtype), mod, ctx)
            reasons.append(verdict.reason)
        reason = "; ".join(reasons) or "no library computes it, and kernels of our own multiply float32"
        ctx.remarks.append(BackendRemark("wide", "", "", reason))
        return mod

    def _verdict(self, candidate: Backend, dtype: str, mod: IRModule) -> Verdict:
        target = target_or_current(self.target or None)
        fast = candidate.computes_in(dtype, target)
        if not fast.ok and self.precision == "f16":
            raise CodegenError(
                f'precision="f16" cannot be used here: {fast.reason}', help='take precision="bf16", or "default"'
            )
        worth = candidate.worthwhile(mod, target) if fast.ok and self.if_worthwhile else fast
        return fast if worth.ok else worth

    def _backends(self) -> Iterator[Backend]:
        yield from (backend_of(name.strip()) for name in self.backend.split(",") if name.strip())
