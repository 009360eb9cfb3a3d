"""The primitives as methods of schedules: one line each, so that editors and type checkers know them."""

from __future__ import annotations

from eutectic.tir.schedule.primitives import annotate as _annotate
from eutectic.tir.schedule.primitives import block_axes as _block_axes
from eutectic.tir.schedule.primitives import blockize as _blockize
from eutectic.tir.schedule.primitives import cache as _cache
from eutectic.tir.schedule.primitives import cache_inplace as _cache_inplace
from eutectic.tir.schedule.primitives import compute_at as _compute_at
from eutectic.tir.schedule.primitives import compute_inline as _compute_inline
from eutectic.tir.schedule.primitives import decompose_padding as _decompose_padding
from eutectic.tir.schedule.primitives import decompose_reduction as _decompose_reduction
from eutectic.tir.schedule.primitives import fuse as _fuse
from eutectic.tir.schedule.primitives import fuse_reduction_epilogue as _fuse_reduction_epilogue
from eutectic.tir.schedule.primitives import lookup as _lookup
from eutectic.tir.schedule.primitives import loop_join as _loop_join
from eutectic.tir.schedule.primitives import loop_kinds as _loop_kinds
from eutectic.tir.schedule.primitives import loop_partition as _loop_partition
from eutectic.tir.schedule.primitives import merge as _merge
from eutectic.tir.schedule.primitives import pad_einsum as _pad_einsum
from eutectic.tir.schedule.primitives import prefetch as _prefetch
from eutectic.tir.schedule.primitives import reindex as _reindex
from eutectic.tir.schedule.primitives import reorder as _reorder
from eutectic.tir.schedule.primitives import reverse_compute_at as _reverse_compute_at
from eutectic.tir.schedule.primitives import reverse_compute_inline as _reverse_compute_inline
from eutectic.tir.schedule.primitives import rfactor as _rfactor
from eutectic.tir.schedule.primitives import sampling as _sampling
from eutectic.tir.schedule.primitives import set_scope as _set_scope
from eutectic.tir.schedule.primitives import skip_padding as _skip_padding
from eutectic.tir.schedule.primitives import split as _split
from eutectic.tir.schedule.primitives import tensorize as _tensorize
from eutectic.tir.schedule.primitives import transform_block_layout as _transform_block_layout
from eutectic.tir.schedule.primitives import transform_layout as _transform_layout
from eutectic.tir.schedule.primitives import tree_reduce as _tree_reduce


class Primitives:
    """Every primitive; what each does and refuses stands at its function."""

    get_block = _lookup.get_block
    get_loops = _lookup.get_loops
    get_child_blocks = _lookup.get_child_blocks
    get_producers = _lookup.get_producers
    get_consumers = _lookup.get_consumers
    get_output_blocks = _lookup.get_output_blocks
    sample_categorical = _sampling.sample_categorical
    sample_perfect_tile = _sampling.sample_perfect_tile
    add_unit_loop = _block_axes.add_unit_loop
    fuse = _fuse.fuse
    loop_join = _loop_join.loop_join
    loop_partition = _loop_partition.loop_partition
    merge = _merge.merge
    reorder = _reorder.reorder
    reorder_block_iter_var = _block_axes.reorder_block_iter_var
    split = _split.split
    bind = _loop_kinds.bind
    parallel = _loop_kinds.parallel
    unroll = _loop_kinds.unroll
    vectorize = _loop_kinds.vectorize
    annotate = _annotate.annotate
    prefetch = _prefetch.prefetch
    set_scope = _set_scope.set_scope
    storage_align = _annotate.storage_align
    unannotate = _annotate.unannotate
    cache_inplace = _cache_inplace.cache_inplace
    cache_read = _cache.cache_read
    cache_write = _cache.cache_write
    compute_at = _compute_at.compute_at
    compute_inline = _compute_inline.compute_inline
    can_decompose_padding = _decompose_padding.can_decompose_padding
    decompose_padding = _decompose_padding.decompose_padding
    decompose_reduction = _decompose_reduction.decompose_reduction
    fuse_reduction_epilogue = _fuse_reduction_epilogue.fuse_reduction_epilogue
    pad_einsum = _pad_einsum.pad_einsum
    reindex = _reindex.reindex
    can_skip_padding = _skip_padding.can_skip_padding
    padding_share = _skip_padding.padding_share
    skip_padding = _skip_padding.skip_padding
    rfactor = _rfactor.rfactor
    tree_reduce = _tree_reduce.tree_reduce
    blockize = _blockize.blockize
    tensorize = _tensorize.tensorize
    reverse_compute_at = _reverse_compute_at.reverse_compute_at
    reverse_compute_inline = _reverse_compute_inline.reverse_compute_inline
    transform_block_layout = _transform_block_layout.transform_block_layout
    transform_layout = _transform_layout.transform_layout
