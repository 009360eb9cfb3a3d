"""The demo's output: tables for people, one JSON document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from eutectic.demo.run import ModelResult
from eutectic.driver.report import CompileReport, UnfusedRecord


def to_json(results: Sequence[ModelResult]) -> dict[str, Any]:
    """The results as the document that `eutectic demo --json` prints."""
    return {"models": [_model_json(r) for r in results]}


def _model_json(r: ModelResult) -> dict[str, Any]:
    return {
        "name": r.name,
        "convolutions": r.report.convolutions,
        "convolutions_fused": r.report.convolutions_fused,
        "relative_error": r.relative_error,
        "latency_ms": r.latency_ms,
        "eager_latency_ms": r.eager_latency_ms,
        "photos": [
            {"photo": p.photo, "label": p.label, "probability": p.probability, "eager_label": p.eager_label}
            for p in r.photos
        ],
    }


def print_result(console: Console, r: ModelResult) -> None:
    """Print what was found about one network."""
    console.print()
    console.rule(f"[bold]{r.title}", align="left")
    console.print(_photo_table(r))
    console.print(
        f"Largest difference of a logit from eager: {r.absolute_error:.2e} "
        f"({r.relative_error:.1e} of the logits' scale)."
    )
    _print_fusion(console, r.report)
    threads = f"{r.threads} thread{'s' if r.threads != 1 else ''}"
    console.print(
        f"Median latency: [bold]{r.latency_ms:.2f} ms[/bold], torch eager {r.eager_latency_ms:.2f} ms with {threads} "
        f"({r.eager_latency_ms / r.latency_ms:.2f} times ours); measured in turns. "
        f"Compiled in {r.report.seconds:.1f} s."
    )


def _photo_table(r: ModelResult) -> Table:
    table = Table("photo", "eutectic", "", "torch eager", "", box=None, pad_edge=False)
    table.columns[2].justify = table.columns[4].justify = "right"
    for p in r.photos:
        style = None if p.label == p.eager_label else "bold red"
        table.add_row(
            p.photo, p.label, f"{p.probability:.3f}", p.eager_label, f"{p.eager_probability:.3f}", style=style
        )
    return table


def _print_fusion(console: Console, report: CompileReport) -> None:
    if report.regions:
        table = Table("fused region", "how many", "operators in each", box=None, pad_edge=False)
        table.columns[1].justify = "right"
        for name, composite in report.by_composite().items():
            for k, ops in enumerate(composite.variants):
                first = k == 0
                table.add_row(name if first else "", str(composite.count) if first else "", ", ".join(map(_short, ops)))
        console.print(table)
    regions = f"{len(report.regions)} region{'s' if len(report.regions) != 1 else ''}"
    console.print(
        f"{report.convolutions_fused} of {report.convolutions} convolutions are fused; "
        f"{len(report.composites)} kernels in {regions}."
    )
    _print_unfused(console, report.unfused)
    for host in report.host_operators:
        where = " at ".join(part for part in (host.module, host.source) if part) or "an unknown place"
        console.print(f"{_short(host.op)} of {where} runs in Python.", markup=False)
    for note in report.notes:
        console.print(f"Note: {note}", markup=False)


def _print_unfused(console: Console, unfused: Sequence[UnfusedRecord]) -> None:
    if not unfused:
        console.print("No operator stayed unfused.")
        return
    console.print(f"{len(unfused)} operator{'s' if len(unfused) != 1 else ''} stayed unfused:")
    groups: dict[tuple[str, str], list[UnfusedRecord]] = {}
    for u in unfused:
        groups.setdefault((u.op, u.reason), []).append(u)
    for (op, reason), members in groups.items():
        where = members[0].module or members[0].source or members[0].variable
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        console.print(f"  {_short(op)} at {where}{more}: {reason}", markup=False)


def _short(op: str) -> str:
    return op.removeprefix("relax.").removeprefix("nn.")
