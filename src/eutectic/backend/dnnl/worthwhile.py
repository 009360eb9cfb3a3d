"""Whether calls into oneDNN are worth their cost: how much work a model is."""

from __future__ import annotations

from typing import Final

from eutectic.backend.contract import Verdict
from eutectic.ir.module import IRModule
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Call, Function
from eutectic.relax.op.registry import has_trait, work_of

SMALL_FLOPS: Final = 20e6  # of one matrix product; below, a call into oneDNN costs a good part of the product's time


def worthwhile(mod: IRModule) -> Verdict:
    """Not for models so small that our own kernels are done before the library is called."""
    if is_small(mod):
        return Verdict(
            ok=False, reason="the model is so small that calls into a library would cost more than they save"
        )
    return Verdict(ok=True, reason="the model has a convolution, or a large matrix product")


def is_small(mod: IRModule) -> bool:
    """Whether a module has no convolution, and no operator that counts more work than `SMALL_FLOPS`.

    A module with regions for libraries, which somebody has cut out on purpose, is not small.
    """
    functions = [function for _, function in mod.functions_items() if isinstance(function, Function)]
    if any(function.attr("Codegen") or function.attr("Composite") for function in functions):
        return False
    return not any(_is_much(b.value) for function in functions for b in walk_bindings(function))


def _is_much(value: object) -> bool:
    """Whether an operator has so much work that a call does not count."""
    return isinstance(value, Call) and (has_trait(value, "convolution") or work_of(value) > SMALL_FLOPS)
