"""What a model leaves to torch: how it is found, and the one warning that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eutectic.driver.report import EagerRecord
from eutectic.ir.module import IRModule
from eutectic.ir.op import Op
from eutectic.relax.analysis.uses import walk_bindings
from eutectic.relax.expr import Call, Function
from eutectic.relax.op.eager import EagerAttrs
from eutectic.support.advice import advise

_PLACES: Final = 3  # shown per operator
_OPERATORS: Final = 8  # shown in a warning; the report has all


def eager_records(mod: IRModule, name: str = "main") -> tuple[EagerRecord, ...]:
    """The operators of a function that torch runs, in order.

    Args:
        mod: The module, in any state between import and linking.
        name: The function.
    """
    records = []
    for call in _calls(mod, name):
        attrs = call.attrs
        if isinstance(attrs, EagerAttrs):
            span = call.span
            source = f"{span.file}:{span.line}" if span is not None and span.file else ""
            module = (span.module or "") if span is not None else ""
            records.append(EagerRecord(attrs.operator, attrs.reason, module, source))
    return tuple(records)


def operator_count(mod: IRModule, name: str = "main") -> int:
    """Calls of operators in a function."""
    return len(_calls(mod, name))


def warn_of(records: Sequence[EagerRecord], total: int) -> None:
    """Say once what torch runs, where it stands in the user's model, and how much of the model that is.

    Args:
        records: What torch runs.
        total: Operators of the model.
    """
    if not records:
        return
    by_operator: dict[tuple[str, str], list[str]] = {}
    for record in records:
        by_operator.setdefault((record.op, record.reason), []).append(_place(record))
    lines = [_line(*key, places) for key, places in list(by_operator.items())[:_OPERATORS]]
    if len(by_operator) > _OPERATORS:
        lines.append(f"and {len(by_operator) - _OPERATORS} more, which are in report.eager_operators")
    share = f"{len(records)} of {max(total, len(records))} operators run in torch eager between compiled parts"
    advice = 'compile with fallback="error" to have such models refused'
    text = "\n  ".join((f"{share}:", *lines, advice))
    advise(text)


def warn_of_all(reason: str, facts: Sequence[str] = ()) -> None:
    """Say that all of a model runs in torch, and why."""
    advise("\n  ".join((f"the whole model runs in torch eager: {reason}", *facts)))


def _line(operator: str, reason: str, places: Sequence[str]) -> str:
    times = f" ({len(places)} times)" if len(places) > 1 else ""
    shown = list(dict.fromkeys(place for place in places if place))[:_PLACES]
    return f"{operator}{times}{', at ' if shown else ''}{'; '.join(shown)}: {reason}"


def _place(record: EagerRecord) -> str:
    return " ".join(part for part in (record.source, f"in {record.module}" if record.module else "") if part)


def _calls(mod: IRModule, name: str) -> list[Call]:
    function = mod.get(name)
    if not isinstance(function, Function):
        return []
    values = (binding.value for binding in walk_bindings(function))
    return [value for value in values if isinstance(value, Call) and isinstance(value.op, Op)]
