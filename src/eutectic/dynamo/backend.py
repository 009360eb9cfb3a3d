"""The function that torch.compile calls with each graph it traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from eutectic.driver.left_to_torch import warn_of_all
from eutectic.dynamo.graph import CompiledGraph
from eutectic.dynamo.options import Options, options_of


def backend(
    graph_module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A traced graph as something to call.

    Graphs that record gradients, and graphs of another device than the CPU, run in torch, with one warning.

    Args:
        graph_module: The graph, of torch's functions and modules.
        example_inputs: What it was traced with.
        options: See `Options`.

    Returns:
        A callable of the same inputs and results.

    Raises:
        PassError: an option is unknown.

    Reference: torch.compile's custom backends.
    """
    chosen = options_of(options)
    reason = _not_ours(graph_module, example_inputs)
    if reason:
        warn_of_all(reason)
        return graph_module.forward
    compiler = partial(_compiler, options=chosen)
    compiled: Callable[..., Any] = aot_autograd(fw_compiler=compiler, decompositions=_decompositions())(
        graph_module, example_inputs
    )
    return compiled


def _compiler(graph_module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Options) -> Callable[..., Any]:
    return CompiledGraph(graph_module, _weights(), options)


def _weights() -> frozenset[int]:
    """Places of the inputs that are parameters and buffers, stay where they are, and are not written to."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return frozenset()
    return frozenset(place for place in metadata.static_input_indices if not metadata.input_info[place].mutates_data)


def _decompositions() -> Any:
    return torch._decomp.core_aten_decompositions()


def _not_ours(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """Why a graph is left to torch as a whole; empty when it is not."""
    own = (*graph_module.parameters(), *graph_module.buffers())
    tensors = [value for value in (*example_inputs, *own) if isinstance(value, torch.Tensor)]
    device = next((tensor.device for tensor in tensors if tensor.device.type != "cpu"), None)
    if device is not None:
        return f"it has tensors on {device}, and what is compiled here is for the CPU"
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "it records gradients, and compiled code does not: call it under torch.no_grad()"
    return ""
