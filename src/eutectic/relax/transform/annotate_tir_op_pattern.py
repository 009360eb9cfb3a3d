"""AnnotateTIROpPattern: write the fusion kind of each tensor program on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.relax.analysis.op_pattern import op_pattern_of
from eutectic.tir.function import PrimFunc


@dataclass(frozen=True)
class AnnotateTIROpPattern(Pass):
    """Give each tensor program without one an integer attribute `op_pattern`, which `FuseOps` reads.

    0 is elementwise, 1 broadcast, 2 injective, 3 a reduction, 4 anything whose result may be processed
    element by element (matmul, conv, pooling, softmax), 8 opaque.

    before:                             after:
        def relu(A, B):                     def relu(A, B):
            B[i] = max(A[i], 0)                 T.func_attr({"op_pattern": 0})
                                                B[i] = max(A[i], 0)

    Reference: TVM `relax.transform.AnnotateTIROpPattern`.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Annotate what has no annotation."""
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items():
            if isinstance(func, PrimFunc) and func.attr("op_pattern") is None:
                changed[gv] = func.with_attr("op_pattern", int(op_pattern_of(func)))
        return with_functions(mod, changed)
