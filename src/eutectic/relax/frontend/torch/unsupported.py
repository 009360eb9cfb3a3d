"""One error for everything in a model that cannot be imported: each operator with count, module paths and lines."""

from __future__ import annotations

from operator import getitem
from typing import Final

from torch import fx

from eutectic.relax.frontend.torch.spans import place_of, span_of
from eutectic.support.deep import deep
from eutectic.support.errors import Excerpt, UnsupportedOperatorError

PLACES: Final = 3  # shown per operator


class Unsupported:
    """The operators of a graph that could not be converted, in the order found."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[str]] = {}
        self._first: Excerpt | None = None
        self._nodes: set[fx.Node] = set()

    def add(self, node: fx.Node, reason: str) -> None:
        """Note one node; `reason` is empty when the operator has no converter at all."""
        if node in self._nodes:
            return
        self._nodes.add(node)
        span = span_of(node)
        self._found.setdefault((_name(node), reason), []).append(place_of(node))
        if self._first is None and span is not None and span.file:
            self._first = span.excerpt()

    def raise_if_any(self) -> None:
        """Raise the error when something was noted.

        Raises:
            UnsupportedOperatorError: lists every operator with its count, reason, and first places.
        """
        if not self._found:
            return
        counts = {key: len(places) for key, places in self._found.items()}
        operators = {name for name, _ in counts}
        kinds = "an operator" if len(operators) == 1 else f"{len(operators)} operators"
        listed = ", ".join(_counted(*key, count) for key, count in counts.items())
        raise UnsupportedOperatorError(
            f"the model uses {kinds} that cannot be imported: {listed}",
            at=self._first,
            notes=[_note(*key, places) for key, places in self._found.items()],
            help="rewrite these places of the model, or pass custom_convert_map={name: converter} to "
            "from_exported_program, where converter(node, context) returns the graph value",
        )


@deep
def _name(node: fx.Node) -> str:
    target = node.target
    if target is getitem and isinstance(node.args[0], fx.Node):
        return _name(node.args[0])
    if str(target) == "with_effects" and len(node.args) > 1:
        return str(node.args[1])  # the operator that torch keeps in order
    return target if isinstance(target, str) else str(target)


def _counted(name: str, reason: str, count: int) -> str:
    return f"{name} ({count} time{'s' if count > 1 else ''})"


def _note(name: str, reason: str, places: list[str]) -> str:
    more = len(places) - PLACES
    shown = list(dict.fromkeys(places))[:PLACES]
    where = "; ".join(shown) + (f"; and {more} more" if more > 0 else "")
    return f"{name}{': ' + reason if reason else ''}, at {where}"
