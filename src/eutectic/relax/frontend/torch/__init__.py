"""The way in from PyTorch: export a module, import the exported program, call the result like the module."""

from eutectic.relax.frontend.torch.export import export_model
from eutectic.relax.frontend.torch.exported_program import from_exported_program
from eutectic.relax.frontend.torch.ops import TABLE
from eutectic.relax.frontend.torch.signature import TorchSignature
from eutectic.relax.frontend.torch.table import Context, Converter

__all__ = ["TABLE", "Context", "Converter", "TorchSignature", "export_model", "from_exported_program"]
