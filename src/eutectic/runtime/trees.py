"""Trees of containers as data: how nested arguments are taken apart, and how results are put together.

The containers are those of torch's pytrees. A class is known by its name. A name that was read is looked up among the
classes that torch knows as containers in this process, and nothing is imported for it: where the class is not known,
a plain container with the same fields stands for it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np

from eutectic.support.deep import deep
from eutectic.support.errors import LoadError
from eutectic.support.shown import shown

_SHOWN: Final = 6  # items of a container in a message
_PLAIN: Final = frozenset({np.ndarray, np.memmap, bool, int, float, str, bytes, type(None)})  # never containers
_QUICK: Final[Mapping[str, type]] = {kind.__name__: kind for kind in (dict, list, tuple)}
_FACTORIES: Final[Mapping[str, type]] = {kind.__name__: kind for kind in (dict, float, int, list, set, str, tuple)}


@dataclass(frozen=True)
class Leaf:
    """A value that is no container."""


@dataclass(frozen=True)
class Node:
    """A container.

    Attributes:
        kind: A key of `KINDS`.
        name: Module and name of the class, where `kind` does not say it.
        context: What besides its children makes it: the keys of a dictionary, the fields of a named tuple, what a
            registered class says.
        children: What it contains.
    """

    kind: str
    name: str
    context: Any
    children: tuple[Tree, ...]

    def __post_init__(self) -> None:
        fits = self.kind in KINDS and all(isinstance(child, (Leaf, Node)) for child in self.children)
        if fits and self.kind in ("dict", "OrderedDict", "namedtuple"):
            fits = len(self.context) == len(self.children)
        if not fits:
            raise LoadError(f"a container of kind {self.kind} cannot have {len(self.children)} parts")

    def of_class(self, container_class: type) -> Node:
        """The same, for a class that need not be looked up by its name."""
        vars(self)["_class"] = container_class
        return self

    def known_class(self) -> type | None:
        """The class, as far as this process knows it as a container."""
        container_class: type | None = vars(self).get("_class")
        if container_class is None:
            container_class = _class_named(self.name)
            if container_class is not None:
                self.of_class(container_class)
        return container_class

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of a container of a class that is not known; none when they have no names."""
        candidates = (self.context, *(self.context if isinstance(self.context, (list, tuple)) else ()))
        for names in candidates:
            is_named = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
            if is_named and len(names) == len(self.children) > 0:
                return tuple(names)
        return ()


Tree: TypeAlias = Leaf | Node


@dataclass(frozen=True)
class _Opened:
    """A container that was taken apart."""

    kind: str
    name: str
    context: Any
    parts: Sequence[Any]


def full_name(kind: type) -> str:
    """Module and name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _pytree() -> Any:
    """torch's table of containers, as far as torch is loaded."""
    return sys.modules.get("torch.utils._pytree")


def _class_named(name: str) -> type | None:
    pytree = _pytree()
    known = [] if pytree is None else [*pytree.SUPPORTED_NODES, *pytree.SUPPORTED_SERIALIZED_TYPES]
    return next((kind for kind in reversed(known) if isinstance(kind, type) and full_name(kind) == name), None)


def is_named_tuple(kind: type) -> bool:
    """Whether a class was made as `collections.namedtuple` makes them."""
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple) and hasattr(kind, "_make")


def factory_name(factory: Any) -> Any:
    """The name of what a `defaultdict` calls, or itself where the name does not say it."""
    name = getattr(factory, "__name__", "")
    return name if _FACTORIES.get(name) is factory else factory


def _opened(value: Any) -> _Opened | None:
    """The parts of a container; None for anything else."""
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is tuple or kind is list:
        return _Opened(kind.__name__, "", None, value)
    if kind is dict or kind is OrderedDict:
        return _Opened(kind.__name__, "", tuple(value), tuple(value.values()))
    if kind is defaultdict:
        context = (factory_name(value.default_factory), tuple(value))
        return _Opened("defaultdict", "", context, tuple(value.values()))
    if kind is deque:
        return _Opened("deque", "", value.maxlen, tuple(value))
    if is_named_tuple(kind):
        return _Opened("namedtuple", full_name(kind), kind._fields, value)
    pytree = _pytree()
    known = None if pytree is None else pytree.SUPPORTED_NODES.get(kind)
    if known is None:
        return None
    parts, context = known.flatten_fn(value)
    return _Opened("registered", full_name(kind), context, list(parts))


def leaves_of(tree: Tree, value: Any) -> list[Any] | None:
    """The leaves of a value that has the form of a tree; None when it has another form."""
    leaves: list[Any] = []
    return leaves if _gather(tree, value, leaves) else None


@deep
def _gather(tree: Tree, value: Any, leaves: list[Any]) -> bool:
    opened = _opened(value)
    if isinstance(tree, Leaf):
        leaves.append(value)
        return opened is None
    if opened is None or len(opened.parts) != len(tree.children) or not _matches(tree, opened):
        return False
    return all(_gather(child, part, leaves) for child, part in zip(tree.children, opened.parts, strict=True))


