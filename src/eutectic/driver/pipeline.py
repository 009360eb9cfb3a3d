"""From a graph of operators to a graph of kernels: the passes, in order."""

from __future__ import annotations

from eutectic.ir.transform import Pass
from eutectic.relax.transform import (
    AnnotateTIROpPattern,
    CanonicalizeBindings,
    DeadCodeElimination,
    DecomposeOpsForInference,
    FoldConstant,
    FuseOps,
    FuseTIR,
    LegalizeOps,
    RewriteDataflowReshape,
)


def to_programs() -> tuple[Pass, ...]:
    """Passes that lower every operator to a tensor program."""
    return (FoldConstant(), DecomposeOpsForInference(), LegalizeOps())


def to_groups() -> tuple[Pass, ...]:
    """Passes that put together the tensor programs that become one kernel."""
    return (AnnotateTIROpPattern(), FoldConstant(), FuseOps(fuse_opt_level=2))


def from_groups() -> tuple[Pass, ...]:
    """Passes that make a kernel of each group, and views of reshapes."""
    return (FuseTIR(), RewriteDataflowReshape(), CanonicalizeBindings(), DeadCodeElimination())


def to_kernels(fuse: bool = True) -> tuple[Pass, ...]:
    """Passes that lower every operator to a tensor program and fuse them.

    Args:
        fuse: Whether neighbours become one kernel.
    """
    return (*to_programs(), *(to_groups() if fuse else ()), *from_groups())
