"""transform_layout: the elements of a buffer change places, by an index map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eutectic.ir.dtype import integer_limits
from eutectic.ir.module import GlobalVar
from eutectic.ir.node import Node, replace
from eutectic.ir.prim_expr import Call, IntImm, PrimExpr, Var, lanes_of
from eutectic.ir.visit import post_order
from eutectic.support.errors import WellFormedError
from eutectic.tir.analysis.accesses import is_opaque
from eutectic.tir.analysis.dependence import context_of
from eutectic.tir.annotation_keys import ALIGNMENT
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, BufferLoad, MatchBufferRegion
from eutectic.tir.function import BufferMap
from eutectic.tir.index_map import IndexMap
from eutectic.tir.index_map_box import MapOnBox
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.error import shown
from eutectic.tir.schedule.handles import BlockLike
from eutectic.tir.schedule.legality.buffers import read_buffer, written_buffer
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.rewriting.layout_padding import Padding, padded, padding_value
from eutectic.tir.schedule.rewriting.layout_rewrite import Relaying, index_map_argument
from eutectic.tir.schedule.state import BlockSite, Site
from eutectic.tir.stmt import AttrStmt, BufferStore, DeclBuffer, Stmt


@dataclass(frozen=True, slots=True)
class _Target:
    """A buffer whose layout is to change.

    Attributes:
        site: The block that was given.
        buffer: The buffer.
        home: Where it exists: the block that allocates it, or the body of the function of which it is a parameter.
        is_parameter: Whether it belongs to the caller.
    """

    site: BlockSite
    buffer: Buffer
    home: Site
    is_parameter: bool


@primitive
def transform_layout(
    edit: Edit,
    block: BlockLike,
    buffer: Sequence[str | int] | str | Buffer,
    index_map: IndexMap | Callable[..., Any],
    pad_value: Any = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store the elements of a buffer elsewhere, and access them there, in all blocks.

    The loops stay as they are; `transform_block_layout` changes those of a block. A layout may have places that no
    element is in. Nothing reads them, so that they hold anything, unless `pad_value` is given.

    The layout of a parameter is a matter between the function and its caller: this step changes the signature, and
    callers must pass arrays in the new layout. What is computed is the same up to that. `debug_mask` does not compare
    results then, as the arguments before and after differ.

    Args:
        edit: The call.
        block: A block that accesses the buffer.
        buffer: `("read", k)` or `("write", k)`: which of the buffers that it reads or writes; or the buffer, or its
            name.
        index_map: A function from the indices of an element to its new ones, such as
            `lambda i, j: (j // 16, i, j % 16)`.
        pad_value: What places without an element hold: a number, or a function of their indices. A block of its own,
            `<buffer>_pad`, stores it before the buffer is used first.
        assume_injective_transform: Taken as TVM does; that no two elements come to one place is proved anyway.

    Raises:
        ScheduleError: the block is gone, or accesses no such buffer; the map has another number of indices, free
            variables, or operations that a trace cannot keep; two elements could come to one place, or one to a
            negative index; the buffer has strides, is accessed by vectors, through a pointer or under another name,
            or is aligned; a parameter fixes a size that no other one does, or other functions call this one; there
            is a value for padding, but the places of the padding are not known, or the buffer is only read.

    before: for i, k: B_global[i, k] = B[i, k]; ... B_global[vk, vj]
    after transform_layout(block, ("read", 1), lambda k, j: (j // 16, k, j % 16)):
            for i, k: B_global[k // 16, i, k % 16] = B[i, k]; ... B_global[vj // 16, vk, vj % 16]
    """
    site = edit.block(block)
    kind, number, chosen = _chosen(edit, site, buffer)
    kept = index_map_argument(edit, site, index_map, len(chosen.shape), f"buffer {chosen.name}")
    edit.resolved.update({"buffer": (kind, number), "index_map": kept})
    target = _target(edit, site, chosen)
    _require_plain_accesses(edit, target)
    space = _space(edit, target, kept)
    assert space.extents is not None
    new = Buffer(chosen.name, space.extents, chosen.dtype, scope=chosen.scope(), data_alignment=chosen.data_alignment)
    padding = None
    if pad_value is not None:
        value, edit.resolved["pad_value"] = padding_value(edit, site, pad_value, new)
        padding = _padding(edit, target, kept, space, value)
    work = Relaying(analyzer_for(target.home), chosen, new, kept)
    try:
        relaid = work.stmt(target.home.stmt)
    except WellFormedError as error:
        edit.refuse(site, f"transform_layout: regions of a block with {chosen.name} are not known: {error.message}")
    if any(item is chosen for item in post_order(relaid)):
        edit.refuse(site, f"transform_layout: buffer {chosen.name} is used in a way that is no access of an element")
    if padding is not None:
        relaid = padded(edit, site, relaid, new, padding)
    _replace_buffer(edit, target, new, relaid)


