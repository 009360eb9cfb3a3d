"""Facts about calls: recursion between functions, and what depends on compile-time inputs only."""

from __future__ import annotations

from eutectic.ir.module import GlobalVar, IRModule
from eutectic.relax.analysis.uses import all_global_vars, used_vars, walk_bindings
from eutectic.relax.expr import Function, Var


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """Groups of functions that call each other in a cycle, or themselves; each group and the list sorted by name.

    Reference: Tarjan's strongly connected components, written without recursion.
    """
    edges = {
        gv.name_hint: sorted({callee.name_hint for callee in all_global_vars(f) if callee in mod})
        for gv, f in mod.functions_items()
        if isinstance(f, Function)
    }
    groups = [group for group in _components(edges) if len(group) > 1 or group[0] in edges.get(group[0], ())]
    return [[mod.get_global_var(name) for name in sorted(group)] for group in sorted(map(sorted, groups))]


def _components(edges: dict[str, list[str]]) -> list[list[str]]:
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            name, callees = work[-1]
            callee = next((c for c in callees if c in edges), None)
            if callee is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    group = [stack.pop()]
                    while group[-1] != name:
                        group.append(stack.pop())
                    components.append(group)
            elif callee not in index:
                index[callee] = low[callee] = len(index)
                stack.append(callee)
                work.append((callee, iter(edges[callee])))
            elif callee in stack:
                low[name] = min(low[name], index[callee])
    return components


def computable_at_compile_time(function: Function) -> list[Var]:
    """Variables that depend only on parameters after the run-time inputs, which are the first `num_input`.

    A function without a `num_input` attribute has no compile-time parameters.
    """
    count = function.attr("num_input")
    if count is None:
        return []
    known: set[Var] = set(function.params[int(count) :])
    out: list[Var] = []
    for binding in walk_bindings(function):
        if all(var in known for var in used_vars(binding.value)):
            known.add(binding.var)
            out.append(binding.var)
    return out
