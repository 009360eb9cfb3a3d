"""Whether a region of a buffer is laid out in memory as a buffer that is to stand for it demands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, floormod, mul
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferRegion, MatchBufferRegion
from eutectic.tir.buffer_layout import offset_of, strides_of
from eutectic.tir.iter_var import Range
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.legality.tensor_match import Place
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.statement_mutator import with_values


def region_at(place: Place, sizes: Sequence[PrimExpr]) -> BufferRegion:
    """The region of a place: single elements on leading axes, `sizes` on the others."""
    leading = len(place.begin) - len(sizes)
    extents = [1] * leading + [size.value for size in sizes if isinstance(size, IntImm)]
    pairs = zip(place.begin, extents, strict=True)
    return BufferRegion(place.buffer, tuple(Range(min=low, extent=IntImm(low.dtype, size)) for low, size in pairs))


@dataclass
class Layouts:
    """The demands of several buffers, whose strides and offsets may be the same variables.

    Args:
        edit: The call.
        site: The block around the regions.
        analyzer: What is known there.
        pointers: Data of buffers that are used through their pointers.
    """

    edit: Edit
    site: BlockSite
    analyzer: Analyzer
    pointers: set[Var]
    values: dict[Var, PrimExpr] = field(default_factory=dict)

    def require(self, wanted: Buffer, place: Place) -> None:
        """Refuse a region that is not as a buffer demands.

        Raises:
            ScheduleError: scope, strides, offset or alignment are not, or are not proved to be.
        """
        name = wanted.name
        if place.buffer.scope() != wanted.scope():
            self.refuse(place, f"is in {place.buffer.scope()} memory, and {name} in {wanted.scope()}")
        source, begin = self.source(place)
        strides = strides_of(source)
        inner = strides[len(strides) - len(wanted.shape) :]
        for axis, (want, actual) in enumerate(zip(wanted.strides, inner, strict=False)):
            if not self.agrees(want, actual):
                self.refuse(place, f"has stride {shown(actual)} on axis {axis}, and {name} is of stride {shown(want)}")
        offset = offset_of(source, begin)
        if wanted.elem_offset is not None and not self.agrees(wanted.elem_offset, offset):
            self.refuse(place, f"begins at element {shown(offset)}, and {name} at {shown(wanted.elem_offset)}")
        if wanted.offset_factor > 1 and not self.is_multiple(offset, wanted.offset_factor):
            self.refuse(
                place, f"is not proved to begin at a multiple of {wanted.offset_factor} elements, as {name} does"
            )
        if source.data_alignment % wanted.data_alignment:
            self.refuse(
                place, f"is of memory aligned to {source.data_alignment} bytes, and {name} to {wanted.data_alignment}"
            )
        if wanted.data in self.pointers:
            self.require_plain(wanted, place, inner, offset)

    def require_plain(self, wanted: Buffer, place: Place, strides: Sequence[PrimExpr], offset: PrimExpr) -> None:
        """Refuse a region whose elements are not where a pointer to the first one says."""
        if not wanted.strides:
            step = 1
            for size, stride in reversed(list(zip(wanted.shape, strides, strict=True))):
                assert isinstance(size, IntImm)
                if size.value > 1 and not self.agrees(IntImm(stride.dtype, step), stride):
                    self.refuse(place, f"has gaps between its rows, and {wanted.name} is used through a pointer")
                step *= size.value
        bytes_off = mul(offset, item_bytes(wanted.dtype))
        if wanted.elem_offset is None and not self.is_multiple(bytes_off, wanted.data_alignment):
            self.refuse(
                place,
                f"is not proved to begin at a multiple of {wanted.data_alignment} bytes, as the pointer of "
                f"{wanted.name} does",
            )

    def agrees(self, wanted: PrimExpr, actual: PrimExpr) -> bool:
        """Whether a stride or offset is, or can be made, another one."""
        if isinstance(wanted, Var) and wanted not in self.values:
            self.values[wanted] = actual
            return True
        known = with_values(wanted, self.values)
        if isinstance(known, IntImm) and isinstance(actual, IntImm):
            return known.value == actual.value
        return known.dtype == actual.dtype and self.analyzer.can_prove_equal(known, actual)

    def is_multiple(self, value: PrimExpr, factor: int) -> bool:
        """Whether a number is proved to be a multiple of another one."""
        return factor == 1 or self.analyzer.can_prove_equal(floormod(value, factor), IntImm(value.dtype, 0))

    def source(self, place: Place) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        """The buffer that owns the memory of a place, and where the place begins in it."""
        names = names_of_regions(self.site)
        buffer, begin = place.buffer, place.begin
        while buffer in names:
            region = names[buffer].source.region
            leading = len(region) - len(begin)
            moved = [add(part.min, index) for part, index in zip(region[leading:], begin, strict=True)]
            buffer, begin = names[buffer].source.buffer, (*(part.min for part in region[:leading]), *moved)
        return buffer, begin

    def refuse(self, place: Place, why: str) -> NoReturn:
        """End the primitive."""
        message = f"{self.edit.name}: the region of {place.buffer.name} in block {self.site.block.name_hint} {why}"
        self.edit.refuse(self.site, message, help="declare the buffer of the implementation for such regions")


def names_of_regions(site: BlockSite) -> Mapping[Buffer, MatchBufferRegion]:
    """What names for regions in and around a block stand for."""
    around = [item.block for item in (*site.above, site.stmt) if isinstance(item, BlockRealize)]
    return {match.buffer: match for block in around for match in block.match_buffers}
