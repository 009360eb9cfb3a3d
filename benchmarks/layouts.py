"""Convolutions row-major and in blocks of channels: seconds of one thread, and what `AssignLayouts` reckons with.

    python benchmarks/layouts.py [--rounds 15] [--output FILE]

Each line is a layer of ResNet-18, MobileNetV2 or EfficientNet-Lite0 with bias and activation, in every layout that our
code generator offers. The seconds are those of the processor, not of the clock, so that other load matters little;
ways take turns,
the least of the rounds counts. `estimated` is the cost in the offer; what `backend/llvm/layouts.py` estimates is fitted
to this.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import eutectic
from eutectic.driver.pipeline import pipeline
from eutectic.driver.pipeline_text import Pipeline
from eutectic.relax import op
from eutectic.relax.op import nn
from eutectic.relax.transform.layouts.offers import LayoutOffer, offers_of
from eutectic.target import Target
from eutectic.testing.graphs import arrays, graph, weights
from machine import describe

# Channels, rows, filters, window, step, groups.
LAYERS = {
    "3x3 64 at 56": (64, 56, 64, 3, 1, 1),
    "3x3 64 to 128, by 2": (64, 56, 128, 3, 2, 1),
    "1x1 64 to 128, by 2": (64, 56, 128, 1, 2, 1),
    "3x3 128 at 28": (128, 28, 128, 3, 1, 1),
    "3x3 256 at 14": (256, 14, 256, 3, 1, 1),
    "3x3 512 at 7": (512, 7, 512, 3, 1, 1),
    "7x7 3 to 64, by 2": (3, 224, 64, 7, 2, 1),
    "3x3 3 to 32, by 2": (3, 224, 32, 3, 2, 1),
    "1x1 16 to 96 at 112": (16, 112, 96, 1, 1, 1),
    "1x1 144 to 24 at 56": (144, 56, 24, 1, 1, 1),
    "1x1 24 to 144 at 56": (24, 56, 144, 1, 1, 1),
    "1x1 64 to 384 at 14": (64, 14, 384, 1, 1, 1),
    "1x1 960 to 160 at 7": (960, 7, 160, 1, 1, 1),
    "depthwise 32 at 112": (32, 112, 32, 3, 1, 32),
    "depthwise 96, by 2": (96, 112, 96, 3, 2, 96),
    "depthwise 144 at 56": (144, 56, 144, 3, 1, 144),
    "depthwise 384 at 14": (384, 14, 384, 3, 1, 384),
    "depthwise 960 at 7": (960, 7, 960, 3, 1, 960),
    "depthwise 5x5 144 at 56, by 2": (144, 56, 144, 5, 2, 144),
    "depthwise 5x5 240 at 28": (240, 28, 240, 5, 1, 240),
    "depthwise 240 at 28, by 2": (240, 28, 240, 3, 2, 240),
    "depthwise 5x5 480 at 14": (480, 14, 480, 5, 1, 480),
    "depthwise 5x5 672 at 14, by 2": (672, 14, 672, 5, 2, 672),
    "depthwise 5x5 1152 at 7": (1152, 7, 1152, 5, 1, 1152),
    "depthwise 72 at 28": (72, 28, 72, 3, 1, 72),
    "depthwise 72 at 28, by 2": (72, 28, 72, 3, 2, 72),
    "1x1 144 to 40 at 28": (144, 28, 40, 1, 1, 1),
    "1x1 240 to 40 at 28": (240, 28, 40, 1, 1, 1),
    "1x1 40 to 240 at 28": (40, 28, 240, 1, 1, 1),
    "1x1 480 to 80 at 14": (480, 14, 80, 1, 1, 1),
    "1x1 1152 to 192 at 7": (1152, 7, 192, 1, 1, 1),
}


def ways(layer: tuple[int, ...]) -> Iterator[tuple[str, LayoutOffer, Any, Any]]:
    """A layer in each layout that is offered: its name, the offer, what runs, and the input."""
    channels, rows, filters, window, step, groups = layer
    options: dict[str, Any] = {"strides": step, "padding": window // 2, "groups": groups}

    def convolution(bb: Any, x: Any) -> Any:
        return nn.conv2d(x, weights(filters, channels // groups, window, window), **options)

    plain = graph({"x": (1, channels, rows, rows)}, convolution)
    call = next(b.value for block in plain["main"].body.blocks for b in block.bindings)
    passes = Pipeline(tuple(p for p in pipeline("llvm") if p.info.name != "AssignLayouts"))
    for offer in offers_of(Target("llvm"))(call):
        data, kernel, out = offer.operand(0) or "NCHW", offer.operand(1) or "OIHW", offer.result or "NCHW"

        def body(bb: Any, x: Any, data: str = data, kernel: str = kernel, out: str = out) -> Any:
            weight = op.layout_transform(weights(filters, channels // groups, window, window), "OIHW", kernel)
            made = nn.conv2d(x, bb.emit(weight), **options, data_layout=data, kernel_layout=kernel, out_layout=out)
            bias = op.layout_transform(weights(1, filters, 1, 1), "NCHW", out)
            return nn.relu(bb.emit(op.add(bb.emit(made), bb.emit(bias))))

        sizes = graph({"x": (1, channels, rows, rows)}, lambda bb, x, d=data: op.layout_transform(x, "NCHW", d))
        info: Any = sizes["main"].ret_struct_info
        mod = graph({"x": info.static_shape}, body)
        compiled = eutectic.compile(mod, target="llvm", threads=1, pipeline=passes)
        yield f"{data} to {out}", offer, compiled, arrays(mod["main"])[0]


def measured(layer: tuple[int, ...], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of each way, and its estimate."""
    made = list(ways(layer))
    spent: dict[str, list[float]] = {name: [] for name, *_ in made}
    for _ in range(rounds):
        for name, _, compiled, x in made:
            compiled(x)
            start = time.process_time()
            for _ in range(3):
                compiled(x)
            spent[name].append((time.process_time() - start) / 3)
    return {
        name: {"microseconds": float(np.min(spent[name]) * 1e6), "estimated": offer.cost / 1e3}
        for name, offer, *_ in made
    }


def main() -> None:
    """Print a line per layer, and JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = {}
    for name, layer in LAYERS.items():
        found[name] = measured(layer, options.rounds)
        texts = [f"{way} {v['microseconds']:.0f} ({v['estimated']:.0f})" for way, v in found[name].items()]
        print(f"{name}: {', '.join(texts)}", flush=True)
    text = json.dumps({"machine": describe(1), "layers": found}, indent=1)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
