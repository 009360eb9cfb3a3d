"""Memory layouts: interned memory descriptors that can be compared, named and recognised as the same bytes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from eutectic.backend.dnnl import abi
from eutectic.backend.dnnl.border_layout import AXES, border_layout
from eutectic.backend.dnnl.library import Library, Owner
from eutectic.support.errors import CodegenError

Shape = tuple[int, ...]
Term = tuple[int, int]

_MOST_TAGS = 1024
_DTYPES = {number: dtype for dtype, number in abi.DATA_TYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A memory descriptor. Equal ones of a `LayoutTable` are the same object.

    Attributes:
        shape: Logical extents as oneDNN sees them.
        nbytes: Bytes of a buffer, padding included.
        text: Axes from slowest to fastest such as `aBcd8b`; upper case marks a
            blocked axis, a trailing `*` padding; `any` leaves the choice to oneDNN.
        image: Per axis the (extent, stride) terms that map indices to memory;
            None where that says not everything. Two layouts of one shape with
            the same image are the same bytes.
        order: The same with the extents that padding gives the axes; None where no strides describe the layout.
        handle: The `dnnl_memory_desc_t`, owned by the table.
        dtype: Of the elements; empty for bytes that are nobody's business, such as working memory.
    """

    shape: Shape
    nbytes: int
    text: str
    image: tuple[tuple[Term, ...], ...] | None
    order: tuple[tuple[Term, ...], ...] | None
    handle: int = field(repr=False)
    dtype: str = "float32"

    def same_bytes(self, other: Layout) -> bool:
        """Whether a buffer in this layout can be read in the other one as it is."""
        alike = self.shape == other.shape and self.dtype == other.dtype
        return self is other or (alike and self.image is not None and self.image == other.image)


