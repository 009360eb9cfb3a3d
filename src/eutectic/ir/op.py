"""The operator registry: one `Op` object per name, with attributes hung on it by packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eutectic.ir.node import Node, field, node
from eutectic.support.registry import load_providers, note_addition
from eutectic.support.spelling import did_you_mean

_OPS: Final[dict[str, Op]] = {}
_ATTRS: Final[dict[tuple[str, str], Any]] = {}


@node("ir.Op")
class Op(Node):
    """An operator; there is exactly one object per name, so `==` is identity.

    Attributes:
        name: Full name, such as `relax.nn.conv2d`.
        struct_info: Always None; present so that an operator can stand where an expression does.
    """

    name: str
    struct_info: None = field(role="ignore", default=None)

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name`.

        Raises:
            AttributeError: no such operator; the message offers the nearest names.
        """
        if name not in _OPS:
            load_providers("operators")
        if name not in _OPS:
            hint = did_you_mean(name, _OPS)
            raise AttributeError(f"Operator {name} is not registered" + (f"; {hint}" if hint else ""))
        return _OPS[name]

    @staticmethod
    def list_op_names() -> list[str]:
        """Names of all operators, sorted."""
        load_providers("operators")
        return sorted(_OPS)

    def has_attr(self, key: str) -> bool:
        """Whether attribute `key` was set."""
        return (self.name, key) in _ATTRS

    def get_attr(self, key: str) -> Any:
        """Attribute `key`, or None."""
        return _ATTRS.get((self.name, key))

    def set_attr(self, key: str, value: Any) -> None:
        """Set attribute `key`."""
        note_addition(f"attribute {key} of {self.name}")
        _ATTRS[self.name, key] = value

    def reset_attr(self, key: str) -> None:
        """Take attribute `key` away; no error when it is not set."""
        note_addition(f"attribute {key} of {self.name}")
        _ATTRS.pop((self.name, key), None)

    def __repr__(self) -> str:
        return f"Op({self.name})"


def register_op(name: str) -> Op:
    """The operator called `name`, made when it does not exist yet."""
    if name not in _OPS:
        _OPS[name] = Op(name)
    return _OPS[name]


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Set an attribute of an operator; without `value` it is a decorator.

    Args:
        op_name: Operator; it is created when missing.
        attr_key: Attribute name.
        value: Attribute value.
        level: Accepted as TVM does; the last registration wins.
    """
    op = register_op(op_name)

    def set_to(attribute: Callable[..., Any]) -> Callable[..., Any]:
        op.set_attr(attr_key, attribute)
        return attribute

    return set_to if value is None else set_to(value)
