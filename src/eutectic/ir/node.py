"""How an IR node is represented: a frozen, slotted dataclass with roles on its fields.

This is the only module that knows the representation. A node class is written as

    @node("tir.For")
    class For(Stmt):
        loop_var: Var = field(role="def")
        extent: PrimExpr

`==` is identity, or its truth is (`prim_base.EqualOp`); `structural_equal` compares structure. Nodes are never changed
after construction, except that `__post_init__` may normalise its own arguments
through `init_field`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Literal, TypeVar, dataclass_transform

from eutectic.ir.printer import render, show

Role = Literal["use", "def", "ignore"]
N = TypeVar("N", bound="Node")

_CLASSES: Final[dict[str, type[Node]]] = {}
_PLAIN: Final = frozenset({"str", "int", "bool", "float", "None", "..."})  # annotations of fields that hold no nodes


def field(*, role: Role = "use", default: Any = dataclasses.MISSING, kw_only: bool = False) -> Any:
    """Declare a field with a role.

    Args:
        role: `use` is compared and hashed; `def` binds the variables inside it;
            `ignore` is not part of the program (names, spans, derived types).
        default: Default value, if any.
        kw_only: Whether the constructor takes it by keyword only.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"role": role})


class Node:
    """Base of every IR class."""

    __slots__ = ("__weakref__", "_below")  # the second is what `children` found
    type_key: ClassVar[str] = "Node"
    field_roles: ClassVar[tuple[tuple[str, Role], ...]] = ()
    used_fields: ClassVar[tuple[str, ...]] = ()  # those that are part of the program
    child_fields: ClassVar[tuple[str, ...]] = ()  # those of them that may hold nodes
    constructor_fields: ClassVar[tuple[str, ...]] = ()  # all that the constructor takes
    is_variable: ClassVar[bool] = False  # classes whose identity is what the program means by them

    def script(self, **options: Any) -> str:
        """The node as text (TVMScript for modules and functions)."""
        return render(self, **options)

    def show(self, style: str | None = None, **options: Any) -> None:
        """Print `script()`, with syntax colours on a terminal; `show("llvm")` and `show("asm")` print native code."""
        show(self, style, **options)

    def same_as(self, other: object) -> bool:
        """Identity, spelt as TVM spells it."""
        return self is other

    def __repr__(self) -> str:
        return self.script()


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def node(type_key: str, *, init: bool = True) -> Callable[[type[N]], type[N]]:
    """Class decorator that makes a node class and registers it under `type_key`.

    Args:
        type_key: Name in serialised forms, hashes and messages.
        init: False keeps the constructor of the base class.
    """

    def decorate(cls: type[N]) -> type[N]:
        node_type = dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False, init=init)(cls)
        node_type.type_key = type_key
        node_type.field_roles = tuple((f.name, f.metadata.get("role", "use")) for f in dataclasses.fields(node_type))  # type: ignore[arg-type]  # made by the line above
        node_type.used_fields = tuple(name for name, role in node_type.field_roles if role != "ignore")
        node_type.constructor_fields = tuple(f.name for f in dataclasses.fields(node_type) if f.init)  # type: ignore[arg-type]  # as above
        plain = {f.name for f in dataclasses.fields(node_type) if _is_plain(f.type)}  # type: ignore[arg-type]  # as above
        node_type.child_fields = tuple(name for name in node_type.used_fields if name not in plain)
        _CLASSES[type_key] = node_type
        return node_type

    return decorate


def _is_plain(annotation: object) -> bool:
    """Whether a field is declared to hold numbers, texts, and tuples of them; all other fields may hold nodes."""
    return isinstance(annotation, str) and _PLAIN.issuperset(re.findall(r"[\w.]+", annotation.replace("tuple", "")))


def node_class(type_key: str) -> type[Node] | None:
    """The class registered under `type_key`, or None."""
    return _CLASSES.get(type_key)


init_field: Final[Callable[[Node, str, object], None]] = object.__setattr__
"""Set a field of a node during `__post_init__`; nothing else may call this on a finished node."""


def replace(target: N, **changes: Any) -> N:
    """A copy of `target` with some fields changed; as `dataclasses.replace`, in a third of its time."""
    for name in target.constructor_fields:
        if name not in changes:
            changes[name] = getattr(target, name)
    return type(target)(**changes)


def fields_of(target: Node) -> Iterator[tuple[str, Role, Any]]:
    """Name, role and value of each field, in declaration order."""
    for name, role in target.field_roles:
        yield name, role, getattr(target, name)


def children(target: Node) -> tuple[Node, ...]:
    """Nodes directly below `target`, in field order; tuples are looked into."""
    below = getattr(target, "_below", None)
    if below is None:
        # Nodes do not change, and passes walk over the same ones again and again.
        below = _below(target, target.child_fields)
        init_field(target, "_below", below)
    return below


def all_children(target: Node) -> tuple[Node, ...]:
    """As `children`, with those in fields of role `ignore`."""
    return _below(target, tuple(name for name, _ in target.field_roles))


def _below(target: Node, names: tuple[str, ...]) -> tuple[Node, ...]:
    below: list[Node] = []
    for name in names:
        value = getattr(target, name)
        if isinstance(value, Node):
            below.append(value)
        elif isinstance(value, tuple):
            _add_nodes(value, below)
    return tuple(below)


def _add_nodes(values: tuple[object, ...], out: list[Node]) -> None:
    for value in values:
        if isinstance(value, Node):
            out.append(value)
        elif isinstance(value, tuple):
            _add_nodes(value, out)
