"""LowerInitBlock: the initial values of reductions, as loops before the reduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import EQ, LE, IntImm, PrimExpr, Select, Var, compare, logical_or
from eutectic.ir.transform import PassContext
from eutectic.support.deep import deep
from eutectic.support.errors import CodegenError
from eutectic.tir.analysis.first_points import FirstPoints, conjunction_of, first_point, first_points
from eutectic.tir.analysis.init_placement import loop_after_init_at, stored_memory, touched, uses_own_buffers
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.statement_mutator import StmtMutator, updated, with_values
from eutectic.tir.stmt import Allocate, DeclBuffer, For, IfThenElse, SeqStmt, Stmt, seq
from eutectic.tir.substitute import Substituter
from eutectic.tir.transform.infra import PrimFuncPass, with_body


@dataclass(frozen=True)
class LowerInitBlock(PrimFuncPass):
    """Make the `init` of reduction blocks statements of their own.

    `first_points` says where it runs. The initial values are stored by loops before the
    outermost loop of the reduction. Where the loops do not allow that, they are stored under
    a condition at the first points, and once more before loops that have no iterations.

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
        self.scope: list[For] = []  # loops from the last block
        self.memory: dict[Buffer, int] = {}  # declared buffers, with the number of statements above
        self.before: dict[For, list[Stmt]] = {}

    @deep
    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            self.above.append(stmt)
            self.scope.append(stmt)
            rewritten = super().stmt(stmt)
            self.scope.pop()
            self.above.pop()
            return seq(*self.before.pop(stmt, ()), rewritten)
        if isinstance(stmt, SeqStmt):
            self.above.append(stmt)
            rewritten = super().stmt(stmt)
            self.above.pop()
            return rewritten
        if isinstance(stmt, BlockRealize):
            return self.realize(stmt)
        if isinstance(stmt, Allocate):
            return super().stmt(stmt)
        if isinstance(stmt, DeclBuffer):
            self.memory[stmt.buffer] = len(self.above)
            return super().stmt(stmt)
        outer, self.above = self.above, []
        rewritten = super().stmt(stmt)
        self.above = outer
        return rewritten

    def realize(self, stmt: BlockRealize) -> Stmt:
        block, chain, scope = stmt.block, self.above, self.scope
        self.above, self.scope = [], []
        init = None if block.init is None else self.stmt(block.init)
        body = self.stmt(block.body)
        self.above, self.scope = chain, scope
        if block.init is None or init is None:
            return updated(stmt, block=updated(block, body=body))
        points = first_points(stmt, scope)
        outermost = loop_after_init_at(points, chain)
        if outermost is not None and not self._leaves_memory(block.init, chain, outermost):
            self.before.setdefault(outermost, []).append(_hoisted(points, block.init, outermost))
            return updated(stmt, block=updated(block, init=None, body=body))
        for position, loop in enumerate(chain):
            if isinstance(loop, For) and not self._leaves_memory(block.init, chain, loop):
                self.before.setdefault(loop, []).extend(_without_terms(points, block.init, chain[position:]))
        return _in_place(points, init, body)

    def _leaves_memory(self, init: Stmt, chain: Sequence[For | SeqStmt], loop: For) -> bool:
        """Whether initial values use memory that exists only inside of a loop."""
        depth = next(k for k, item in enumerate(chain) if item is loop)
        return any(self.memory.get(buffer, 0) > depth for buffer in touched(init))


def _hoisted(points: FirstPoints, init: Stmt, outermost: For) -> Stmt:
    """The initial values of all instances that are reached inside of a loop."""
    inside = list(dropwhile(lambda loop: loop is not outermost, points.loops))
    return _init_nest(points, init, [loop for loop in inside if loop not in points.reduced], points.conditions)