@deep
def taker(tree: Tree) -> Callable[[Any, list[Any]], None]:
    """What appends the leaves of a value to a list: `leaves_of`, made ready for many values of one form.

    It raises TypeError for values of another form, except that a container in the place of a leaf is appended as it
    is: leaves are for the caller to look at.
    """
    if isinstance(tree, Leaf):
        return lambda value, leaves: leaves.append(value)
    if tree.kind not in _QUICK:
        return lambda value, leaves: _extend(leaves, leaves_of(tree, value))
    parts = None if _is_flat(tree) else [taker(child) for child in tree.children]
    kind: Any = _QUICK[tree.kind]
    keys, count = tree.context, len(tree.children)

    def take(value: Any, leaves: list[Any]) -> None:
        if type(value) is not kind or len(value) != count or (kind is dict and tuple(value) != keys):
            raise TypeError
        values = value.values() if kind is dict else value
        if parts is None:
            leaves.extend(values)
        else:
            for part, inner in zip(parts, values, strict=True):
                part(inner, leaves)

    return take


def _is_flat(tree: Node) -> bool:
    return all(isinstance(child, Leaf) for child in tree.children)


def _extend(leaves: list[Any], more: list[Any] | None) -> None:
    if more is None:
        raise TypeError
    leaves += more


def _matches(tree: Node, opened: _Opened) -> bool:
    """Whether a container is what a tree wants; a plain one with the same fields may stand for an unknown class."""
    if (opened.kind, opened.name) == (tree.kind, tree.name):
        return bool(opened.context == tree.context)
    if tree.kind not in ("namedtuple", "registered") or tree.known_class() is not None:
        return False
    if opened.kind in ("dict", "namedtuple"):
        return bool(opened.context == tree.fields)
    return opened.kind == "tuple" and not tree.fields


@deep
def built(tree: Tree, leaves: Iterator[Any]) -> Any:
    """A value of the form of a tree, with the next of the leaves."""
    if isinstance(tree, Leaf):
        return next(leaves)
    return KINDS[tree.kind](tree, [built(child, leaves) for child in tree.children])


@deep
def builder(tree: Tree) -> Callable[[Iterator[Any]], Any]:
    """`built`, made ready for many values of one form."""
    if isinstance(tree, Leaf):
        return next
    count, make = len(tree.children), KINDS[tree.kind]
    if _is_flat(tree):
        if tree.kind == "tuple":
            return lambda leaves: tuple(islice(leaves, count))
        return lambda leaves: make(tree, list(islice(leaves, count)))
    parts = [builder(child) for child in tree.children]
    return lambda leaves: make(tree, [part(leaves) for part in parts])


def _default_dict(tree: Node, parts: list[Any]) -> Any:
    factory, keys = tree.context
    return defaultdict(_FACTORIES[factory] if isinstance(factory, str) else factory, zip(keys, parts, strict=True))


def _named_tuple(tree: Node, parts: list[Any]) -> Any:
    kind: Any = tree.known_class()
    if kind is None or getattr(kind, "_fields", None) != tree.context:
        kind = _stand_in(tree.name.rpartition(".")[2], tree.context)
    return kind(*parts)


@lru_cache(maxsize=256)
def _stand_in(name: str, fields: tuple[str, ...]) -> type:
    """A named tuple for one whose class is not known here."""
    return namedtuple(name if name.isidentifier() else "Result", fields, rename=True)


def _registered(tree: Node, parts: list[Any]) -> Any:
    kind, pytree = tree.known_class(), _pytree()
    known = None if kind is None or pytree is None else pytree.SUPPORTED_NODES.get(kind)
    if known is not None:
        return known.unflatten_fn(parts, tree.context)
    return dict(zip(tree.fields, parts, strict=True)) if tree.fields else tuple(parts)


KINDS: Final[Mapping[str, Callable[[Node, list[Any]], Any]]] = {
    "OrderedDict": lambda tree, parts: OrderedDict(zip(tree.context, parts, strict=True)),
    "defaultdict": _default_dict,
    "deque": lambda tree, parts: deque(parts, maxlen=tree.context),
    "dict": lambda tree, parts: dict(zip(tree.context, parts, strict=True)),
    "list": lambda tree, parts: parts,
    "namedtuple": _named_tuple,
    "registered": _registered,
    "tuple": lambda tree, parts: tuple(parts),
}


@deep
def tree_of(value: Any) -> Tree:
    """The form of a value."""
    opened = _opened(value)
    if opened is None:
        return Leaf()
    return Node(opened.kind, opened.name, opened.context, tuple(map(tree_of, opened.parts)))


@deep
def tree_text(tree: Tree) -> str:
    """The containers, without what is in them; the first of many."""
    if isinstance(tree, Leaf):
        return "value"
    more = f", and {len(tree.children) - _SHOWN} more" if len(tree.children) > _SHOWN else ""
    inner = [tree_text(child) for child in tree.children[:_SHOWN]]
    if tree.kind in ("dict", "OrderedDict", "defaultdict"):
        keys = tree.context[1] if tree.kind == "defaultdict" else tree.context
        return "{" + ", ".join(f"{shown(key)}: {text}" for key, text in zip(keys, inner, strict=False)) + more + "}"
    parts = ", ".join(inner) + more
    if tree.kind == "list":
        return f"[{parts}]"
    if tree.kind == "tuple":
        return f"({parts})"
    short = tree.name.rpartition(".")[2] or tree.kind
    return f"{short}({parts})" if tree.kind == "namedtuple" else short
