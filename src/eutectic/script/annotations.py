"""Types as scripts write them: `R.Tensor((2, "n"), "float32")`.

Called with plain sizes they give struct info at once, so that they also work in ordinary
Python; sizes in quotes wait until a parser says which symbols they mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from eutectic.ir.prim_expr import PrimExpr
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo
from eutectic.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from eutectic.relax.vdevice import find_vdevice

Resolver = Callable[[str], PrimExpr]  # a size in quotes as an expression
Sized = Any  # int, PrimExpr or str


class Deferred:
    """A type that mentions sizes in quotes.

    Attributes:
        texts: Those sizes.
    """

    def __init__(self, texts: Sequence[str], build: Callable[[Resolver], StructInfo]) -> None:
        self.texts = tuple(texts)
        self._build = build

    def resolve(self, resolver: Resolver) -> StructInfo:
        """The type, once the symbols are known."""
        return self._build(resolver)


class Annotation:
    """A name that stands for a type as it is, and for others when called."""

    keeps_types = True  # its arguments may be types that are not resolved yet

    def __init__(self, name: str, make: Callable[..., StructInfo | Deferred]) -> None:
        self.__name__ = name
        self.__doc__ = make.__doc__
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> StructInfo | Deferred:
        """The type for some sizes, dtype and so on."""
        return self._make(*args, **kwargs)

    def __repr__(self) -> str:
        return f"R.{self.__name__}"


def resolve_type(value: Any, resolver: Resolver) -> StructInfo:
    """What an annotation evaluates to, as struct info.

    Raises:
        TypeError: it is not a type.
    """
    if isinstance(value, Annotation):
        value = value()
    if isinstance(value, Deferred):
        return value.resolve(resolver)
    if isinstance(value, StructInfo):
        return value
    raise TypeError(
        f'expected a type such as R.Tensor((2, 3), "float32"), got {type(value).__name__}: {str(value)[:80]}'
    )


def texts_in(value: Any) -> tuple[str, ...]:
    """Sizes in quotes of an annotation."""
    return value.texts if isinstance(value, Deferred) else ()


def is_symbol(text: str) -> bool:
    """Whether a size in quotes is a bare name, which defines the symbol."""
    return re.fullmatch(r"[^\W\d]\w*", text) is not None


def _deferred(sizes: Sequence[Sized], build: Callable[[list[Any]], StructInfo]) -> StructInfo | Deferred:
    texts = [size for size in sizes if isinstance(size, str)]
    if not texts:
        return build(list(sizes))
    return Deferred(texts, lambda resolver: build([resolver(s) if isinstance(s, str) else s for s in sizes]))


def _nested(parts: Sequence[Any], build: Callable[[list[StructInfo]], StructInfo]) -> StructInfo | Deferred:
    def all_of(resolver: Resolver) -> StructInfo:
        return build([resolve_type(part, resolver) for part in parts])

    texts = [text for part in parts for text in texts_in(part)]
    return Deferred(texts, all_of) if any(isinstance(part, Deferred) for part in parts) else all_of(_no_symbol)


def _no_symbol(text: str) -> PrimExpr:
    raise ValueError(f"a size in quotes, {text!r}, needs a script around it")


def _tensor(shape: Any = None, dtype: str | None = None, vdevice: Any = None, ndim: int = -1) -> StructInfo | Deferred:
    """A tensor.

    Args:
        shape: Its sizes, each an integer, a symbol or a name in quotes; None when unknown. A string is the dtype.
        dtype: Element type; None when unknown.
        vdevice: Virtual device, or how the module's list has it: `cuda:1` is the second with target `cuda`.
        ndim: Rank, when the sizes are not known.
    """
    if isinstance(shape, str) and dtype is None:
        shape, dtype = None, shape
    if isinstance(vdevice, str):  # which devices there are is known while the module is parsed
        texts = [size for size in shape if isinstance(size, str)] if isinstance(shape, (list, tuple)) else []
        device = vdevice
        return Deferred(
            texts, lambda resolver: resolve_type(_tensor(shape, dtype, find_vdevice(device), ndim), resolver)
        )
    if shape is None or isinstance(shape, Expr):
        return TensorStructInfo(shape, dtype or "", vdevice, ndim)
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"the shape of R.Tensor must be a tuple or list, got {type(shape).__name__}: {shape!r}")
    return _deferred(shape, lambda sizes: TensorStructInfo(ShapeExpr(_checked(sizes)), dtype or "", vdevice, ndim))


def _shape(values: Any = None, ndim: int = -1) -> StructInfo | Deferred:
    """A shape value, of known sizes or of a rank."""
    if values is None:
        return ShapeStructInfo(None, ndim)
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"R.Shape takes a list of sizes, got {type(values).__name__}")
    return _deferred(values, lambda sizes: ShapeStructInfo(_checked(sizes), ndim))


def _prim(dtype: str | None = None, value: Any = None) -> StructInfo | Deferred:
    """A scalar of a dtype, or of a known value."""
    if isinstance(value, str):
        return Deferred([value], lambda resolver: PrimStructInfo(dtype, resolver(value)))
    return PrimStructInfo(dtype, value)


def _tuple(*fields: Any) -> StructInfo | Deferred:
    """A tuple of values."""
    parts = fields[0] if len(fields) == 1 and isinstance(fields[0], (list, tuple)) else fields
    return _nested(parts, lambda infos: TupleStructInfo(tuple(infos)))


def _callable(params: Any = None, ret: Any = None, purity: bool = True, derive_func: Any = None) -> Any:
    """A function; without `params` any that returns `ret`."""
    if params is None:
        parts = [] if ret is None else [ret]
        return _nested(
            parts,
            lambda infos: FuncStructInfo.opaque_func(
                ret=infos[0] if infos else None, derive_func=derive_func, purity=purity
            ),
        )
    param_types = list(params) if isinstance(params, (list, tuple)) else [params]
    if ret is None:
        ret = ObjectStructInfo()
    return _nested([*param_types, ret], lambda infos: FuncStructInfo(tuple(infos[:-1]), infos[-1], purity))


def _object() -> StructInfo:
    """Any value."""
    return ObjectStructInfo()


def _checked(sizes: Sequence[Any]) -> tuple[Any, ...]:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, (int, PrimExpr)):
            raise TypeError(f"a size must be an integer, a symbol or a name in quotes, got {size!r}")
        if isinstance(size, int) and not 0 <= size < 1 << 63:
            raise ValueError(f"size {size} is not between 0 and 2^63 - 1")
    return tuple(sizes)


Tensor = Annotation("Tensor", _tensor)
Shape = Annotation("Shape", _shape)
Prim = Annotation("Prim", _prim)
Tuple = Annotation("Tuple", _tuple)
Callable_ = Annotation("Callable", _callable)
Object = Annotation("Object", _object)
