"""EliminateCommonSubexpr: compute equal values once."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.common_subexpr import share_common_subexpr
from eutectic.relax.expr import Function
from eutectic.relax.transform.infra import FunctionPass


@dataclass(frozen=True)
class EliminateCommonSubexpr(FunctionPass):
    """Replace a value equal to an earlier one of the same block by that one's variable.

    Attributes:
        call_only: Look at calls only, not at tuples and fields.
    """

    call_only: bool = False

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Share values inside one function."""
        return share_common_subexpr(function, self.call_only)
