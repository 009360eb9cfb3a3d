"""The structures that torch gives arguments and results, as data of the runtime."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Final

from eutectic.runtime.trees import Leaf, Node, Tree, factory_name, full_name
from eutectic.support.deep import deep

_SEQUENCES: Final = (tuple, list)
_MAPPINGS: Final = (dict, OrderedDict)


def children_of(spec: Any) -> list[Any]:
    """The parts of a structure; older versions of torch name them otherwise."""
    return list(spec.children() if hasattr(spec, "children") else spec.children_specs)


@deep
def tree_from(spec: Any) -> Tree:
    """A `TreeSpec` as data; what a class says about itself is kept as it is."""
    kind, context = spec.type, spec.context
    if kind is None:
        return Leaf()
    children = tuple(map(tree_from, children_of(spec)))
    if kind in _SEQUENCES:
        return Node(kind.__name__, "", None, children)
    if kind in _MAPPINGS:
        return Node(kind.__name__, "", tuple(context), children)
    if kind is defaultdict:
        factory, keys = context
        return Node("defaultdict", "", (factory_name(factory), tuple(keys)), children)
    if kind is deque:
        return Node("deque", "", context, children)
    if kind is namedtuple:
        return Node("namedtuple", full_name(context), tuple(context._fields), children).of_class(context)
    return Node("registered", full_name(kind), context, children).of_class(kind)