class LayoutTable:
    """Makes and interns layouts; descriptors live as long as `owner`."""

    def __init__(self, library: Library, owner: Owner) -> None:
        self._library = library
        self._owner = owner
        self._known: dict[tuple[Shape, str], list[Layout]] = {}
        self._any: dict[tuple[Shape, str], Layout] = {}
        self._strided: dict[tuple[Shape, Shape, str], Layout] = {}

    def any(self, shape: Shape, dtype: str = "float32") -> Layout:
        """The layout that leaves the choice to the primitive."""
        if (shape, dtype) not in self._any:
            number = abi.DATA_TYPES[dtype]
            handle = self._owner.create(
                "memory_desc", len(shape), dims(shape), number, abi.FORMAT_TAG_ANY, suffix="_with_tag"
            )
            self._any[shape, dtype] = Layout(shape, 0, "any", None, None, handle, dtype)
        return self._any[shape, dtype]

    def plain(self, shape: Shape, dtype: str = "float32") -> Layout:
        """Row-major without gaps; a scalar becomes one axis of extent 1."""
        shape = shape or (1,)
        return self.strided(shape, row_major(shape), dtype)

    def named(self, shape: Shape, text: str, dtype: str = "float32") -> Layout:
        """The layout of a tensor at the border of a region.

        Args:
            shape: Extents, as oneDNN counts the axes.
            text: As in `border_layout.py`; empty is row-major.
            dtype: Of the elements.

        Raises:
            CodegenError: oneDNN has no such layout.
        """
        wanted = border_layout(text)
        if wanted is None:
            return self.plain(shape, dtype)
        if wanted.blocked is not None:
            return self._tagged(shape, text, dtype)
        strides = dict(zip(wanted.order, row_major(wanted.shape_in_memory(shape)), strict=True))
        return self.strided(shape, tuple(strides[axis] for axis in range(len(shape))), dtype)

    def _tagged(self, shape: Shape, text: str, dtype: str) -> Layout:
        """The layout of a text, by the number that the library has for it: numbers differ between versions."""
        for tag in range(abi.FORMAT_TAG_ANY + 1, _MOST_TAGS):
            handle = ctypes.c_void_p()
            create = self._library.function("dnnl_memory_desc_create_with_tag")
            number = abi.DATA_TYPES[dtype]
            if create(ctypes.byref(handle), len(shape), dims(shape), number, tag) or not handle.value:
                continue
            layout = self._intern(self._owner.keep("memory_desc", handle.value))
            if layout.text == text:
                return layout
        raise CodegenError(f"oneDNN has no layout {text} for {list(shape)}")

    def strided(self, shape: Shape, strides: Shape, dtype: str = "float32") -> Layout:
        """Any layout that strides, counted in elements, can express."""
        key = (shape, strides, dtype)
        if key not in self._strided:
            number = abi.DATA_TYPES[dtype]
            handle = self._owner.create(
                "memory_desc", len(shape), dims(shape), number, dims(strides), suffix="_with_strides"
            )
            self._strided[key] = self._intern(handle)
        return self._strided[key]

    def intern(self, handle: int) -> Layout | None:
        """The layout of a descriptor that belongs to somebody else; None for the descriptor of nothing."""
        if not handle or not self._library.function("dnnl_memory_desc_get_size")(handle):
            return None
        copy = ctypes.c_void_p()
        self._library.call("dnnl_memory_desc_clone", ctypes.byref(copy), handle)
        return self._intern(self._owner.keep("memory_desc", copy.value or 0))

    def _intern(self, handle: int) -> Layout:
        layout = self._describe(handle)
        same = self._known.setdefault((layout.shape, layout.text), [])
        for other in same:
            if self._library.function("dnnl_memory_desc_equal")(other.handle, handle):
                return other
        same.append(layout)
        return layout

    def _describe(self, handle: int) -> Layout:
        ndims = self._integer(handle, abi.QUERY_NDIMS)
        shape = self._dims(handle, abi.QUERY_DIMS)[:ndims]
        nbytes = int(self._library.function("dnnl_memory_desc_get_size")(handle))
        dtype = _DTYPES.get(self._integer(handle, abi.QUERY_DATA_TYPE), "")
        if self._integer(handle, abi.QUERY_FORMAT_KIND) != abi.FORMAT_KIND_BLOCKED:
            return Layout(shape, nbytes, "opaque", None, None, handle, dtype)
        padded = self._dims(handle, abi.QUERY_PADDED_DIMS)[:ndims]
        strides = self._dims(handle, abi.QUERY_STRIDES)[:ndims]
        count = self._integer(handle, abi.QUERY_INNER_NBLKS)
        sizes = self._dims(handle, abi.QUERY_INNER_BLKS)[:count]
        axes = self._dims(handle, abi.QUERY_INNER_IDXS)[:count]
        blocks = tuple(zip(axes, sizes, strict=True))
        order = _image(padded, strides, blocks)
        image = order if padded == shape else None
        return Layout(shape, nbytes, _text(shape, padded, strides, blocks), image, order, handle, dtype)

    def _integer(self, handle: int, what: int) -> int:
        value = ctypes.c_int()
        self._library.call("dnnl_memory_desc_query", handle, what, ctypes.byref(value))
        return value.value

    def _dims(self, handle: int, what: int) -> Shape:
        value = ctypes.POINTER(ctypes.c_int64)()
        self._library.call("dnnl_memory_desc_query", handle, what, ctypes.byref(value))
        return tuple(value[: abi.MAX_NDIMS])


def dims(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """A `dnnl_dims_t` that starts with the given values."""
    return abi.Dims(*values)


def row_major(shape: Shape) -> Shape:
    """Strides in elements of a dense row-major tensor."""
    return tuple(math.prod(max(d, 1) for d in shape[i + 1 :]) for i in range(len(shape)))


def _image(padded: Shape, strides: Shape, blocks: Sequence[Term]) -> tuple[tuple[Term, ...], ...]:
    terms: list[list[Term]] = [[] for _ in padded]
    outer, step = list(padded), 1
    for axis, size in reversed(blocks):
        terms[axis].insert(0, (size, step))
        outer[axis] //= size
        step *= size
    for axis, extent in enumerate(outer):
        terms[axis].insert(0, (extent, strides[axis]))
    return tuple(_merge([t for t in axis_terms if t[0] != 1]) for axis_terms in terms)


def _merge(terms: list[Term]) -> tuple[Term, ...]:
    merged: list[Term] = []
    for extent, stride in terms:
        if merged and merged[-1][1] == stride * extent:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return tuple(merged)


def _text(shape: Shape, padded: Shape, strides: Shape, blocks: Sequence[Term]) -> str:
    blocked = {axis for axis, _ in blocks}
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], i))
    outer = "".join(AXES[i].upper() if i in blocked else AXES[i] for i in order)
    return outer + "".join(f"{size}{AXES[axis]}" for axis, size in blocks) + ("*" if padded != shape else "")
