"""LowerInitBlock: the first values of reductions, as loops before the reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import EQ, IntImm, PrimExpr, Var, compare, logical_and
from eutectic.ir.transform import PassContext
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from eutectic.tir.transform.conditions import conjuncts, variables
from eutectic.tir.transform.index_facts import expressions, statements
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.statement_mutator import StmtMutator, rewrite_expr, updated
from eutectic.tir.transform.substitute import substitute


@dataclass(frozen=True)
class LowerInitBlock(PrimFuncPass):
    """Make the `init` of reduction blocks statements of their own.

    The first values are stored by loops before the outermost loop that the
    reduction runs over, so that a reduction over nothing leaves them. Where the loops do
    not allow that, they are stored under a condition at the first point of the reduction.

    before:                                  after:
        for i, k in T.grid(4, n):                for i in range(4):
            with T.block("s"):                       s[i] = 0
                ...                                  for k in range(n):
                with T.init():                           with T.block("s"):
                    s[vi] = 0                                ...
                s[vi] = s[vi] + x[vi, vk]                    s[vi] = s[vi] + x[vi, vk]

    Cost: linear in the size of the function, times the depth of loops above a reduction.
    """

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """See the class."""
        return lower_init_block(func)


def lower_init_block(func: PrimFunc) -> PrimFunc:
    """`LowerInitBlock` of one function."""
    return with_body(func, _InitLowering().stmt(func.body))


class _InitLowering(StmtMutator):
    """Goes down with the loops above; what is hoisted waits for the loop that it goes before."""

    def __init__(self) -> None:
        self.above: list[For | SeqStmt] = []  # statements from the last one that nothing is hoisted out of
        self.before: dict[For, list[Stmt]] = {}

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, (For, SeqStmt)):
            self.above.append(stmt)
            made = super().stmt(stmt)
            self.above.pop()
            return seq(*self.before.pop(stmt), made) if isinstance(stmt, For) and stmt in self.before else made
        if isinstance(stmt, BlockRealize):
            return self.realize(stmt)
        outer, self.above = self.above, []
        made = super().stmt(stmt)
        self.above = outer
        return made

    def realize(self, stmt: BlockRealize) -> Stmt:
        block, chain = stmt.block, self.above
        self.above = []
        body = self.stmt(block.body)
        self.above = chain
        if block.init is None:
            return updated(stmt, block=updated(block, body=body))
        hoisted = _hoisted(stmt, block.init, chain)
        if hoisted is None:
            body = seq(IfThenElse(first_point(block), block.init), body)
        else:
            self.before.setdefault(hoisted[0], []).append(hoisted[1])
        return updated(stmt, block=updated(block, init=None, body=body))


def first_point(block: Block) -> PrimExpr:
    """The condition that all reduction axes are at their first values."""
    out: PrimExpr = IntImm("bool", 1)
    for axis in block.iter_vars:
        if axis.iter_type == "comm_reduce" and axis.dom is not None:
            out = logical_and(out, compare(EQ, axis.var, axis.dom.min))
    return out


def _hoisted(stmt: BlockRealize, init: Stmt, chain: Sequence[For | SeqStmt]) -> tuple[For, Stmt] | None:
    """The loop before which the first values can be stored, and the statement that does so; None when there is none."""
    block = stmt.block
    if touched(init) & {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}:
        return None
    loops = {item.loop_var: item for item in chain if isinstance(item, For)}
    spatial: set[Var] = set()
    reduced: set[Var] = set()
    for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
        found = variables(value)
        if axis.iter_type == "comm_reduce":
            reduced |= found
        elif axis.iter_type == "data_par":
            spatial |= found
        else:
            return None
    outermost = next((loop for var, loop in loops.items() if var in reduced), None)
    if outermost is None or spatial & reduced or not reduced <= loops.keys():
        return None
    inside = list(loops.values())[list(loops).index(outermost.loop_var) :]
    condition = _spatial_part(stmt.predicate, {loop.loop_var for loop in inside}, reduced)
    if condition is None or not _begins_at_first_point(stmt, inside) or not _is_alone(init, chain, outermost):
        return None
    copied = [loop for loop in inside if loop.loop_var not in reduced]
    if any(_is_bound_elsewhere(loop, spatial, inside) for loop in copied):
        return None
    return outermost, _init_nest(stmt, init, copied, condition)


def _is_bound_elsewhere(loop: For, spatial: set[Var], inside: Sequence[For]) -> bool:
    """Whether a loop cannot be repeated before the reduction."""
    repeats = loop.loop_var not in spatial and not (isinstance(loop.extent, IntImm) and loop.extent.value == 1)
    bounds = variables(loop.min) | variables(loop.extent)
    return repeats or loop.kind == "thread_binding" or any(other.loop_var in bounds for other in inside)


def _init_nest(stmt: BlockRealize, init: Stmt, loops: Sequence[For], condition: PrimExpr) -> Stmt:
    fresh = {loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops}

    def renamed(expr: PrimExpr) -> PrimExpr:
        return rewrite_expr(expr, lambda item: fresh.get(item) if isinstance(item, Var) else None)

    values = {
        axis.var: renamed(value)
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True)
        if axis.iter_type == "data_par"
    }
    made = substitute(init, values, rename=True)
    if not isinstance(condition, IntImm):
        made = IfThenElse(renamed(condition), made)
    for loop in reversed(loops):
        made = replace(loop, loop_var=fresh[loop.loop_var], body=made)
    return made


def _spatial_part(predicate: PrimExpr, inside: set[Var], reduced: set[Var]) -> PrimExpr | None:
    """The part of a predicate that does not depend on the reduction; None when a part depends on both."""
    out: PrimExpr = IntImm("bool", 1)
    for part in conjuncts(predicate):
        found = variables(part)
        if not found & reduced:
            out = logical_and(out, part)
        elif not found & inside <= reduced:
            return None
    return out


def _begins_at_first_point(stmt: BlockRealize, inside: Sequence[For]) -> bool:
    """Whether the reduction loops begin at the first point of the reduction; otherwise an earlier nest did."""
    first = {loop.loop_var: loop.min for loop in inside}
    analyzer = Analyzer()
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        if axis.iter_type == "comm_reduce" and axis.dom is not None:
            start = rewrite_expr(value, lambda item: first.get(item) if isinstance(item, Var) else None)
            if not analyzer.can_prove_equal(start, axis.dom.min):
                return False
    return True


def _is_alone(init: Stmt, chain: Sequence[For | SeqStmt], outermost: For) -> bool:
    """Whether nothing beside the block, within the outermost reduction loop, touches what `init` writes."""
    position = next(i for i, item in enumerate(chain) if item is outermost)
    if not any(isinstance(item, SeqStmt) for item in chain[position:]):
        return True
    written = {stmt.buffer.data for stmt in statements(init) if isinstance(stmt, BufferStore)}
    if any(isinstance(stmt, LetStmt) for stmt in statements(init)):
        return False
    below = [*chain[position + 1 :]]
    for index, item in enumerate(below):
        if isinstance(item, SeqStmt):
            inner: Stmt | None = below[index + 1] if index + 1 < len(below) else None
            for part in item.seq:
                holds = part is inner or (inner is None and isinstance(part, BlockRealize) and part.block.init is init)
                if not holds and written & {buffer.data for buffer in touched(part)}:
                    return False
    return True


def touched(stmt: Stmt) -> set[Buffer]:
    """Buffers that a statement reads or writes."""
    found = {part.buffer for part in statements(stmt) if isinstance(part, BufferStore)}
    for part in statements(stmt):
        if isinstance(part, BlockRealize):
            found |= {region.buffer for region in (*part.block.reads, *part.block.writes)}
            found |= {match.source.buffer for match in part.block.match_buffers}
    return found | {part.buffer for part in expressions(stmt) if isinstance(part, BufferLoad)}