def _chosen(edit: Edit, site: BlockSite, wanted: Sequence[str | int] | str | Buffer) -> tuple[str, int, Buffer]:
    """`read` or `write`, the number, and the buffer."""
    block = site.block
    if isinstance(wanted, str | Buffer):
        listed = [("read", k, r.buffer) for k, r in enumerate(block.reads)]
        listed += [("write", k, r.buffer) for k, r in enumerate(block.writes)]
        matches = [item for item in listed if wanted is item[2] or wanted == item[2].name]
        if len({item[2] for item in matches}) == 1:
            return matches[0]
        name = wanted if isinstance(wanted, str) else wanted.name
        many = "several buffers" if matches else "no buffer"
        known = ", ".join(dict.fromkeys(item[2].name for item in listed)) or "none"
        edit.refuse(site, f"{edit.name}: block {block.name_hint} accesses {many} called {name}; it accesses: {known}")
    kind, number = (*wanted, None, None)[:2]
    if kind not in ("read", "write") or not isinstance(number, int) or len(wanted) != 2:
        edit.refuse(site, f"{edit.name}: {wanted!r} is no buffer of a block", help='give ("read", 0) or ("write", 0)')
    return str(kind), number, (read_buffer if kind == "read" else written_buffer)(edit, site, number)


def _target(edit: Edit, site: BlockSite, buffer: Buffer) -> _Target:
    func = edit.state.function(site.function)
    owner = next((o for o in edit.state.index(site.function).blocks if buffer in o.block.alloc_buffers), None)
    if owner is not None:
        return _Target(site, buffer, owner, False)
    if not any(item is buffer for item in func.buffers):
        message = f"{edit.name}: buffer {buffer.name} is neither allocated by a block nor a parameter"
        edit.refuse(site, message, help="a buffer declared in another way has a layout that others rely on")
    callers = [var.name_hint for var, caller in edit.state.mod.functions_items() if _calls(caller, site.function)]
    if callers:
        message = f"{edit.name}: {', '.join(callers)} would pass {buffer.name} to {site.function} in the old layout"
        edit.refuse(site, message, help="cache_read or cache_write it, and change the layout of the copy")
    edit.keeps_results = edit.keeps_sums = False  # the arguments of the function are others
    return _Target(site, buffer, Site(site.function, func.body, ()), True)


def _calls(function: Node, name: str) -> bool:
    return any(isinstance(item, GlobalVar) and item.name_hint == name for item in post_order(function))


# ---- what is legal


def _require_plain_accesses(edit: Edit, target: _Target) -> None:
    """Refuse a buffer whose elements are found in another way than by indices."""
    buffer, why = target.buffer, None
    if buffer.strides or buffer.elem_offset is not None or buffer.axis_separators:
        why = "has strides, an offset or axis separators"
    else:
        why = next((said for item in _nodes(target.home.stmt) if (said := _oddity(item, buffer))), None)
    if why is not None:
        message = f"{edit.name}: buffer {buffer.name} {why}"
        edit.refuse(target.site, message, help="its elements must be accessed one by one, by their indices")


def _nodes(root: Stmt) -> Iterator[Node]:
    return post_order(root, enter=lambda item: not isinstance(item, Buffer))


def _oddity(item: Node, buffer: Buffer) -> str | None:
    match item:
        case Buffer() if item is not buffer and item.data is buffer.data:
            return f"has another name, {item.name}"
        case Var() if item is buffer.data:
            return "is used through a pointer"
        case MatchBufferRegion() if item.source.buffer is buffer:
            return f"has another name, {item.buffer.name}"
        case DeclBuffer() | AttrStmt() if getattr(item, "buffer", None) is buffer or getattr(item, "node", 0) is buffer:
            return "is declared or remarked on"
        case Call() if is_opaque(item):
            taken = any(isinstance(arg, BufferLoad) and arg.buffer is buffer for arg in item.args)
            return "is used by a call that may take an address" if taken else None
        case BufferLoad() | BufferStore() if item.buffer is buffer:
            vector = any(lanes_of(index.dtype) > 1 for index in item.indices)
            return "is accessed by vectors" if vector or item.predicate is not None else None
        case Block() if ALIGNMENT in item.annotations:
            numbers = [int(entry[0]) for entry in item.annotations[ALIGNMENT]]
            aligned = any(k < len(item.writes) and item.writes[k].buffer is buffer for k in numbers)
            return "is aligned by storage_align, for the old axes" if aligned else None
    return None


