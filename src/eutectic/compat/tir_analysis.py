"""`tvm.tir.analysis`: questions about tensor programs, as TVM asks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from eutectic.compat.stmt_functor import parts
from eutectic.ir.dtype import to_numpy
from eutectic.ir.module import IRModule
from eutectic.ir.node import Node
from eutectic.ir.prim_base import expressed
from eutectic.ir.prim_expr import Call, IntImm, PrimExpr, Var, lanes_of
from eutectic.ir.structural import structural_equal
from eutectic.support.deep import deep
from eutectic.tir.access import block_access
from eutectic.tir.analysis import count_flops
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad, BufferRegion
from eutectic.tir.expr import Let
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import Allocate, BufferStore, DeclBuffer, For, LetStmt, Stmt
from eutectic.tir.transform.convert_ssa import convert_ssa
from eutectic.tir.well_formed import verify_well_formed

__all__ = [
    "assert_pure_function",
    "calculate_allocated_bytes",
    "detect_buffer_access_lca",
    "estimate_tir_flops",
    "expr_deep_equal",
    "find_anchor_block",
    "get_block_read_write_region",
    "is_pure_function",
    "undefined_vars",
    "verify_ssa",
    "verify_well_formed",
]

_WITH_EFFECT: Final = frozenset(
    f"tir.{name}" for name in ("call_packed", "call_extern", "tvm_storage_sync", "assume", "tvm_call_packed")
)


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are the same, with the same objects as variables."""
    return structural_equal(lhs, rhs)


def undefined_vars(node: PrimExpr | Stmt, defs: list[Var] | None = None) -> list[Var]:
    """Variables that a statement or expression uses and does not define, in order of first use.

    Args:
        node: It.
        defs: Variables that count as defined.
    """
    known, free = set(defs or ()), dict[Var, None]()
    _use(expressed(node), known, free)
    return list(free)


@deep
def _use(item: Node, known: set[Var], free: dict[Var, None]) -> None:
    if isinstance(item, Var):
        if item not in known:
            free.setdefault(item)
        return
    inner = known | _bound_by(item)
    if isinstance(item, For | Let | LetStmt | Allocate):
        outside = [part for part in parts(item) if part is not item.body]
        for part in outside:
            _use(part, known, free)
        _use(item.body, inner, free)
        return
    if isinstance(item, BufferLoad | BufferStore):
        _use(item.buffer.data, known, free)
    for part in parts(item):
        _use(part, inner, free)


def _bound_by(item: Node) -> set[Var]:
    match item:
        case For():
            return {item.loop_var}
        case Let() | LetStmt():
            return {item.var}
        case Allocate():
            return {item.buffer_var}
        case DeclBuffer():
            return {item.buffer.data}
        case Block():
            matched = [match.buffer.data for match in item.match_buffers]
            return {axis.var for axis in item.iter_vars} | {b.data for b in item.alloc_buffers} | set(matched)
        case _:
            return set()


def verify_ssa(func: PrimFunc) -> bool:
    """Whether each variable is bound in one place."""
    return convert_ssa(func) is func


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """Memory that programs allocate: for each function the bytes by scope that are in use at the same time.

    Sizes that are not constant are not counted; a function by itself is called `main`.
    """
    if isinstance(func_or_mod, PrimFunc):
        return {"main": _most(func_or_mod.body)}
    return {
        name.name_hint: _most(func.body) for name, func in func_or_mod.functions_items() if isinstance(func, PrimFunc)
    }


@deep
def _most(item: Node) -> dict[str, int]:
    """Bytes by scope: the largest demand of the parts, and what the statement itself allocates."""
    total: dict[str, int] = {}
    for part in parts(item):
        if isinstance(part, Stmt):
            for scope, size in _most(part).items():
                total[scope] = max(total.get(scope, 0), size)
    for scope, size in _allocated(item):
        total[scope] = total.get(scope, 0) + size
    return total


