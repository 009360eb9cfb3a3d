"""Which fusion kind a tensor program has, read off its blocks: what each element of the result is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from eutectic.arith import prove_equal
from eutectic.ir.node import Node
from eutectic.ir.op import Op
from eutectic.ir.prim_expr import Add, Call, Cast, IntImm, Mul, PrimExpr, Var
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt

_EFFECTS: Final = frozenset(
    f"tir.{name}" for name in ("ret", "address_of", "tvm_tuple", "tvm_storage_sync", "call_packed", "call_extern")
)


class OpPatternKind(IntEnum):
    """Fusion kinds; of two that meet in one program the larger one counts."""

    ELEMWISE = 0  # an element from the elements at the same place
    BROADCAST = 1  # an element from elements at some of its coordinates
    INJECTIVE = 2  # an element from elements at places computed from its coordinates
    COMM_REDUCE = 3  # an element from a row of elements
    OUT_ELEMWISE_FUSABLE = 4  # anything; the result may be processed element by element
    OPAQUE = 8  # nothing is known


def op_pattern_of(func: PrimFunc) -> OpPatternKind:
    """The fusion kind of a tensor program.

    Args:
        func: Any tensor program; one that is not a row of leaf blocks below a root block is opaque.

    Reference: TVM AnalyzeOpPatternKind, for the kinds; differs in that programs without blocks, with
    nested blocks or with effects are opaque.
    """
    blocks = leaf_blocks(func)
    if not blocks:
        return OpPatternKind.OPAQUE
    outputs = _written_parameters(func, blocks)
    kind = OpPatternKind.ELEMWISE
    for block in blocks:
        block_kind = _block_kind(block)
        if kind is OpPatternKind.COMM_REDUCE and block_kind <= OpPatternKind.INJECTIVE and _writes(block, outputs):
            kind = OpPatternKind.OUT_ELEMWISE_FUSABLE  # such as softmax: a reduction, and elements made from its result
        else:
            kind = max(kind, block_kind)
    return kind


def leaf_blocks(func: PrimFunc) -> list[Block] | None:
    """The blocks below the root block in program order; None when there is anything but blocks under loops."""
    body = root_body(func)
    if body is None:
        return None
    blocks: list[Block] = []
    todo: list[Stmt] = [body]
    while todo:
        match todo.pop():
            case SeqStmt() as item:
                todo.extend(reversed(item.seq))
            case For(kind=kind, body=inner) if kind != "thread_binding":
                todo.append(inner)
            case BlockRealize(block=block) if block.iter_vars:
                blocks.append(block)
            case _:
                return None
    return blocks


def root_body(func: PrimFunc) -> Stmt | None:
    """What is inside the root block; None when the body is no root block."""
    body = func.body
    if not isinstance(body, BlockRealize) or body.block.iter_vars or not body.always_runs:
        return None
    return body.block.body if body.block.init is None and not body.block.match_buffers else None


def copies_only(func: PrimFunc) -> bool:
    """Whether a tensor program moves elements without computing any."""
    blocks = leaf_blocks(func)
    return bool(blocks) and all(
        isinstance(store.value, BufferLoad) for block in blocks or () for store in _stores(block)
    )


def _written_parameters(func: PrimFunc, blocks: Sequence[Block]) -> set[Buffer]:
    written = {store.buffer for block in blocks for store in _stores(block)}
    return written & set(func.buffer_map.values())


def _writes(block: Block, buffers: set[Buffer]) -> bool:
    return any(store.buffer in buffers for store in _stores(block))


def _stores(block: Block) -> Iterator[BufferStore]:
    for item in post_order(block.body, enter=_not_a_buffer):
        if isinstance(item, BufferStore):
            yield item


def _not_a_buffer(item: Node) -> bool:
    return not isinstance(item, Buffer)


def _block_kind(block: Block) -> OpPatternKind:
    store = _only_store(block)
    if store is None or block.match_buffers or block.alloc_buffers:
        return OpPatternKind.OPAQUE
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type == "comm_reduce"}
    spatial = {axis.var for axis in block.iter_vars if axis.iter_type == "data_par"}
    if len(reduced) + len(spatial) < len(block.iter_vars):
        return OpPatternKind.OPAQUE
    loads = [load for load in _loads(block) if load.buffer is not store.buffer]
    own = [load for load in _loads(block) if load.buffer is store.buffer]
    if any(not _same(load.indices, store.indices) for load in own) or (own and not reduced):
        return OpPatternKind.OPAQUE
    if reduced:
        return _reduction_kind(store, loads, reduced)
    kinds = [_access_kind(store, load) for load in loads]
    worst = max(kinds, default=OpPatternKind.ELEMWISE)
    if worst is OpPatternKind.BROADCAST and OpPatternKind.ELEMWISE in kinds:
        return OpPatternKind.ELEMWISE  # x + bias has the shape of x
    return worst


def _only_store(block: Block) -> BufferStore | None:
    """The place that a block writes; None when there are several, or the block does something else too."""
    store: BufferStore | None = None
    for item in post_order(block.body, enter=_not_a_buffer):
        match item:
            case BufferStore():
                same = store is None or (store.buffer is item.buffer and _same(store.indices, item.indices))
                if item.predicate is not None or not same:
                    return None
                store = item
            case LetStmt() | SeqStmt() | IfThenElse():
                pass
            case Stmt():
                return None
            case Call(op=Op(name=name)) if name not in _EFFECTS:
                pass
            case Call() | Var(dtype="handle"):
                return None
    return store


def _loads(block: Block) -> list[BufferLoad]:
    return [item for item in post_order(block.body, enter=_not_a_buffer) if isinstance(item, BufferLoad)]


def _same(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(x is y or structural_equal(x, y) for x, y in zip(a, b, strict=True))


def _vars(exprs: Sequence[PrimExpr]) -> set[Var]:
    return {item for expr in exprs for item in post_order(expr, enter=_not_a_buffer) if isinstance(item, Var)}


def _access_kind(store: BufferStore, load: BufferLoad) -> OpPatternKind:
    """How the place of a load follows from the place of the store."""
    if _same(store.indices, load.indices) and _same_shape(store.buffer, load.buffer):
        return OpPatternKind.ELEMWISE
    if not all(isinstance(index, Var) for index in store.indices) or len(set(store.indices)) < len(store.indices):
        return OpPatternKind.OPAQUE
    return OpPatternKind.BROADCAST if _is_subsequence(load, store) else OpPatternKind.INJECTIVE


def _same_shape(a: Buffer, b: Buffer) -> bool:
    return len(a.shape) == len(b.shape) and all(prove_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def _is_subsequence(load: BufferLoad, store: BufferStore) -> bool:
    """Whether a load takes some of the store's coordinates in their order, each along its whole axis."""
    left = iter(zip(store.indices, store.buffer.shape, strict=True))
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        if isinstance(size, IntImm) and size.value == 1:
            continue
        if not any(index is place and prove_equal(size, extent) for place, extent in left):
            return False
    return True


def _reduction_kind(store: BufferStore, loads: Sequence[BufferLoad], reduced: set[Var]) -> OpPatternKind:
    if _is_multiply_add(store):
        return OpPatternKind.OUT_ELEMWISE_FUSABLE
    indices = [index for load in loads for index in load.indices]
    bare = all(isinstance(index, Var) for index in indices if _vars((index,)) & reduced)
    return OpPatternKind.COMM_REDUCE if bare else OpPatternKind.OUT_ELEMWISE_FUSABLE  # such as pooling


def _is_multiply_add(store: BufferStore) -> bool:
    """Whether the program is like a matrix product: `C += A * B` where elements of A and B are used again."""
    value = store.value
    if not (isinstance(value, Add) and isinstance(value.b, Mul)):
        return False
    if not (isinstance(value.a, BufferLoad) and value.a.buffer is store.buffer):
        return False
    places = {index for index in store.indices if isinstance(index, Var)}
    for factor in (value.b.a, value.b.b):
        while isinstance(factor, Cast):
            factor = factor.value
        if not isinstance(factor, BufferLoad) or not places - _vars(factor.indices):
            return False
    return True
