"""`eutectic bench`: latency of a model, beside the peers that are installed."""

from __future__ import annotations

import statistics
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from eutectic.cli.models import compiled, open_model
from eutectic.cli.session import (
    Debug,
    Fallback,
    Json,
    Model,
    Precision,
    TargetOption,
    Threads,
    print_json,
    progress,
    reported,
)

OURS = "eutectic"


def bench(
    model: Model,
    peers: Annotated[bool, typer.Option("--peers", help="Measure installed peers too, in turns.")] = False,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Turns of each, three samples a turn.")] = 20,
    target: TargetOption = None,
    threads: Threads = None,
    precision: Precision = "default",
    fallback: Fallback = "eager",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure a model on its example arguments.

    Example: eutectic bench nets:small --peers --threads 2
    """
    from eutectic.runtime.team import available_threads  # --help loads none of this
    from eutectic.testing.timing import interleaved

    with reported(debug):
        subject = open_model(model)
        options = {"target": target, "threads": threads, "precision": precision, "fallback": fallback}
        fast = compiled(subject, **options)
        calls: dict[str, Any] = {OURS: lambda: fast(*subject.args, **subject.kwargs)}
        missing = {}
        count = available_threads(threads)
        if peers and not subject.is_compiled and not subject.kwargs:
            missing = _add_peers(calls, subject, count)
        elif peers:
            missing["all peers"] = "they need a torch module, and arguments by position"
        with _without_gradients():
            samples = interleaved(calls, rounds=rounds)
    rows = {name: sorted(values) for name, values in samples.items()}
    _print(subject.name, rows, missing, count, json=json)


def _without_gradients() -> AbstractContextManager[object]:
    """What users of torch run inference in, where torch is in use at all."""
    torch: Any = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def _add_peers(calls: dict[str, Any], subject: Any, threads: int) -> dict[str, str]:
    """Prepare the peers that are there; gives why the others are not."""
    import torch  # --help loads none of this

    from eutectic.testing.peers import PEERS  # --help loads none of this

    torch.set_num_threads(threads)
    module = subject.model.module() if hasattr(subject.model, "graph_signature") else subject.model
    missing: dict[str, str] = {}
    for name, peer in PEERS.items():
        if name.startswith(OURS):
            continue
        reason = peer.missing()
        try:
            if reason is None:
                with progress(f"preparing {name}"):
                    calls[name] = peer.prepare(module, subject.args, threads).call
        except Exception as error:  # a peer that fails is said, the others go on
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if reason is not None:
            missing[name] = reason
    return missing


def _print(model: str, rows: dict[str, list[float]], missing: dict[str, str], threads: int, *, json: bool) -> None:
    medians = {name: statistics.median(values) * 1e3 for name, values in rows.items()}
    if json:
        ratios = {name: median / medians[OURS] for name, median in medians.items()}
        print_json({"model": model, "threads": threads, "median_ms": medians, "ratio": ratios, "missing": missing})
        return
    table = Table(
        "",
        "median ms",
        "10 % ms",
        "90 % ms",
        "times ours",
        title=f"{model}, {threads} thread{'' if threads == 1 else 's'}",
    )
    for name, values in rows.items():
        low, high = (values[int(len(values) * part)] * 1e3 for part in (0.1, 0.9))
        table.add_row(name, f"{medians[name]:.3f}", f"{low:.3f}", f"{high:.3f}", f"{medians[name] / medians[OURS]:.2f}")
    console = Console()
    console.print(table)
    for name, reason in missing.items():
        console.print(f"without {name}: {reason}", markup=False, highlight=False)
