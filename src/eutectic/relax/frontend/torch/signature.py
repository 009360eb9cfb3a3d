"""The signature of an exported program: how a compiled function is called like the module it was exported from."""

from __future__ import annotations

from typing import Final

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from eutectic.relax.frontend.torch.arguments import arguments_of, state_of
from eutectic.relax.frontend.torch.decompose import functional
from eutectic.relax.frontend.torch.exported_program import changed_buffers
from eutectic.relax.frontend.torch.results import results_of
from eutectic.runtime.signature import ModelSignature

_WEIGHTS: Final = (InputKind.PARAMETER, InputKind.BUFFER)


def signature_of(program: ExportedProgram, *, weights_as_input: bool = False) -> ModelSignature:
    """The signature of a program.

    Args:
        program: The exported program that `from_exported_program` imported.
        weights_as_input: Whether it kept parameters and buffers as parameters of `main`; they are then in the state,
            after what the program writes.

    Raises:
        FrontendError: it returns a number that is computed from sizes in a way that is not known here.
    """
    pure = functional(program)
    names = changed_buffers(pure)
    if weights_as_input:
        nodes = {node.name for node in pure.graph.nodes}
        specs = [spec for spec in pure.graph_signature.input_specs if spec.kind in _WEIGHTS and spec.arg.name in nodes]
        names = (*names, *(str(spec.target) for spec in specs if spec.target not in names))
    return ModelSignature(arguments_of(program), results_of(program, pure), state_of(program, names))