def _without_terms(points: FirstPoints, init: Stmt, chain: Sequence[For | SeqStmt]) -> list[Stmt]:
    """The initial values for the case that a loop of the reduction has no iterations.

    Args:
        points: The first points.
        init: What runs there.
        chain: The loop, and the loops and sequences in it.
    """
    loop = chain[0]
    assert isinstance(loop, For)
    if loop not in points.reduced or points.has_iterations(loop) or _touches_memory_of(points.stmt.block):
        return []
    if uses_own_buffers(points.stmt.block):
        name = points.stmt.block.name_hint
        raise CodegenError(
            f"the init of block {name} names regions of buffers, and loop {loop.loop_var.name} of its reduction could "
            "have no iterations: initial values cannot be stored for this case",
            help="decompose_reduction first, or give the loop an extent that is known to be positive",
        )
    inside = [item for item in chain if isinstance(item, For) and item not in points.reduced]
    nest = _init_nest(points, init, inside, [*points.conditions, *points.axes_begin])
    outside = [part for part, item in zip(points.loops_begin, points.reduced, strict=True) if item not in chain]
    return [IfThenElse(conjunction_of([compare(LE, loop.extent, 0), *outside]), nest)]


def _in_place(points: FirstPoints, init: Stmt, body: Stmt) -> Stmt:
    """The block with its initial values stored at the first points, under a condition."""
    stmt, block = points.stmt, points.stmt.block
    if not points.has_one and not points.begins:
        raise CodegenError(
            f"it is not proved where the reduction of block {block.name_hint} begins: its axes could have their first "
            "values in several iterations",
            help="bind each axis of a reduction to loops that reach each of its values once",
        )
    if points.has_one and points.terms_hold:
        body = seq(IfThenElse(first_point(block), init), body)
        return updated(stmt, block=updated(block, init=None, body=body))
    begins = conjunction_of(points.axes_begin if points.has_one else [*points.axes_begin, *points.loops_begin])
    first, terms = conjunction_of([begins, *points.in_domain]), conjunction_of(points.terms)
    flags = [(Var(f"{block.name_hint}_{name}", "int32"), what) for name, what in (("first", first), ("term", terms))]
    is_first, is_term = (compare(EQ, var, 1) for var, _ in flags)
    axes = tuple(IterVar(Range(min=0, extent=2), var, "data_par") for var, _ in flags)
    values = tuple(Select(what, IntImm("int32", 1), IntImm("int32", 0)) for _, what in flags)
    flagged = updated(
        block,
        iter_vars=(*block.iter_vars, *axes),
        init=None,
        body=seq(IfThenElse(is_first, init), IfThenElse(is_term, body)),
    )
    predicate = conjunction_of([*points.guards, logical_or(first, terms)])
    return BlockRealize((*stmt.iter_values, *values), predicate, flagged)


def _init_nest(points: FirstPoints, init: Stmt, loops: Sequence[For], conditions: Sequence[PrimExpr]) -> Stmt:
    """Loops over first points that store initial values; the loops of the reduction are where they begin."""
    fresh: dict[Var, PrimExpr] = {
        loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops
    }

    def renamed(expr: PrimExpr) -> PrimExpr:
        return with_values(points.at_begin(expr), fresh)

    stmt = points.stmt
    values = {
        axis.var: renamed(value)
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True)
        if axis.iter_type == "data_par"
    }
    nest = _BlocksInline(values, rename=True).stmt(init)
    condition = conjunction_of([renamed(part) for part in conditions])
    if not (isinstance(condition, IntImm) and condition.value):
        nest = IfThenElse(condition, nest)
    for loop in reversed(loops):
        var = fresh[loop.loop_var]
        assert isinstance(var, Var)
        tag = None if loop.thread_binding is None else loop.thread_binding.thread_tag  # makes an axis of its own
        ends = renamed(loop.min), renamed(loop.extent)
        nest = replace(loop, loop_var=var, min=ends[0], extent=ends[1], thread_binding=tag, body=nest)
    return nest


class _BlocksInline(Substituter):
    """Blocks of initial values as their bodies: what these are substituted with uses loops, which blocks would hide."""

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block without buffers of its own."""
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            self.values[axis.var] = self.expr(value)
        condition, body = self.expr(stmt.predicate), self.stmt(stmt.block.body)
        return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)


def _touches_memory_of(block: Block) -> bool:
    """Whether initial values are stored in memory that a block has for itself, which nothing sees that is outside."""
    return block.init is not None and bool(stored_memory(block.init) & {buffer.data for buffer in block.alloc_buffers})
