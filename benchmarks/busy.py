"""Latency beside a process that keeps one processor busy, over the quiet one: who waits for threads that do not run?

    python benchmarks/busy.py --models resnet50,mobilenet_v2 --json result.json

Every turn measures a contender twice, with the other process stopped and with it running; contenders take turns. What
counts is the ratio of the two medians.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from eutectic.testing.models import MODELS
from eutectic.testing.models.eager import threads as torch_threads
from eutectic.testing.peers import PEERS
from machine import describe, usable_cpus

CALLS = 5  # in a turn
SETTLE_SECONDS = 2e-2  # after the other process was stopped or went on


class BusyProcess:
    """A process that computes whenever it is allowed to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self._process.send_signal(signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[None]:
        """It runs inside of the block only."""
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def turn(call: Callable[[], Any]) -> list[float]:
    """Seconds of some calls."""
    time.sleep(SETTLE_SECONDS)
    call()
    seconds = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def measured(name: str, peers: Sequence[str], rounds: int, threads: int) -> list[dict[str, Any]]:
    """Medians of each contender in milliseconds, quiet and beside the busy process."""
    model, inputs = MODELS[name].build()
    present = [peer for peer in peers if PEERS[peer].missing() is None]
    calls = {peer: PEERS[peer].prepare(model, inputs, threads).call for peer in present}
    quiet: dict[str, list[float]] = {peer: [] for peer in calls}
    beside: dict[str, list[float]] = {peer: [] for peer in calls}
    other = BusyProcess()
    try:
        for _ in range(rounds):
            for peer, call in calls.items():
                with torch.no_grad():
                    quiet[peer] += turn(call)
                    with other.running():
                        beside[peer] += turn(call)
    finally:
        other.close()
    return [_row(name, peer, quiet[peer], beside[peer]) for peer in calls]


def _row(model: str, peer: str, quiet: Sequence[float], beside: Sequence[float]) -> dict[str, Any]:
    first, second = statistics.median(quiet) * 1e3, statistics.median(beside) * 1e3
    row = {"model": model, "peer": peer, "quiet": first, "busy": second, "ratio": second / first}
    print(f"{model:20} {peer:16} {first:9.3f} ms quiet {second:9.3f} ms busy   {row['ratio']:.2f}x", flush=True)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default="resnet50,mobilenet_v2", help="comma-separated")
    parser.add_argument("--peers", default="eutectic,eutectic-llvm,onnxruntime,openvino,eager", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each contender")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="for every contender")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    arguments = parser.parse_args(argv)
    peers = arguments.peers.split(",")
    if unknown := sorted(set(peers) - set(PEERS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(PEERS)}")
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    with torch_threads(arguments.threads):
        for name in arguments.models.split(","):
            rows += measured(name, peers, arguments.rounds, arguments.threads)
    if arguments.json is not None:
        document = {"benchmark": "busy", "machine": describe(arguments.threads), "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
