"""CUTLASS as a backend."""

from __future__ import annotations

from typing import Final

from eutectic.backend.cutlass.partition import passes
from eutectic.backend.cutlass.patterns import NAME, patterns
from eutectic.backend.device_library import DeviceLibrary

BACKEND: Final = DeviceLibrary("cutlass", NAME, patterns, passes)
