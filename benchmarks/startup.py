"""Seconds from the start of a process to its end, for what a user waits for: an import, a command, a first compile.

python benchmarks/startup.py --rounds 15 --json result.json

The rounds go through all cases in turn, so that a busy moment of the machine does not meet one of them alone. Byte
code is written, as an installed package has it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe

_MLP = """
import numpy as np, eutectic
from eutectic import relax
from eutectic.relax import op
rng = np.random.default_rng(0)
w1, w2 = (relax.const(rng.standard_normal((256, 256)).astype("float32")) for _ in range(2))
x = relax.Var("x", relax.TensorStructInfo((8, 256), "float32"))
bb = relax.BlockBuilder()
with bb.function("main", [x]):
    with bb.dataflow():
        h = bb.emit(op.nn.relu(bb.emit(op.matmul(x, w1))))
        out = bb.emit_output(op.matmul(h, w2))
    bb.emit_func_output(out)
model = eutectic.compile(bb.get())
model(np.ones((8, 256), "float32"))
"""
CASES: dict[str, list[str]] = {
    "python": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import eutectic": ["-c", "import eutectic"],
    "import numpy, eutectic": ["-c", "import numpy, eutectic"],
    "import eutectic.relax": ["-c", "import eutectic.relax"],
    "eutectic --help": ["-m", "eutectic", "--help"],
    "eutectic.compile of an MLP": ["-c", _MLP],
}


def seconds(arguments: list[str], environ: dict[str, str]) -> float:
    """How long one process runs."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # of kernels: none are kept from before
        environ = {**os.environ, "EUTECTIC_CACHE_DIR": "", "PYTHONPYCACHEPREFIX": folder}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in CASES.values():
            seconds(arguments, environ)
        rows: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(args.rounds):
            for name, arguments in CASES.items():
                rows[name].append(seconds(arguments, environ))
    for name, values in rows.items():
        print(f"{name:28} median {statistics.median(values):.3f} s, least {min(values):.3f} s")
    if args.json:
        medians = {name: statistics.median(values) for name, values in rows.items()}
        args.json.write_text(json.dumps({"benchmark": "startup", "machine": describe(1), "seconds": medians}, indent=2))


if __name__ == "__main__":
    main()
