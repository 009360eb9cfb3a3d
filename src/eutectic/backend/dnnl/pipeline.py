"""The pass pipeline for oneDNN: prepare the graph, outline what the library takes, compile it."""

from __future__ import annotations

from eutectic.backend.dnnl import module as _module  # registers relax.ext.dnnl
from eutectic.backend.dnnl.patterns import patterns
from eutectic.ir.transform import Pass
from eutectic.relax.transform import (
    BatchnormToScaleShift,
    BindRegionConstants,
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldBatchnormToConv2D,
    FoldConstant,
    FoldPadIntoConv,
    FuseOpsByPattern,
    MergeCompositeFunctions,
    RemoveIdentityOps,
    RunCodegen,
)

CODEGEN = _module.DnnlModule.kind


def prepare() -> tuple[Pass, ...]:
    """Passes that make the graph simpler, whatever runs it afterwards."""
    return (
        CanonicalizeBindings(),
        RemoveIdentityOps(),
        FoldBatchnormToConv2D(),
        FoldPadIntoConv(),
        BatchnormToScaleShift(),
        FoldConstant(),
        EliminateCommonSubexpr(),
        DeadCodeElimination(),
    )


def partition(precision: str = "default") -> tuple[Pass, ...]:
    """Passes that outline regions for oneDNN."""
    return (FuseOpsByPattern(patterns(precision), bind_constants=True), MergeCompositeFunctions())


def lower() -> tuple[Pass, ...]:
    """Passes that compile the regions."""
    return (BindRegionConstants(), RunCodegen())
