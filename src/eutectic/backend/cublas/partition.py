"""partition_for_cublas: cut out what cuBLAS takes over."""

from __future__ import annotations

from eutectic.backend.cublas import codegen as _codegen  # noqa: F401  # registers relax.ext.cublas
from eutectic.backend.cublas import patterns as _patterns  # noqa: F401  # registers the table
from eutectic.ir.module import IRModule
from eutectic.relax.dpl.table import get_patterns_with_prefix
from eutectic.relax.transform import FuseOpsByPattern


def partition_for_cublas(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """Outline matrix products into functions with `Codegen: "cublas"`.

    Args:
        mod: Graph functions whose bindings are in dataflow blocks.
        bind_constants: Keep constants inside the functions instead of passing them.

    Returns:
        The partitioned module; `mod` itself when there is nothing to take.

    Reference: TVM's `tvm.relax.backend.cuda.cublas.partition_for_cublas`.
    """
    table = get_patterns_with_prefix("cublas.")
    return FuseOpsByPattern(table, bind_constants=bind_constants, annotate_codegen=True)(mod)
