"""In which dtypes of 16 bits oneDNN computes fast: those that the processor, and the target, multiply in hardware."""

from __future__ import annotations

from typing import Final

from eutectic.backend.contract import Verdict
from eutectic.backend.dnnl import abi, library
from eutectic.support.config import default_cpu
from eutectic.target import Target

_BITS: Final = {"bfloat16": abi.BF16_ISA, "float16": abi.FP16_ISA}
_FEATURES: Final = {"bfloat16": "avx512bf16", "float16": "avx512fp16"}
_FP16_PROCESSORS: Final = ("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids")
_PROCESSORS: Final = {
    "bfloat16": frozenset((*_FP16_PROCESSORS, "cooperlake", "znver4", "znver5")),
    "float16": frozenset(_FP16_PROCESSORS),
}
"""LLVM's names of processors that have the instructions."""


def computes_in(dtype: str, target: Target | None = None) -> Verdict:
    """Whether oneDNN's kernels of a dtype are faster than those of float32.

    Without the instructions it has slow kernels, or none.

    Args:
        dtype: Such as `bfloat16`.
        target: What the program is for; None asks about this machine alone.
    """
    if dtype == "float32":
        return Verdict(ok=True, reason="every processor multiplies float32")
    if dtype not in _BITS:
        return Verdict(ok=False, reason=f"oneDNN has no kernels of {dtype} here")
    state = library.availability()
    if not state.ok:
        return Verdict(ok=False, reason=state.reason)
    feature = _FEATURES[dtype].upper()
    if library.load().isa_bits & _BITS[dtype] != _BITS[dtype]:
        return Verdict(
            ok=False, reason=f"oneDNN multiplies {dtype} with {feature}, and uses {state.isa} on this processor"
        )
    if target is not None and not _target_has(target, dtype):
        return Verdict(ok=False, reason=f"oneDNN multiplies {dtype} with {feature}, which {target} does not say it has")
    return Verdict(ok=True, reason=f"the processor multiplies {dtype} with {feature}")


def _target_has(target: Target, dtype: str) -> bool:
    """Whether a target promises the instructions; one that names no processor is this machine."""
    feature = _FEATURES[dtype]
    if f"-{feature}" in target.mattr:
        return False
    named = target.mcpu or ("" if target.mtriple else default_cpu())
    is_host = not named and not target.mtriple
    return is_host or f"+{feature}" in target.mattr or named in _PROCESSORS[dtype]
