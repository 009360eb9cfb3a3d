"""What a script may leave out, filled in: regions of blocks, and the block around a whole function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import IntImm
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.access import block_access
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Stmt


def complete(func: PrimFunc, root_alloc_buffers: Iterable[Buffer] = ()) -> PrimFunc:
    """Fill in what a script left out.

    A block annotated with `DETECT_ACCESS` gets the regions that its body reads
    (mask 1) and writes (mask 2), innermost blocks first; the annotation goes.
    A function with blocks, or with buffers of its own, gets a block `root` around its body.

    Args:
        func: A function as it was parsed.
        root_alloc_buffers: Buffers allocated in the function outside of any block.

    Returns:
        The completed function, or `func` itself when nothing was left out.

    Raises:
        WellFormedError: regions are left out where they cannot be inferred.
    """
    buffers = tuple(root_alloc_buffers)
    body = rewrite(func.body, _with_regions)
    assert isinstance(body, Stmt)
    if buffers or needs_root(body):
        body = BlockRealize((), IntImm("bool", 1), Block((), (), (), "root", body, alloc_buffers=buffers))
    return func if body is func.body else func.with_body(body)


def needs_root(body: Stmt) -> bool:
    """Whether a function with this body gets a block `root` around it."""
    if isinstance(body, BlockRealize):
        return bool(body.block.iter_vars)
    return any(isinstance(item, BlockRealize) for item in post_order(body))


def _with_regions(item: Node) -> Node | None:
    if not isinstance(item, Block) or DETECT_ACCESS not in item.annotations:
        return None
    mask = int(item.annotations[DETECT_ACCESS])
    changes: dict[str, Any] = {
        "annotations": {key: value for key, value in item.annotations.items() if key != DETECT_ACCESS}
    }
    reads, writes = block_access(item)
    if mask & 1:
        changes["reads"] = reads
    if mask & 2:
        changes["writes"] = writes
    return replace(item, **changes)
