"""partition_for_cublas: cut out what cuBLAS takes over."""

from __future__ import annotations

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, Sequential
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.transform import FuseOpsByPattern


def passes(bind_constants: bool = False) -> tuple[Pass, ...]:
    """What cuts out matrix products: patterns that others registered for cuBLAS count, too."""
    table = get_patterns_with_prefix("cublas.")
    return (FuseOpsByPattern(table, bind_constants=bind_constants, annotate_codegen=True),)


def partition_for_cublas(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """Outline matrix products into functions with `Codegen: "cublas"`.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        bind_constants: Keep constants inside the functions instead of passing them.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Reference: TVM's `tvm.relax.backend.cuda.cublas.partition_for_cublas`.
    """
    return Sequential(list(passes(bind_constants)))(mod)
