"""Vectors of scalars: `Ramp`, `Broadcast` and `Shuffle`."""

from __future__ import annotations

from typing import Any

from eutectic.ir.node import init_field, node
from eutectic.ir.prim_base import OPERATORS, IntImm, PrimExpr, TypedExpr, as_prim, lanes_of, with_lanes


@node("tir.Ramp")
class Ramp(TypedExpr):
    """`base, base + stride, ...`, `lanes` values.

    Attributes:
        base: First value.
        stride: Step, of the dtype of `base`.
        lanes: Number of values; at least 2.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: int

    def __post_init__(self) -> None:
        init_field(self, "base", as_prim(self.base, "int32"))
        init_field(self, "stride", as_prim(self.stride, self.base.dtype))
        init_field(self, "lanes", _lane_count(self.lanes))
        init_field(self, "dtype", with_lanes(self.base.dtype, self.lanes * lanes_of(self.base.dtype)))


@node("tir.Broadcast")
class Broadcast(TypedExpr):
    """One value, `lanes` times.

    Attributes:
        value: The value.
        lanes: Number of copies; at least 2.
    """

    value: PrimExpr
    lanes: int

    def __post_init__(self) -> None:
        init_field(self, "value", as_prim(self.value, "int32"))
        init_field(self, "lanes", _lane_count(self.lanes))
        init_field(self, "dtype", with_lanes(self.value.dtype, self.lanes * lanes_of(self.value.dtype)))


@node("tir.Shuffle")
class Shuffle(TypedExpr):
    """Elements of the concatenated `vectors`, chosen by `indices`.

    Attributes:
        vectors: Vectors or scalars of one element dtype.
        indices: Position of each element of the result; constants.
    """

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        init_field(self, "vectors", tuple(as_prim(v, "int32") for v in self.vectors))
        init_field(self, "indices", tuple(as_prim(i, "int32") for i in self.indices))
        init_field(self, "dtype", with_lanes(self.vectors[0].dtype, len(self.indices)))


def broadcast(value: PrimExpr, lanes: int) -> PrimExpr:
    """`value` repeated; one lane is the value itself."""
    return value if lanes == 1 else Broadcast(value, lanes)


def _lane_count(lanes: Any) -> int:
    count = lanes.value if isinstance(lanes, IntImm) else int(lanes)
    if count < 2:
        raise ValueError(f"a vector has at least 2 lanes, got {count}")
    return count


OPERATORS["broadcast"] = broadcast
