"""cuBLAS as a backend."""

from __future__ import annotations

from typing import Final

from eutectic.backend.cublas.partition import passes
from eutectic.backend.cublas.patterns import NAME, patterns
from eutectic.backend.device_library import DeviceLibrary

BACKEND: Final = DeviceLibrary("cublas", NAME, patterns, passes)
