"""Whether names of memory stay within it: declared buffers, regions with names, buffers of a signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import (
    EQ,
    GE,
    LE,
    IntImm,
    PrimExpr,
    Var,
    add,
    compare,
    element_dtype,
    lanes_of,
    logical_and,
    mul,
    sub,
)
from eutectic.tir.analysis.access_sites import Naming, Scope, Sites
from eutectic.tir.analysis.bounds import Prover
from eutectic.tir.buffer import Buffer, MatchBufferRegion
from eutectic.tir.buffer_layout import span_of
from eutectic.tir.function import PrimFunc
from eutectic.tir.program_excerpt import index_shown, shown
from eutectic.tir.stmt import Allocate, DeclBuffer

_TRUE: Final[PrimExpr] = IntImm("bool", 1)


@dataclass(frozen=True, slots=True)
class Demand:
    """What must hold for a name to stay within its memory.

    Attributes:
        naming: Where the name is given.
        condition: The condition.
        message: What is wrong where it does not hold.
        holds: False when it never holds; None when that is not known.
    """

    naming: Naming
    condition: PrimExpr
    message: str
    holds: bool | None


def demands_of(func: PrimFunc, sites: Sites, prover: Prover) -> list[Demand]:
    """What is not proved of the names of memory in a function.

    Args:
        func: The function.
        sites: All its names and accesses.
        prover: Answers questions.
    """
    names = _Names(func)
    undeclared = names.undeclared(sites)
    demands: list[Demand] = []
    for naming in (*sites.namings, *undeclared):
        for condition, message in names.wanted(naming):
            holds = prover.holds(condition, naming.scope)
            if holds is not True:
                demands.append(Demand(naming, condition, message, holds))
    return demands


class _Names:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.bytes: dict[Var, PrimExpr] = {}  # behind the pointers that are known

    def undeclared(self, sites: Sites) -> list[Naming]:
        """Buffers that no statement declares; they name memory as a declaration around everything would."""
        declared = {id(_buffer_of(naming)) for naming in sites.namings}
        undeclared = {id(site.buffer): site for site in sites.accesses if id(site.buffer) not in declared}
        return [Naming(DeclBuffer(site.buffer, self.func.body), site.scope) for site in undeclared.values()]

    def wanted(self, naming: Naming) -> Iterator[tuple[PrimExpr, str]]:
        """Conditions of a name, with what is wrong where they do not hold; what was seen before is known."""
        place, scope = naming.place, naming.scope
        match place:
            case Allocate():
                count = reduce(mul, map(_wide, place.extents), _number(1))
                self.bytes[place.buffer_var] = mul(count, _number(_bytes(place.dtype)))
            case DeclBuffer():
                yield from self._view(place.buffer)
            case MatchBufferRegion():
                yield from self._region(place, scope)
            case Buffer() if place in self.func.buffer_map.values():
                self.bytes[place.data] = mul(
                    reduce(mul, map(_wide, place.shape), _number(1)), _number(_bytes(place.dtype))
                )
                yield from self._signature(place)
            case _:
                known = place.data in self.bytes
                self.bytes.setdefault(place.data, mul(_wide(span_of(place)), _number(_bytes(place.dtype))))
                if known or place.strides or place.elem_offset is not None:
                    yield from self._view(place)

    def _signature(self, buffer: Buffer) -> Iterator[tuple[PrimExpr, str]]:
        """Arguments are arrays without gaps, which begin at their first element."""
        offset = buffer.elem_offset
        if offset is not None and not (isinstance(offset, Var) and offset not in self.func.params):
            yield (
                compare(EQ, _wide(offset), _number(0)),
                f"parameter {buffer.name} begins at element {shown(offset)} of its data; arguments begin at their "
                "first element",
            )
        expected, compact = _number(1), _TRUE
        for size, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=False):
            if not isinstance(stride, Var) or stride in self.func.params:
                compact = logical_and(compact, compare(EQ, _wide(stride), expected))
            expected = mul(expected, _wide(size))
        yield (
            compact,
            f"parameter {buffer.name} has strides ({', '.join(map(shown, buffer.strides))}); "
            "arguments are arrays without gaps",
        )

    def _view(self, buffer: Buffer) -> Iterator[tuple[PrimExpr, str]]:
        if any(isinstance(size, IntImm) and size.value == 0 for size in buffer.shape):
            return
        there = self.bytes.get(buffer.data)
        if there is None:
            yield IntImm("bool", 0), f"buffer {buffer.name} names memory {buffer.data.name}, of which nothing is known"
            return
        if not buffer.strides and buffer.elem_offset is None and _is_whole(buffer, there):
            return
        first = last = _number(0) if buffer.elem_offset is None else _wide(buffer.elem_offset)
        for size, stride in zip(buffer.shape, map(_wide, buffer.strides), strict=False):
            reach = mul(sub(_wide(size), _number(1)), stride)
            if isinstance(stride, IntImm) and stride.value < 0:
                first = add(first, reach)
            else:
                last = add(last, reach)
                if not isinstance(stride, IntImm):
                    yield compare(GE, stride, _number(0)), f"buffer {buffer.name} has a negative stride {shown(stride)}"
        if not buffer.strides:
            last = sub(add(last, reduce(mul, map(_wide, buffer.shape), _number(1))), _number(1))
        item = _number(_bytes(buffer.dtype))
        yield compare(GE, first, _number(0)), f"buffer {buffer.name} begins before its memory {buffer.data.name}"
        yield (
            compare(LE, mul(add(last, _number(1)), item), there),
            f"buffer {buffer.name} reaches to byte {shown(mul(add(last, _number(1)), item))} of its memory "
            f"{buffer.data.name}, which has {shown(there)}",
        )

    def _region(self, match: MatchBufferRegion, scope: Scope) -> Iterator[tuple[PrimExpr, str]]:
        source, buffer = match.source.buffer, match.buffer
        text = ", ".join(
            index_shown(part.min) + ":" + index_shown(add(part.min, part.extent)) for part in match.source.region
        )
        what = f"region [{text}] named {buffer.name}"
        inside = _TRUE
        for part, size in zip(match.source.region, source.shape, strict=True):
            low, count = _wide(part.min), _wide(part.extent)
            inside = logical_and(inside, logical_and(compare(GE, low, _number(0)), compare(GE, count, _number(0))))
            inside = logical_and(inside, compare(LE, add(low, count), _wide(size)))
        shape = ", ".join(map(index_shown, source.shape))
        yield inside, f"{what} is outside of buffer {source.name} of shape [{shape}]"
        extents = [part.extent for part in match.source.region]
        dropped = len(extents) - len(buffer.shape)
        same = _TRUE
        for wanted, actual in zip((*[IntImm("int64", 1)] * dropped, *buffer.shape), extents, strict=True):
            same = logical_and(same, compare(EQ, _wide(wanted), _wide(actual)))
        yield same, f"{what} has another shape than buffer {buffer.name} is declared with"
        if buffer.elem_offset is not None and source.data in self.bytes:
            self.bytes[buffer.data] = self.bytes[source.data]


def _buffer_of(naming: Naming) -> Buffer | None:
    place = naming.place
    if isinstance(place, Allocate):
        return None
    return place if isinstance(place, Buffer) else place.buffer


def _is_whole(buffer: Buffer, there: PrimExpr) -> bool:
    """Whether a buffer is all of a memory of constant size, or a part of it from the beginning."""
    sizes = [size.value for size in buffer.shape if isinstance(size, IntImm)]
    if len(sizes) < len(buffer.shape) or not isinstance(there, IntImm):
        return False
    return reduce(int.__mul__, sizes, 1) * _bytes(buffer.dtype) <= there.value


def _bytes(dtype: str) -> int:
    return item_bytes(element_dtype(dtype)) * lanes_of(dtype)


def _number(value: int) -> PrimExpr:
    return IntImm("int64", value)


def _wide(value: PrimExpr) -> PrimExpr:
    if isinstance(value, IntImm):
        return _number(value.value)
    return value if value.dtype == "int64" else value.astype("int64")
