"""partition_for_cudnn: cut out what cuDNN takes over."""

from __future__ import annotations

from eutectic.backend.workspace import AnnotateWorkspace
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, Sequential
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.transform import AllocateWorkspace, FuseOpsByPattern


def passes() -> tuple[Pass, ...]:
    """What cuts out convolutions and stacked attention; patterns that others registered for cuDNN count, too."""
    fuse = FuseOpsByPattern(get_patterns_with_prefix("cudnn."), bind_constants=False, annotate_codegen=True)
    return (fuse, AnnotateWorkspace("cudnn", ("cudnn.attention",)), AllocateWorkspace())


def partition_for_cudnn(mod: IRModule) -> IRModule:
    """Outline convolutions and stacked attention into functions with `Codegen: "cudnn"`.

    Attention gets a workspace, which its caller allocates.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Reference: TVM's `tvm.relax.backend.cuda.cudnn.partition_for_cudnn`.
    """
    return Sequential(list(passes()))(mod)
