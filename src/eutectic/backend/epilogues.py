"""What follows an operator that only our kernels compute is fused into it: no library takes it alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from eutectic.relax.base import Expr
from eutectic.relax.dpl.remarks import Refusal
from eutectic.relax.dpl.table import Check, FusionPattern, PatternCheckContext
from eutectic.relax.expr import Call, Var
from eutectic.relax.op.registry import has_trait

_FARTHEST: Final = 8  # pointwise operators between the two


def leaving_epilogues(entries: Sequence[FusionPattern]) -> list[FusionPattern]:
    """Patterns that do not match pointwise operators on the result of a `generated` one.

    Args:
        entries: The patterns of a backend.
    """
    return [replace(entry, check=partial(_check, entry.check)) for entry in entries]


def _check(check: Check | None, context: PatternCheckContext) -> bool | Refusal | None:
    refusal = _leaves(context)
    if refusal is not None:
        return refusal
    return None if check is None else check(context)


def _leaves(context: PatternCheckContext) -> Refusal | None:
    values = context.matched_bindings.values()
    if not all(has_trait(value, "pointwise") for value in values if isinstance(value, Call)):
        return None
    seen: set[Var] = set(context.matched_bindings)
    front = list(_operands(values))
    for _ in range(_FARTHEST):
        further: list[Expr] = []
        for var in front:
            producer = context.bound_values.get(var)
            if not isinstance(producer, Call) or var in seen:
                continue
            seen.add(var)
            if has_trait(producer, "generated"):
                return Refusal(f"it is fused into {var.name_hint}, which kernels of ours compute", var)
            if has_trait(producer, "pointwise"):
                further.append(producer)
        front = list(_operands(further))
    return None


def _operands(values: Iterable[Expr]) -> Iterator[Var]:
    for value in values:
        if isinstance(value, Call):
            yield from (arg for arg in value.args if isinstance(arg, Var))
