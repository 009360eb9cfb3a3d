"""What a backend would take, and does not for the sake of a precision."""

from __future__ import annotations

from collections.abc import Iterator

from eutectic.backend.contract import Backend
from eutectic.ir.module import IRModule
from eutectic.relax.dpl.near_miss import op_name
from eutectic.relax.dpl.remarks import FusionRemark
from eutectic.relax.expr import Call
from eutectic.relax.transform.entry import entry_functions_of
from eutectic.relax.transform.pattern_search import Candidate, FunctionFacts, Search


def left_out(mod: IRModule, backend: Backend, precision: str) -> Iterator[FusionRemark]:
    """Remarks about matches of patterns that a backend has with the default precision only.

    Args:
        mod: The module before anything is taken out of it.
        backend: The backend.
        precision: What it is compiled with; there are none for `default`.
    """
    if precision == "default":
        return
    kept = {entry.name for entry in backend.patterns(precision)}
    entries = [entry for entry in backend.patterns("default") if entry.name not in kept]
    for _, function in entry_functions_of(mod, None):
        facts = FunctionFacts(function)
        search = Search(facts, False, None)
        for index, entry in enumerate(entries):
            if facts.can_hold(entry):
                for matches in search.first(index, entry).values():
                    yield from (_remark(match, backend, precision) for match in matches)


def _remark(match: Candidate, backend: Backend, precision: str) -> FusionRemark:
    names = {var: f"{op_name(value)} ({var.name_hint})" for var, value in match.members.items()}
    calls = [name for var, name in names.items() if isinstance(match.members[var], Call)]
    return FusionRemark(
        "missed",
        match.entry.name,
        op_name(match.binding.value),
        match.binding.var.name_hint,
        f'precision="{precision}" leaves it out: {backend.title} would compute {", ".join(calls)}, '
        "and lose NaN or infinities",
        span=match.binding.value.span,
        operand=match.binding.var.name_hint,
        constraint="precision",
        expected="a kernel that keeps NaN and infinities",
        actual=match.entry.name,
        variables=tuple(var.name_hint for var in match.members),
    )
