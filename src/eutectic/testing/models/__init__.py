"""Networks for tests, demo and benchmarks, by name. Imports torch; the models are definitions of our own."""

from __future__ import annotations

from eutectic.support.lazy import lazy
from eutectic.testing.models import (
    crepe,
    digits,
    efficientnet_lite,
    mlp,
    mobilenet_v2,
    resnet,
    transformer,
    unet,
    vgg,
)
from eutectic.testing.models.entry import Built, ModelEntry, WeightsMissing

MODELS: dict[str, ModelEntry] = {
    entry.name: entry
    for module in (mobilenet_v2, efficientnet_lite, resnet, vgg, transformer, unet, mlp, crepe, digits)
    for entry in module.ENTRIES
}

__all__ = ["MODELS", "Built", "ModelEntry", "WeightsMissing"]

lazy(globals())
