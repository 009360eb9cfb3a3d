"""Types of scalar variables beyond their dtype: what a pointer points to."""

from __future__ import annotations

from eutectic.ir.node import Node, node


class Type(Node):
    """Base of the types of scalar values."""

    __slots__ = ()

    @property
    def as_dtype(self) -> str:
        """The dtype of a variable of this type."""
        return "handle"


@node("ir.PrimType")
class PrimType(Type):
    """A scalar of one dtype.

    Attributes:
        dtype: Dtype string such as `float32`.
    """

    dtype: str

    @property
    def as_dtype(self) -> str:
        """The dtype itself."""
        return self.dtype


@node("ir.PointerType")
class PointerType(Type):
    """A pointer to elements of one type.

    Attributes:
        element_type: What it points to.
        storage_scope: Memory that it points into, such as `global`, `shared` or `local`.
    """

    element_type: Type
    storage_scope: str = "global"


@node("ir.TupleType")
class TupleType(Type):
    """Several values; with no fields it is `void`."""

    fields: tuple[Type, ...] = ()

    @property
    def as_dtype(self) -> str:
        """`void` without fields, else `handle`."""
        return "handle" if self.fields else "void"
