"""Tensors one after another in memory: which calls of concat are that, and which tensor programs."""

from __future__ import annotations

from typing import Final

from eutectic.arith import prove_equal
from eutectic.ir.prim_expr import IntImm, PrimExpr
from eutectic.ir.prim_logic import LT
from eutectic.relax.analysis.op_pattern import leaf_blocks
from eutectic.relax.expr import Call, Tuple
from eutectic.relax.struct_info import TensorStructInfo
from eutectic.support.deep import deep
from eutectic.tir.block import Block
from eutectic.tir.buffer import BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import is_if_then_else
from eutectic.tir.stmt import BufferStore

JOINED: Final = "relax.concat"


def are_joined(call: Call) -> bool:
    """Whether a call of concat puts tensors of known sizes one after another in memory, whole.

    Args:
        call: A call of `relax.concat`.
    """
    parts = call.args[0]
    if not isinstance(parts, Tuple) or not isinstance(call.struct_info, TensorStructInfo):
        return False
    infos = [part.struct_info for part in parts.fields]
    sizes = [info.static_shape for info in (call.struct_info, *infos) if isinstance(info, TensorStructInfo)]
    if len(sizes) <= len(infos) or None in sizes or not call.struct_info.dtype:
        return False
    assert call.attrs is not None
    axis, whole = call.attrs["axis"], sizes[0]
    assert whole is not None
    return axis is not None and all(size == 1 for size in whole[: axis % len(whole)])


def concat_axis(func: PrimFunc) -> int | None:
    """Along which axis a tensor program puts its buffers one after another into its last one, in their order.

    Args:
        func: A tensor program.

    Returns:
        The axis, such that all parts lie in memory as they are; None for other programs, and for unknown sizes.
    """
    buffers, blocks = func.buffer_map.values(), leaf_blocks(func)
    if len(buffers) < 3 or blocks is None or len(blocks) != 1 or len(func.params) != len(buffers):
        return None
    *parts, whole = buffers
    store, sizes = _plain_store(blocks[0]), _sizes(whole.shape)
    if store is None or store.buffer is not whole or sizes is None or max(sizes, default=1) == 1:
        return None
    axis = next(i for i, size in enumerate(sizes) if size != 1)
    pieces = _pieces(store.value, store.indices[axis], 0, sizes[axis])
    read = [load.buffer for load, _, _ in pieces if load is not None]
    return axis if read == parts and all(_is_part(*piece, store, axis) for piece in pieces) else None


def _sizes(shape: tuple[PrimExpr, ...]) -> tuple[int, ...] | None:
    sizes = [size.value for size in shape if isinstance(size, IntImm)]
    return tuple(sizes) if len(sizes) == len(shape) else None


def _plain_store(block: Block) -> BufferStore | None:
    """What a block stores at the place that its axes name; None for other blocks."""
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None or block.match_buffers or block.alloc_buffers:
        return None
    axes = [axis.var for axis in block.iter_vars]
    known = store.predicate is None and not store.buffer.strides and store.buffer.elem_offset is None
    return store if known and axes and list(store.indices) == axes else None


@deep
def _pieces(value: PrimExpr, at: PrimExpr, begin: int, end: int) -> list[tuple[BufferLoad | None, int, int]]:
    """What is read between two places of an axis, piece by piece; None for what is not plainly read."""
    if is_if_then_else(value):
        cond, yes, no = value.args
        if isinstance(cond, LT) and cond.a is at and isinstance(cond.b, IntImm) and begin <= cond.b.value <= end:
            return [*_pieces(yes, at, begin, cond.b.value), *_pieces(no, at, cond.b.value, end)]
    return [(value if isinstance(value, BufferLoad) and value.predicate is None else None, begin, end)]


def _is_part(load: BufferLoad | None, begin: int, end: int, store: BufferStore, axis: int) -> bool:
    """Whether a whole buffer is read, each element at the place where it is stored, counted from that of its first."""
    if load is None or load.buffer.strides or load.buffer.elem_offset is not None:
        return False
    sizes = [end - begin if i == axis else size for i, size in enumerate(_sizes(store.buffer.shape) or ())]
    places = [index - begin if i == axis else index for i, index in enumerate(store.indices)]
    is_whole = list(_sizes(load.buffer.shape) or ()) == sizes and load.buffer.dtype == store.buffer.dtype
    return is_whole and all(prove_equal(read, place) for read, place in zip(load.indices, places, strict=True))
