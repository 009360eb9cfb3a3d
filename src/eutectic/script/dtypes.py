"""Dtypes as scripts write them: `T.int32`, `T.float32x4`, `T.handle`."""

from __future__ import annotations

from typing import Any, Final

from eutectic.ir.prim_expr import FloatImm, IntImm, PrimExpr, SizeVar, Var, as_prim, cast
from eutectic.ir.prim_type import PointerType, PrimType, Type

_LANES: Final = (*range(1, 17), 32, 64)  # any up to 16, since loops of such extents are vectorized
_ELEMENTS: Final = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (1, 4, 8, 16, 32, 64)),
    *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "bool"),
)


class DType:
    """A dtype: an annotation as it is, a variable when called without a value, else a constant or conversion."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> PrimExpr:
        """A variable that the assignment names, or `expr` in this dtype."""
        if expr is None:
            return SizeVar("", self.dtype) if is_size_var else Var("", self.dtype)
        if isinstance(expr, str):
            expr = float(expr)  # "inf", "-inf", "nan"
        if isinstance(expr, PrimExpr):
            return cast(self.dtype, expr)
        is_float = "float" in self.dtype
        if isinstance(expr, (int, float)) and "x" not in self.dtype:
            if not is_float and expr != int(expr):
                raise TypeError(f"{expr} is not an integer, which {self.dtype} needs")
            return FloatImm(self.dtype, float(expr)) if is_float else IntImm(self.dtype, _fit(self.dtype, int(expr)))
        return cast(self.dtype, as_prim(expr, "float32" if is_float else "int32"))

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


def _fit(dtype: str, value: int) -> int:
    if dtype == "bool":
        return int(bool(value))
    bits = int("".join(filter(str.isdigit, dtype)))
    low, high = (0, 1 << bits) if dtype.startswith("uint") else (-(1 << (bits - 1)), 1 << (bits - 1))
    if not low <= value < high:
        raise ValueError(f"{value} does not fit {dtype}")
    return value


class _Handle(DType):
    """`T.handle`: a pointer, of a known element type when called with one."""

    def __call__(self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False) -> PrimExpr:
        """A variable that the assignment names."""
        if dtype is None:
            return Var("", "handle")
        element: Type = PrimType(dtype.dtype if isinstance(dtype, DType) else dtype)
        return Var("", "handle", type_annotation=PointerType(element, storage_scope))


DTYPES: Final[dict[str, DType]] = {
    f"{element}{'' if lanes == 1 else f'x{lanes}'}": DType(f"{element}{'' if lanes == 1 else f'x{lanes}'}")
    for element in _ELEMENTS
    for lanes in _LANES
}
DTYPES.update({"boolean": DType("bool"), "handle": _Handle("handle"), "void": DType("void")})
