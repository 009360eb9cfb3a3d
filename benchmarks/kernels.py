"""Each convolution and product of a network alone: our kernel beside oneDNN and the roofline of this machine.

    python benchmarks/kernels.py --models resnet50 --rounds 20 --json result.json --html result.html
    python benchmarks/kernels.py --models "" --sizes 1024 --threads 1
    python benchmarks/kernels.py --target "llvm -mcpu=x86-64-v3"

Both contenders of a layer live in one process, use the same number of threads and are measured in turns; the peak of
the processor is measured between the layers. Each must agree with float64 first. A layer is an operator with a bias
and a relu. Our kernels compute direct sums (what Winograd's method gains is a matter of `end_to_end.py`) in the
layouts of the network, oneDNN in those that it asks for: nothing that is timed copies to another layout.

For a target with narrower vectors than those of this processor, oneDNN is confined to as narrow ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from eutectic.backend.llvm.machine import machine_of
from eutectic.backend.registry import available, backend
from eutectic.explain.machine import MachineSpeed, measured
from eutectic.explain.peak import fma_speed
from eutectic.runtime.processor import model_name
from eutectic.support.errors import EutecticError
from eutectic.target import Target
from eutectic.testing.models import MODELS
from eutectic.testing.models.eager import threads as torch_threads
from eutectic.testing.timing import interleaved
from kernel_outcome import Outcome, Row, Timing, documents, print_outcome
from kernel_page import page
from layers import LIBRARY, Alone, Array, Layer, layers_of, library, ours, product
from machine import describe, usable_cpus

TOLERANCE: Final = 1e-5  # largest difference from float64, relative to the scale of the result
PRODUCTS: Final = "products"
WIDTH: Final = 150  # of the tables, at least
_ISA: Final = "ONEDNN_MAX_CPU_ISA"
_ISA_OF_LANES: Final = {4: "SSE41", 8: "AVX2"}


class WrongResult(Exception):
    """A contender does not agree with float64."""


def _checked(name: str, alone: Alone, exact: Array) -> float:
    """The error of a contender, relative to the scale of the result."""
    value = alone.result()
    if value.shape != exact.shape:
        raise WrongResult(f"{name} gives shape {value.shape}, expected {exact.shape}")
    error = float(np.abs(value - exact).max() / np.abs(exact).max())
    if not error <= TOLERANCE:
        raise WrongResult(f"{name} differs by {error:.1e} of the scale from float64, expected at most {TOLERANCE}")
    return error


def _timing(alone: Alone, error: float, samples: Sequence[float]) -> Timing:
    low, median, high = (float(v) * 1e6 for v in np.percentile(samples, [10, 50, 90]))
    return Timing(median, low, high, error, alone.layouts, alone.kernels)


def measure(layer: Layer, target: Target, *, rounds: int, threads: int, missing: str = "") -> Row:
    """Measure both contenders on a layer in turns.

    Args:
        layer: The layer.
        target: Of our kernel.
        rounds: Turns of each.
        threads: Of each call.
        missing: Why oneDNN takes no part; empty when it does.

    Raises:
        WrongResult: a contender differs from float64.
    """
    contenders = {"ours": ours(layer, target, threads)}
    if not missing:
        try:
            contenders["oneDNN"] = library(layer, threads)
        except EutecticError as error:  # said in the table, the other layers go on
            missing = str(error).splitlines()[0]
    exact = layer.truth()
    errors = {name: _checked(f"{name} on {layer.name}", alone, exact) for name, alone in contenders.items()}
    samples = interleaved({name: alone.call for name, alone in contenders.items()}, rounds=rounds)
    timings = {name: _timing(alone, errors[name], samples[name]) for name, alone in contenders.items()}
    return Row(layer.name, layer.count, layer.flops, layer.bytes, timings["ours"], timings.get("oneDNN"), missing)


def measure_all(
    layers: Sequence[Layer], target: Target, speed: MachineSpeed, *, rounds: int, threads: int, console: Console
) -> tuple[list[Row], MachineSpeed]:
    """Measure layers; the speed that comes back has the highest peak that was measured between them.

    Args:
        layers: The layers.
        target: Of our kernels.
        speed: What the machine was measured to do before.
        rounds: Turns of each contender.
        threads: Of each call.
        console: Told what is measured.
    """
    state = available(backend(LIBRARY), Target(f"llvm -libs={LIBRARY}"))
    rows = []
    for layer in layers:
        console.print(f"measuring {layer.name} ...", style="dim", markup=False)
        rows.append(measure(layer, target, rounds=rounds, threads=threads, missing=state.reason))
        speed = replace(speed, flops=max(speed.flops, fma_speed(threads, target)))
    return rows, speed


def confine_library(target: Target) -> str:
    """Have oneDNN use no wider vectors than a target; must come before oneDNN is loaded.

    Returns:
        What oneDNN is confined to; empty where it is not.
    """
    lanes, widest = machine_of(target).lanes(32), machine_of(Target()).lanes(32)
    if lanes < widest and lanes in _ISA_OF_LANES:
        os.environ.setdefault(_ISA, _ISA_OF_LANES[lanes])
    return os.environ.get(_ISA, "")


def square_products(sizes: Sequence[int]) -> list[Layer]:
    """Products of square matrices: of two arguments, and with constant weights, a bias and a relu."""
    return [product(n, n, n, has_weights=constant) for n in sizes for constant in (False, True)]


def _models(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := sorted(set(names) - set(MODELS)):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(MODELS)}")
    return names


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, received {number}")
    return number


def _sizes(text: str) -> list[int]:
    return [_positive(size) for size in text.split(",") if size]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=_models, default=["resnet50", "bert_layer"], help="comma-separated")
    parser.add_argument("--sizes", type=_sizes, default=[512, 1024, 2048], help="rows of square products")
    parser.add_argument("--target", type=Target, default=Target("llvm"), help="of our kernels, without libraries")
    parser.add_argument("--rounds", type=_positive, default=20, help="turns of each contender, three samples a turn")
    parser.add_argument("--threads", type=_positive, default=usable_cpus(), help="of each call")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with charts here")
    arguments = parser.parse_args(argv)
    if arguments.target.libs:
        parser.error(f"--target {arguments.target}: expected no libraries, as oneDNN is what it is compared with")
    return arguments


def _groups(arguments: argparse.Namespace, console: Console) -> list[tuple[str, str, list[Layer]]]:
    """Name, title and layers of each network, and of the square products."""
    groups = []
    for name in arguments.models:
        if (reason := MODELS[name].missing()) is not None:
            console.print(f"without {name}: {reason}", markup=False)
            continue
        groups.append((name, MODELS[name].title, layers_of(MODELS[name].build(), arguments.target)))
    if arguments.sizes:
        groups.append((PRODUCTS, "Square products", square_products(arguments.sizes)))
    return groups


def _write(arguments: argparse.Namespace, outcomes: Sequence[Outcome], isa: str) -> None:
    machine = describe(arguments.threads)
    document: dict[str, Any] = {
        "benchmark": "kernels",
        "machine": machine,
        "target": str(arguments.target),
        "onednn_isa": isa,
        "rounds": arguments.rounds,
        "models": documents(outcomes),
    }
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(page(outcomes, machine, str(arguments.target)), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table for each network; the exit status is 1 when a result is wrong."""
    arguments = _arguments(argv)
    warnings.simplefilter("ignore")  # the exporters' own; ours would show in the tests
    console = Console(soft_wrap=True)
    console.width = max(console.width, WIDTH)
    target, rounds, threads = arguments.target, arguments.rounds, arguments.threads
    isa = confine_library(target)
    speed = replace(measured(model_name(), threads), flops=fma_speed(threads, target))
    outcomes: list[Outcome] = []
    with torch_threads(threads):
        for name, title, layers in _groups(arguments, console):
            try:
                rows, speed = measure_all(layers, target, speed, rounds=rounds, threads=threads, console=console)
            except WrongResult as error:
                console.print(f"wrong result: {error}", markup=False)
                return 1
            outcomes.append(Outcome(name, title, tuple(rows), speed))
            print_outcome(console, outcomes[-1])
    _write(arguments, outcomes, isa)
    return 0


if __name__ == "__main__":
    sys.exit(main())
