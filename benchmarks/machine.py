"""What a measurement depends on: processor, threads, versions. Every benchmark's JSON carries it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from eutectic.explain.exchange import exchanges
from eutectic.runtime.processor import model_name

PACKAGES = (
    "eutectic",
    "torch",
    "numpy",
    "onednn-cpu-gomp",
    "llvmlite",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "openvino",
)


def usable_cpus() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def describe(threads: int) -> dict[str, Any]:
    """Machine and versions as a JSON object."""
    return {
        "processor": model_name(),
        "architecture": platform.machine(),
        "cpus": usable_cpus(),
        "threads": threads,
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def exchange_ns() -> tuple[float, ...]:
    """How long the slowest pair of processors takes for a cache line there and back; empty where it is not known."""
    times = exchanges().values()
    return (1e9 * max(times),) if times else ()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
