"""`tvm.support`: facts for reports of faults."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from eutectic import __version__
from eutectic.target import KINDS


def libinfo() -> Mapping[str, Any]:
    """Facts about this installation, by name."""
    return {
        "EUTECTIC_VERSION": __version__,
        "PYTHON_VERSION": platform.python_version(),
        "LLVMLITE_VERSION": version("llvmlite"),
        "TARGETS": ", ".join(KINDS),
        "PLATFORM": platform.platform(),
    }


def describe() -> None:
    """Print these facts."""
    for name, value in libinfo().items():
        print(f"{name}: {value}")
    print(f"EXECUTABLE: {sys.executable}")
