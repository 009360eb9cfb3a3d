"""Two versions of the compiler on whole networks, in turns: one process each, so that neither sees the other's code.

    git worktree add ../before v0.3.0
    python benchmarks/versions.py ../before/src src --rounds 15 --json result.json

A version is the folder that holds its package `eutectic`. Each compiles the same models for each target; then they take
turns of a few calls, and the ratio of the medians is shown: above 1 the second version is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODELS = "mobilenet_v2,efficientnet_lite0,resnet18,resnet50,mlp"
TARGETS = "default,llvm"
PAUSE_SECONDS = 2e-2  # before each turn, so that threads of the other process have gone to sleep
CALLS = 3


class Version:
    """A process with one version of the package."""

    def __init__(self, source: Path, threads: int) -> None:
        self.source = source
        environment = {**os.environ, "PYTHONPATH": str(source), "EUTECTIC_THREADS": str(threads)}
        command = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self.source} ended")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve() -> None:
    """Answer requests: `prepare` compiles a model and calls it, `turn` gives seconds of some calls."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    import torch

    import eutectic
    from eutectic.testing.models import MODELS as KNOWN

    call: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            torch.manual_seed(0)
            model, inputs = KNOWN[request["prepare"]].build()
            start = time.perf_counter()
            target = None if request["target"] == "default" else request["target"]
            call = eutectic.compile(model, list(inputs), target=target)
            answer: Any = {"seconds": time.perf_counter() - start, "package": eutectic.__file__}
            arguments = list(inputs)
        else:
            answer = [_seconds(call, arguments) for _ in range(1 + CALLS)][1:]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _seconds(call: Any, arguments: Sequence[Any]) -> float:
    start = time.perf_counter()
    repeats = 0
    while repeats == 0 or time.perf_counter() - start < 1e-3:
        call(*arguments)
        repeats += 1
    return (time.perf_counter() - start) / repeats


def compared(versions: Sequence[Version], model: str, target: str, rounds: int) -> dict[str, Any]:
    """Medians of the versions in milliseconds, and the first over the second."""
    prepared = [version.ask(prepare=model, target=target) for version in versions]
    samples: list[list[float]] = [[] for _ in versions]
    for k in range(rounds):
        for place in range(len(versions)) if k % 2 else reversed(range(len(versions))):
            time.sleep(PAUSE_SECONDS)
            samples[place] += versions[place].ask(turn=True)
    medians = [statistics.median(values) * 1e3 for values in samples]
    return {
        "model": model,
        "target": target,
        "milliseconds": medians,
        "compile_seconds": [answer["seconds"] for answer in prepared],
        "packages": [answer["package"] for answer in prepared],
        "speed": medians[0] / medians[-1],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path, help="folders that hold a package eutectic: before, after")
    parser.add_argument("--models", default=MODELS, help="comma-separated")
    parser.add_argument("--targets", default=TARGETS, help="comma-separated")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each version")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.serve:
        serve()
        return 0
    if len(arguments.sources) != 2:
        parser.error("expected two folders")
    from machine import describe

    versions = [Version(source.resolve(), arguments.threads) for source in arguments.sources]
    rows = []
    for model in arguments.models.split(","):
        for target in arguments.targets.split(","):
            rows.append(row := compared(versions, model, target, arguments.rounds))
            before, after = row["milliseconds"]
            print(f"{model:20} {target:8} {before:9.3f} ms {after:9.3f} ms   {row['speed']:.2f}x", flush=True)
    for version in versions:
        version.close()
    if arguments.json is not None:
        document = {"benchmark": "versions", "machine": describe(arguments.threads), "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
