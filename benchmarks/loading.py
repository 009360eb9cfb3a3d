"""Seconds from a file to results, in processes that have neither torch nor the compiler.

Each round is a process of its own, with and without the digest of the weights in turns.

    python benchmarks/loading.py --models resnet50 --rounds 10 --json result.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import eutectic
from eutectic.testing.models import MODELS
from machine import describe, usable_cpus

TARGETS = ("llvm", "llvm -libs=dnnl")
STAGES = ("numpy", "imports", "load", "first call", "second call")
_LOAD = """
import json, sys, time
for name in ("torch", "llvmlite", "islpy"):
    sys.modules[name] = None
at = [time.perf_counter()]
import numpy as np
at.append(time.perf_counter())
import eutectic, tvm_ffi
eutectic.load
at.append(time.perf_counter())
model = eutectic.load(sys.argv[1], check=json.loads(sys.argv[3]))
with np.load(sys.argv[2]) as given:
    inputs = [given[name] for name in given.files]
at.append(time.perf_counter())
for _ in range(2):
    model(*inputs)
    at.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(at, at[1:])]))
"""


def _round(file: Path, given: Path, check: bool) -> list[float]:
    """Seconds of each stage in a new process."""
    command = [sys.executable, "-c", _LOAD, str(file), str(given), json.dumps(check)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def measure(name: str, target: str, rounds: int, threads: int | None, folder: Path) -> list[dict[str, Any]]:
    """Rows for one model and target: median milliseconds by stage, with and without the digest of the weights."""
    model, inputs = MODELS[name].build()
    file = eutectic.compile(model, inputs, target=target, threads=threads).save(folder / "model.eut")
    given = folder / "given.npz"
    np.savez(given, *(tensor.numpy() for tensor in inputs))
    seconds: dict[bool, list[list[float]]] = {True: [], False: []}
    _round(file, given, check=True)  # brings the file into memory
    for _ in range(rounds):
        for check, rows in seconds.items():
            rows.append(_round(file, given, check))
    size = file.stat().st_size
    return [
        {"model": name, "target": target, "bytes": size, "check": check}
        | {
            stage: 1e3 * statistics.median(column)
            for stage, column in zip(STAGES, zip(*rows, strict=True), strict=True)
        }
        for check, rows in seconds.items()
    ]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,mobilenet_v2", help="comma-separated")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(
        f"{'model':15} {'target':16} {'MB':>6} {'digest':7}" + "".join(f"{stage:>13}" for stage in STAGES) + "   (ms)"
    )
    for name in args.models.split(","):
        for target in TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                fresh = measure(name, target, args.rounds, args.threads, Path(folder))
            rows += fresh
            for row in fresh:
                stages = "".join(f"{row[stage]:13.1f}" for stage in STAGES)
                print(f"{name:15} {target:16} {row['bytes'] / 1e6:6.1f} {'yes' if row['check'] else 'no':7}{stages}")
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(args.threads or usable_cpus()), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
