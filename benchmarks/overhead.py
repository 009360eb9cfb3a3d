"""What a user pays besides the arithmetic: microseconds of a call of a small network, and seconds to compile.

    python benchmarks/overhead.py --models mlp,resnet18,resnet50 --rounds 5 --json result.json

Calls are measured in turns in one process. Each compilation has a process of its own, after its imports: cold, with an
empty folder for the cache, then with the folder that the cold one left: with its kernels alone, with the whole model,
and again in that process.
What torch.export takes is measured apart, since every compiler of such programs pays for it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import eutectic
from eutectic.testing.models import MODELS
from eutectic.testing.models.eager import threads as torch_threads
from eutectic.testing.timing import interleaved
from machine import describe, usable_cpus

CALLED = "mlp"
TARGETS = {"default": "", "llvm": "llvm", "llvm -libs=dnnl": "llvm -libs=dnnl"}  # empty: none is given
STAGES = ("export", "compile", "again")
_COMPILE = """
import json, sys, time, warnings
import torch, eutectic
from eutectic.testing.models import MODELS

warnings.simplefilter("ignore")
torch.set_num_threads(int(sys.argv[3]))
eutectic.compile  # loads what is loaded once
model, inputs = MODELS[sys.argv[1]].build()
at = [time.perf_counter()]
program = torch.export.export(model, inputs)
at.append(time.perf_counter())
for _ in range(2):
    eutectic.compile(program, target=sys.argv[2] or None, threads=int(sys.argv[3]))
    at.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(at, at[1:])]))
"""


def call_microseconds(target: str, rounds: int, threads: int) -> dict[str, float]:
    """Median microseconds of a call: with tensors, with arrays, and of torch eager."""
    model, inputs = MODELS[CALLED].build()
    fast = eutectic.compile(model, inputs, target=target or None, threads=threads)
    arrays = tuple(x.numpy() for x in inputs)
    with torch.inference_mode():
        calls = {
            "tensors": lambda: fast(*inputs),
            "arrays": lambda: fast(*arrays),
            "eager": lambda: model(*inputs),
        }
        samples = interleaved(calls, rounds=rounds)
    return {name: 1e6 * statistics.median(values) for name, values in samples.items()}


def _compilation(name: str, target: str, threads: int, cache: str, **variables: str) -> dict[str, float]:
    """Seconds of each stage in a new process with this folder for kernels and models."""
    command = [sys.executable, "-c", _COMPILE, name, target, str(threads)]
    environ = {**os.environ, "EUTECTIC_CACHE_DIR": cache, **variables}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(STAGES, json.loads(done.stdout), strict=True))


def compile_seconds(name: str, target: str, rounds: int, threads: int) -> dict[str, float]:
    """Median seconds: of the export, of compiling cold, with kernels of the cache, and twice with a model of it."""
    columns: dict[str, list[float]] = {"export": [], "cold": [], "kernels": [], "cached": [], "again": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold = _compilation(name, target, threads, cache)
            kernels = _compilation(name, target, threads, cache, EUTECTIC_CACHE_MODELS="0")
            cached = _compilation(name, target, threads, cache)
        columns["export"] += [cold["export"], cached["export"]]
        columns["cold"].append(cold["compile"])
        columns["kernels"].append(kernels["compile"])
        columns["cached"].append(cached["compile"])
        columns["again"].append(cached["again"])
    return {column: statistics.median(values) for column, values in columns.items()}


def _line(label: str, target: str, values: dict[str, float], unit: str) -> None:
    measured = "".join(f"  {name} {value:.3g} {unit}" for name, value in values.items())
    print(f"{label:18} {target:16}{measured}", flush=True)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default="mlp,resnet18,resnet50", help="to compile; comma-separated")
    parser.add_argument("--rounds", type=int, default=5, help="cold and cached compilations of each")
    parser.add_argument("--threads", type=int, default=usable_cpus())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.models.split(",")) - set(MODELS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(MODELS)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each measurement."""
    arguments = _arguments(argv)
    rounds, threads = arguments.rounds, arguments.threads
    calls: dict[str, dict[str, float]] = {}
    compilations: list[dict[str, Any]] = []
    with torch_threads(threads):
        for label, target in TARGETS.items():
            calls[label] = call_microseconds(target, 4 * rounds, threads)
            _line(f"call of {CALLED}", label, calls[label], "us")
    for name in arguments.models.split(","):
        for label, target in TARGETS.items():
            seconds = compile_seconds(name, target, rounds, threads)
            _line(f"compile {name}", label, seconds, "s")
            compilations.append({"model": name, "target": label, "seconds": seconds})
    if arguments.json is not None:
        document = {
            "benchmark": "overhead",
            "machine": describe(threads),
            "rounds": rounds,
            "call_microseconds": {CALLED: calls},
            "compilations": compilations,
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
