"""One call of a primitive in the making: places of handles, refusals, changes, new handles."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from eutectic.ir.prim_expr import IntImm, Var
from eutectic.support.errors import ScheduleError
from eutectic.support.spelling import did_you_mean
from eutectic.tir.block import Block
from eutectic.tir.function import PrimFunc
from eutectic.tir.schedule.error import excerpt_of
from eutectic.tir.schedule.handles import BlockLike, BlockRV, ExprRV, Handle, Key, LoopRV, block_key
from eutectic.tir.schedule.state import BlockSite, LoopSite, ScheduleState, Site, replaced
from eutectic.tir.stmt import For, Stmt


class Edit:
    """What a primitive works on; the schedule takes it over when the primitive returns.

    Args:
        name: Name of the primitive.
        state: The program.
        bound: What handles stand for.
        function: Name of the function that names of blocks are looked up in.
        rng: Where samples come from.
        level: How much a refusal shows: `detail`, `fast` or `none`.
        relies: Loops that are run at once because their iterations have memory of their own.
    """

    def __init__(
        self,
        name: str,
        state: ScheduleState,
        bound: Mapping[Handle, Key],
        *,
        function: str | None,
        rng: random.Random,
        level: str,
        relies: Iterable[tuple[str, Var]] = (),
    ) -> None:
        self.name = name
        self.state = state
        self.bound: dict[Handle, Key] = dict(bound)
        self.function = function
        self.rng = rng
        self.level = level
        self.relies: set[tuple[str, Var]] = set(relies)
        self.decision: Any = None  # what a sampling primitive chose; the trace keeps it
        self.resolved: dict[str, Any] = {}  # arguments that the trace keeps in place of those given
        self.unsaid: set[str] = set()  # arguments that the trace leaves out: they have their usual values
        self.keeps_results = True  # whether the program computes the same bits; only what was asked for may not
        self.keeps_sums = True  # whether it does so but for the order of additions of floats

    # ---- places

    def loop(self, rv: LoopRV) -> LoopSite:
        """The place of a loop.

        Raises:
            ScheduleError: the handle is not one of this schedule, or the loop is gone.
        """
        name, key = self._key(rv, "loop")
        site = self.state.index(name).loops.get(key)
        if site is None:
            self.refuse(None, f"{self.name}: loop {key.name} is gone", help="ask for the loops of a block again")
        return site

    def block(self, rv: BlockLike) -> BlockSite:
        """The place of a block.

        Raises:
            ScheduleError: the handle is not one of this schedule, the block is gone, or several have its name.
        """
        if isinstance(rv, str):
            return self.named(rv, self.function)
        name, key = self._key(rv, "block")
        sites = self.state.index(name).with_key(key)
        if len(sites) != 1:
            what = "is gone" if not sites else f"is one of {len(sites)} of that name, which have no axes"
            said = key if isinstance(key, str) else f"with axis {key.name}"
            self.refuse(None, f"{self.name}: block {said} {what}", help="get the block again, under a name of its own")
        return sites[0]

    def site(self, rv: BlockRV | LoopRV) -> BlockSite | LoopSite:
        """The place of a block or a loop."""
        return self.loop(rv) if isinstance(rv, LoopRV) else self.block(rv)

    def named(self, name: str, function: str | None) -> BlockSite:
        """The only block of a name in a function."""
        if function is None:
            known = ", ".join(self.state.functions())
            self.refuse(
                None, f"{self.name}: the module has several functions: {known}", help="call work_on(name) first"
            )
        sites = [site for site in self.state.index(function).blocks if site.block.name_hint == name]
        if len(sites) > 1:
            self.refuse(
                sites,
                f"{self.name}: {len(sites)} blocks of {function} are called {name}",
                help="give them names of their own",
            )
        if not sites:
            known_names = [site.block.name_hint for site in self.state.index(function).blocks]
            hint = did_you_mean(name, known_names)
            listed = ", ".join(dict.fromkeys(known_names)) or "none"
            self.refuse(None, f"{self.name}: no block of {function} is called {name}; it has: {listed}", help=hint)
        return sites[0]

    def number(self, value: ExprRV | int) -> int:
        """A number, or what a handle of one stands for."""
        if isinstance(value, ExprRV):
            number = self.bound.get(value)
            if not isinstance(number, int):
                self.refuse(None, f"{self.name}: the number is not one of this schedule")
            return number
        if isinstance(value, IntImm):
            return value.value
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(None, f"{self.name}: expected an integer, got {type(value).__name__}")
        return value

    def _key(self, rv: Any, what: str) -> tuple[str, Any]:
        key = self.bound.get(rv) if isinstance(rv, BlockRV | LoopRV) else None
        if not isinstance(key, tuple) or isinstance(rv, BlockRV) != (what == "block"):
            received = type(rv).__name__
            self.refuse(
                None,
                f"{self.name}: expected a {what} of this schedule, got {received}",
                help=f"such as sch.get_{what}(...)",
            )
        return key

    def free_block_name(self, function: str, name: str) -> str:
        """`name`, with a number when a block of the function has it."""
        taken = {site.block.name_hint for site in self.state.index(function).blocks}
        free, number = name, 0
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        return free

    # ---- refusals

    def refuse(
        self, at: Site | Sequence[Site] | None, message: str, *, notes: Sequence[str] = (), help: str | None = None
    ) -> NoReturn:
        """End the primitive; the schedule stays as it is.

        Args:
            at: Loops and blocks to be underlined, of one function.
            message: The condition that does not hold, with the values in it.
            notes: Further facts.
            help: What would make it legal.

        Raises:
            ScheduleError: always.
        """
        sites = [at] if isinstance(at, Site) else list(at or ())
        excerpt = None
        if sites and self.level == "detail":
            name = sites[0].function
            excerpt = excerpt_of(self.state.function(name), name, [site for site in sites if site.function == name])
        bare = self.level == "none"
        raise ScheduleError(message, at=excerpt, notes=() if bare else notes, help=None if bare else help)

    def require_constant(self, site: LoopSite, why: str) -> int:
        """The extent of a loop, which must be a constant."""
        extent = site.stmt.static_extent
        if extent is None:
            message = f"{self.name}: the extent of loop {site.stmt.loop_var.name} is not a constant, {why}"
            self.refuse(site, message, help="bind the sizes of the function first, or split the loop by a constant")
        return extent

    def require_plain(self, site: LoopSite, kind: str = "serial") -> For:
        """A loop that is serial, or of another kind, and has no annotations."""
        loop = site.stmt
        if loop.kind != kind:
            message = f"{self.name}: loop {loop.loop_var.name} is {loop.kind}, not {kind}"
            self.refuse(site, message, help=f"do it before the loop becomes {loop.kind}")
        if len(loop.annotations):
            keys = ", ".join(loop.annotations.keys())
            message = f"{self.name}: loop {loop.loop_var.name} has annotations: {keys}"
            self.refuse(site, message, help="unannotate it first, and annotate what comes of it")
        return loop

    # ---- changes

    def replace(self, function: str, changes: Mapping[Stmt, Stmt], blocks: Mapping[Block, Block] | None = None) -> None:
        """Put statements in the place of others.

        Loops are known by their variables, blocks by their first axes; a block whose first axis or, without
        axes, name changes must be given in `blocks`, so that handles follow.

        Args:
            function: Name of the function.
            changes: New statement by the one it replaces.
            blocks: New block by the one it replaces.
        """
        func = self.state.function(function)
        self.set_function(function, func.with_body(replaced(func.body, changes, blocks)))
        for old, new in (blocks or {}).items():
            self.follow(function, old, new)

    def set_function(self, name: str, func: PrimFunc) -> None:
        """Put a function in the place of another."""
        self.state = self.state.with_function(name, func)

    def follow(self, function: str, old: Block, new: Block) -> None:
        """Let handles of one block stand for another from here on."""
        before, after = (function, block_key(old)), (function, block_key(new))
        for rv, key in list(self.bound.items()):
            if isinstance(rv, BlockRV) and key == before:
                self.bound[rv] = after

    # ---- new handles

    def loop_rv(self, function: str, loop: For) -> LoopRV:
        """A new handle of a loop of the program."""
        handle = LoopRV()
        self.bound[handle] = (function, loop.loop_var)
        return handle

    def block_rv(self, function: str, block: Block) -> BlockRV:
        """A new handle of a block of the program.

        Raises:
            ScheduleError: there are several blocks of its name, without axes to tell them apart.
        """
        handle = BlockRV()
        self.bound[handle] = (function, block_key(block))
        self.block(handle)
        return handle

    def expr_rv(self, value: int) -> ExprRV:
        """A new handle of a number."""
        handle = ExprRV()
        self.bound[handle] = value
        return handle
