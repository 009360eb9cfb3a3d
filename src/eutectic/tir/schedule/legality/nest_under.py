"""A block with loops around it that have nothing else in them, as blockize and tensorize take it."""

from __future__ import annotations

from dataclasses import dataclass

from eutectic.ir.prim_expr import PrimExpr, Var
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite, LoopSite, Site
from eutectic.tir.statement_mutator import rewrite_expr
from eutectic.tir.stmt import For, Stmt


@dataclass(frozen=True, slots=True)
class Nest:
    """A block under loops.

    Attributes:
        site: The block.
        loops: The loops, outermost first; each is all that is in the one before, and the block in the last.
    """

    site: BlockSite
    loops: tuple[For, ...]

    @property
    def top(self) -> Stmt:
        """The whole of it."""
        return self.loops[0] if self.loops else self.site.stmt

    @property
    def above(self) -> tuple[Stmt, ...]:
        """The statements around it."""
        return self.site.above[: len(self.site.above) - len(self.loops)]

    @property
    def top_site(self) -> Site:
        """The place of the whole."""
        return Site(self.site.function, self.top, self.above)

    @property
    def inside(self) -> set[Var]:
        """Variables of its loops."""
        return {loop.loop_var for loop in self.loops}

    @property
    def outside(self) -> set[Var]:
        """Variables of loops around it."""
        return {item.loop_var for item in self.above if isinstance(item, For)}

    @property
    def first_iteration(self) -> dict[Var, PrimExpr]:
        """The first value of each loop."""
        first: dict[Var, PrimExpr] = {}
        for loop in self.loops:
            first[loop.loop_var] = rewrite_expr(loop.min, lambda i: first.get(i) if isinstance(i, Var) else None)
        return first

    def loop_site(self, edit: Edit, loop: For | Var) -> LoopSite:
        """The place of a loop around the block."""
        var = loop.loop_var if isinstance(loop, For) else loop
        return edit.state.index(self.site.function).loops[var]


def nest_of_block(site: BlockSite) -> Nest:
    """A block alone."""
    return Nest(site, ())


def nest_under_loop(edit: Edit, site: LoopSite) -> Nest:
    """The loops and the block from a loop on.

    Raises:
        ScheduleError: there is something else under the loop.
    """
    loops: list[For] = []
    above: list[Stmt] = list(site.above)
    stmt: Stmt = site.stmt
    while isinstance(stmt, For):
        loops.append(stmt)
        above.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize):
        message = f"{edit.name}: there is more than loops and one block under loop {site.stmt.loop_var.name}"
        edit.refuse(site, message, help="give the blocks instead, or choose an inner loop")
    return Nest(BlockSite(site.function, stmt, tuple(above)), tuple(loops))
