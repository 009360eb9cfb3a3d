"""TVM's public names by module: what `docs/compat.md` lists, and why some names are not here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from eutectic.compat.surface.core import CORE
from eutectic.compat.surface.kinds import WHOLE, PublicName, Surface
from eutectic.compat.surface.operators import OPERATORS
from eutectic.compat.surface.relax import RELAX
from eutectic.compat.surface.tensors import TENSORS
from eutectic.support.lazy import lazy

SURFACES: Final[Mapping[str, Surface]] = {**CORE, **RELAX, **OPERATORS, **TENSORS}

__all__ = ["SURFACES", "WHOLE", "PublicName", "Surface", "why_not"]


def why_not(module: str, name: str = WHOLE) -> str | None:
    """Why a name of TVM's, or a module of its as a whole, is not here; None where nothing is said about it."""
    if (child := SURFACES.get(f"{module}.{name}")) and (reason := child.reason(WHOLE)):
        return reason
    while module:
        if (surface := SURFACES.get(module)) and (reason := surface.reason(name) or surface.reason(WHOLE)):
            return reason
        module, _, name = module.rpartition(".")
    return None


lazy(globals())
