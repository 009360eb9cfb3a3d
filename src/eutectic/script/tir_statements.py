"""What the statement-like names of `T` give: plain records that the parser of tensor programs acts on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eutectic.tir.buffer import Buffer
from eutectic.tir.iter_var import Range


class _InScript:
    """A record that Python code may not enter: only a parser understands it."""

    def __enter__(self) -> None:
        raise TypeError(f"{type(self).__name__} is part of a script: use it in a function under @T.prim_func")

    def __exit__(self, *_: object) -> None:
        """Never reached."""


@dataclass(frozen=True)
class BufferSpec:
    """A buffer without its name, which the assignment or parameter gives it.

    Attributes:
        kind: `param`, `match`, `alloc` or `decl`.
        options: Arguments of `Buffer` after the name.
        source: What a `match` is about: a parameter or a region.
    """

    kind: str
    options: Mapping[str, Any]
    source: Any = None

    def build(self, name: str) -> Buffer:
        """The buffer under a name."""
        return Buffer(name, **self.options)

    __enter__ = _InScript.__enter__
    __exit__ = _InScript.__exit__


@dataclass(frozen=True)
class Loop:
    """One loop of a `for`."""

    limits: Range
    kind: str = "serial"
    thread: Any = None
    annotations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Loops:
    """What a `for` statement iterates over: one loop per variable, outermost first."""

    loops: tuple[Loop, ...]

    def __iter__(self) -> Any:
        raise TypeError("loops are part of a script: use them in a function under @T.prim_func")


@dataclass(frozen=True)
class BlockOf(_InScript):
    """`with T.block(name):`."""

    name: str
    no_realize: bool = False


@dataclass(frozen=True)
class InitOf(_InScript):
    """`with T.init():`."""


@dataclass(frozen=True)
class Axis:
    """`T.axis.spatial(dom, binding)` and its sisters."""

    kind: str
    dom: Any
    binding: Any
    dtype: str | None = None


@dataclass(frozen=True)
class Remap:
    """`T.axis.remap("SR", [i, k])`."""

    kinds: str
    bindings: tuple[Any, ...]


@dataclass(frozen=True)
class Regions:
    """`T.reads(...)` or `T.writes(...)`."""

    kind: str
    regions: tuple[Any, ...]


@dataclass(frozen=True)
class Where:
    """`T.where(predicate)`."""

    predicate: Any


@dataclass(frozen=True)
class BlockAttrs:
    """`T.block_attr({...})`."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class AttrOf(_InScript):
    """`T.attr(node, key, value)`."""

    node: Any
    key: str
    value: Any


@dataclass(frozen=True)
class AllocateOf(_InScript):
    """`T.allocate(extents, dtype, scope)`."""

    extents: tuple[Any, ...]
    dtype: str
    scope: str
    condition: Any
    annotations: Mapping[str, Any]


@dataclass(frozen=True)
class LetOf(_InScript):
    """`T.LetStmt(value, var=v)`."""

    value: Any
    type: Any = None
    var: Any = None


@dataclass(frozen=True)
class LaunchOf(_InScript):
    """`T.launch_thread(tag, extent)`."""

    thread: str
    extent: Any


@dataclass(frozen=True)
class AssertOf(_InScript):
    """`with T.Assert(condition, message):`."""

    condition: Any
    message: str


@dataclass(frozen=True)
class MetaVar:
    """`T.meta_var(value)`: a name for a value while parsing, not a variable of the program."""

    value: Any
