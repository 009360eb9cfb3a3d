"""The program of a schedule with the places of its loops and blocks; never changed, only followed by another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from eutectic.ir.module import IRModule
from eutectic.ir.prim_expr import Var
from eutectic.support.errors import InternalError
from eutectic.tir.analysis.index_facts import bodies_of
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.handles import BlockKey, block_key
from eutectic.tir.statement_mutator import StmtMutator
from eutectic.tir.stmt import For, Stmt


@dataclass(frozen=True, slots=True)
class Site:
    """A statement and where it stands.

    Attributes:
        function: Name of the function.
        stmt: The statement.
        above: The statements around it, outermost first.
    """

    function: str
    stmt: Stmt
    above: tuple[Stmt, ...]

    @property
    def scope(self) -> BlockRealize | None:
        """The innermost block around the statement."""
        return next((item for item in reversed(self.above) if isinstance(item, BlockRealize)), None)

    @property
    def within_scope(self) -> tuple[Stmt, ...]:
        """The statements between `scope` and the statement, outermost first."""
        last = max((k for k, item in enumerate(self.above) if isinstance(item, BlockRealize)), default=-1)
        return self.above[last + 1 :]

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops between `scope` and the statement, outermost first."""
        return tuple(item for item in self.within_scope if isinstance(item, For))

    def site_of(self, above: Stmt) -> Site:
        """The place of a statement around this one."""
        place = next((k for k, item in enumerate(self.above) if item is above), None)
        if place is None:
            raise InternalError("a statement is looked for around one that it is not around")
        return Site(self.function, above, self.above[:place])


@dataclass(frozen=True, slots=True)
class LoopSite(Site):
    """The place of a loop."""

    stmt: For


@dataclass(frozen=True, slots=True)
class BlockSite(Site):
    """The place of a block, with the values of its axes."""

    stmt: BlockRealize

    @property
    def block(self) -> Block:
        """The block."""
        return self.stmt.block


@dataclass(frozen=True, slots=True)
class FunctionIndex:
    """The loops and blocks of one function, in the order of the program.

    Attributes:
        loops: By variable.
        blocks: All blocks.
    """

    loops: Mapping[Var, LoopSite]
    blocks: tuple[BlockSite, ...]

    def with_key(self, key: BlockKey) -> tuple[BlockSite, ...]:
        """Blocks known by a key: one, or several of one name without axes."""
        return tuple(site for site in self.blocks if block_key(site.block) is key or _same_name(site.block, key))


def _same_name(block: Block, key: BlockKey) -> bool:
    return isinstance(key, str) and not block.iter_vars and block.name_hint == key


class ScheduleState:
    """One version of the program.

    Args:
        mod: The program; it is not changed by anybody from here on.
    """

    def __init__(self, mod: IRModule, known: Mapping[str, tuple[PrimFunc, FunctionIndex]] | None = None) -> None:
        self.mod = mod
        self._indexed: dict[str, tuple[PrimFunc, FunctionIndex]] = dict(known or {})

    def function(self, name: str) -> PrimFunc:
        """A tensor function by name; whoever asks knows that there is one."""
        func = self.mod[name]
        assert isinstance(func, PrimFunc)
        return func

    def functions(self) -> list[str]:
        """Names of the tensor functions."""
        return [var.name_hint for var, func in self.mod.functions_items() if isinstance(func, PrimFunc)]

    def index(self, name: str) -> FunctionIndex:
        """Loops and blocks of a function."""
        func = self.function(name)
        known = self._indexed.get(name)
        if known is None or known[0] is not func:
            known = self._indexed[name] = (func, _index(name, func.body))
        return known[1]

    def with_function(self, name: str, func: PrimFunc) -> ScheduleState:
        """The state after one function was replaced; what is known of the others is kept."""
        mod = self.mod.clone()
        mod[name] = func
        return ScheduleState(mod, self._indexed)


def _index(name: str, body: Stmt) -> FunctionIndex:
    loops: dict[Var, LoopSite] = {}
    blocks: list[BlockSite] = []
    for stmt, above in walk(body):
        if isinstance(stmt, For):
            loops[stmt.loop_var] = LoopSite(name, stmt, above)
        elif isinstance(stmt, BlockRealize):
            blocks.append(BlockSite(name, stmt, above))
    return FunctionIndex(loops, tuple(blocks))


def walk(root: Stmt) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """Every statement from `root` on in the order of the program, with what is around it up to `root`."""
    stack: list[tuple[Stmt, tuple[Stmt, ...]]] = [(root, ())]
    while stack:
        stmt, above = stack.pop()
        yield stmt, above
        stack.extend((part, (*above, stmt)) for part in reversed(bodies_of(stmt)))


class Replacement(StmtMutator):
    """Replaces statements by others.

    Args:
        changes: New statement by the one it replaces; nothing within a new one is looked at.
        blocks: New block by the one it replaces, with its body and all.
    """

    def __init__(self, changes: Mapping[Stmt, Stmt], blocks: Mapping[Block, Block] | None = None) -> None:
        self.changes = changes
        self.blocks = blocks or {}
        self.met: set[Stmt] = set()

    def stmt(self, stmt: Stmt) -> Stmt:
        """The statement after the replacement."""
        if stmt in self.changes:
            self.met.add(stmt)
            return self.changes[stmt]
        return super().stmt(stmt)

    def block(self, block: Block) -> Block:
        """The block after the replacement."""
        if block in self.blocks:
            self.met.add(block)
            return self.blocks[block]
        return super().block(block)


def replaced(root: Stmt, changes: Mapping[Stmt, Stmt], blocks: Mapping[Block, Block] | None = None) -> Stmt:
    """`root` with statements and blocks replaced; all of them must be there."""
    work = Replacement(changes, blocks)
    new_root = work.stmt(root)
    if len(work.met) != len(changes) + len(blocks or {}):
        raise InternalError("a statement to be replaced is not in the program")
    return new_root
