"""annotate, unannotate, storage_align: hints on loops and blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eutectic.ir.attrs import DictAttrs, drop_attr, merge_attrs
from eutectic.ir.node import replace
from eutectic.support.spelling import did_you_mean
from eutectic.tir.annotation_keys import ALIGNMENT, objection
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, BlockRV, ExprRV, LoopRV
from eutectic.tir.schedule.legality.buffers import written_buffer
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.state import BlockSite, LoopSite


@primitive
def annotate(edit: Edit, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
    """Put a hint on a loop or block; hints do not change what is computed.

    Args:
        edit: The call.
        block_or_loop: The loop or block.
        ann_key: A key of `annotation_keys.KEYS`, or one that begins with `user.`; what was there is replaced.
        ann_val: What the key takes; for keys of users a number, a string, a handle of a number, or lists and
            string-keyed dicts of these.

    Raises:
        ScheduleError: the loop or block is gone; the key is not known, or is one of the other kind of statement; or
            the value is none that it takes.
    """
    site = edit.site(block_or_loop)
    value = _plain(edit, ann_val)
    problem = objection(ann_key, value, "block" if isinstance(site, BlockSite) else "loop")
    if problem is not None:
        edit.refuse(site, f"annotate: {problem.message}", help=problem.help)
    _set_annotations(edit, site, merge_attrs(_annotations(site), {ann_key: value}))


@primitive
def unannotate(edit: Edit, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """Take a hint from a loop or block.

    Args:
        edit: The call.
        block_or_loop: The loop or block.
        ann_key: The key.

    Raises:
        ScheduleError: the loop or block is gone, or has no such hint.
    """
    site = edit.site(block_or_loop)
    hints = _annotations(site)
    if ann_key not in hints:
        keys = ", ".join(hints.keys()) or "none"
        edit.refuse(
            site,
            f"unannotate: there is no annotation {ann_key}; there are: {keys}",
            help=did_you_mean(ann_key, hints.keys()),
        )
    _set_annotations(edit, site, drop_attr(hints, ann_key))


@primitive
def storage_align(edit: Edit, block: BlockLike, buffer_index: int, axis: int, factor: int, offset: int) -> None:
    """Ask for strides of a buffer with `stride % factor == offset` along one axis.

    Args:
        edit: The call.
        block: A block that writes the buffer.
        buffer_index: Which of the buffers that it writes.
        axis: Axis of the buffer; negative ones count from the last.
        factor: Multiple.
        offset: Distance from the multiple.

    Raises:
        ScheduleError: the block is gone or has no such buffer or axis; the buffer is not allocated in the function,
            or has strides of its own; or the factor is not positive.
    """
    site = edit.block(block)
    buffer = written_buffer(edit, site, buffer_index)
    rank = len(buffer.shape)
    if not -rank <= axis < rank:
        edit.refuse(site, f"storage_align: buffer {buffer.name} of {rank} axes has no axis {axis}")
    if factor <= 0:
        edit.refuse(site, f"storage_align: factor {factor} is not positive")
    if not any(buffer in other.block.alloc_buffers for other in edit.state.index(site.function).blocks):
        edit.refuse(
            site,
            f"storage_align: buffer {buffer.name} belongs to the caller, who has chosen its strides",
            help="cache_write it first, and align the cache",
        )
    if buffer.strides:
        message = f"storage_align: buffer {buffer.name} has strides of its own, which lowering keeps"
        edit.refuse(site, message, help="cache_write it first, and align the cache")
    hints = _annotations(site)
    wanted = (buffer_index, axis % rank, factor, offset)
    listed = tuple(item for item in hints.get(ALIGNMENT, ()) if tuple(item[:2]) != wanted[:2])
    _set_annotations(edit, site, merge_attrs(hints, {ALIGNMENT: (*listed, wanted)}))


def _annotations(site: BlockSite | LoopSite) -> DictAttrs:
    return site.block.annotations if isinstance(site, BlockSite) else site.stmt.annotations


def _set_annotations(edit: Edit, site: BlockSite | LoopSite, annotations: DictAttrs) -> None:
    if isinstance(site, BlockSite):
        edit.replace(site.function, {}, {site.block: replace(site.block, annotations=annotations)})
    else:
        edit.replace(site.function, {site.stmt: replace(site.stmt, annotations=annotations)})


def _plain(edit: Edit, value: Any) -> Any:
    if isinstance(value, ExprRV):
        return edit.number(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(edit, item) for item in value)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(edit, item) for key, item in value.items()}
    if not isinstance(value, str | int | float | bool):
        kind = type(value).__name__
        edit.refuse(None, f"annotate: a {kind} cannot be an annotation", help="give numbers and strings")
    return value
