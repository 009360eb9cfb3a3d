"""Whether a library is used for a model that was compiled without naming one: as it says itself, or as was measured."""

from __future__ import annotations

import hashlib
from typing import Final

from eutectic.backend.contract import Backend, Machine, Verdict
from eutectic.ir.module import IRModule
from eutectic.ir.transform import PassContext
from eutectic.relax.analysis.uses import walk_calls
from eutectic.relax.expr import Function
from eutectic.relax.transform.offers_by_kind import note_choice, tuned_choice

_WAYS: Final = ({"used": True}, {"used": False})
_DIGITS: Final = 12


def library_verdict(mod: IRModule, candidate: Backend, machine: Machine, ctx: PassContext) -> Verdict:
    """Whether a library is used for a model, all of whose operators the choice is for.

    Args:
        mod: A module of operators.
        candidate: The library. Its name is that of the choice point.
        machine: What the module is compiled for.
        ctx: Has what was measured, and gets a remark about the choice.
    """
    workload, operators = _workload(mod)
    own = candidate.worthwhile(mod, machine)
    tuned = tuned_choice(ctx, workload, candidate.name, _WAYS)
    verdict = own if tuned is None or tuned["used"] == own.ok else _measured(candidate, is_used=tuned["used"])
    note_choice(ctx, workload, candidate.name, {"used": verdict.ok}, _WAYS, reach=operators)
    return verdict


def _measured(candidate: Backend, *, is_used: bool) -> Verdict:
    faster = candidate.title if is_used else "kernels of our own"
    return Verdict(ok=is_used, reason=f"the model was measured to be faster with {faster}")


def _workload(mod: IRModule) -> tuple[str, int]:
    """What a model is known by, whatever its weights and names are, and how many operators it has."""
    functions = [function for _, function in mod.functions_items() if isinstance(function, Function)]
    calls = [call for function in functions for call in walk_calls(function)]
    lines = [f"{call.op} {[arg.struct_info for arg in call.args]} {call.attrs} {call.struct_info}" for call in calls]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]
    return f"model {digest} of {len(calls)} operators", len(calls)
