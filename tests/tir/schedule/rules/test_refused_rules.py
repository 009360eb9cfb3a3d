"""No primitive refuses what a rule does: other loops are taken then, which are right, and slow, and nobody sees it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.tir.schedule.rules.processors import Vectors
from torch import nn

import eutectic
from eutectic import te, tir
from eutectic.target import Target
from eutectic.testing.models import MODELS
from eutectic.tir.schedule.rules.cpu import schedule_for_cpu

TARGETS = ("llvm", "llvm -mcpu=x86-64-v3")
Network = tuple[nn.Module, tuple[torch.Tensor, ...]]


def product(rng: random.Random) -> Network:
    terms, columns = rng.randint(1, 700), rng.randint(1, 700)
    rows = rng.choice([(1,), (3,), (1, 1), (2, 17)])
    return nn.Sequential(nn.Linear(terms, columns), nn.GELU()), (torch.zeros(*rows, terms),)


def convolution(rng: random.Random, kind: type[nn.Conv2d | nn.ConvTranspose2d] = nn.Conv2d) -> Network:
    per_channel, channels = rng.random() < 0.25, rng.choice([1, 3, 8, 12, 16, 48, 64])
    results = channels if per_channel else rng.choice([1, 3, 16, 24, 64])
    made = kind(
        channels,
        results,
        rng.choice([1, 2, 3, 3, 5, 7]),
        rng.choice([1, 1, 2, 3]),
        rng.choice([0, 1, 2]),
        dilation=rng.choice([1, 1, 2]),
        groups=channels if per_channel else 1,
    )
    last = rng.choice([nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)])
    image = torch.zeros(rng.choice([1, 1, 3]), channels, rng.randint(13, 40), rng.randint(13, 40))
    return nn.Sequential(made, nn.BatchNorm2d(results), last), (image,)


def transposed(rng: random.Random) -> Network:
    return convolution(rng, nn.ConvTranspose2d)


def norms(rng: random.Random) -> Network:
    channels = rng.choice([4, 12, 32])
    parts = [nn.GroupNorm(4, channels), nn.ReLU(), nn.InstanceNorm2d(channels), nn.Flatten(2), nn.LayerNorm(35)]
    return nn.Sequential(*parts), (torch.zeros(rng.choice([1, 3]), channels, 5, 7),)


def attention(rng: random.Random) -> Network:
    width, heads, length = rng.choice([16, 24, 64]), rng.choice([1, 2, 4]), rng.choice([1, 2, 16, 33])
    return nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True), (torch.zeros(1, length, width),)


class Reduced(nn.Module):
    """A mean and a largest value over some axes."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.mean(self.axes), x.amax(self.axes)


def long_sums(rng: random.Random) -> Network:
    """Sums that are done in blocks of terms."""
    channels, kernel = rng.choice([100, 256, 400, 512]), rng.choice([1, 1, 3])
    if rng.random() < 0.5:
        made = nn.Conv2d(channels, rng.choice([10, 32, 48]), kernel, rng.choice([1, 2]), kernel // 2)
        return nn.Sequential(made, nn.ReLU()), (torch.zeros(rng.choice([1, 2]), channels, rng.choice([5, 7, 16]), 7),)
    if rng.random() < 0.5:
        made = nn.Linear(rng.randint(400, 3000), rng.choice([5, 32, 200]))
        return nn.Sequential(made), (torch.zeros(rng.choice([1, 3, 17, 64]), made.in_features),)
    axes = rng.choice([(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
    return Reduced(axes), (torch.zeros(rng.randint(1, 80), rng.randint(1, 300), rng.randint(1, 300)),)


KINDS: list[Callable[[random.Random], Network]] = [product, convolution, transposed, norms, attention, long_sums]


def refused(network: Network, target: str) -> list[str]:
    model, inputs = network
    groups = eutectic.compile(model.eval(), inputs, target=target).report.plan.groups
    return [f"{group.name}: {line}" for group in groups for line in group.chosen if " refused: " in line]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_small_networks(kind: Callable[[random.Random], Network]):
    rng = random.Random(3)
    for _ in range(3):
        assert refused(kind(rng), "llvm") == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_more_networks(kind: Callable[[random.Random], Network], target: str, seed: int):
    rng = random.Random(f"{kind.__name__} {seed}")
    for _ in range(5):
        assert refused(kind(rng), target) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_networks_of_the_benchmark(name: str, target: str):
    if not MODELS[name].available:
        pytest.skip(MODELS[name].missing() or "")
    assert refused(MODELS[name].build(), target) == []


def test_values_that_choose_by_a_remainder_are_computed_in_vectors():
    """As those of a transposed convolution with a stride do: only its tiles have to be whole."""
    data = te.placeholder((74, 50), "float32", "data")
    chosen = te.compute(data.shape, lambda i, j: tir.if_then_else((j % 3).equal(0), data[i, j], -data[i, j]), "chosen")
    done = schedule_for_cpu(te.create_prim_func([data, chosen]), Vectors())
    assert [str(line).split(":")[0] for line in done.attrs["tir.chosen"]] == ["elementwise@0"]
    assert "T.vectorized(32)" in done.script()
    out = np.zeros((74, 50), np.float32)
    given = np.arange(74 * 50, dtype=np.float32).reshape(74, 50)
    eutectic.build(done, target=Target("llvm"))(given, out)
    assert np.array_equal(out, np.where(np.arange(50) % 3 == 0, given, -given))


def test_what_is_refused_is_said(monkeypatch: pytest.MonkeyPatch):
    data = te.placeholder((74, 50), "float32", "data")
    func = te.create_prim_func([data, te.compute(data.shape, lambda i, j: data[i, j] + 1, "more")])

    def vectorize(sch: tir.Schedule, loop: object) -> None:
        sch.get_block("nowhere")

    monkeypatch.setattr(tir.Schedule, "vectorize", vectorize)
    (line,) = schedule_for_cpu(func, Vectors()).attrs["tir.chosen"]
    assert str(line).startswith("more refused: ")
    assert "nowhere" in str(line)
