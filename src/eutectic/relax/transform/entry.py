"""Which functions a pass visits, and which functions a module needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.relax.analysis.uses import all_global_vars
from eutectic.relax.expr import Function
from eutectic.support.errors import PassError
from eutectic.support.spelling import did_you_mean

FUSED_ATTRS = ("Primitive", "Composite", "Codegen")


def is_fused(function: Function) -> bool:
    """Whether a function is the result of fusion, and so not looked into again."""
    return any(function.attr(key) for key in FUSED_ATTRS)


def entry_functions_of(mod: IRModule, names: Sequence[str] | None) -> list[tuple[GlobalVar, Function]]:
    """Relax functions to visit: those named, or all that are not fused.

    Raises:
        PassError: a name is not a Relax function of the module.
    """
    if names is None:
        return [(gv, f) for gv, f in mod.functions_items() if isinstance(f, Function) and not is_fused(f)]
    out = []
    for name in names:
        function = mod.get(name)
        if not isinstance(function, Function):
            known = [gv.name_hint for gv in mod.get_global_vars()]
            raise PassError(
                f"entry function {name!r} is not a graph function of the module; it has: {', '.join(known)}",
                help=did_you_mean(name, known),
            )
        out.append((mod.get_global_var(name), function))
    return out


def reachable(mod: IRModule, roots: Iterable[GlobalVar | str]) -> set[str]:
    """Names of functions that calls from `roots` reach, the roots included."""
    seen: set[str] = set()
    todo = [root if isinstance(root, str) else root.name_hint for root in roots]
    while todo:
        name = todo.pop()
        if name in seen or name not in mod:
            continue
        seen.add(name)
        function = mod[name]
        if isinstance(function, Function):
            todo.extend(gv.name_hint for gv in all_global_vars(function))
    return seen
