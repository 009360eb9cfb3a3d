"""Memory of a process that runs a network: torch eager, ours in the process that compiled, and ours read from a file.

Each case has processes of its own, in turns. Resident memory is what the system counts, pages of shared libraries
included; "own" leaves those out that come from files and can be read again, such as the code of LLVM.

    python benchmarks/memory.py --models resnet50,mobilenet_v2 --rounds 3 --json result.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import describe, usable_cpus

_HEAD = """
import gc, json, sys
import numpy as np

name, path, shape = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
rows = {}


def look(when):
    gc.collect()
    lines = open("/proc/self/status", encoding="ascii").read().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith(" kB")}
    rows[when] = {"rss": int(found["VmRSS"]), "own": int(found["RssAnon"]), "peak": int(found["VmHWM"])}


def finish():
    print(json.dumps(rows))


"""
_TORCH = """
import torch
from eutectic.testing.models import MODELS
model, inputs = MODELS[name].build()
look("built")
"""
_CASES = {
    "eager": _TORCH
    + """
with torch.inference_mode():
    model(*inputs)
look("called")
""",
    "compiled": _TORCH
    + """
import eutectic
made = eutectic.compile(model, inputs)
look("compiled")
made(*inputs)
look("called")
del model
look("called, model deleted")
""",
    "read": """
import mmap
from eutectic.driver.compiled import CompiledModel
x = np.random.default_rng(0).standard_normal(shape).astype("float32")
look("built")
with open(path, "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
made = CompiledModel.from_bytes(data)
look("compiled")
made(x)
look("called")
data.madvise(mmap.MADV_DONTNEED)  # what was read of the file; it is read again where it is needed
look("called, file let go")
""",
}
_WRITE = """
import json, sys, eutectic
from eutectic.testing.models import MODELS
model, inputs = MODELS[sys.argv[1]].build()
open(sys.argv[2], "wb").write(eutectic.compile(model, inputs).to_bytes())
print(json.dumps(list(inputs[0].shape)))
"""


def run(code: str, *arguments: str) -> Any:
    """What a process prints last; it compiles, and reads no model that was compiled before."""
    environ = {**os.environ, "EUTECTIC_CACHE_MODELS": "0"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, rounds: int, folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Medians in MiB by case and moment.

    Args:
        name: Key in the registry of models.
        rounds: Processes of each case, in turns.
        folder: Where the compiled model is written.
    """
    path = str(folder / name)
    shape = json.dumps(run(_WRITE, name, path))
    found: dict[str, list[Any]] = {case: [] for case in _CASES}
    for _ in range(rounds):
        for case, code in _CASES.items():
            found[case].append(run(f"{_HEAD}{code}\nfinish()\n", name, path, shape))
    return {case: _medians(samples) for case, samples in found.items()}


def _medians(samples: list[Any]) -> dict[str, dict[str, float]]:
    return {
        when: {what: round(statistics.median(s[when][what] for s in samples) / 1024, 1) for what in samples[0][when]}
        for when in samples[0]
    }


def show(name: str, rows: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print a line per case and moment, with the ratio to eager after its first call."""
    eager = rows["eager"]["called"]
    for case, moments in rows.items():
        for when, row in moments.items():
            ratio = row["rss"] / eager["rss"]
            print(
                f"{name:20} {case:9} {when:22} RSS {row['rss']:7.1f} MiB ({ratio:.2f}x eager), "
                f"own {row['own']:7.1f}, peak {row['peak']:7.1f}"
            )


def main() -> None:
    """Measure, and print a table per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="resnet50,mobilenet_v2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            results[name] = measure(name, args.rounds, Path(folder))
            show(name, results[name])
    if args.json:
        document = {"benchmark": "memory", "machine": describe(usable_cpus()), "mebibytes": results}
        args.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
