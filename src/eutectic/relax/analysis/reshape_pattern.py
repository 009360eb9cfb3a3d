"""Whether a tensor program is a reshape: the same elements in the same order, under another shape."""

from __future__ import annotations

from collections.abc import Iterable

from eutectic.arith import Analyzer
from eutectic.ir.node import Node
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, mul
from eutectic.ir.visit import rewrite
from eutectic.relax.analysis.op_pattern import leaf_blocks
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import Range
from eutectic.tir.stmt import BufferStore


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a tensor program copies its first buffer to its last one in row-major order.

    It may do so in several steps. That each element keeps its place is proved from the indices; False
    says only that it was not proved.

    Args:
        func: A tensor program; parameters that are no buffers do not matter.

    Reference: TVM `relax.analysis.has_reshape_pattern`, which takes programs of one block only.
    """
    buffers = func.buffer_map.values()
    blocks = leaf_blocks(func)
    if len(buffers) != 2 or not blocks or buffers[0].dtype != buffers[1].dtype:
        return False
    copies = {buffers[0]}
    for block in blocks:
        target = _copied_in_order(block, copies)
        if target is None or target in copies:
            return False
        copies.add(target)
    return buffers[1] in copies


def _copied_in_order(block: Block, sources: set[Buffer]) -> Buffer | None:
    """The buffer into which a block copies one of `sources` in order; None when it does something else."""
    store = block.body
    if not isinstance(store, BufferStore) or block.init is not None or block.match_buffers or block.alloc_buffers:
        return None
    load = store.value
    if not isinstance(load, BufferLoad) or load.buffer not in sources or store.predicate is not None:
        return None
    if load.predicate is not None or not all(_is_compact(buffer) for buffer in (store.buffer, load.buffer)):
        return None
    facts, wide = Analyzer(), _Wide()
    for axis in block.iter_vars:
        if axis.iter_type != "data_par" or axis.dom is None:
            return None
        facts.bind(wide.var(axis.var), Range(min=wide(axis.dom.min), extent=wide(axis.dom.extent)))
    same = facts.can_prove_equal(
        _place(map(wide, store.indices), map(wide, store.buffer.shape)),
        _place(map(wide, load.indices), map(wide, load.buffer.shape)),
    ) and facts.can_prove_equal(_count(map(wide, store.buffer.shape)), _count(map(wide, load.buffer.shape)))
    return store.buffer if same else None


class _Wide:
    """Index expressions in int64, so that those of several dtypes can be compared."""

    def __init__(self) -> None:
        self._vars: dict[Var, Var] = {}

    def var(self, var: Var) -> Var:
        if var.dtype == "int64" or not var.dtype.startswith("int"):
            return var
        return self._vars.setdefault(var, type(var)(var.name, "int64"))

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        rewritten = rewrite(expr, self._leaf)
        assert isinstance(rewritten, PrimExpr)
        return rewritten if rewritten.dtype == "int64" else rewritten.astype("int64")

    def _leaf(self, item: Node) -> Node | None:
        if isinstance(item, Var):
            return self.var(item)
        return IntImm("int64", item.value) if isinstance(item, IntImm) and item.dtype.startswith("int") else None


def _is_compact(buffer: Buffer) -> bool:
    return not buffer.strides and buffer.elem_offset is None


def _place(indices: Iterable[PrimExpr], shape: Iterable[PrimExpr]) -> PrimExpr:
    """Number of an element in row-major order."""
    place: PrimExpr = IntImm("int64", 0)
    for index, size in zip(indices, shape, strict=True):
        place = add(mul(place, size), index)
    return place


def _count(shape: Iterable[PrimExpr]) -> PrimExpr:
    count: PrimExpr = IntImm("int64", 1)
    for size in shape:
        count = mul(count, size)
    return count
