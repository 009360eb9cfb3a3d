"""Nodes of an exported graph that cannot be imported: one error for all of them."""

from __future__ import annotations

from operator import getitem
from typing import Final

from torch import fx

from eutectic.relax.frontend.core import RefusedOperators
from eutectic.relax.frontend.torch.spans import place_of, span_of
from eutectic.support.deep import deep

_HELP: Final = (
    "rewrite these places of the model, or pass custom_convert_map={name: converter} to "
    "from_exported_program, where converter(node, context) returns the graph value"
)


class Unsupported:
    """The nodes of a graph that could not be converted, in the order of the graph."""

    def __init__(self) -> None:
        self._operators = RefusedOperators(_HELP)
        self._nodes: set[fx.Node] = set()

    def add(self, node: fx.Node, reason: str) -> None:
        """Note one node; `reason` is empty when the operator has no converter at all."""
        if node not in self._nodes:
            self._nodes.add(node)
            self._operators.add(_name(node), reason, place_of(node), span_of(node))

    def raise_if_any(self) -> None:
        """Raise the error when something was noted.

        Raises:
            UnsupportedOperatorError: lists every operator with its count, reason, and first places.
        """
        self._operators.raise_if_any()


@deep
def _name(node: fx.Node) -> str:
    target = node.target
    if target is getitem and isinstance(node.args[0], fx.Node):
        return _name(node.args[0])
    if str(target) == "with_effects" and len(node.args) > 1:
        return str(node.args[1])  # the operator that torch keeps in order
    return target if isinstance(target, str) else str(target)
