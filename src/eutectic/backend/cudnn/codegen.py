"""Registers relax.ext.cudnn, the code generator for regions of cuDNN: they are kept until there is a device."""

from __future__ import annotations

from eutectic.backend.device_region import device_codegen
from eutectic.support.registry import register_global_func

compile_functions = register_global_func("relax.ext.cudnn", device_codegen("cudnn", "cuDNN"))
