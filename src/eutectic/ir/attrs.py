"""Attributes: options of operators, and annotations of functions and modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eutectic.ir.node import Node, fields_of, node


class Attrs(Node):
    """Base of operator attributes; each operator declares its own fields."""

    __slots__ = ()

    def keys(self) -> list[str]:
        """Names of the attributes, in declaration order."""
        return [name for name, _, _ in fields_of(self)]

    def items(self) -> list[tuple[str, Any]]:
        """Names and values, in declaration order."""
        return [(name, value) for name, _, value in fields_of(self)]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return getattr(self, key) if key in self.keys() else default

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(f"{type(self).__name__} has no attribute {key!r}; it has {', '.join(self.keys())}")
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self.keys()


@node("ir.DictAttrs")
class DictAttrs(Attrs):
    """String-keyed annotations, kept sorted by key so that order never matters."""

    entries: tuple[tuple[str, Any], ...] = ()

    def keys(self) -> list[str]:
        """Keys, sorted."""
        return [key for key, _ in self.entries]

    def items(self) -> list[tuple[str, Any]]:
        """Keys and values, sorted by key."""
        return list(self.entries)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return dict(self.entries).get(key, default)

    def __getitem__(self, key: str) -> Any:
        entries = dict(self.entries)
        if key not in entries:
            raise KeyError(f"no attribute {key!r}; there are: {', '.join(entries) or 'none'}")
        return entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.entries)


def freeze(value: Any) -> Any:
    """`value` with lists as tuples and dicts as `DictAttrs`, as nodes store them."""
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    if isinstance(value, Mapping):
        return make_attrs(value)
    return value


def make_attrs(values: Mapping[str, Any] | DictAttrs | None) -> DictAttrs:
    """A `DictAttrs` of a mapping; None gives an empty one."""
    if isinstance(values, DictAttrs):
        return values
    return DictAttrs(tuple(sorted((key, freeze(value)) for key, value in (values or {}).items())))


def merge_attrs(attrs: DictAttrs | None, changes: Mapping[str, Any]) -> DictAttrs:
    """`attrs` with some keys set; a value of None is stored like any other."""
    return make_attrs({**dict(attrs.entries if attrs else ()), **changes})


def drop_attr(attrs: DictAttrs | None, key: str) -> DictAttrs:
    """`attrs` without `key`; no error when it is not there."""
    return make_attrs({k: v for k, v in (attrs.entries if attrs else ()) if k != key})
