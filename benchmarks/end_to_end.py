"""Whole networks, float32 or bfloat16, batch 1 or more: ours beside torch eager, torch.compile, ONNX Runtime, OpenVINO.

All contenders live in one process, use the same number of threads and are measured in turns, so that their ratios
mean something on a noisy machine. Before it is measured, each must agree with eager and with the model in float64.

    python benchmarks/end_to_end.py --models resnet50,mlp --rounds 30 --json result.json
    python benchmarks/end_to_end.py --peers eutectic,eutectic-bf16,eager-bf16,openvino-bf16
    python benchmarks/end_to_end.py --models resnet50,unet_block --batch 8 --threads 1
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from eutectic.testing.models import MODELS, Built
from eutectic.testing.models.eager import threads as torch_threads
from eutectic.testing.models.seeding import example
from eutectic.testing.narrow_peers import NARROW_PEERS
from eutectic.testing.peers import OURS, PEERS, Array, Inputs, Prepared
from eutectic.testing.timing import interleaved
from machine import describe, exchange_ns, usable_cpus
from outcome import Outcome, Row, print_outcome

TOLERANCE = 1e-4  # largest difference from float64, relative to the scale of the output
NARROW_TOLERANCE = 0.2  # the same of bfloat16, with weights that nobody trained
ALL_PEERS = {**PEERS, **NARROW_PEERS}


def error_of(got: Array, want: Array) -> float:
    """The largest difference relative to the scale; as it is where all of it should be zero."""
    return float(np.abs(got - want).max() / (np.abs(want).max() or 1.0))


def in_float64(model: torch.nn.Module, inputs: Inputs) -> Array:
    """What a model gives in float64."""
    with torch.no_grad():
        wide = (x.double() if x.is_floating_point() else x for x in inputs)
        out: torch.Tensor = copy.deepcopy(model).double()(*wide)
    return out.numpy()


def batched(inputs: Inputs, batch: int) -> Inputs | None:
    """The inputs for so many images at a time, none like another; None when an input is not `(1, c, h, w)`."""
    if batch == 1:
        return inputs
    if any(x.dim() != 4 for x in inputs):
        return None
    return tuple(torch.cat([x, example(batch - 1, *x.shape[1:], seed=10 + k)]) for k, x in enumerate(inputs))


def run_model(name: str, built: Built, peers: Sequence[str], *, rounds: int, threads: int, console: Console) -> Outcome:
    """Measure the contenders on one model.

    Args:
        name: Key in the registry of models.
        built: The network and its inputs.
        peers: Names of contenders.
        rounds: Turns of each.
        threads: For every contender.
        console: Told what is being prepared.
    """
    model, inputs = built
    exact = in_float64(model, inputs)
    eager = PEERS["eager"].prepare(model, inputs, threads).result()
    ready: dict[str, tuple[Prepared, float]] = {}
    errors: dict[str, tuple[float, float]] = {}
    missing: dict[str, str] = {}
    for peer in peers:
        if (reason := ALL_PEERS[peer].missing()) is not None:
            missing[peer] = reason
            continue
        console.print(f"{MODELS[name].title}: preparing {peer} ...", style="dim")
        start = time.perf_counter()
        try:
            prepared = ALL_PEERS[peer].prepare(model, inputs, threads)
            got = prepared.result()
        except Exception as error:  # a contender that fails is reported, the others go on
            missing[peer] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            continue
        found = error_of(got, eager), error_of(got, exact)
        if got.shape != exact.shape or not found[1] <= (NARROW_TOLERANCE if peer in NARROW_PEERS else TOLERANCE):
            missing[peer] = f"wrong result: error {found[1]:.1e} relative to the scale, against float64"
            continue
        ready[peer], errors[peer] = (prepared, time.perf_counter() - start), found
    exchange = exchange_ns()
    with torch.no_grad():
        samples = interleaved({peer: prepared.call for peer, (prepared, _) in ready.items()}, rounds=rounds)
    exchange += exchange_ns()
    rows = tuple(_row(p, samples[p], errors[p], seconds, ready_.note) for p, (ready_, seconds) in ready.items())
    return Outcome(name, MODELS[name].title, rows, missing, exchange)


def _row(peer: str, samples: list[float], errors: tuple[float, float], seconds: float, note: str) -> Row:
    low, median, high = (float(v) * 1e3 for v in np.percentile(samples, [10, 50, 90]))
    return Row(peer, median, low, high, *errors, prepare_seconds=seconds, note=note)


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return names

    return parse


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, received {number}")
    return number


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=_names(list(MODELS)), default=list(MODELS), help="comma-separated; all")
    parser.add_argument("--peers", type=_names(list(ALL_PEERS)), default=list(PEERS), help="comma-separated")
    parser.add_argument("--batch", type=_positive, default=1, help="images at a time; others than images are left out")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each contender, three samples a turn")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="for every contender")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here; - is standard output")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 when a contender gave a wrong result or failed."""
    arguments = _arguments(argv)
    warnings.simplefilter("ignore")  # the exporters' own; ours would show in the tests
    to_stdout = arguments.json is not None and str(arguments.json) == "-"
    console = Console(stderr=to_stdout, soft_wrap=True)
    outcomes: list[Outcome] = []
    with torch_threads(arguments.threads):
        for name in arguments.models:
            if (reason := MODELS[name].missing()) is not None:
                console.print(f"without {name}: {reason}", markup=False)
                continue
            model, single = MODELS[name].build()
            if (inputs := batched(single, arguments.batch)) is None:
                console.print(f"without {name}: its inputs are not images, of which --batch counts the number")
                continue
            peers, rounds, threads = arguments.peers, arguments.rounds, arguments.threads
            built = model, inputs
            outcomes.append(run_model(name, built, peers, rounds=rounds, threads=threads, console=console))
            print_outcome(console, outcomes[-1], OURS)
    document = {
        "benchmark": "end_to_end",
        "machine": describe(arguments.threads),
        "batch": arguments.batch,
        "rounds": arguments.rounds,
        "models": [outcome.to_json(OURS) for outcome in outcomes],
    }
    if to_stdout:
        print(json.dumps(document, indent=2))
    elif arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    failed = any(ALL_PEERS[peer].missing() is None for outcome in outcomes for peer in outcome.missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
