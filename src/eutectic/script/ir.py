"""The namespace `I` of scripts: modules and what concerns them as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eutectic.ir.module import GlobalVar
from eutectic.script.parser.entry import ir_module
from eutectic.script.statements import ModuleAttrs, ModuleInfos

__all__ = ["GlobalVar", "ir_module", "module_attrs", "module_global_infos"]


def module_attrs(attrs: Mapping[str, Any]) -> ModuleAttrs:
    """Annotations of the module."""
    return ModuleAttrs(dict(attrs))


def module_global_infos(infos: Mapping[str, Sequence[Any]]) -> ModuleInfos:
    """Lists of information that all functions refer to, by kind."""
    return ModuleInfos(dict(infos))
