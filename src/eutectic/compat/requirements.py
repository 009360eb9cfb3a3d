"""`tvm.testing.requires_*`: marks of tests that need something of the machine, or of us."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from eutectic.support.errors import CodegenError
from eutectic.target import Target

_NO_DEVICE: Final = "tensors cannot be placed on such a device"


class Requirement:
    """Decorator of tests that need something; without it they are skipped.

    Args:
        name: What is needed.
        missing: Why it is not here; empty where it is. It is asked for when a test is decorated.
    """

    def __init__(self, name: str, missing: Callable[[], str]) -> None:
        self.name, self._missing = name, missing

    def __call__(self, func: Any = None) -> Any:
        """The test with a mark; without a test, the mark itself."""
        import pytest  # only scripts with tests need it

        why = self._missing()
        mark = pytest.mark.skipif(bool(why), reason=f"needs {self.name}: {why}" if why else "")
        return mark if func is None else mark(func)

    def marks(self) -> list[Any]:
        """The mark, as `pytest.param(..., marks=...)` takes it."""
        return [self()]

    @property
    def available(self) -> bool:
        """Whether it is here."""
        return not self._missing()


def _kind(name: str) -> Callable[[], str]:
    def missing() -> str:
        try:
            Target(name)
        except CodegenError:
            return f"code cannot be made for {name}"
        return ""

    return missing


def _never(why: str) -> Callable[[], str]:
    return lambda: why


def _machine(*names: str) -> Callable[[], str]:
    return lambda: "" if platform.machine() in names else f"this is a {platform.machine()}"


def _module(name: str) -> Callable[[], str]:
    return lambda: "" if find_spec(name) is not None else f"there is no package {name}"


_DEVICES: Final = ("cuda", "gpu", "opencl", "metal", "vulkan", "rocm", "hexagon", "adreno_opencl", "nvptx", "webgpu")
_LIBRARIES: Final = (
    "cublas",
    "cudnn",
    "cutlass",
    "hipblas",
    "tensorrt",
    "cudagraph",
    "nccl",
    "tensorcore",
    "nvcc_version",
)
REQUIREMENTS: Final[dict[str, Requirement]] = {
    "llvm": Requirement("llvm", _kind("llvm")),
    "c": Requirement("c", _kind("c")),
    "x86": Requirement("x86", _machine("x86_64", "AMD64")),
    "aarch64": Requirement("aarch64", _machine("aarch64", "arm64")),
    "dnnl": Requirement("dnnl", _kind("llvm -libs=dnnl")),
    "pytorch": Requirement("pytorch", _module("torch")),
    **{name: Requirement(name, _never(_NO_DEVICE)) for name in (*_DEVICES, *_LIBRARIES)},
    "rpc": Requirement("rpc", _never("there are no remote machines")),
    "ethosn": Requirement("ethosn", _never(_NO_DEVICE)),
}


def skip_if_32bit(reason: str = "") -> Any:
    """Mark of tests that are skipped in a process with addresses of 32 bits."""
    return Requirement("64 bits", lambda: "" if sys.maxsize > 1 << 32 else reason or "this process has 32 bits")()


def slow(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of tests that are skipped when the environment variable `SKIP_SLOW_TESTS` is set."""
    asked = os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes")
    marked: Callable[..., Any] = Requirement("time", lambda: "SKIP_SLOW_TESTS is set" if asked else "")(function)
    return marked
