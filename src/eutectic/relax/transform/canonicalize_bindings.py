"""CanonicalizeBindings: no variable is another name of one that exists."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.canonical_bindings import with_canonical_bindings
from eutectic.relax.expr import Function
from eutectic.relax.transform.infra import FunctionPass


@dataclass(frozen=True)
class CanonicalizeBindings(FunctionPass):
    """Replace aliases by what they stand for, fields of known tuples by the field, idle casts by their value.

    before:                     after:
        lv = add(x, x)              gv = add(x, x)
        lv1 = (lv, y)
        lv2 = lv1[0]
        gv = lv2
    """

    def run_function(self, function: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrite one function until nothing is left to replace."""
        return with_canonical_bindings(function)
