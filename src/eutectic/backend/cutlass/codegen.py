"""Registers relax.ext.cutlass, the code generator for regions of CUTLASS: they are kept until there is a device."""

from __future__ import annotations

from eutectic.backend.device_region import device_codegen
from eutectic.support.registry import register_global_func

compile_functions = register_global_func("relax.ext.cutlass", device_codegen("cutlass", "CUTLASS"))
