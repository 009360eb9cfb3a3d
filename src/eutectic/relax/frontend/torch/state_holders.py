"""Where a model can keep something in Python: attributes, containers, globals and closures that its code names.

Found by what holds what, from the module on: its parts, containers and objects in attributes, and the variables of
the functions of their classes. Objects and functions of installed libraries are left alone; modules of theirs in a
model are looked at.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final, Protocol

import torch
from torch import nn

from eutectic.relax.frontend.torch.spans import is_user_file

MISSING: Final = object()
"""In place of what is not there."""
_INSTALLED: Final = ("site-packages", "dist-packages")
_MOST: Final = 20_000  # objects that are looked at: a model may refer to its data set
_CONTAINERS: Final = (list, dict, set, deque)
_OF_TORCH: Final = frozenset(vars(nn.Module())) - {"training"}
_WEIGHTS_AGAIN: Final = frozenset({"_flat_weights", "_flat_weight_refs"})  # of recurrent layers, by torch's tracing


class Holder(Protocol):
    """Something that has values by name, and can be given them again."""

    def read(self) -> dict[str, Any]:
        """Its values now."""
        ...

    def write(self, content: dict[str, Any]) -> None:
        """Give it the values that were read."""
        ...

    def place_of(self, name: str) -> str:
        """How a user calls one of its values."""
        ...


@dataclass(frozen=True)
class _Named:
    """Attributes, parts or global variables, which are in a dict of Python's own."""

    owner: dict[str, Any]
    place: str  # with braces for the name
    skipped: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def read(self) -> dict[str, Any]:
        names = list(self.owner) if self.only is None else sorted(self.only & self.owner.keys())
        return {name: self.owner[name] for name in names if name not in self.skipped}

    def write(self, content: dict[str, Any]) -> None:
        for name in self.read().keys() - content.keys():
            del self.owner[name]
        self.owner.update(
            {name: value for name, value in content.items() if self.owner.get(name, MISSING) is not value}
        )

    def place_of(self, name: str) -> str:
        return self.place.format(name)


@dataclass(frozen=True)
class _Registered:
    """Which parameters or buffers a module has; tracing puts others in their places, and puts them back itself."""

    registry: dict[str, Any]
    first: dict[str, Any]
    place: str

    def read(self) -> dict[str, Any]:
        return dict.fromkeys(self.registry, "registered")

    def write(self, content: dict[str, Any]) -> None:
        for name in self.registry.keys() - content.keys():
            del self.registry[name]
        self.registry.update({name: self.first[name] for name in content.keys() - self.registry.keys()})

    def place_of(self, name: str) -> str:
        return self.place.format(name)


@dataclass(frozen=True)
class _Items:
    """What is in a list, dict, set or deque."""

    place: str
    owner: Any

    def read(self) -> dict[str, Any]:
        return {"": _copy(self.owner)}

    def write(self, content: dict[str, Any]) -> None:
        was, now = content[""], self.read()[""]
        if len(was) == len(now) and _same_items(was, now):
            return
        kind = _kind(self.owner)
        kind.clear(self.owner)
        (kind.update if issubclass(kind, (dict, set)) else kind.extend)(self.owner, was)

    def place_of(self, name: str) -> str:
        return self.place


# What a class that derives from one of these makes of its items is its own affair: only the base's methods are used.
_KINDS: Final[tuple[Any, ...]] = (OrderedDict, dict, list, set, deque)


def _kind(container: Any) -> Any:
    return next(kind for kind in _KINDS if isinstance(container, kind))


def _copy(container: Any) -> Any:
    if isinstance(container, dict):
        return dict(iter(dict.items(container)))
    kind = _kind(container)
    return (set if kind is set else list)(kind.__iter__(container))


def _same_items(was: Any, now: Any) -> bool:
    """Whether two copies of a container have the same objects, in the same order where there is one."""
    if isinstance(was, dict):
        pairs = zip((*was, *was.values()), (*now, *now.values()), strict=True)
        return all(a is b for a, b in pairs)
    return bool(was == now) if isinstance(was, set) else all(a is b for a, b in zip(was, now, strict=True))


@dataclass(frozen=True)
class _Cell:
    """A variable of the function around one."""

    name: str
    function: str
    cell: CellType

    def read(self) -> dict[str, Any]:
        try:
            return {self.name: self.cell.cell_contents}
        except ValueError:  # it has none yet
            return {}

    def write(self, content: dict[str, Any]) -> None:
        if content:
            self.cell.cell_contents = content[self.name]
        elif self.read():
            del self.cell.cell_contents

    def place_of(self, name: str) -> str:
        return f"{name} around {self.function}"


