"""Brings all converters into the table."""

from __future__ import annotations

from importlib import import_module
from typing import Final

_MODULES: Final = ("nn", "conv", "pool", "elementwise", "shape", "index", "reduce", "create", "matmul")


def load() -> None:
    """Import the modules that enter converters into the table; each of them once."""
    for name in _MODULES:
        import_module(f"eutectic.relax.frontend.torch.ops_{name}")
