"""Refusals that several primitives share: dependences in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from eutectic.tir.analysis.dependence import Conflict
from eutectic.tir.block import BlockRealize
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import BlockSite, Site, walk
from eutectic.tir.stmt import Stmt


def refuse_conflict(
    edit: Edit, sites: Sequence[Site], conflict: Conflict | Stmt, message: str, *, help: str | None = None
) -> NoReturn:
    """Refuse because of a dependence, with the blocks that it is between underlined."""
    function = sites[0].function
    if isinstance(conflict, Conflict):
        blocks = [_block_of(edit, function, access.stmt) for access in (conflict.first, conflict.second)]
        reason = conflict.said()
    else:
        blocks = [_block_of(edit, function, conflict)]
        reason = "what a statement accesses is not known: it has effects, uses a pointer, or repeats under a condition"
    marked = [*sites, *(block for block in blocks if block is not None)]
    edit.refuse(marked, f"{message}: {reason}", help=help)


def _block_of(edit: Edit, function: str, stmt: Stmt) -> BlockSite | None:
    """The innermost block around a statement."""
    innermost = None
    for site in edit.state.index(function).blocks:
        if site.block.iter_vars and _holds(site.stmt, stmt):
            innermost = site
    return innermost


def _holds(block: BlockRealize, stmt: Stmt) -> bool:
    return any(item is stmt for item, _ in walk(block))
