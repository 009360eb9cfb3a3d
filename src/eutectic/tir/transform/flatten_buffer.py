"""FlattenBuffer: every access has one index, the distance from the data of its buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import (
    Call,
    IntImm,
    PrimExpr,
    Ramp,
    add,
    broadcast,
    cast,
    element_dtype,
    lanes_of,
    mul,
    with_lanes,
)
from eutectic.ir.transform import PassContext
from eutectic.tir.analysis.index_facts import IndexFacts
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.buffer_layout import product, span_of, strides_of
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, rewrite_expr, updated
from eutectic.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Stmt
from eutectic.tir.transform.infra import PrimFuncPass, with_body

_INT32_ELEMENTS: Final = 1 << 31


@dataclass(frozen=True)
class FlattenBuffer(PrimFuncPass):
    """Give every access one index: row by row, or as the strides and the offset of the buffer say.

    Parameters keep their buffers in the signature; the body names their memory anew.

    before:                                  after:
        A: T.Buffer((4, 8))                      A: T.Buffer((4, 8))
        for i, j in T.grid(4, 8):                A_1 = T.decl_buffer((32,), data=A.data)
            A[i, j] = 0                          for i, j in T.grid(4, 8):
                                                     A_1[i * 8 + j] = 0

    Cost: linear in the size of the function; one normal form per access.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return flatten_buffer(func)


def flatten_buffer(func: PrimFunc) -> PrimFunc:
    """`FlattenBuffer` of one function."""
    flattening = _Flattening(IndexFacts(func.body), func.buffer_map.values())
    body = flattening.stmt(func.body)
    for buffer in reversed(func.buffer_map.values()):
        if buffer in flattening.of_params:
            body = DeclBuffer(flattening.of_params[buffer], body)
    return with_body(func, body)


class _Flattening(StmtMutator):
    def __init__(self, facts: IndexFacts, params: Sequence[Buffer]) -> None:
        self.facts = facts
        self.params = set(params)
        self.of_params: dict[Buffer, Buffer] = {}
        self.flat: dict[Buffer, Buffer] = {}
        self._memo: dict[int, PrimExpr] = {}
        self._places: dict[tuple[Buffer, tuple[PrimExpr, ...]], tuple[PrimExpr, ...]] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with one axis on the same memory; itself when it is one already."""
        flattened = self.flat.get(buffer)
        if flattened is None:
            flattened = self.flat[buffer] = self._flattened(buffer)
            if flattened is not buffer and buffer in self.params:
                self.of_params[buffer] = flattened
        return flattened

    def _flattened(self, buffer: Buffer) -> Buffer:
        if len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None:
            return buffer
        size = self.facts.simplify(span_of(buffer))
        return Buffer(buffer.name, (size,), buffer.dtype, buffer.data, None, None, None, buffer.data_alignment, 0)

    def place(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The one index that stands for several."""
        key = (buffer, indices)
        flattened = self._places.get(key)
        if flattened is None:
            flattened = self._places[key] = (self._place(buffer, indices),)
        return flattened

    def _place(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        size = product(buffer.shape)
        wide = isinstance(size, IntImm) and size.value >= _INT32_ELEMENTS
        total: PrimExpr = IntImm("int64" if wide else "int32", 0)
        if buffer.elem_offset is not None:
            total = add(total, buffer.elem_offset)
        for index, stride in zip(indices, strides_of(buffer), strict=True):
            if lanes_of(index.dtype) > 1:
                return self._vector_place(total, index, stride)
            total = add(total, mul(cast("int64", index) if wide else index, stride))
        return self.facts.simplify(total)

    def _vector_place(self, before: PrimExpr, index: PrimExpr, stride: PrimExpr) -> PrimExpr:
        """The index where the last axis is accessed as a vector."""
        lanes = lanes_of(index.dtype)
        if isinstance(index, Ramp) and lanes_of(index.base.dtype) == 1:
            base = self.facts.simplify(add(before, mul(index.base, stride)))
            step = self.facts.simplify(mul(index.stride, stride))
            return Ramp(base, cast(base.dtype, step), lanes)
        before = self.facts.simplify(before)
        if element_dtype(index.dtype) != before.dtype:
            index = cast(with_lanes(before.dtype, lanes), index)
        return add(broadcast(before, lanes), mul(index, broadcast(cast(before.dtype, stride), lanes)))

    # ---- expressions and statements

    def expr(self, expr: PrimExpr) -> PrimExpr:
        return rewrite_expr(expr, self.load, self._memo)

    def load(self, expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, BufferLoad):
            flat = self.buffer(expr.buffer)
            if flat is not expr.buffer:
                return replace(expr, buffer=flat, indices=self.place(expr.buffer, expr.indices))
        elif isinstance(expr, Call) and any(isinstance(arg, (Buffer, BufferRegion)) for arg in expr.args):
            return replace(expr, args=tuple(self.argument(arg) for arg in expr.args))
        return None

    def argument(self, arg: PrimExpr) -> PrimExpr:
        """A buffer that is handed out is handed out flat."""
        return self.buffer(arg) if isinstance(arg, Buffer) else arg  # type: ignore[return-value]  # some calls take nodes

    def visit_store(self, stmt: BufferStore) -> Stmt:
        value, indices, predicate = self.expr(stmt.value), self.exprs(stmt.indices), self.maybe(stmt.predicate)
        flat = self.buffer(stmt.buffer)
        if flat is not stmt.buffer:
            indices = self.place(stmt.buffer, indices)
        return updated(stmt, buffer=flat, indices=indices, value=value, predicate=predicate)

    def visit_attr(self, stmt: AttrStmt) -> Stmt:
        about = self.buffer(stmt.node) if isinstance(stmt.node, Buffer) else stmt.node
        return updated(stmt, node=about, value=self.expr(stmt.value), body=self.stmt(stmt.body))

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        allocate = super().visit_allocate(stmt)
        assert isinstance(allocate, Allocate)
        if len(allocate.extents) == 1:
            return allocate
        return updated(allocate, extents=(self.facts.simplify(product(allocate.extents)),))

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        return updated(stmt, buffer=self.buffer(stmt.buffer), body=self.stmt(stmt.body))
