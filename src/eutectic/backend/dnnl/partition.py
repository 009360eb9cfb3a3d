"""partition_for_dnnl: cut out what oneDNN takes over."""

from __future__ import annotations

from eutectic.backend.dnnl.backend import BACKEND
from eutectic.backend.outline import outlined_for
from eutectic.ir.module import IRModule


def partition_for_dnnl(mod: IRModule, precision: str = "default") -> IRModule:
    """Outline regions into functions with `Codegen: "dnnl"`, joined as far as they feed each other.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        precision: One of `PRECISIONS`; only `strict` leaves something out.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.
    """
    return outlined_for(mod, BACKEND, precision)
