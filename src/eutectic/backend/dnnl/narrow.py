"""In which dtypes of 16 bits oneDNN computes: those that the processor, and the target, multiply in hardware."""

from __future__ import annotations

from typing import Final

from eutectic.backend.contract import Verdict
from eutectic.backend.dnnl import abi, library
from eutectic.support.config import default_cpu
from eutectic.target import Target

_FP16_PROCESSORS: Final = ("sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids")
_PROCESSORS: Final = {
    "bfloat16": frozenset((*_FP16_PROCESSORS, "cooperlake", "znver4", "znver5")),
    "float16": frozenset(_FP16_PROCESSORS),
}
"""LLVM's names of processors that have the instructions."""


def computes_in(dtype: str, target: Target | None = None) -> Verdict:
    """Whether oneDNN is used for a dtype: for float32, and for those of 16 bits that the processor multiplies.

    Args:
        dtype: Such as `bfloat16`.
        target: What the program is for; None asks about this machine alone.
    """
    if reason := library.lacks(dtype):
        return Verdict(ok=False, reason=reason)
    if dtype not in abi.INSTRUCTIONS:
        return Verdict(ok=True, reason=f"every processor multiplies {dtype}")
    feature, _ = abi.INSTRUCTIONS[dtype]
    if target is not None and not _has(target, feature.lower(), dtype):
        return Verdict(ok=False, reason=f"oneDNN multiplies {dtype} with {feature}, which {target} does not say it has")
    return Verdict(ok=True, reason=f"the processor multiplies {dtype} with {feature}")


def _has(target: Target, feature: str, dtype: str) -> bool:
    """Whether a target promises the instructions; one that names no processor is this machine."""
    if f"-{feature}" in target.mattr:
        return False
    return is_host(target) or f"+{feature}" in target.mattr or _processor(target) in _PROCESSORS[dtype]


def is_host(target: Target) -> bool:
    """Whether a target names no processor, and so is this machine."""
    return not target.mtriple and not _processor(target)


def _processor(target: Target) -> str:
    """The name of a target's processor; empty where that is this machine's, or none is named for another platform."""
    return target.mcpu or ("" if target.mtriple else default_cpu())
