"""RemoveNoOp: drop statements without an effect, and names and memory that nothing uses."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Call, IntImm, PrimExpr, Var
from eutectic.ir.transform import PassContext
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.index_facts import bodies_of, exprs_of
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.function import PrimFunc
from eutectic.tir.statement_mutator import StmtMutator, operands_of, updated
from eutectic.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from eutectic.tir.transform.infra import PrimFuncPass, with_body

_EFFECTS = frozenset(f"tir.{name}" for name in ("ret", "call_packed", "call_extern", "assume", "tvm_storage_sync"))


@dataclass(frozen=True)
class RemoveNoOp(PrimFuncPass):
    """Remove what does nothing.

    before:                                  after:
        for i in range(0):                       y[0] = x[0]
            y[i] = x[i]
        if False:
            y[1] = x[1]
        t = T.allocate([4], "float32")
        y[0] = x[0]

    Cost: linear in the size of the function.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return remove_no_op(func)


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """`RemoveNoOp` of one function."""
    body = _Removing().stmt(func.body)
    return with_body(func, _Unused(body).stmt(body))


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, Evaluate) and not has_effect(stmt.value)


def has_effect(root: PrimExpr) -> bool:
    """Whether computing an expression does something besides."""
    return any(
        isinstance(item, Call) and (not isinstance(item.op, Op) or item.op.name in _EFFECTS)
        for item in post_order(root, enter=lambda item: not isinstance(item, Buffer))
    )


class _Removing(StmtMutator):
    def visit_seq(self, stmt: SeqStmt) -> Stmt:
        rewritten = [self.stmt(part) for part in stmt.seq]
        kept = [part for part in rewritten if not is_no_op(part)]
        unchanged = len(kept) == len(stmt.seq) and all(a is b for a, b in zip(kept, stmt.seq, strict=True))
        return stmt if unchanged else seq(*kept)

    def visit_for(self, stmt: For) -> Stmt:
        if stmt.static_extent == 0:
            return seq()
        body = self.stmt(stmt.body)
        return body if is_no_op(body) else updated(stmt, body=body)

    def visit_if(self, stmt: IfThenElse) -> Stmt:
        if isinstance(stmt.condition, IntImm):
            taken = stmt.then_case if stmt.condition.value else stmt.else_case
            return seq() if taken is None else self.stmt(taken)
        then_case = self.stmt(stmt.then_case)
        else_case = None if stmt.else_case is None else self.stmt(stmt.else_case)
        if else_case is not None and is_no_op(else_case):
            else_case = None
        if else_case is None and is_no_op(then_case):
            return Evaluate(stmt.condition) if has_effect(stmt.condition) else then_case
        return updated(stmt, then_case=then_case, else_case=else_case)

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        return stmt if stmt.block.init is not None else super().visit_realize(stmt)


class _Unused(StmtMutator):
    """Drops bindings that nothing reads; users come before what they use."""

    def __init__(self, root: Stmt) -> None:
        self.uses: dict[Node, int] = {}
        stack: list[Stmt] = [root]
        while stack:
            stmt = stack.pop()
            self.count(stmt)
            stack.extend(bodies_of(stmt))

    def count(self, stmt: Stmt) -> None:
        """Count what a statement uses."""
        if isinstance(stmt, BufferStore):
            self.use_buffer(stmt.buffer)
        if isinstance(stmt, DeclBuffer):
            self.use_sizes(stmt.buffer)
        if isinstance(stmt, AttrStmt) and isinstance(stmt.node, Buffer):
            self.use_buffer(stmt.node)
        if isinstance(stmt, BlockRealize):
            for item in post_order(stmt):
                if isinstance(item, (Var, Buffer)):
                    self.uses[item] = self.uses.get(item, 0) + 1
        stack = list(exprs_of(stmt))
        seen: set[int] = set()
        while stack:
            item = stack.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, Var):
                self.uses[item] = self.uses.get(item, 0) + 1
            elif isinstance(item, BufferLoad):
                self.use_buffer(item.buffer)
            elif isinstance(item, Call):
                for arg in item.args:
                    about: Node = arg.buffer if isinstance(arg, BufferRegion) else arg
                    if isinstance(about, Buffer):
                        self.use_buffer(about)
            stack.extend(operands_of(item))

    def use_buffer(self, buffer: Buffer) -> None:
        """Count a use of a buffer and of its memory."""
        self.uses[buffer] = self.uses.get(buffer, 0) + 1
        self.uses[buffer.data] = self.uses.get(buffer.data, 0) + 1
        self.use_sizes(buffer)

    def use_sizes(self, buffer: Buffer) -> None:
        """Count uses of the variables in the declaration of a buffer."""
        for size in (*buffer.shape, *buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,))):
            for item in post_order(size):
                if isinstance(item, Var):
                    self.uses[item] = self.uses.get(item, 0) + 1

    def visit_let(self, stmt: LetStmt) -> Stmt:
        if not self.uses.get(stmt.var) and not has_effect(stmt.value):
            return self.stmt(stmt.body)
        return super().visit_let(stmt)

    def visit_allocate(self, stmt: Allocate) -> Stmt:
        body = self.stmt(stmt.body)
        return updated(stmt, body=body) if self.uses.get(stmt.buffer_var) or self.names(body, stmt.buffer_var) else body

    def names(self, body: Stmt, data: Var) -> bool:
        """Whether a declaration that is kept names memory."""
        while isinstance(body, (DeclBuffer, Allocate)):
            if isinstance(body, DeclBuffer) and body.buffer.data is data:
                return True
            body = body.body
        return False

    def visit_decl(self, stmt: DeclBuffer) -> Stmt:
        return super().visit_decl(stmt) if self.uses.get(stmt.buffer) else self.stmt(stmt.body)