def _allocated(item: Node) -> Iterator[tuple[str, int]]:
    if isinstance(item, Allocate):
        scope = getattr(item.buffer_var.type_annotation, "storage_scope", "") or "global"
        yield scope, _bytes(item.extents, item.dtype)
    if isinstance(item, Block):
        for buffer in item.alloc_buffers:
            yield buffer.scope(), _bytes(buffer.shape, buffer.dtype)


def _bytes(shape: tuple[PrimExpr, ...], dtype: str) -> int:
    count = to_numpy(dtype.split("x", 1)[0] if lanes_of(dtype) > 1 else dtype).itemsize * lanes_of(dtype)
    for size in shape:
        count *= size.value if isinstance(size, IntImm) else 0
    return int(count)


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Stmt | None]:
    """For each buffer the innermost loop or block around all its accesses; None where only the function is."""
    paths: dict[Buffer, tuple[Stmt, ...]] = {}
    _access_paths(func.body, (), paths)
    return {buffer: path[-1] if path else None for buffer, path in paths.items()}


@deep
def _access_paths(item: Node, above: tuple[Stmt, ...], paths: dict[Buffer, tuple[Stmt, ...]]) -> None:
    if isinstance(item, BufferLoad | BufferStore):
        before = paths.get(item.buffer, above)
        shared = [a for a, b in zip(before, above, strict=False) if a is b]
        paths[item.buffer] = tuple(shared)
    inner = (*above, item) if isinstance(item, For | Block) else above
    for part in parts(item):
        _access_paths(part, inner, paths)


def estimate_tir_flops(stmt_or_mod: Stmt | PrimFunc | IRModule) -> float:
    """Floating-point operations of one run; see `eutectic.tir.analysis.count_flops`."""
    item = PrimFunc((), stmt_or_mod) if isinstance(stmt_or_mod, Stmt) else stmt_or_mod
    return float(count_flops(item))


def find_anchor_block(mod: IRModule) -> Block | None:
    """The reduction with the most floating-point operations of a module with one function; None without reductions."""
    (func,) = [func for _, func in mod.functions_items() if isinstance(func, PrimFunc)]
    best: tuple[float, Block] | None = None
    for block, work in _reductions(func.body, 1):
        if best is None or work > best[0]:
            best = work, block
    return None if best is None else best[1]


@deep
def _reductions(item: Node, times: int) -> list[tuple[Block, float]]:
    extent = item.extent.value if isinstance(item, For) and isinstance(item.extent, IntImm) else 1
    if isinstance(item, Block) and item.init is not None:
        return [(item, times * estimate_tir_flops(item.body))]
    return [pair for part in parts(item) if isinstance(part, Stmt) for pair in _reductions(part, times * extent)]


def get_block_read_write_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> list[list[BufferRegion]]:
    """Regions that the body of a block reads and writes, whatever the block states.

    Args:
        block: The block.
        buffer_var_map: Accepted as TVM does; accesses name their buffers.

    Raises:
        WellFormedError: the block uses a buffer through its pointer.
    """
    reads, writes = block_access(block)
    return [list(reads), list(writes)]


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function changes nothing that its caller sees: no parameter is written, nothing with effects called."""
    return not list(_effects(func))


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function.

    Raises:
        ValueError: it is not; the message names what it does.
    """
    for effect in _effects(func):
        raise ValueError(f"the function is not pure: it {effect}")
    return True


def _effects(func: PrimFunc) -> Iterator[str]:
    outside = {buffer.data for buffer in func.buffer_map.values()} | set(func.params)
    stack: list[Any] = [func.body]
    while stack:
        item = stack.pop()
        if isinstance(item, BufferStore) and item.buffer.data in outside:
            yield f"writes to {item.buffer.name}"
        if isinstance(item, Call) and getattr(item.op, "name", "") in _WITH_EFFECT:
            yield f"calls {getattr(item.op, 'name', '')}"
        stack += parts(item)
