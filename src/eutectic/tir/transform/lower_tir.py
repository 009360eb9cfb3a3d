"""LowerTIR: from blocks and loops of all kinds to the flat loops that a code generator takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext, with_functions
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import LOWERED, is_lowered
from eutectic.tir.transform.pipeline import lower
from eutectic.tir.trusted import is_trusted, trust


@dataclass(frozen=True)
class LowerTIR(Pass):
    """Lower every tensor program with `tir.transform.lower`, and say so in its attribute `tir.is_lowered`.

    A program that has the attribute stays as it is. Under several names it is lowered once.

    before:                                  after:
        for i in T.vectorized(4):                B_1[0:4] = A_1[0:4] + T.broadcast(1.0, 4)
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] + 1.0

    Cost: linear in the size of the lowered programs.
    """

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """See the class."""
        done: dict[PrimFunc, PrimFunc] = {}
        changed: dict[Any, Any] = {}
        for gv, func in mod.functions_items():
            if not isinstance(func, PrimFunc):
                continue
            if func not in done:
                done[func] = lowered(func)
            if done[func] is not func:
                changed[gv] = done[func]
        return with_functions(mod, changed)


def lowered(func: PrimFunc) -> PrimFunc:
    """`LowerTIR` of one function.

    Raises:
        CodegenError: unrolling gives too many statements.
    """
    if is_lowered(func):
        return func
    result: PrimFunc = lower(func).with_attr(LOWERED, True)
    return trust(result) if is_trusted(func) else result
