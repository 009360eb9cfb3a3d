"""Buffers, their elements and their regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from eutectic.ir.extent import checked_extent
from eutectic.ir.node import Node, field, init_field, node, node_class
from eutectic.ir.prim_expr import (
    ExprOp,
    IntImm,
    PrimExpr,
    Ramp,
    TypedExpr,
    Var,
    as_prim,
    element_dtype,
    lanes_of,
    with_lanes,
)
from eutectic.ir.prim_type import PointerType, PrimType
from eutectic.support.errors import WellFormedError
from eutectic.tir.iter_var import Range


@node("tir.Buffer", init=False)
class Buffer(Node):
    """A multi-dimensional array; identity is the variable.

    `A[i, j]` is the element, `A[0:4, j]` a region. Sizes, strides and offsets
    count elements; Python integers become int32 constants.

    Attributes:
        name: A hint for printing.
        shape: Elements per axis, outermost first; empty for a scalar.
        dtype: Dtype of an element.
        data: Pointer to the elements; made when not given.
        strides: Distance of neighbours per axis; empty for a compact buffer.
        elem_offset: Distance of the first element from `data`; None is zero.
        data_alignment: Alignment of `data` in bytes.
        offset_factor: `elem_offset` is a multiple of it; 0 promises nothing.
        axis_separators: Where axes are split into groups that are flattened apart.

    Raises:
        WellFormedError: a size is negative, too large, or no integer; there are strides, but not one per axis; or
            `scope` and `data` disagree.
    """

    name: str = field(role="ignore")
    shape: tuple[PrimExpr, ...]
    dtype: str
    data: Var
    strides: tuple[PrimExpr, ...]
    elem_offset: PrimExpr | None
    data_alignment: int
    offset_factor: int
    axis_separators: tuple[int, ...]
    is_variable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        shape: Any,
        dtype: str = "float32",
        data: Var | None = None,
        strides: Iterable[Any] | None = None,
        elem_offset: Any = None,
        scope: str | None = None,
        data_alignment: int = 64,
        offset_factor: int = 0,
        axis_separators: Iterable[Any] | None = None,
    ) -> None:
        """Make a buffer.

        Args:
            scope: Memory that a new `data` points into; `global` by default.
        """
        if data is None:
            data = Var(name, "handle", type_annotation=PointerType(PrimType(dtype), scope or "global"))
        init_field(self, "name", name)
        init_field(self, "shape", indices_of(shape))
        for axis, size in enumerate(self.shape):
            checked_extent(size, f"axis {axis} of buffer {name}")
        init_field(self, "dtype", dtype)
        init_field(self, "data", data)
        init_field(self, "strides", indices_of(strides or ()))
        init_field(self, "elem_offset", None if elem_offset is None else as_prim(elem_offset, "int32"))
        init_field(self, "data_alignment", data_alignment)
        init_field(self, "offset_factor", offset_factor)
        init_field(self, "axis_separators", tuple(int(axis) for axis in axis_separators or ()))
        if self.strides and len(self.strides) != len(self.shape):
            raise WellFormedError(f"buffer {name} has {len(self.shape)} axes, but {len(self.strides)} strides")
        if scope is not None and scope != self.scope():
            raise WellFormedError(f"buffer {name} is in scope {scope!r}, but its data is in {self.scope()!r}")

    def scope(self) -> str:
        """The memory that the elements are in."""
        pointer = self.data.type_annotation
        return pointer.storage_scope if isinstance(pointer, PointerType) else "global"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> Any:
        """The element at `indices`, or the region when one of them is a slice."""
        subscripts = indices if isinstance(indices, (tuple, list)) else (indices,)
        if not any(isinstance(index, (slice, Range)) for index in subscripts):
            return BufferLoad(self, subscripts)  # type: ignore[arg-type]  # the node converts what it is given
        return BufferRegion(self, tuple(self._range(axis, index) for axis, index in enumerate(subscripts)))

    def __iter__(self) -> Any:
        raise TypeError(f"buffer {self.name} cannot be iterated; index it, or take its shape")

    def _range(self, axis: int, index: Any) -> Range:
        if isinstance(index, Range):
            return index
        if not isinstance(index, slice):
            return Range(min=index, extent=1)
        if index.step is not None:
            raise TypeError(f"a region of buffer {self.name} cannot have a step")
        begin = 0 if index.start is None else index.start
        end = self.shape[axis] if index.stop is None else index.stop
        return Range(begin, end)

    def vload(self, begin: Any, dtype: str | None = None, predicate: PrimExpr | None = None) -> BufferLoad:
        """The elements at `begin`; with a vector dtype those that follow along the last axis too."""
        return BufferLoad(self, _vector_indices(self, begin, dtype), predicate)

    def vstore(self, begin: Any, value: Any, predicate: PrimExpr | None = None) -> Any:
        """A statement that stores the element, or the vector, at `begin`."""
        store: Any = node_class("tir.BufferStore")  # statements are above buffers
        return store(self, value, indices_of(begin), predicate)

    def offset_of(self, indices: Any) -> list[PrimExpr]:
        """Where the element at `indices` lies behind the first, in elements."""
        at = indices_of(indices)
        place: PrimExpr = IntImm(at[0].dtype if at else "int32", 0)
        for axis, index in enumerate(at):
            place = place + index * self.strides[axis] if self.strides else place * self.shape[axis] + index
        return [place if self.elem_offset is None else place + self.elem_offset]

    def get_flattened_buffer(self) -> Buffer:
        """A buffer of one axis over the same memory; itself where it has one axis already.

        Raises:
            ValueError: it has strides of its own, so that its elements are not one behind the other.
        """
        if len(self.shape) == 1:
            return self
        if self.strides:
            raise ValueError(f"buffer {self.name} has strides, so that it is not one row of elements")
        size: PrimExpr = IntImm(self.shape[0].dtype if self.shape else "int32", 1)
        for extent in self.shape:
            size = size * extent
        return Buffer(self.name, (size,), self.dtype, self.data, (), self.elem_offset, None, self.data_alignment)

    def full_region(self) -> BufferRegion:
        """All elements."""
        return BufferRegion.full_region(self)


def indices_of(values: Any) -> tuple[PrimExpr, ...]:
    """Indices, sizes or strides as expressions; one alone stands for a sequence of one."""
    sequence = (values,) if isinstance(values, (int, ExprOp)) else values
    return tuple(as_prim(value, "int32") for value in sequence)


def _vector_indices(buffer: Buffer, begin: Any, dtype: str | None) -> tuple[PrimExpr, ...]:
    indices = indices_of(begin)
    lanes = lanes_of(dtype or buffer.dtype)
    if lanes == 1 or not indices:
        return indices
    if dtype is not None and element_dtype(dtype) != buffer.dtype:
        raise TypeError(f"vload of {dtype} from buffer {buffer.name} of {buffer.dtype}")
    return (*indices[:-1], Ramp(indices[-1], as_prim(1, indices[-1].dtype), lanes))


def access_dtype(buffer: Buffer, indices: Sequence[PrimExpr]) -> str:
    """Dtype of what `indices` select; a vector when the last of them is one."""
    lanes = lanes_of(indices[-1].dtype) if indices else 1
    return with_lanes(buffer.dtype, lanes * lanes_of(buffer.dtype))


@node("tir.BufferLoad")
class BufferLoad(TypedExpr):
    """An element of a buffer.

    Attributes:
        buffer: The buffer.
        indices: One index per axis; the last may be a vector.
        predicate: Bool vector that says which lanes are loaded; None for all.
    """

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def __post_init__(self) -> None:
        init_field(self, "indices", indices_of(self.indices))
        init_field(self, "dtype", access_dtype(self.buffer, self.indices))
        if self.predicate is not None:
            init_field(self, "predicate", as_prim(self.predicate, "bool"))


@node("tir.BufferRegion")
class BufferRegion(Node):
    """A box of elements of a buffer.

    Attributes:
        buffer: The buffer.
        region: Range per axis; a single index stands for a range of one.
    """

    buffer: Buffer
    region: tuple[Range, ...]

    def __post_init__(self) -> None:
        ranges: tuple[Any, ...] = tuple(self.region)
        init_field(self, "region", tuple(r if isinstance(r, Range) else Range(min=r, extent=1) for r in ranges))

    @staticmethod
    def full_region(buffer: Buffer) -> BufferRegion:
        """All elements of `buffer`."""
        return BufferRegion(buffer, tuple(Range(min=0, extent=size) for size in buffer.shape))

    @staticmethod
    def from_point(buffer: Buffer, indices: Iterable[Any]) -> BufferRegion:
        """The one element at `indices`."""
        return BufferRegion(buffer, tuple(Range(min=index, extent=1) for index in indices_of(indices)))


def as_region(value: BufferRegion | BufferLoad | Buffer) -> BufferRegion:
    """A region from what can stand for one: itself, an element, or a whole buffer."""
    match value:
        case BufferLoad():
            return BufferRegion.from_point(value.buffer, value.indices)
        case Buffer():
            return BufferRegion.full_region(value)
        case _:
            return value


@node("tir.MatchBufferRegion")
class MatchBufferRegion(Node):
    """A name for a region of another buffer, with its own shape and strides.

    Attributes:
        buffer: The buffer defined here.
        source: What it stands for.
    """

    buffer: Buffer = field(role="def")
    source: BufferRegion

    def __post_init__(self) -> None:
        init_field(self, "source", as_region(self.source))


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Iterable[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Iterable[Any] | None = None,
) -> Buffer:
    """A new buffer.

    Args:
        shape: Elements per axis; one number for one axis.
        dtype: Dtype of an element; None is float32.
        name: Hint for printing.
        data: Pointer to the elements; made when None.
        strides: Distance of neighbours per axis; None for a compact buffer.
        elem_offset: Distance of the first element from `data`; None is zero, unless `offset_factor` is
            given: then it is a new variable.
        scope: Memory of the elements; empty is `global`.
        data_alignment: Alignment of `data` in bytes; -1 takes the default of 64.
        offset_factor: `elem_offset` is a multiple of it.
        buffer_type: Accepted as TVM does; `auto_broadcast` is not supported.
        axis_separators: Where axes are split into groups that are flattened apart.

    Raises:
        ValueError: `buffer_type` is `auto_broadcast`.
    """
    if buffer_type not in ("", "default"):
        raise ValueError(f"buffer_type {buffer_type!r} of buffer {name} is not supported")
    if elem_offset is None and offset_factor:
        elem_offset = Var(f"{name}_elem_offset", indices_of(shape)[0].dtype if indices_of(shape) else "int32")
    return Buffer(
        name,
        shape,
        dtype or "float32",
        data,
        strides,
        elem_offset,
        scope or None,
        64 if data_alignment <= 0 else data_alignment,
        offset_factor,
        axis_separators,
    )
