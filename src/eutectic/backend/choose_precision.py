"""ChoosePrecision: narrow a module for a library that is faster so, and leave it as it is for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.backend.contract import NARROW, BackendRemark, Verdict
from eutectic.backend.outline import check_precision
from eutectic.backend.registry import backend as backend_of
from eutectic.backend.registry import code_generator
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, run_pass
from eutectic.relax.expr import Call, Function
from eutectic.relax.transform import ToMixedPrecision
from eutectic.relax.transform.winograd.choice import WINOGRAD_OFFERS
from eutectic.relax.transform.winograd.convert import convolution_sizes
from eutectic.support.errors import CodegenError
from eutectic.target import Target, target_or_current
from eutectic.tir.function_attributes import example_sizes


@dataclass(frozen=True)
class ChoosePrecision(Pass):
    """Run `ToMixedPrecision` where a library computes what it leaves faster than float32.

    How much faster its products are was measured, unless the target is another processor. A convolution stays in
    float32 where Winograd's method saves more than that: for those of large images a quarter of the multiplications
    takes less time than all of them in half of it. Nothing is lost then, so a network may be more exact than asked for.

    What keeps a module in float32 is said in `PassContext.remarks`: a processor or a target without instructions for
    the dtype, a module that is too small for calls of a library, or no library at all. Kernels of our own multiply
    float32, and read weights of 16 bits where products wait for them (`ConvertMatmulToDensePack`).

    Attributes:
        backend: Names of libraries as in `Partition`; may be empty.
        precision: `bf16` or `f16`; with any other the module stays as it is.
        target: What for, as the text of a target; when empty, the current target, else this machine.
        if_worthwhile: Leave the module as it is when the library says that it is not worth its calls.

    Raises:
        PassError: an unknown precision.
        CodegenError: `f16`, and neither is a library faster with it, nor do kernels for the target read such weights.
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
        target = target_or_current(self.target or None)
        names = [name.strip() for name in self.backend.split(",") if name.strip()]
        fast = fastest_in(dtype, names, target)
        if not fast.ok and self.precision == "f16" and dtype not in code_generator(target).narrow_weights(target):
            raise CodegenError(
                f'precision="f16" cannot be used here: {fast.reason}', help='take precision="bf16", or "default"'
            )
        narrowed = run_pass(_NarrowWhereFaster(dtype, str(target), fast.share), mod, ctx) if fast.ok else mod
        if fast.ok and self.if_worthwhile:  # of what is narrow: our own kernels may be faster in float32 only
            machine = code_generator(target).machine(target)
            verdicts = [backend_of(name).worthwhile(narrowed, machine) for name in names]
            fast = fast if any(verdict.ok for verdict in verdicts) else verdicts[0]
        ctx.remarks.append(BackendRemark("narrowed" if fast.ok else "wide", self.backend, self.backend, fast.reason))
        return narrowed if fast.ok else mod


@dataclass(frozen=True)
class _NarrowWhereFaster(ToMixedPrecision):
    """`ToMixedPrecision` but for convolutions that float32 is faster for.

    Attributes:
        target: What for, as text.
        share: Of the time of float32 that products take; None where it is not known, so that all are narrowed.
    """

    target: str = ""
    share: float | None = None

    def stays(self, call: Call, function: Function, ctx: PassContext) -> str:
        """Compare what is estimated for Winograd's method with that part of direct sums."""
        if self.share is None or (sizes := convolution_sizes(call, example_sizes(function))) is None:
            return ""
        offers = WINOGRAD_OFFERS.ask(sizes, Target(self.target), ctx.services.measured.speeds)
        is_faster = any(offer.worthwhile and offer.cost < self.share * offer.direct for offer in offers)
        return "float32 is faster by Winograd's method" if is_faster else ""


def fastest_in(dtype: str, backends: Sequence[str], target: Target) -> Verdict:
    """Whether one of several libraries computes faster in a dtype than in float32.

    Args:
        dtype: Such as `bfloat16`.
        backends: Names of libraries.
        target: What a module is compiled for.
    """
    verdicts = [backend_of(name).computes_in(dtype, target) for name in backends]
    reasons = "; ".join(verdict.reason for verdict in verdicts)
    own = Verdict(ok=False, reason=reasons or "there is no library for it, and kernels of our own multiply float32")
    return next((verdict for verdict in verdicts if verdict.ok), own)
