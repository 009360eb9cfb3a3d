"""Seconds to print and to parse the text of whole networks.

python benchmarks/script_text.py --models resnet50,mlp --json result.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

from eutectic.relax.frontend.torch import from_exported_program
from eutectic.script import from_source, print_with_metadata
from eutectic.testing.models import MODELS
from machine import describe

DEFAULT_MODELS = "mobilenet_v2,efficientnet_lite0,resnet18,resnet50,mlp"


def measure(name: str, rounds: int) -> dict[str, object]:
    """Medians for one network, imported from PyTorch."""
    model, inputs = MODELS[name].build()
    mod = from_exported_program(torch.export.export(model, inputs))
    printing, parsing = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        text, metadata = print_with_metadata(mod)
        between = time.perf_counter()
        from_source(text, metadata=metadata)
        parsing.append(time.perf_counter() - between)
        printing.append(between - start)
    return {
        "model": name,
        "characters": len(text),
        "print_seconds": statistics.median(printing),
        "parse_seconds": statistics.median(parsing),
    }


def main() -> None:
    """Print a line per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=DEFAULT_MODELS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.models.split(","):
        rows.append(row := measure(name, args.rounds))
        seconds = f"print {row['print_seconds']:.3f} s, parse {row['parse_seconds']:.3f} s"
        print(f"{name}: {row['characters']} characters, {seconds}")
    if args.json:
        args.json.write_text(
            json.dumps({"benchmark": "script_text", "machine": describe(2), "networks": rows}, indent=2)
        )


if __name__ == "__main__":
    main()
