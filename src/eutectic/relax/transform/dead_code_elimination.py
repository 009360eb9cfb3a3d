"""DeadCodeElimination: drop functions nobody calls and bindings nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.transform import Pass, PassContext
from eutectic.relax.analysis.unused import remove_all_unused
from eutectic.relax.expr import Function
from eutectic.relax.transform.entry import reachable


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Remove functions that no entry reaches, and unread bindings without side effects.

    before:                         after:
        lv = matmul(x, w)               lv = matmul(x, w)
        lv1 = add(x, x)                 return lv
        return lv

    Attributes:
        entry_functions: Names to keep; None means all public functions.

    Cost: linear in the size of the module.
    """

    entry_functions: Sequence[str] | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Drop functions first, then bindings of those that are left."""
        roots = list(self.entry_functions) if self.entry_functions is not None else _public(mod)
        keep = reachable(mod, roots) if roots else {gv.name_hint for gv in mod.get_global_vars()}
        changed = {}
        for gv, function in mod.functions_items():
            if gv.name_hint in keep and isinstance(function, Function):
                fresh = remove_all_unused(function)
                if fresh is not function:
                    changed[gv] = fresh
        if not changed and len(keep) == len(mod):
            return mod
        kept = {gv: changed.get(gv, f) for gv, f in mod.functions.items() if gv.name_hint in keep}
        return IRModule(kept, mod.attrs, mod.global_infos)


def _public(mod: IRModule) -> list[str]:
    return [gv.name_hint for gv, f in mod.functions_items() if f.attrs and f.attrs.get("global_symbol") is not None]
