"""partition_for_dnnl: cut out what oneDNN takes over."""

from __future__ import annotations

from eutectic.backend.dnnl import pipeline
from eutectic.ir.module import IRModule
from eutectic.ir.transform import Sequential


def partition_for_dnnl(mod: IRModule, precision: str = "default") -> IRModule:
    """Outline regions into functions with `Codegen: "dnnl"`, joined as far as they feed each other.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        precision: `default`, or `strict`: nothing that loses NaN or infinities.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.
    """
    return Sequential(list(pipeline.partition(precision)))(mod)
