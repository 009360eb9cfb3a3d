"""Derivatives that a model takes of its own functions, by torch.func.grad and its like.

torch.export puts the beginning and the end of such a derivative into the graph as calls of its own functions, between
which the derivative itself is missing. Running or decomposing such a graph fails, and leaves torch in the middle of a
derivative: nothing can be computed in that process any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import fx
from torch._C import _functorch
from torch.autograd import forward_ad
from torch.export import ExportedProgram

from eutectic.relax.frontend.torch.spans import excerpt_of
from eutectic.support.errors import FrontendError

_PARTS: Final = frozenset({"_enter_dual_level", "_exit_dual_level", "_jvp_increment_nesting", "_unwrap_for_grad"})


def refuse_derivatives(program: ExportedProgram) -> None:
    """Refuse a program that takes derivatives.

    Raises:
        FrontendError: it does; names the line.
    """
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if node.op == "call_function" and getattr(node.target, "__name__", "") in _PARTS:
                raise FrontendError(
                    "the model takes a derivative of a function (torch.func), which torch.export cannot express",
                    at=excerpt_of(node),
                    help='torch.compile(model, backend="eutectic") compiles such models',
                )


@contextmanager
def closing_levels() -> Iterator[None]:
    """End the derivatives and batches that torch began inside and did not end, as it does where it fails."""
    depth, level = _functorch.get_dynamic_layer_stack_depth(), _dual_level()
    try:
        yield
    finally:
        while _dual_level() > level:
            forward_ad.exit_dual_level()  # type: ignore[no-untyped-call]  # of torch
        if _functorch.get_dynamic_layer_stack_depth() > depth:
            _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)


def _dual_level() -> int:
    """How many derivatives of forward mode are open, less one."""
    return int(torch.autograd.forward_ad._current_level)
