"""One call as a Chrome trace: groups on one track, one after the other, with what is known of each.

Reference: Trace Event Format, "Complete Events" and "Metadata Events".
"""

from __future__ import annotations

from typing import Any

from eutectic.explain.data import Explained, Timing
from eutectic.explain.numbers import clipped


def trace_events(explanation: Explained) -> dict[str, Any]:
    """The trace as a tree for JSON; times are in microseconds from the start of the call.

    Args:
        explanation: One with timings.
    """
    names = {"process_name": "inference", "thread_name": f"{explanation.threads} threads"}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": 1, "name": name, "args": {"name": value}} for name, value in names.items()
    ]
    start = 0.0
    for timing in explanation.timings:
        events.append(_event(explanation, timing, start))
        start += timing.seconds * 1e6
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _event(explanation: Explained, timing: Timing, start: float) -> dict[str, Any]:
    groups = [explanation.groups[number] for number in timing.groups]
    records = [group.record for group in groups]
    return {
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": timing.seconds * 1e6,
        "name": clipped(records[0].pattern) + (f" and {len(records) - 1} more" if len(records) > 1 else ""),
        "cat": records[0].backend or records[0].kind,
        "args": {
            "groups": list(timing.groups),
            "operators": [operator.label for record in records for operator in record.operators],
            "modules": list(dict.fromkeys(module for record in records for module in record.modules)),
            "sources": list(dict.fromkeys(source for record in records for source in record.sources)),
            "bytes": [record.bytes_fused for record in records],
            "flops": [record.flops for record in records],
            "roofline": [group.roofline for group in groups],
            "implementation": timing.how,
        },
    }
