"""Networks of torchvision and timm, and of other kinds, beside the same peers as `end_to_end.py`.

What a compiler was not tuned for shows where it is slow: run this after a change of rules or layouts. The packages are
no dependencies of the project, as their wheels ask for another build of torch; their code in Python runs beside any:

    pip install --no-deps torchvision==0.28.0 timm==1.0.31 safetensors pyyaml huggingface_hub
    python benchmarks/zoo.py --models torchvision:squeezenet1_1,timm:convnextv2_atto --json result.json
    python benchmarks/zoo.py --models kinds:lstm,kinds:graph  # needs no package; all of them are in kinds.py
    python benchmarks/zoo.py --threads 1 --peers eutectic,openvino

Weights are random: seeded, as the packages initialise them. A network that gives several tensors counts by its first.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import torch
from torch import nn

import end_to_end
from eutectic.testing.models import MODELS, Built, ModelEntry
from eutectic.testing.models.seeding import example
from kinds import KINDS

# One of each kind: fire modules, dense and split blocks, several groups, patches, windows of attention, pyramids.
DEFAULT: Final = (
    *(
        "torchvision:squeezenet1_1",
        "torchvision:googlenet",
        "torchvision:densenet121",
        "torchvision:shufflenet_v2_x1_0",
    ),
    *("torchvision:mobilenet_v3_large", "torchvision:efficientnet_b0", "torchvision:regnet_y_400mf"),
    *("torchvision:resnext50_32x4d", "torchvision:convnext_tiny", "torchvision:vit_b_16", "torchvision:swin_t"),
    *("torchvision:segmentation.deeplabv3_mobilenet_v3_large", "timm:convnextv2_atto", "timm:regnetz_b16"),
    *("timm:fastvit_t8", "timm:res2net50_26w_4s", "timm:hrnet_w18_small", "timm:levit_128s", "timm:tiny_vit_5m_224"),
)
# What torchvision looks up when it is imported, and has in a library that asks for another build of torch.
_LOOKED_UP: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_LIBRARIES: Final[list[Any]] = []  # as long as these live, their operators are there


class _First(nn.Module):
    """A network that gives the first tensor of what another one gives."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        value: Any = self.model(*inputs)
        while not isinstance(value, torch.Tensor):
            value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        return value


def _package(name: str) -> Any:
    """A package of networks.

    Raises:
        SystemExit: it is not installed.
    """
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _LOOKED_UP:
        with suppress(RuntimeError):  # it is there
            library.define(schema)  # type: ignore[no-untyped-call]
    _LIBRARIES.append(library)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"{name} cannot be imported ({error}); how to install it is at the top of zoo.py") from error


def _torchvision(name: str) -> Built:
    place = _package("torchvision").models
    *parts, last = name.split(".")
    for part in parts:
        place = getattr(place, part)
    if parts == ["video"]:
        frames, size = (16, 224) if last == "s3d" else (8, 112)
        return getattr(place, last)(weights=None), (example(1, 3, frames, size, size),)
    options: dict[str, Any] = {"weights_backbone": None} if parts else {}
    if last == "googlenet":
        options = {"init_weights": True, "aux_logits": False}
    size = 299 if last == "inception_v3" else 224
    return getattr(place, last)(weights=None, **options), (example(1, 3, size, size),)


def _timm(name: str) -> Built:
    model = _package("timm").create_model(name, pretrained=False)
    return model, (example(1, *model.default_cfg["input_size"]),)


def _kind(name: str) -> Built:
    if name not in KINDS:
        raise AttributeError(f"there are {', '.join(KINDS)}")
    return KINDS[name]()


SOURCES: Final[dict[str, Callable[[str], Built]]] = {"torchvision": _torchvision, "timm": _timm, "kinds": _kind}


def built(name: str) -> Built:
    """A network of a package, such as `timm:levit_128s`, in eval mode, and an image.

    Raises:
        SystemExit: the package is not installed, or has no such network.
    """
    source, _, model_name = name.partition(":")
    if source not in SOURCES or not model_name:
        raise SystemExit(f"{name!r} is no network: give package:name, with a package of {', '.join(SOURCES)}")
    torch.manual_seed(0)
    try:
        model, inputs = SOURCES[source](model_name)
    except (AttributeError, RuntimeError) as error:
        raise SystemExit(f"{source} has no network {model_name!r}: {error}") from error
    return _First(model).eval(), inputs


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark as `end_to_end.py` does, with networks by package and name."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--models", default=",".join(DEFAULT))
    own, others = parser.parse_known_args(argv)
    for name in own.models.split(","):
        MODELS[name] = ModelEntry(name, name, partial(built, name), "random")
    return end_to_end.main([*others, "--models", own.models])


if __name__ == "__main__":
    sys.exit(main())
