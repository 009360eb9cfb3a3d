"""TVM's static types of graph values, which know less than struct info: `get_static_type` gives them."""

from __future__ import annotations

from eutectic.ir.node import Node, node
from eutectic.relax.base import ShapeStructInfo, StructInfo
from eutectic.relax.struct_info import FuncStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from eutectic.support.deep import deep

__all__ = [
    "FuncType",
    "ObjectType",
    "PackedFuncType",
    "PrimType",
    "ShapeType",
    "TensorType",
    "TupleType",
    "Type",
    "get_static_type",
]


@node("relax.Type")
class Type(Node):
    """Any static type."""


@node("relax.ObjectType")
class ObjectType(Type):
    """Of any value."""


@node("relax.PackedFuncType")
class PackedFuncType(Type):
    """Of an external function."""


@node("relax.ScalarType")
class PrimType(Type):
    """Of a scalar."""

    dtype: str


@node("relax.ShapeType")
class ShapeType(Type):
    """Of a shape; its rank, or -1."""

    ndim: int = -1


@node("relax.TensorType")
class TensorType(Type):
    """Of a tensor: its rank, or -1, and its dtype."""

    ndim: int = -1
    dtype: str = "float32"


@node("relax.TupleType")
class TupleType(Type):
    """Of a tuple, a type for each field."""

    fields: tuple[Type, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))


@node("relax.FuncType")
class FuncType(Type):
    """Of a function."""

    arg_types: tuple[Type, ...]
    ret_type: Type

    def __post_init__(self) -> None:
        object.__setattr__(self, "arg_types", tuple(self.arg_types))


@deep
def get_static_type(sinfo: StructInfo) -> Type:
    """What struct info says without shapes.

    Args:
        sinfo: Struct info of a value.

    Reference: TVM relax.analysis.get_static_type.
    """
    match sinfo:
        case TensorStructInfo():
            return TensorType(sinfo.ndim, sinfo.dtype)
        case ShapeStructInfo():
            return ShapeType(sinfo.ndim)
        case PrimStructInfo():
            return PrimType(str(sinfo.dtype))
        case TupleStructInfo():
            return TupleType(tuple(map(get_static_type, sinfo.fields)))
        case FuncStructInfo() if sinfo.params is not None and sinfo.ret is not None:
            return FuncType(tuple(map(get_static_type, sinfo.params)), get_static_type(sinfo.ret))
        case FuncStructInfo():
            return PackedFuncType()
        case _:
            return ObjectType()
