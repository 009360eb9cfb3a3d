"""A graph of functional operators, compiled when it is called first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import torch
from torch import fx

from eutectic.driver.compile import compile_imported
from eutectic.driver.compiled import CompiledModel
from eutectic.driver.importing import Imported
from eutectic.driver.left_to_torch import eager_records, operator_count, warn_of, warn_of_all
from eutectic.driver.settings import settings_of
from eutectic.dynamo.options import Options
from eutectic.relax.frontend.torch.graph_module import ImportedGraph, from_graph_module
from eutectic.relax.frontend.torch.symbols import example_size
from eutectic.support.eager_call import in_order, order_of
from eutectic.support.errors import EutecticError

_CHANGES: Final = 2  # of weights that are followed by compiling again
_VERSION: Final = attrgetter("_version")


@dataclass(frozen=True)
class _Code:
    """What a call runs.

    Attributes:
        imported: The graph.
        model: Compiled; None when torch runs all of it.
        weights: Tensors that are part of the code, and their places.
        versions: Their numbers of changes.
    """

    imported: ImportedGraph | None
    model: CompiledModel | None
    weights: tuple[tuple[int, torch.Tensor], ...] = ()
    versions: tuple[int, ...] = ()

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether the weights are those of the code."""
        return all(inputs[place] is tensor for place, tensor in self.weights) and self.versions == tuple(
            _VERSION(tensor) for _, tensor in self.weights
        )


class CompiledGraph:
    """A graph that is compiled at its first call, when its weights are known.

    Args:
        graph_module: The graph.
        weights: Places of the inputs that are parameters or buffers.
        options: Options of the backend.
    """

    def __init__(self, graph_module: fx.GraphModule, weights: frozenset[int], options: Options) -> None:
        self._graph_module, self._options = graph_module, options
        self._weights = weights if options.weights == "live" else frozenset()
        self._lock = threading.Lock()
        self._code: _Code | None = None
        self._changes = 0
        self._orders = _orders(graph_module.graph)

    def __call__(self, *inputs: Any) -> Any:
        """The results, in a list."""
        code = self._code
        if code is None or not code.fits(inputs):
            code = self._current(inputs)
        if code.model is None or code.imported is None:
            with torch.no_grad():
                return self._graph_module(*inputs)
        arguments = [inputs[place].detach() for place in code.imported.tensors]
        arguments += [torch.tensor([int(inputs[place])]) for place in code.imported.sizes]
        results = code.model(*arguments)
        for place, order in self._orders:
            results[place] = in_order(results[place], order)
        return results

    def _current(self, inputs: Sequence[Any]) -> _Code:
        with self._lock:
            if self._code is None or not self._code.fits(inputs):
                if self._code is not None:
                    self._changes += 1
                    if self._changes > _CHANGES:
                        self._weights = frozenset()
                self._code = self._compiled(inputs)
            return self._code

    def _compiled(self, inputs: Sequence[Any]) -> _Code:
        options = self._options
        counting = [(place, inputs[place]) for place in sorted(self._weights) if not inputs[place].is_inference()]
        leaves_to_torch = options.fallback == "eager"
        try:
            imported = from_graph_module(self._graph_module, dict(counting), leaves_to_torch=leaves_to_torch)
            eager = eager_records(imported.mod)
            settings = settings_of(options.target, options.threads, options.precision, tuned=options.tuned)
            model = compile_imported(Imported(imported.mod, imported.signature, eager=eager), settings)
        except EutecticError as error:
            if not leaves_to_torch:
                raise
            warn_of_all(error.message, error.facts)
            return _Code(None, None)
        if self._changes == 0:
            warn_of(eager, operator_count(imported.mod))
        return _Code(imported, model, tuple(counting), tuple(_VERSION(tensor) for _, tensor in counting))


def _orders(graph: fx.Graph) -> list[tuple[int, tuple[int, ...]]]:
    """Places of the results that torch gives other strides than those of rows, with the order of their axes in memory.

    What is around the graph may rely on them: it makes views of results by strides.
    """
    output = next(node for node in graph.nodes if node.op == "output")
    orders = []
    for place, node in enumerate(output.args[0]):
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_contiguous():
            orders.append((place, tuple(order_of(list(map(example_size, value.stride()))))))
    return orders
