"""cuDNN as a backend."""

from __future__ import annotations

from typing import Final

from eutectic.backend.cudnn.partition import passes
from eutectic.backend.cudnn.patterns import NAME, patterns
from eutectic.backend.device_library import DeviceLibrary

BACKEND: Final = DeviceLibrary("cudnn", NAME, patterns, passes)
