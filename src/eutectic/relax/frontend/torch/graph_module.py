"""Graphs of torch operators that are called with a flat list, as torch.compile hands them to a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import fx
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

from eutectic.ir.module import IRModule
from eutectic.relax.frontend.torch.arguments import tensor_argument
from eutectic.relax.frontend.torch.as_exported import Rewritten
from eutectic.relax.frontend.torch.eager_graph import subgraph
from eutectic.relax.frontend.torch.exported_program import (
    from_functional_program,
    is_number_of_data,
    is_tensor_node,
    size_inputs,
)
from eutectic.relax.frontend.torch.formulas import typed
from eutectic.relax.frontend.torch.results import origin_of
from eutectic.runtime.arguments import Arguments, SizeArgument
from eutectic.runtime.formulas import Formula
from eutectic.runtime.results import Counted, Fixed, Fresh, Number, Recipe, Results
from eutectic.runtime.signature import ModelSignature
from eutectic.runtime.trees import Leaf, Node

_INT64: Final = np.dtype(np.int64)


@dataclass(frozen=True)
class ImportedGraph:
    """A graph, imported.

    Attributes:
        mod: Its module.
        signature: How it is called: with the inputs at `tensors`, then an int64 tensor of one element for each at
            `sizes`.
        tensors: Places of the inputs that are tensors and vary.
        sizes: Places of the inputs that are sizes, and that no axis of a tensor tells.
    """

    mod: IRModule
    signature: ModelSignature
    tensors: tuple[int, ...]
    sizes: tuple[int, ...]


def from_graph_module(
    graph_module: fx.GraphModule, weights: Mapping[int, torch.Tensor], *, leaves_to_torch: bool = True
) -> ImportedGraph:
    """Import a graph of functional operators, such as AOTAutograd makes.

    Args:
        graph_module: The graph; its placeholders have example values.
        weights: Values of inputs that become part of the program, by place.
        leaves_to_torch: Whether operators that cannot be imported become calls of torch.

    Raises:
        FrontendError: it cannot be imported.
    """
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    program = _program(graph_module, placeholders, weights)
    mod = from_functional_program(program, leaves_to_torch=leaves_to_torch, sizes_as_input=True)
    tensors = [n for k, n in enumerate(placeholders) if is_tensor_node(n) and k not in weights]
    sizes = size_inputs(program, placeholders)
    leaves = [tensor_argument(node, node.name, program.range_constraints) for node in tensors]
    leaves += [_size_argument(node) for node in sizes]
    names = tuple(node.name for node in (*tensors, *sizes))
    taken = Arguments(names, (Leaf(),) * len(names), len(names), tuple(leaves))
    places = {node: place for place, node in enumerate(placeholders)}
    signature = ModelSignature(taken, _results(graph_module.graph))
    return ImportedGraph(mod, signature, tuple(places[n] for n in tensors), tuple(places[n] for n in sizes))


def _program(
    graph_module: fx.GraphModule, placeholders: list[fx.Node], weights: Mapping[int, torch.Tensor]
) -> Rewritten:
    graph = graph_module.graph
    state = {node.name: weights[place] for place, node in enumerate(placeholders) if place in weights}
    specs = [_input(node, node.name in state) for node in placeholders]
    constants = {}
    for node in graph.nodes:
        if node.op == "get_attr" and subgraph(node) is None:
            constants[node.name] = getattr(graph_module, str(node.target))
            node.meta.setdefault("val", constants[node.name])
            specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name, persistent=None))
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(node), None) for node in _outputs(graph)]
    return Rewritten(graph, ExportGraphSignature(specs, outputs), _ranges(placeholders), state, constants)


def _input(node: fx.Node, is_weight: bool) -> InputSpec:
    if is_weight:
        return InputSpec(InputKind.PARAMETER, TensorArgument(node.name), node.name, persistent=None)
    return InputSpec(InputKind.USER_INPUT, _argument(node), None, persistent=None)


def _argument(node: Any) -> Any:
    if is_tensor_node(node):
        return TensorArgument(node.name)
    return SymIntArgument(node.name) if isinstance(node, fx.Node) else ConstantArgument("", node)


def _outputs(graph: fx.Graph) -> list[Any]:
    output = next(node for node in graph.nodes if node.op == "output")
    return list(output.args[0])


def _ranges(placeholders: list[fx.Node]) -> Mapping[Any, Any]:
    """Ranges of the sizes that vary, as the tracer knows them."""
    values = [node.meta.get("val") for node in placeholders]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    for size in (*values, *sizes):
        if isinstance(size, torch.SymInt):
            return dict(size.node.shape_env.var_to_range)
    return {}


def _size_argument(node: fx.Node) -> SizeArgument:
    size = typed(node.meta["val"])
    return SizeArgument(node.name, _INT64, (1,), ("1",), {}, 0 if isinstance(size, (float, Formula)) else size)


def _results(graph: fx.Graph) -> Results:
    recipes: list[Recipe] = []
    taken: set[fx.Node] = set()
    place = 0
    for node in _outputs(graph):
        if is_number_of_data(node):
            recipes.append(Number(place))
            place += 1
            continue
        if not is_tensor_node(node):
            value = node.meta["val"] if isinstance(node, fx.Node) else node
            is_symbol = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
            recipes.append(Counted(typed(value)) if is_symbol else Fixed(value))
            continue
        origin = origin_of(node)
        recipes.append(Fresh(place, copies=origin.op in ("placeholder", "get_attr") or origin in taken))
        taken.add(origin)
        place += 1
    return Results(Node("list", "", None, (Leaf(),) * len(recipes)), tuple(recipes), ())
