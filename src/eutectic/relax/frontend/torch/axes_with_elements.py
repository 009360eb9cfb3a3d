"""Axes that need an element: the largest of none is an error in torch, so sizes that vary are at least one there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import sympy  # type: ignore[import-untyped]  # it ships no types
import torch
from torch import fx
from torch.utils._sympy.value_ranges import ValueRanges

from eutectic.relax.frontend.torch.symbols import free_symbols

_BY_AXES: Final = frozenset(
    f"aten.{name}" for name in ("amax.default", "amin.default", "argmax.default", "argmin.default", "aminmax.default")
) | {"aten.max.dim", "aten.min.dim"}
_WHOLE: Final = frozenset({"aten.max.default", "aten.min.default"})
_ALL: Final = _BY_AXES | _WHOLE


def ranges_of(program: Any) -> Mapping[Any, Any]:
    """Ranges of a program's symbols, without zero where an axis of that size is reduced to its largest or smallest.

    Args:
        program: An exported program. What only a branch of it does is not looked at, nor sizes that values decide.
    """
    ranges, nodes = dict(program.range_constraints), program.graph.nodes
    of_arguments = free_symbols(node.meta.get("val") for node in nodes if node.op == "placeholder")
    needed = {size for node in nodes for size in _sizes(node)} if of_arguments else set()
    for symbol in of_arguments & needed:
        known = ranges.get(symbol)
        if known is not None and known.lower < 1:
            ranges[symbol] = known & ValueRanges(1, sympy.oo)
    return ranges


def _sizes(node: fx.Node) -> Iterator[Any]:
    """Symbols that are the size of an axis that needs an element."""
    if node.op != "call_function" or str(node.target) not in _ALL:
        return
    shape = node.args[0].meta["val"].shape  # type: ignore[union-attr]  # the tensor
    for axis in _axes(node, len(shape)):
        if isinstance(shape[axis], torch.SymInt) and isinstance(shape[axis].node.expr, sympy.Symbol):
            yield shape[axis].node.expr


def _axes(node: fx.Node, ndim: int) -> list[int]:
    given = None if str(node.target) in _WHOLE else node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    axes: Any = [given] if isinstance(given, int) else given
    return [axis for axis in axes if -ndim <= axis < ndim] if axes else list(range(ndim))
