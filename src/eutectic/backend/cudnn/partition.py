"""partition_for_cudnn: cut out what cuDNN takes over."""

from __future__ import annotations

from eutectic.backend.cudnn import codegen as _codegen  # noqa: F401  # registers relax.ext.cudnn
from eutectic.backend.cudnn import patterns as _patterns  # noqa: F401  # registers the table
from eutectic.backend.workspace import annotate_workspace, attention_bytes
from eutectic.ir.module import IRModule
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.transform import AllocateWorkspace, FuseOpsByPattern


def partition_for_cudnn(mod: IRModule) -> IRModule:
    """Outline convolutions and stacked attention into functions with `Codegen: "cudnn"`.

    Attention gets a workspace, which its caller allocates.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Reference: TVM's `tvm.relax.backend.cuda.cudnn.partition_for_cudnn`.
    """
    table = get_patterns_with_prefix("cudnn.")
    fused = FuseOpsByPattern(table, bind_constants=False, annotate_codegen=True)(mod)
    return AllocateWorkspace()(annotate_workspace(fused, "cudnn", "cudnn.attention", attention_bytes))
