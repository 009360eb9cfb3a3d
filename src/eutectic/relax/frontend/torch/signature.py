"""The signature of an exported program: how a compiled function is called like the module it was exported from."""

from __future__ import annotations

from torch.export import ExportedProgram

from eutectic.relax.frontend.torch.arguments import arguments_of, state_of
from eutectic.relax.frontend.torch.decompose import functional
from eutectic.relax.frontend.torch.exported_program import changed_buffers
from eutectic.relax.frontend.torch.results import results_of
from eutectic.runtime.signature import ModelSignature


def signature_of(program: ExportedProgram) -> ModelSignature:
    """The signature of a program.

    Args:
        program: The exported program that `from_exported_program` imported.

    Raises:
        FrontendError: it returns a number that is computed from sizes in a way that is not known here.
    """
    pure = functional(program)
    return ModelSignature(arguments_of(program), results_of(program, pure), state_of(program, changed_buffers(pure)))
