"""The namespace `I` of scripts: modules and what concerns them as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eutectic.ir.global_info import DummyGlobalInfo
from eutectic.ir.module import GlobalVar
from eutectic.relax.vdevice import VDevice
from eutectic.script.parser.entry import ir_module
from eutectic.script.statements import ModuleAttrs, ModuleInfos

__all__ = ["GlobalVar", "dummy_global_info", "ir_module", "module_attrs", "module_global_infos", "vdevice"]


def module_attrs(attrs: Mapping[str, Any]) -> ModuleAttrs:
    """Annotations of the module."""
    return ModuleAttrs(dict(attrs))


def module_global_infos(infos: Mapping[str, Sequence[Any]]) -> ModuleInfos:
    """Lists of information that all functions refer to, by kind."""
    return ModuleInfos(dict(infos))


def vdevice(target: Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A place for tensors, listed under `vdevice` in `module_global_infos`.

    Args:
        target: Text or mapping that describes a target; this machine when None.
        vdevice_id: Number of the device among those of that target.
        memory_scope: Memory of the device.
    """
    return VDevice(target, vdevice_id, memory_scope)


def dummy_global_info() -> DummyGlobalInfo:
    """An entry of `module_global_infos` that says nothing."""
    return DummyGlobalInfo()
