"""From a graph of operators to a graph of kernels: the passes, in order."""

from __future__ import annotations

from eutectic.ir.transform import Pass
from eutectic.relax.transform import (
    AnnotateTIROpPattern,
    CanonicalizeBindings,
    DeadCodeElimination,
    DecomposeOpsForInference,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    RewriteDataflowReshape,
)


def to_kernels(fuse: bool = True) -> tuple[Pass, ...]:
    """Passes that lower every operator to a tensor program and fuse them.

    Args:
        fuse: Whether neighbours become one kernel.
    """
    lowering: tuple[Pass, ...] = (DecomposeOpsForInference(), LegalizeOps(), AnnotateTIROpPattern())
    fusion: tuple[Pass, ...] = (FuseOps(fuse_opt_level=2), FuseTIR()) if fuse else ()
    return (*lowering, *fusion, RewriteDataflowReshape(), CanonicalizeBindings(), DeadCodeElimination())