def holders(module: nn.Module) -> list[Holder]:
    """All places where a module, and the code of its parts, can keep values."""
    found: list[Holder] = []
    seen: dict[int, Any] = {}  # the objects are kept: an address is given again
    waiting: deque[tuple[str, Any]] = deque([("", module)])
    while waiting and len(seen) < _MOST:
        place, value = waiting.popleft()
        if id(value) in seen or not _can_hold(value):
            continue
        seen[id(value)] = value
        own = list(_holders_of(place, value))
        found.extend(own)
        named = (holder for holder in own if not isinstance(holder, _Items))  # which reads a copy
        waiting.extend((holder.place_of(name), held) for holder in named for name, held in holder.read().items())
        waiting.extend(_further(place, value))
    return found


def _can_hold(value: Any) -> bool:
    if isinstance(value, (*_CONTAINERS, tuple, nn.Module, MethodType, functools.partial)):
        return True
    return _is_users(value.__code__) if isinstance(value, FunctionType) else _is_users_object(value)


def _holders_of(place: str, value: Any) -> Iterator[Holder]:
    if isinstance(value, _CONTAINERS):
        yield _Items(place, value)
    elif isinstance(value, FunctionType):
        yield from _variables(value)
    elif not isinstance(value, (tuple, MethodType, functools.partial)):
        own = f"{place}.{{}}".lstrip(".")
        yield _Named(vars(value), own, _skipped(value))
        if isinstance(value, nn.Module):
            yield _Named(value._modules, own)
            yield from (_Registered(names, dict(names), own) for names in (value._parameters, value._buffers))


def _variables(function: FunctionType) -> Iterator[Holder]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield _Cell(name, function.__qualname__, cell)
    names = frozenset(_names(code)) & function.__globals__.keys() | frozenset(_assigned(code))
    if names:
        yield _Named(function.__globals__, f"the global {{}} of {function.__module__}", only=names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions in it."""
    waiting = [code]
    while waiting:
        yield (one := waiting.pop())
        waiting.extend(part for part in one.co_consts if isinstance(part, CodeType))


def _names(code: CodeType) -> Iterator[str]:
    return (name for one in _codes(code) for name in one.co_names)


def _assigned(code: CodeType) -> Iterator[str]:
    """Globals that a function assigns; they need not be there before."""
    for one in _codes(code):
        yield from (i.argval for i in dis.get_instructions(one) if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"))


def _further(place: str, value: Any) -> Iterable[tuple[str, Any]]:
    """What is reached from a value that is not read from it by name."""
    if isinstance(value, dict):
        return [(f"{place}[{key!r}]", held) for key, held in dict.items(value) if _can_hold(held)]
    if isinstance(value, (list, tuple, deque)):
        return [(f"{place}[{index}]", held) for index, held in enumerate(value) if _can_hold(held)]
    if isinstance(value, MethodType):
        return [(place, value.__func__), (place, value.__self__)]
    if isinstance(value, functools.partial):
        return [(place, value.func), (place, value.args), (place, value.keywords)]
    return () if isinstance(value, (set, FunctionType)) else _methods(type(value))


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Functions of a class and of those it derives from."""
    for base in cls.__mro__:
        for attribute in vars(base).values():
            function = getattr(attribute, "fget", None) or getattr(attribute, "__func__", attribute)
            while isinstance(function, FunctionType):
                yield "", function
                function = getattr(function, "__wrapped__", None)


def _is_users_object(value: Any) -> bool:
    """Whether a value has attributes, and its class is a record or comes from neither Python nor torch."""
    cls = type(value)
    if isinstance(value, (type, torch.Tensor)) or not hasattr(cls, "__dictoffset__") or cls.__dictoffset__ == 0:
        return False
    if dataclasses.is_dataclass(cls) or cls is SimpleNamespace:
        return True
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return cls.__module__ == "__main__" or (isinstance(file, str) and _is_own_file(file))


def _is_users(code: CodeType) -> bool:
    return _is_own_file(code.co_filename) or code.co_filename.startswith(("<stdin", "<string", "<ipython"))


def _is_own_file(file: str) -> bool:
    """Whether a file is of the user's project: what libraries name is most of Python, and takes seconds to look at."""
    return is_user_file(file) and not any(folder in file for folder in _INSTALLED)


def _skipped(owner: Any) -> frozenset[str]:
    if not isinstance(owner, nn.Module):
        return frozenset()
    return _OF_TORCH | _WEIGHTS_AGAIN if isinstance(owner, nn.RNNBase) else _OF_TORCH