def _space(edit: Edit, target: _Target, kept: IndexMap) -> MapOnBox:
    """The map on the elements of the buffer, proved to be injective."""
    buffer, site = target.buffer, target.site
    above = (*target.home.above, target.home.stmt)
    space = kept.on(buffer.shape, context_of(above))
    said = f"{kept.as_python()} of buffer {buffer.name}, {_listed(buffer.shape)},"
    narrow = _narrowest(space, target, kept)
    if space.extents is None or narrow.extents is None:
        message = f"{edit.name}: {said} is not proved to give indices that are not negative and fit {_dtype(narrow)}"
        edit.refuse(site, message, help="indices must be sums, multiples, quotients and remainders by constants")
    if not space.is_injective:
        message = f"{edit.name}: {said} is not proved to put each element in a place of its own"
        edit.refuse(site, message, help="no two elements may have the same new indices")
    count = 1
    for size in space.extents:
        count *= size.value if isinstance(size, IntImm) else 1
    if count > integer_limits(_dtype(narrow))[1]:
        edit.refuse(site, f"{edit.name}: {said} makes {count} places, which do not fit {_dtype(narrow)}")
    if target.is_parameter:
        _require_sizes(edit, target, space.extents)
    return space


def _dtype(space: MapOnBox) -> str:
    return space.outputs[0].dtype if space.outputs else "int32"


def _narrowest(space: MapOnBox, target: _Target, kept: IndexMap) -> MapOnBox:
    """The map in the narrowest dtype of the indices that the buffer is accessed by."""
    accesses = [i for i in _nodes(target.home.stmt) if isinstance(i, BufferLoad | BufferStore)]
    dtypes = {i.dtype for item in accesses if item.buffer is target.buffer for i in item.indices}
    if "int32" not in dtypes or _dtype(space) == "int32" or space.constant_shape is None:
        return space
    return kept.on([IntImm("int32", size) for size in space.constant_shape], space.assumption)


def _listed(shape: Sequence[PrimExpr]) -> str:
    return "[" + ", ".join(map(shown, shape)) + "]"


def _require_sizes(edit: Edit, target: _Target, extents: Sequence[PrimExpr]) -> None:
    """Each size that is a variable is still the size of an axis of a parameter, where the function finds its value."""
    func = edit.state.function(target.site.function)
    others = [item for item in func.buffers if isinstance(item, Buffer) and item is not target.buffer]
    known_sizes = {size for item in others for size in (*item.shape, *item.strides)} | {*extents, *func.params}
    lost = [size.name for size in target.buffer.shape if isinstance(size, Var) and size not in known_sizes]
    if lost:
        message = f"{edit.name}: only the shape of parameter {target.buffer.name} says what {', '.join(lost)} is"
        edit.refuse(target.site, message, help="cache_read or cache_write it, and change the layout of the copy")


# ---- padding and the new program


def _padding(
    edit: Edit, target: _Target, kept: IndexMap, space: MapOnBox, value: Callable[[Sequence[Var]], PrimExpr]
) -> Padding | None:
    """What padding there is; None when there is none."""
    if space.is_bijective:
        return None
    site, buffer = target.site, target.buffer
    try:
        back = kept.proved_inverse(space)
    except ValueError as error:
        edit.refuse(site, f"{edit.name}: it is not known which places are padding: {error}", help="leave out pad_value")
    accesses = [item for item in _nodes(target.home.stmt) if isinstance(item, BufferStore) and item.buffer is buffer]
    if target.is_parameter and not accesses:
        message = f"{edit.name}: parameter {buffer.name} is only read, so that its padding is what the caller passes"
        edit.refuse(site, message, help="leave out pad_value, or cache_read it and change the layout of the copy")
    variables = tuple(back.initial_indices)
    return Padding(variables, space.outside(variables, back.final_indices), value)


def _replace_buffer(edit: Edit, target: _Target, new: Buffer, relaid: Stmt) -> None:
    name = target.site.function
    if not target.is_parameter:
        edit.replace(name, {target.home.stmt: relaid})
        return
    func = edit.state.function(name)
    pairs = tuple((param, new if b is target.buffer else b) for param, b in func.buffer_map.items())
    edit.set_function(name, replace(func, body=relaid, buffer_map=BufferMap(pairs)))
