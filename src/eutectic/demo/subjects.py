"""What the demo shows: trained networks, each with pictures; or, without their weights, a network trained here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eutectic.demo import photos
from eutectic.support.errors import ToolchainError
from eutectic.testing.models import MODELS, ModelEntry, digits

PREPARE: dict[str, Callable[[photos.Pixels], photos.Image]] = {
    "mobilenet_v2": photos.by_mean_and_deviation,
    "efficientnet_lite0": photos.by_centre,
}
DIGITS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Picture:
    """One input: what it is called and its values, `(1, channels, height, width)`."""

    name: str
    values: photos.Image


@dataclass(frozen=True, slots=True)
class Subject:
    """A network with pictures to name and the names of its classes."""

    entry: ModelEntry
    pictures: tuple[Picture, ...]
    label: Callable[[int], str]


def choose(say: Callable[[str], None], models: Mapping[str, ModelEntry] = MODELS) -> tuple[Subject, ...]:
    """Choose the subjects whose weights are installed.

    Args:
        say: Told in a sentence what could not be had, and why.
        models: The registry of networks.

    Returns:
        The networks for photos; without any of them, the digits.

    Raises:
        ToolchainError: not even the digits can be had.
    """
    subjects: list[Subject] = []
    reason = photos.missing_reason()
    if reason is not None:
        say(f"No photos: {reason}.")
    for name, prepare in PREPARE.items() if reason is None else ():
        if (gone := models[name].missing()) is not None:
            say(f"Without {models[name].title}: {gone}.")
            continue
        pictures = tuple(Picture(photo.name, prepare(photo.pixels)) for photo in photos.load_photos())
        subjects.append(Subject(models[name], pictures, photos.class_name))
    return tuple(subjects) or (_digits(say, models),)


def _digits(say: Callable[[str], None], models: Mapping[str, ModelEntry]) -> Subject:
    entry = models["digits"]
    if (gone := entry.missing()) is not None:
        raise ToolchainError(
            f"the demo has no network to show: {gone}", help="make demo, or pip install 'eutectic[demo]'"
        )
    say("No trained network is installed; training a small one on scikit-learn's digits instead.")
    first = digits.TRAINING
    images = digits.load_digits().images[first : first + DIGITS_SHOWN].numpy()
    pictures = tuple(Picture(f"digit-{first + k}", images[k : k + 1].copy()) for k in range(DIGITS_SHOWN))
    return Subject(entry, pictures, str)
