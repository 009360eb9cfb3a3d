"""Names of `tvm.script.relax` that are not part of the text form here: devices."""

from __future__ import annotations

from eutectic.runtime import tensor as _ours
from eutectic.runtime.tensor import Device

__all__ = ["cpu", "cuda", "device"]


def cpu(dev_id: int = 0) -> Device:
    """A processor."""
    return _ours.cpu(dev_id)


def cuda(dev_id: int = 0) -> Device:
    """A device of NVIDIA."""
    return _ours.cuda(dev_id)


def device(device_type: str, index: int = 0) -> Device:
    """A device by its kind, such as `cpu`, and its number."""
    return _ours.device(device_type, index)
