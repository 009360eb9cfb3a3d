"""Kinds of memory, and which threads share them."""

from __future__ import annotations

import re
from typing import Final

from eutectic.tir.analysis.accesses import Accesses
from eutectic.tir.analysis.private_memory import are_apart
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.state import Site
from eutectic.tir.stmt import For

SCOPES: Final = re.compile(r"(global|shared|local|warp|wmma\.(matrix_a|matrix_b|accumulator)|m16n8k8\.\w+)(\.\w+)?\Z")


def require_scope(edit: Edit, site: Site, scope: str) -> None:
    """Refuse what is no kind of memory."""
    if not SCOPES.match(scope):
        edit.refuse(site, f"{edit.name}: {scope!r} is no scope", help="use global, shared, local, warp or wmma.*")


def require_shared(edit: Edit, site: Site, accesses: Accesses, buffer: Buffer, scope: str) -> None:
    """Refuse memory that threads have each for themselves, for a buffer that several of them access.

    Args:
        edit: The call.
        site: What is underlined.
        accesses: What is accessed where the buffer exists.
        buffer: The buffer.
        scope: Kind of memory that it is to be in.
    """
    for access in accesses.of(buffer.data):
        for loop in (item for item in access.above if isinstance(item, For)):
            bound = loop.thread_binding
            if bound is not None and are_apart(scope, bound.thread_tag):
                known = edit.state.index(site.function).loops.get(loop.loop_var)
                message = (
                    f"{edit.name}: threads of {bound.thread_tag} would not share buffer {buffer.name} in {scope} memory"
                )
                help = "choose the memory before binding, or allocate the buffer within the loop"
                edit.refuse([site, *([] if known is None else [known])], message, help=help)
