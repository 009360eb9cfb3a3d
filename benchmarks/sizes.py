"""Networks whose sizes vary from call to call: ours beside eager, ONNX Runtime and OpenVINO, at several sizes.

Each contender is prepared once for all sizes; beside them is what we compile for one size alone, which says what it
costs that a size is not known. All of them live in one process and are measured in turns at each size, and each must
agree with the model in float64.

    python benchmarks/sizes.py --networks bert,gpt2 --json result.json
    python benchmarks/sizes.py --networks resnet18 --threads 1
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import eutectic
from end_to_end import TOLERANCE, error_of, in_float64
from eutectic.testing.models import MODELS
from eutectic.testing.models.eager import threads as torch_threads
from eutectic.testing.models.seeding import example
from eutectic.testing.peers import Inputs, OnnxRuntime, OpenVino, onnxruntime_session, openvino_model, to_onnx
from eutectic.testing.timing import interleaved
from machine import describe, usable_cpus

Call = Callable[[], Any]


@dataclass(frozen=True)
class Network:
    """A network with a size that varies.

    Attributes:
        model: Its name among the models.
        axes: The axis of each input that has the size; None for inputs of fixed shapes.
        sizes: Those that are measured; the first one is that of the example.
        is_square: Whether the next axis varies, too, and is measured with the same size: images.
        least: The smallest size that the network takes.
    """

    model: str
    axes: tuple[int | None, ...]
    sizes: tuple[int, ...]
    is_square: bool = False
    least: int = 2

    def shapes(self) -> tuple[Any, ...]:
        """What may change, as torch takes it."""
        sizes = [torch.export.Dim(name, min=self.least, max=1023) for name in ("size", "width")[: 1 + self.is_square]]
        return tuple(None if axis is None else {axis + k: s for k, s in enumerate(sizes)} for axis in self.axes)

    def inputs(self, given: Inputs, size: int) -> Inputs:
        """Inputs of a size, from those of the model's own."""
        pairs = enumerate(zip(given, self.axes, strict=True))
        return tuple(x if axis is None else self._example(x.shape, axis, size, k) for k, (x, axis) in pairs)

    def _example(self, shape: Sequence[int], axis: int, size: int, seed: int) -> Any:
        sizes = [size if axis <= k <= axis + self.is_square else n for k, n in enumerate(shape)]
        return example(*sizes, seed=seed)


NETWORKS: Final = {
    "bert": Network("bert_layer", (1,), (128, 17, 64, 200)),
    "gpt2": Network("gpt2_block", (None, 2, 2), (64, 63, 512)),
    "mlp": Network("mlp", (0,), (8, 3, 64)),
    "mobilenet_v2": Network("mobilenet_v2", (0,), (2, 3, 8)),
    "resnet18": Network("resnet18", (0,), (2, 3, 8)),
    "mobilenet_v2_images": Network("mobilenet_v2", (2,), (224, 96, 161), is_square=True, least=64),
    "resnet18_images": Network("resnet18", (2,), (224, 96, 161), is_square=True, least=64),
}


def contenders(model: torch.nn.Module, network: Network, inputs: Inputs, threads: int) -> dict[str, Callable[..., Any]]:
    """What each contender is called with, by its name; those that are not installed are left out."""
    shapes = network.shapes()
    ours = eutectic.compile(model, inputs, threads=threads, dynamic_shapes=shapes)
    found: dict[str, Callable[..., Any]] = {"eutectic": ours, "eager": model}
    if OnnxRuntime().missing() is None:
        with tempfile.TemporaryDirectory() as folder:
            path = to_onnx(model, inputs, Path(folder), shapes)
            found["onnxruntime"] = _of_session(onnxruntime_session(path, threads))
            if OpenVino().missing() is None:
                found["openvino"] = _of_request(openvino_model(path, threads).create_infer_request())
    return found


def _of_session(session: Any) -> Callable[..., Any]:
    names = [item.name for item in session.get_inputs()]
    return lambda *args: session.run(None, {name: x.numpy() for name, x in zip(names, args, strict=True)})[0]


def _of_request(request: Any) -> Callable[..., Any]:
    return lambda *args: request.infer([x.numpy() for x in args], share_inputs=True, share_outputs=True)[0]


def measured(calls: Mapping[str, Callable[..., Any]], inputs: Inputs, exact: Any, rounds: int) -> dict[str, Any]:
    """Milliseconds of each contender at one size: 10th percentile, median and 90th; or what is wrong with it."""
    wrong = {
        name: error for name, call in calls.items() if (error := error_of(np.asarray(call(*inputs)), exact)) > TOLERANCE
    }
    ready: dict[str, Call] = {name: _bound(call, inputs) for name, call in calls.items() if name not in wrong}
    times = interleaved(ready, rounds=rounds)
    percentiles = {
        name: [float(v) * 1e3 for v in np.percentile(samples, [10, 50, 90])] for name, samples in times.items()
    }
    return {**percentiles, **{name: f"wrong result: error {error:.1e}" for name, error in wrong.items()}}


def _bound(call: Callable[..., Any], inputs: Inputs) -> Call:
    return lambda: call(*inputs)


def run_network(name: str, threads: int, rounds: int, console: Console) -> dict[str, Any]:
    """Measure all contenders at all sizes of one network, and print a table."""
    network = NETWORKS[name]
    model, given = MODELS[network.model].build()
    calls = contenders(model, network, network.inputs(given, network.sizes[0]), threads)
    found: dict[str, Any] = {}
    table = Table("size", *calls, "for one size", title=f"{name}, milliseconds")
    for size in network.sizes:
        inputs = network.inputs(given, size)
        alone = eutectic.compile(model, inputs, threads=threads)
        exact = in_float64(model, inputs)
        with torch.no_grad():
            found[str(size)] = rows = measured({**calls, "for one size": alone}, inputs, exact, rounds)
        table.add_row(str(size), *(_shown(rows[peer], rows["eutectic"]) for peer in (*calls, "for one size")))
    console.print(table)
    return found


def _shown(row: Any, ours: Any) -> str:
    if isinstance(row, str) or isinstance(ours, str):
        return str(row)
    return f"{row[1]:.3g} ({row[1] / ours[1]:.2f}x)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 when a contender gave a wrong result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", default=",".join(NETWORKS), help=f"comma-separated, of {', '.join(NETWORKS)}")
    parser.add_argument("--rounds", type=int, default=12, help="turns of each contender, three samples a turn")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="for every contender")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # the exporters' own
    logging.disable(logging.WARNING)
    names = arguments.networks.split(",")
    if unknown := sorted(set(names) - set(NETWORKS)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(NETWORKS)}")
    console = Console(soft_wrap=True)
    with torch_threads(arguments.threads):
        found = {name: run_network(name, arguments.threads, arguments.rounds, console) for name in names}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"machine": describe(arguments.threads), "networks": found}))
    is_wrong = any(isinstance(row, str) for rows in found.values() for by in rows.values() for row in by.values())
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
