"""Python's operators on graph expressions: `x + y` is `add(x, y)`, `x[0]` is a field of a tuple."""

from __future__ import annotations

from typing import Any, Final

from eutectic.relax.base import Expr
from eutectic.relax.expr import Call, TupleGetItem
from eutectic.relax.op import binary
from eutectic.relax.op.datatype import astype
from eutectic.relax.op.unary import negative
from eutectic.relax.struct_info import TupleStructInfo
from eutectic.support.errors import TypeInferenceError

_MOST_FIELDS: Final = 1 << 16  # so that unpacking a value of unknown type ends

_BINARY: Final = {
    "add": binary.add,
    "sub": binary.subtract,
    "mul": binary.multiply,
    "truediv": binary.divide,
    "floordiv": binary.floor_divide,
    "mod": binary.floor_mod,
    "pow": binary.power,
}
_COMPARE: Final = {
    "lt": binary.less,
    "le": binary.less_equal,
    "gt": binary.greater,
    "ge": binary.greater_equal,
}


def _forward(constructor: binary.BinaryConstructor) -> Any:
    def method(self: Expr, other: Any) -> Any:
        return constructor(self, other) if isinstance(other, (Expr, bool, int, float)) else NotImplemented

    return method


def _backward(constructor: binary.BinaryConstructor) -> Any:
    def method(self: Expr, other: Any) -> Any:
        return constructor(other, self) if isinstance(other, (Expr, bool, int, float)) else NotImplemented

    return method


def _field(self: Expr, index: int) -> TupleGetItem:
    """Field `index` of a tuple value."""
    info = self.struct_info
    if info is not None and not isinstance(info, TupleStructInfo):
        raise TypeInferenceError(
            f"only tuples can be indexed, not a value of type {type(info).__name__}",
            help="slice tensors with strided_slice or take",
        )
    if index >= _MOST_FIELDS:
        raise IndexError(f"field {index} of a tuple of unknown length")
    count = len(info.fields) if isinstance(info, TupleStructInfo) else 0
    if info is not None and index >= count:
        raise IndexError(f"field {index} of a tuple with {count} fields")  # how Python knows the end when it unpacks
    return TupleGetItem(self, index + count if index < 0 else index)


def _called(self: Expr, *args: Any) -> Call:
    """A call of a function value."""
    return Call(self, args)


def install_operators() -> None:
    """Give `Expr` Python's arithmetic, comparisons, indexing, calls and `astype`; `==` stays identity."""
    for name, constructor in _BINARY.items():
        setattr(Expr, f"__{name}__", _forward(constructor))
        setattr(Expr, f"__r{name}__", _backward(constructor))
    for name, constructor in _COMPARE.items():
        setattr(Expr, f"__{name}__", _forward(constructor))
    methods: dict[str, Any] = {
        "__neg__": lambda self: negative(self),
        "__getitem__": _field,
        "__call__": _called,
        "astype": lambda self, dtype: astype(self, dtype),
    }
    for name, method in methods.items():
        setattr(Expr, name, method)
