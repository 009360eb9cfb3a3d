"""Struct info: the types of graph values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eutectic.ir.dtype import KNOWN
from eutectic.ir.extent import checked_extent
from eutectic.ir.node import field, init_field, node
from eutectic.ir.prim_expr import PrimExpr, as_prim
from eutectic.relax.base import Expr, ShapeExpr, ShapeStructInfo, StructInfo, as_shape
from eutectic.support.errors import TypeInferenceError
from eutectic.support.shown import shown
from eutectic.support.spelling import did_you_mean

__all__ = [
    "FuncStructInfo",
    "ObjectStructInfo",
    "PrimStructInfo",
    "ShapeStructInfo",
    "StructInfo",
    "TensorStructInfo",
    "TupleStructInfo",
]


@node("relax.ObjectStructInfo")
class ObjectStructInfo(StructInfo):
    """Any value."""

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


@node("relax.PrimStructInfo")
class PrimStructInfo(StructInfo):
    """A scalar.

    Attributes:
        dtype: Its dtype.
        value: Its value when known.
    """

    dtype: str | None = None
    value: PrimExpr | None = None

    def __post_init__(self) -> None:
        if self.value is not None:
            init_field(self, "value", as_prim(self.value, self.dtype or "int64"))
            init_field(self, "dtype", self.value.dtype)
        if self.dtype is None:
            raise TypeInferenceError("PrimStructInfo needs a dtype or a value")

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


@node("relax.TensorStructInfo")
class TensorStructInfo(StructInfo):
    """A tensor.

    Attributes:
        shape: `ShapeExpr`, a variable holding a shape, or None when unknown.
        dtype: Element type; empty when unknown.
        vdevice: Virtual device, if placed.
        ndim: Rank; -1 when unknown.

    Raises:
        TypeInferenceError: both `shape` and a rank are given and disagree, or the dtype is unknown.
        WellFormedError: a size is negative, too large, or no integer.
    """

    shape: Expr | None = None
    dtype: str = "float32"
    vdevice: Any = None
    ndim: int = -1

    def __post_init__(self) -> None:
        init_field(self, "shape", as_shape(self.shape))
        if self.dtype is None:
            init_field(self, "dtype", "")
        init_field(self, "dtype", str(self.dtype))
        if self.dtype and self.dtype not in KNOWN:
            raise TypeInferenceError(f"unknown dtype {shown(self.dtype)}", help=did_you_mean(self.dtype, KNOWN))
        for axis, size in enumerate(self.dims or ()):
            checked_extent(size, f"axis {axis} of a tensor")
        rank = _rank(self.shape)
        if rank is not None:
            if self.ndim not in (-1, rank):
                raise TypeInferenceError(f"shape of rank {rank} given together with ndim={shown(self.ndim)}")
            init_field(self, "ndim", rank)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """Sizes as Python integers, or None when unknown or symbolic."""
        return self.shape.static if isinstance(self.shape, ShapeExpr) else None

    @property
    def dims(self) -> tuple[PrimExpr, ...] | None:
        """Sizes as scalar expressions, or None when the shape is not a literal."""
        return self.shape.values if isinstance(self.shape, ShapeExpr) else None

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


def _rank(shape: Expr | None) -> int | None:
    if isinstance(shape, ShapeExpr):
        return len(shape)
    info = shape.struct_info if shape is not None else None
    return info.ndim if isinstance(info, ShapeStructInfo) and info.ndim >= 0 else None


@node("relax.TupleStructInfo")
class TupleStructInfo(StructInfo):
    """A tuple, one struct info per field."""

    fields: tuple[StructInfo, ...] = ()

    def __post_init__(self) -> None:
        init_field(self, "fields", tuple(self.fields))

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


@node("relax.FuncStructInfo")
class FuncStructInfo(StructInfo):
    """A function's signature.

    Attributes:
        params: Struct info per parameter; None when opaque.
        ret: Struct info of the result.
        purity: Whether calls have no side effects.
        derive_func: For opaque functions, computes the result's info from (call, context).
    """

    params: tuple[StructInfo, ...] | None = field(role="def", default=None)
    ret: StructInfo | None = None
    purity: bool = True
    derive_func: Callable[..., StructInfo] | None = field(role="ignore", default=None)

    def __post_init__(self) -> None:
        if self.params is not None:
            init_field(self, "params", tuple(self.params))
        if self.ret is None:
            init_field(self, "ret", ObjectStructInfo())

    @staticmethod
    def opaque_func(
        *,
        ret: StructInfo | None = None,
        derive_func: Callable[..., StructInfo] | None = None,
        purity: bool = False,
    ) -> FuncStructInfo:
        """Signature of a function whose parameters are not described."""
        return FuncStructInfo(None, ret, purity, derive_func)

    __eq__ = StructInfo.__eq__
    __hash__ = StructInfo.__hash__


def tensor(shape: Iterable[Any] | Expr | None, dtype: str) -> TensorStructInfo:
    """Shorthand for inference functions."""
    return TensorStructInfo(as_shape(shape), dtype)
