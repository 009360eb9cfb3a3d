"""Initial values of reductions in the reference interpreter: decided at every point, from the definition alone.

`tir.analysis.first_points` states the definition, and lowering places initial values by proofs about whole loops. Here
it is executed: a loop of the reduction forgets what has begun when it is entered, and each iteration of the loops
around a block looks whether an instance begins there that has not begun yet. Nothing is shared with lowering, so that
each of the two is a test of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.ir.prim_expr import And, Call, PrimExpr, Var
from eutectic.ir.visit import post_order
from eutectic.support.deep import deep
from eutectic.tir.block import BlockRealize
from eutectic.tir.interpret.machine import Code, Compiler, Env, Step
from eutectic.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)


class Beginning:
    """Whether an instance of a reduction begins at the point where the program is.

    Args:
        compiler: Makes functions of expressions.
        stmt: A block with an `init`.
        loops: The loops around it within the same outer block, outermost first.
    """

    def __init__(self, compiler: Compiler, stmt: BlockRealize, loops: Sequence[For]) -> None:
        self.stmt = stmt
        self.reduced = reduction_loops(stmt, loops)
        over = {loop.loop_var for loop in self.reduced}
        inside = list(loops[loops.index(self.reduced[0]) :]) if self.reduced else []
        self.instance = [loop.loop_var for loop in inside if loop.loop_var not in over]
        self.begun: set[tuple[int, ...]] = set()
        self.guards = [compiler.code(part) for part in _parts(stmt.predicate) if not _variables(part) & over]
        self.reduced_axes: list[tuple[Code, Code]] = []
        self.spatial_axes: list[tuple[Code, Code, Code]] = []
        for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
            if axis.dom is None:
                continue
            low, extent = compiler.codes((axis.dom.min, axis.dom.extent))
            if axis.iter_type == "comm_reduce":
                self.reduced_axes.append((compiler.code(value), low))
            else:
                self.spatial_axes.append((compiler.code(value), low, extent))

    def here(self, env: Env) -> bool:
        """Whether an instance begins at this point; it then counts as begun."""
        for guard in self.guards:
            if not guard(env):
                return False
        for value, low in self.reduced_axes:
            if value(env) != low(env):
                return False
        for value, low, extent in self.spatial_axes:
            first = low(env)
            if not first <= value(env) < first + extent(env):
                return False
        if self.reduced:
            instance = tuple(env[var] for var in self.instance)
            if instance in self.begun:
                return False
            self.begun.add(instance)
        return True


def reduction_loops(stmt: BlockRealize, loops: Sequence[For]) -> list[For]:
    """The loops that values of reduced axes use, and those of spatial axes do not."""
    used: set[Var] = set()
    spatial: set[Var] = set()
    for axis, value in zip(stmt.block.iter_vars, stmt.iter_values, strict=True):
        if axis.iter_type == "comm_reduce":
            used |= _variables(value)
        elif axis.iter_type == "data_par":
            spatial |= _variables(value)
    return [loop for loop in loops if loop.loop_var in used - spatial]


@deep
def blocks_in_scope(stmt: Stmt, loops: Sequence[For] = ()) -> list[tuple[BlockRealize, tuple[For, ...], bool]]:
    """Blocks in a statement, but not those within others.

    Returns:
        Each block with the loops around it, and whether there are but loops and sequences around it.
    """
    match stmt:
        case BlockRealize():
            return [(stmt, tuple(loops), True)]
        case For():
            return blocks_in_scope(stmt.body, (*loops, stmt))
        case SeqStmt():
            return [entry for part in stmt.seq for entry in blocks_in_scope(part, loops)]
        case IfThenElse():
            branches = [stmt.then_case, *([] if stmt.else_case is None else [stmt.else_case])]
            return [(*entry[:2], False) for part in branches for entry in blocks_in_scope(part, loops)]
        case LetStmt() | Allocate() | DeclBuffer() | AssertStmt() | AttrStmt() | While():
            return [(*entry[:2], False) for entry in blocks_in_scope(stmt.body, loops)]
        case _:
            return []


def without_iterations(compiler: Compiler, loop: For, inside: Sequence[For], begin: Beginning, run: Step) -> Step:
    """What a loop of a reduction that has no iterations does: instances begin as if it had its first one.

    Args:
        compiler: Makes functions of expressions.
        loop: The loop.
        inside: The loops in it around the block, outermost first.
        begin: When instances of the block begin.
        run: Stores the initial values.
    """

    def at_block(env: Env) -> None:
        if begin.here(env):
            run(env)

    step: Step = at_block
    for item in reversed((loop, *inside)):
        step = _through(compiler, item, item in begin.reduced, step)
    return step


def _through(compiler: Compiler, loop: For, once: bool, body: Step) -> Step:
    var, (low, extent) = loop.loop_var, compiler.codes((loop.min, loop.extent))

    def run(env: Env) -> None:
        first = low(env)
        for value in range(first, first + (1 if once else extent(env))):
            env[var] = value
            body(env)
        env.pop(var, None)

    return run


@deep
def _parts(condition: PrimExpr) -> list[PrimExpr]:
    """The conditions that hold together."""
    if isinstance(condition, And):
        return [*_parts(condition.a), *_parts(condition.b)]
    if isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely":
        return _parts(condition.args[0])
    return [condition]


def _variables(expr: PrimExpr) -> set[Var]:
    return {item for item in post_order(expr) if isinstance(item, Var)}
