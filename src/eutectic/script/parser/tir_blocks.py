"""What a block collects while its statements are parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim
from eutectic.ir.span import Span
from eutectic.script.tir_statements import Axis, BlockAttrs, Regions, Where
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion, as_region
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import Stmt

_READS, _WRITES = 1, 2
_KINDS: Final = {"S": "data_par", "R": "comm_reduce", "O": "opaque", "scan": "ordered"}


@dataclass
class BlockFrame:
    """A block under construction.

    Attributes:
        name: Its name.
        init: What happens before its reduction.
        alloc_buffers: Buffers that live in it.
        match_buffers: Names for regions, with what they stand for.
    """

    name: str
    init: Stmt | None = None
    alloc_buffers: list[Buffer] = field(default_factory=list)
    match_buffers: list[tuple[Buffer, BufferRegion]] = field(default_factory=list)
    _axes: list[IterVar] = field(default_factory=list)
    _bindings: list[PrimExpr] = field(default_factory=list)
    _regions: dict[str, tuple[BufferRegion, ...]] = field(default_factory=dict)
    _predicate: PrimExpr | None = None
    _attrs: dict[str, Any] = field(default_factory=dict)

    def add_axis(self, name: str, axis: Axis) -> Var:
        """Add an axis; returns its variable.

        Raises:
            ValueError: the kind is unknown.
        """
        if axis.kind not in _KINDS:
            raise ValueError(f"unknown kind of axis {axis.kind!r}; known are S and R")
        binding = None if axis.binding is None else as_prim(axis.binding, "int32")
        dom = axis.dom if axis.dom is None or isinstance(axis.dom, Range) else _range(axis.dom)
        literal = binding is None or isinstance(binding, IntImm)
        dtype = dom.extent.dtype if dom is not None and literal else binding.dtype if binding is not None else "int32"
        var = Var(name, axis.dtype or dtype)
        self._axes.append(IterVar(dom, var, _KINDS[axis.kind]))
        if binding is not None:
            self._bindings.append(binding)
        return var

    def note(self, value: Regions | Where | BlockAttrs) -> None:
        """Take over regions, a predicate or annotations.

        Raises:
            ValueError: they were given before.
            TypeError: a region is none.
        """
        match value:
            case Regions():
                if value.kind in self._regions:
                    raise ValueError(f"a block has one T.{value.kind}(...)")
                self._regions[value.kind] = tuple(map(region_of, value.regions))
            case Where():
                if self._predicate is not None:
                    raise ValueError("a block has one T.where(...)")
                self._predicate = as_prim(value.predicate, "bool")
            case BlockAttrs():
                self._attrs.update(value.values)

    def finish(self, body: Stmt, span: Span, *, realize: bool) -> Stmt:
        """The block; regions that were not stated are marked, to be inferred later."""
        missing = (0 if "reads" in self._regions else _READS) | (0 if "writes" in self._regions else _WRITES)
        attrs = {**self._attrs, **({DETECT_ACCESS: missing} if missing else {})}
        block = Block(
            tuple(self._axes),
            self._regions.get("reads", ()),
            self._regions.get("writes", ()),
            self.name,
            body,
            self.init,
            tuple(self.alloc_buffers),
            tuple(MatchBufferRegion(buffer, source) for buffer, source in self.match_buffers),
            attrs,  # type: ignore[arg-type]  # converted by the node
            span=span,
        )
        if not realize:
            return block
        predicate = self._predicate if self._predicate is not None else IntImm("bool", 1)
        return BlockRealize(tuple(self._bindings), predicate, block, span=span)


def _range(dom: Any) -> Range:
    if isinstance(dom, (tuple, list)):
        begin, end = dom
        return Range(begin, end)
    return Range(0, dom)


def region_of(value: Any) -> BufferRegion:
    """A region from what a script writes for one: `A[0:4, i]`, `A[i, j]` or `A`.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, (Buffer, BufferLoad, BufferRegion)):
        raise TypeError(f"expected a region of a buffer such as A[0:4, i], got {type(value).__name__}")
    return as_region(value)
