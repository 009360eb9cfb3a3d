"""LowerInitBlock: the first values of reductions, as loops before the reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.module import IRModule
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import EQ, IntImm, PrimExpr, Var, compare, logical_and
from eutectic.ir.transform import PassContext
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from eutectic.tir.transform.conditions import conjuncts, variables
from eutectic.tir.transform.index_facts import expressions, statements
from eutectic.tir.transform.infra import PrimFuncPass, with_body
from eutectic.tir.transform.statement_mutator import StmtMutator, updated, with_values
from eutectic.tir.transform.substitute import Substituter


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
        self.memory: dict[Buffer, int] = {}  # declared buffers, with the number of statements above
        self.before: dict[For, list[Stmt]] = {}

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, (For, SeqStmt)):
            self.above.append(stmt)
            made = super().stmt(stmt)
            self.above.pop()
            return seq(*self.before.pop(stmt), made) if isinstance(stmt, For) and stmt in self.before else made
        if isinstance(stmt, BlockRealize):
            return self.realize(stmt)
        if isinstance(stmt, Allocate):
            return super().stmt(stmt)
        if isinstance(stmt, DeclBuffer):
            self.memory[stmt.buffer] = len(self.above)
            return super().stmt(stmt)
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
        if hoisted is None or self._leaves_memory(block.init, chain, hoisted[0]):
            body = seq(IfThenElse(first_point(block), block.init), body)
        else:
            self.before.setdefault(hoisted[0], []).append(hoisted[1])
        return updated(stmt, block=updated(block, init=None, body=body))

    def _leaves_memory(self, init: Stmt, chain: Sequence[For | SeqStmt], loop: For) -> bool:
        """Whether first values use memory that exists only inside of a loop."""
        depth = next(k for k, item in enumerate(chain) if item is loop)
        return any(self.memory.get(buffer, 0) > depth for buffer in touched(init))


def first_point(block: Block) -> PrimExpr:
    """The condition that all reduction axes are at their first values."""
    out: PrimExpr = IntImm("bool", 1)
    for axis in block.iter_vars:
        if axis.iter_type == "comm_reduce" and axis.dom is not None:
            out = logical_and(out, compare(EQ, axis.var, axis.dom.min))
    return out


def loop_after_init(stmt: BlockRealize, chain: Sequence[For | SeqStmt]) -> For | None:
    """The loop before which the first values of a reduction are stored, wherever the program runs.

    Args:
        stmt: A block with an `init`.
        chain: The loops and sequences around it, outermost first, from the last other statement on.

    Returns:
        The outermost loop of the reduction; None when the loops do not allow that, and first values are stored at
        the first point of the reduction.
    """
    block, init = stmt.block, stmt.block.init
    if init is None or touched(init) & {*block.alloc_buffers, *(match.buffer for match in block.match_buffers)}:
        return None
    if _has_own_buffers(init):
        return None
    loops = {item.loop_var: item for item in chain if isinstance(item, For)}
    spatial, reduced = _variables_by_kind(stmt)
    if any(axis.iter_type not in ("data_par", "comm_reduce") for axis in block.iter_vars):
        return None
    outermost = next((loop for var, loop in loops.items() if var in reduced), None)
    if outermost is None or spatial & reduced or not reduced <= loops.keys():
        return None
    inside = _from(outermost, loops)
    if _is_mixed(stmt.predicate, {loop.loop_var for loop in inside}, reduced):
        return None
    if not _begins_at_first_point(stmt, inside) or not _is_alone(init, chain, outermost):
        return None
    copied = [loop for loop in inside if loop.loop_var not in reduced]
    return None if any(_is_bound_elsewhere(loop, spatial, inside) for loop in copied) else outermost


def _hoisted(stmt: BlockRealize, init: Stmt, chain: Sequence[For | SeqStmt]) -> tuple[For, Stmt] | None:
    """The loop before which the first values can be stored, and the statement that does so; None when there is none."""
    outermost = loop_after_init(stmt, chain)
    if outermost is None:
        return None
    reduced = _variables_by_kind(stmt)[1]
    inside = _from(outermost, {item.loop_var: item for item in chain if isinstance(item, For)})
    condition = conjunction_of(spatial_conditions(stmt))
    return outermost, _init_nest(stmt, init, [loop for loop in inside if loop.loop_var not in reduced], condition)


def spatial_conditions(stmt: BlockRealize) -> list[PrimExpr]:
    """The parts of a predicate that do not depend on the loops of the reduction."""
    reduced = _variables_by_kind(stmt)[1]
    return [part for part in conjuncts(stmt.predicate) if not variables(part) & reduced]


def conjunction_of(parts: Sequence[PrimExpr]) -> PrimExpr:
    """All of several conditions."""
    out: PrimExpr = IntImm("bool", 1)
    for part in parts:
        out = logical_and(out, part)
    return out


def _variables_by_kind(stmt: BlockRealize) -> tuple[set[Var], set[Var]]:
    """What the values of spatial axes are computed from, and those of reduced ones."""
    found: dict[str, set[Var]] = {"data_par": set(), "comm_reduce": set()}
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        found.setdefault(axis.iter_type, set()).update(variables(value))
    return found["data_par"], found["comm_reduce"]


def _from(outermost: For, loops: Mapping[Var, For]) -> list[For]:
    return list(loops.values())[list(loops).index(outermost.loop_var) :]


def _is_bound_elsewhere(loop: For, spatial: set[Var], inside: Sequence[For]) -> bool:
    """Whether a loop cannot be repeated before the reduction."""
    repeats = loop.loop_var not in spatial and not (isinstance(loop.extent, IntImm) and loop.extent.value == 1)
    bounds = variables(loop.min) | variables(loop.extent)
    return repeats or loop.kind == "thread_binding" or any(other.loop_var in bounds for other in inside)


def _init_nest(stmt: BlockRealize, init: Stmt, loops: Sequence[For], condition: PrimExpr) -> Stmt:
    fresh = {loop.loop_var: Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops}

    def renamed(expr: PrimExpr) -> PrimExpr:
        return with_values(expr, fresh)

    values = {
        axis.var: renamed(value)
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True)
        if axis.iter_type == "data_par"
    }
    made = _BlocksInline(values, rename=True).stmt(init)
    if not (isinstance(condition, IntImm) and condition.value):
        made = IfThenElse(renamed(condition), made)
    for loop in reversed(loops):
        made = replace(loop, loop_var=fresh[loop.loop_var], body=made)
    return made


class _BlocksInline(Substituter):
    """Blocks of first values as their bodies: what these are substituted with uses loops, which blocks would hide."""

    def visit_realize(self, stmt: BlockRealize) -> Stmt:
        """A block without buffers of its own."""
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            self.values[axis.var] = self.expr(value)
        condition, body = self.expr(stmt.predicate), self.stmt(stmt.block.body)
        return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)


def _has_own_buffers(init: Stmt) -> bool:
    blocks = [stmt.block for stmt in statements(init) if isinstance(stmt, BlockRealize)]
    return any(block.init is not None or block.alloc_buffers or block.match_buffers for block in blocks)


def _is_mixed(predicate: PrimExpr, inside: set[Var], reduced: set[Var]) -> bool:
    """Whether a part of a predicate depends on loops of the reduction and on others in it."""
    found = [variables(part) for part in conjuncts(predicate)]
    return any(part & reduced and not part & inside <= reduced for part in found)


def _begins_at_first_point(stmt: BlockRealize, inside: Sequence[For]) -> bool:
    """Whether the reduction loops begin at the first point of the reduction; otherwise an earlier nest did."""
    first = {loop.loop_var: loop.min for loop in inside}
    analyzer = Analyzer()
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        if axis.iter_type == "comm_reduce" and axis.dom is not None:
            start = with_values(value, first)
            if not analyzer.can_prove_equal(start, axis.dom.min):
                return False
    return True


def _is_alone(init: Stmt, chain: Sequence[For | SeqStmt], outermost: For) -> bool:
    """Whether nothing in the outermost reduction loop writes what `init` reads, nor others touch what it writes."""
    block = next(part.block for part in statements(outermost) if _has_init(part, init))
    read = {part.buffer.data for part in expressions(init) if isinstance(part, BufferLoad)}
    if read & _stored(block.body):
        return False
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
                holds = part is inner or (inner is None and _has_init(part, init))
                if not holds and (written & {buffer.data for buffer in touched(part)} or read & _stored(part)):
                    return False
    return True


def _has_init(stmt: Stmt, init: Stmt) -> TypeGuard[BlockRealize]:
    return isinstance(stmt, BlockRealize) and stmt.block.init is init


def _stored(stmt: Stmt) -> set[Var]:
    """Memory that a statement writes."""
    found = {part.buffer.data for part in statements(stmt) if isinstance(part, BufferStore)}
    for part in statements(stmt):
        if isinstance(part, BlockRealize):
            found |= {region.buffer.data for region in part.block.writes}
            found |= {match.source.buffer.data for match in part.block.match_buffers}
    return found


def touched(stmt: Stmt) -> set[Buffer]:
    """Buffers that a statement reads or writes."""
    found = {part.buffer for part in statements(stmt) if isinstance(part, BufferStore)}
    for part in statements(stmt):
        if isinstance(part, BlockRealize):
            found |= {region.buffer for region in (*part.block.reads, *part.block.writes)}
            found |= {match.source.buffer for match in part.block.match_buffers}
    return found | {part.buffer for part in expressions(stmt) if isinstance(part, BufferLoad)}
