"""TVM's containers and base classes by our own: `tvm.ir.Array` is a tuple, `tvm.ir.Map` a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from eutectic.ir.dtype import KNOWN, to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_base import expressed
from eutectic.ir.prim_expr import PrimExpr
from eutectic.ir.printer import render, show
from eutectic.relax.base import Expr as RelaxExpr
from eutectic.runtime.tensor import Device, Tensor
from eutectic.support.deep import deep
from eutectic.support.registry import get_global_func
from eutectic.tir.op import const

__all__ = [
    "Array",
    "BaseExpr",
    "DataType",
    "DataTypeCode",
    "EnvFunc",
    "Map",
    "Object",
    "RelaxExpr",
    "Scriptable",
    "ShapeTuple",
    "const",
    "convert",
]


class _Tuples(type):
    """`isinstance(value, Array)` holds for what nodes store lists as."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tuple)


class Array(tuple[Any, ...], metaclass=_Tuples):
    """A sequence that does not change; every tuple of a node counts as one."""

    def __new__(cls, input_list: Iterable[Any] = ()) -> Array:
        """A sequence of these."""
        return super().__new__(cls, input_list)

    def same_as(self, other: object) -> bool:
        """Identity, spelt as TVM spells it."""
        return self is other

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


class ShapeTuple(Array):
    """Sizes as a value of the runtime.

    Raises:
        TypeError: a size is no integer.
    """

    def __new__(cls, content: Iterable[int] = ()) -> ShapeTuple:
        """These sizes."""
        sizes = tuple(content)
        wrong = [size for size in sizes if isinstance(size, bool) or not isinstance(size, (int, np.integer))]
        if wrong:
            raise TypeError(f"sizes of a ShapeTuple are integers, got {wrong[0]!r}")
        return tuple.__new__(cls, map(int, sizes))


class _Mappings(type):
    """`isinstance(value, Map)` holds for what modules give as mappings."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Mapping)


class Map(dict[Any, Any], metaclass=_Mappings):
    """A mapping; every dictionary counts as one."""

    def __init__(self, input_dict: Mapping[Any, Any] | None = None) -> None:
        super().__init__(input_dict or {})

    def same_as(self, other: object) -> bool:
        """Identity, spelt as TVM spells it."""
        return self is other


class _Objects(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (Node, IRModule, Tensor, Array, Map))


class Object(metaclass=_Objects):
    """Only for `isinstance`: nodes, modules, tensors and containers."""


class _Scriptables(type):
    def __instancecheck__(cls, value: object) -> bool:
        return callable(getattr(value, "script", None))


class Scriptable(metaclass=_Scriptables):
    """What has a text form: nodes and modules, by `isinstance`; a subclass gets `script` and `show`."""

    def script(self, **options: Any) -> str:
        """Its text."""
        return render(self, **options)

    def show(self, style: str | None = None, black_format: bool | None = None, **options: Any) -> None:
        """Print its text."""
        show(self, style, black_format, **options)


class _Expressions(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (PrimExpr, RelaxExpr))


class BaseExpr(metaclass=_Expressions):
    """Only for `isinstance`: scalar expressions and those of graphs."""


class DataTypeCode(IntEnum):
    """Families of dtypes, by DLPack's numbers."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
    BOOL = 6


class DataType(str):
    """A dtype: a text such as `float32x4` with its parts.

    Args:
        content: The text, or a NumPy dtype.

    Raises:
        ValueError: there is no such dtype.
    """

    element: str
    lanes: int

    def __new__(cls, content: Any) -> DataType:
        """The dtype that a text or a dtype of NumPy means."""
        text = content if isinstance(content, str) else np.dtype(content).name
        element, _, lanes = ("", "", "") if text in ("handle", "void") else text.partition("x")
        if text not in ("handle", "void") and (element not in KNOWN or (lanes and not lanes.isdigit())):
            raise ValueError(f"unknown dtype {text!r}")
        dtype = super().__new__(cls, text)
        dtype.element, dtype.lanes = element or text, int(lanes or 1)
        return dtype

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 64 if self.element == "handle" else 0 if self.element == "void" else 8 * to_numpy(self.element).itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of a value of all lanes."""
        return self.bits // 8 * self.lanes

    @property
    def type_code(self) -> DataTypeCode:
        """Its family."""
        families = (("bfloat", "BFLOAT"), ("float", "FLOAT"), ("uint", "UINT"), ("int", "INT"), ("bool", "BOOL"))
        names = [name for head, name in families if self.element.startswith(head)]
        return DataTypeCode[names[0] if names else "HANDLE"]

    def with_lanes(self, lanes: int) -> DataType:
        """The same elements in vectors of that many."""
        return DataType(self.element if lanes == 1 else f"{self.element}x{lanes}")

    def __repr__(self) -> str:
        return f"dtype({str(self)!r})"


class EnvFunc:
    """A global function by its name, which is looked up when it is called.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, func: Any = None) -> None:
        self.name, self._func = name, func

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function registered under a name.

        Raises:
            ValueError: there is none.
        """
        return EnvFunc(name, get_global_func(name))

    @property
    def func(self) -> Any:
        """The function itself."""
        return self._func if self._func is not None else get_global_func(self.name)

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.func(*args)


@deep
def convert(value: Any) -> Any:
    """A value as nodes hold it: lists and tuples as `Array`, mappings as `Map`, the rest as it is.

    Raises:
        TypeError: nodes cannot hold it.
    """
    if isinstance(value, (list, tuple)):
        return Array(convert(item) for item in value)
    if isinstance(value, dict):
        return Map({convert(key): convert(item) for key, item in value.items()})
    value = expressed(value)
    if value is None or isinstance(value, (bool, int, float, str, Node, IRModule, Tensor, Device)) or callable(value):
        return value
    raise TypeError(f"a {type(value).__module__}.{type(value).__name__} cannot be converted to an object of the IR")
