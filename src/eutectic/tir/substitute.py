"""Variables and buffers replaced in statements, with new names for what a copy binds."""

from __future__ import annotations

from collections.abc import Mapping

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.statement_mutator import StmtMutator, map_buffer, rewrite_expr, updated
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, For, LetStmt, Stmt


class Substituter(StmtMutator):
    """Replaces variables by expressions.

    `values` grows while the walk goes on; a variable that is bound in two places has a value of its own in each.

    Args:
        values: What stands for variables.
        rename: Whether what is bound inside gets new variables, as a second copy of a statement needs.
    """

    def __init__(self, values: Mapping[Var, PrimExpr], rename: bool = False) -> None:
        self.values: dict[Var, PrimExpr] = dict(values)
        self.buffers: dict[Buffer, Buffer] = {}
        self.rename = rename
        self._memo: dict[int, PrimExpr] = {}
        self._alive: list[PrimExpr] = []  # what was rewritten, so that ids stay their own

    def expr(self, expr: PrimExpr) -> PrimExpr:
        """The expression with variables and buffers replaced."""
        if id(expr) not in self._memo:
            self._alive.append(expr)
        return rewrite_expr(expr, self.leaf, self._memo)

    def leaf(self, expr: PrimExpr) -> PrimExpr | None:
        """What replaces a variable or an access whose indices are done."""
        if isinstance(expr, Var):
            return self.values.get(expr)
        if isinstance(expr, BufferLoad):
            buffer = self.buffer(expr.buffer)
            return expr if buffer is expr.buffer else replace(expr, buffer=buffer)
        return fresh_let(expr) if self.rename and isinstance(expr, Let) else None

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer that replaces one that is accessed."""
        return self.buffers.get(buffer, buffer)

    def bind(self, var: Var) -> Var:
        """The variable that a copy binds in place of `var`."""
        if not self.rename:
            return var
        if var in self.values:  # it was bound before: what was rewritten then is another expression now
            self._memo.clear()
        fresh = Var(var.name, var.dtype, type_annotation=var.type_annotation)
        self.values[var] = fresh
        return fresh

    def visit_store(self, stmt: BufferStore) -> Stmt:
        """A store."""
        store = super().visit_store(stmt)
        assert isinstance(store, BufferStore)
        return updated(store, buffer=self.buffer(store.buffer))

    def block(self, block: Block) -> Block:
        """What is inside of a block, and its regions."""
        rewritten = super().block(block)
        reads, writes = (tuple(map(self._region, regions)) for regions in (rewritten.reads, rewritten.writes))
        return updated(rewritten, reads=reads, writes=writes)

    def _region(self, region: BufferRegion) -> BufferRegion:
        ranges = tuple(updated(r, min=self.expr(r.min), extent=self.expr(r.extent)) for r in region.region)
        return updated(region, buffer=self.buffer(region.buffer), region=ranges)

    def visit_for(self, stmt: For) -> Stmt:
        """A loop."""
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        var = self.bind(stmt.loop_var)
        return updated(stmt, loop_var=var, min=low, extent=extent, body=self.stmt(stmt.body))

    def visit_let(self, stmt: LetStmt) -> Stmt:
        """A name for a value."""
        value = self.expr(stmt.value)
        var = self.bind(stmt.var)
        return updated(stmt, var=var, value=value, body=self.stmt(stmt.body))

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        """Memory."""
        extents, condition = self.exprs(stmt.extents), self.expr(stmt.condition)
        var = self.bind(stmt.buffer_var)
        return updated(stmt, buffer_var=var, extents=extents, condition=condition, body=self.stmt(stmt.body))

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        """A name for memory; a new one where its memory or its sizes are new."""
        buffer = self.declared(stmt.buffer)
        return updated(stmt, buffer=buffer, body=self.stmt(stmt.body))

    def declared(self, buffer: Buffer) -> Buffer:
        """The buffer that is declared in place of one."""
        fresh = map_buffer(buffer, self.expr)
        data = self.values.get(buffer.data)
        if isinstance(data, Var):
            fresh = updated_data(fresh, data)
        elif self.rename and fresh is buffer:
            fresh = updated_data(fresh, buffer.data)
        if fresh is not buffer:
            self.buffers[buffer] = fresh
        return fresh


def fresh_lets(root: PrimExpr) -> PrimExpr:
    """A copy of an expression whose `Let`s bind variables of their own."""
    return rewrite_expr(root, lambda expr: fresh_let(expr) if isinstance(expr, Let) else None)


def fresh_let(expr: Let) -> Let:
    """A `Let` with a new variable."""
    fresh = Var(expr.var.name, expr.var.dtype)
    return Let(fresh, expr.value, rewrite_expr(expr.body, lambda part: fresh if part is expr.var else None))


def updated_data(buffer: Buffer, data: Var) -> Buffer:
    """A new buffer like `buffer` whose elements are where `data` points."""
    return Buffer(
        buffer.name,
        buffer.shape,
        buffer.dtype,
        data,
        buffer.strides,
        buffer.elem_offset,
        None,
        buffer.data_alignment,
        buffer.offset_factor,
        buffer.axis_separators,
    )


def substitute(stmt: Stmt, values: Mapping[Var, PrimExpr], rename: bool = False) -> Stmt:
    """`stmt` with variables replaced; with `rename` what it binds is new, so that both can stand in one program."""
    return Substituter(values, rename).stmt(stmt)
