"""The way in from PyTorch: export a module, import the exported program, call the result like the module."""

from eutectic.relax.frontend.core import Converter
from eutectic.relax.frontend.torch.export import export_model
from eutectic.relax.frontend.torch.exported_program import from_exported_program
from eutectic.relax.frontend.torch.fx import from_fx
from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.signature import signature_of
from eutectic.relax.frontend.torch.symbols import example_sizes
from eutectic.relax.frontend.torch.table import Context
from eutectic.support.lazy import lazy

__all__ = [
    "TABLE",
    "Context",
    "Converter",
    "example_sizes",
    "export_model",
    "from_exported_program",
    "from_fx",
    "signature_of",
]

lazy(globals())
