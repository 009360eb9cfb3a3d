"""tensorize: a computation is replaced by the implementation of a tensor intrinsic that describes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from eutectic.arith.analyzer import Analyzer
from eutectic.ir.node import replace
from eutectic.ir.prim_expr import Var
from eutectic.support.errors import ScheduleError
from eutectic.tir.block import Block
from eutectic.tir.buffer import Buffer, MatchBufferRegion
from eutectic.tir.schedule.edit import Edit
from eutectic.tir.schedule.handles import BlockLike, LoopRV
from eutectic.tir.schedule.legality.region_layout import Layouts, names_of_regions, region_at
from eutectic.tir.schedule.legality.site_analyzer import analyzer_for
from eutectic.tir.schedule.legality.tensor_form import body_of, buffers_of, pointers_used, root_of, written_data
from eutectic.tir.schedule.legality.tensor_match import Matcher, MismatchError, Place
from eutectic.tir.schedule.primitive import primitive
from eutectic.tir.schedule.primitives.blockize import blockize
from eutectic.tir.schedule.rewriting.block_copy import BlockCopier
from eutectic.tir.schedule.rewriting.tensor_pattern import pattern_of
from eutectic.tir.schedule.state import BlockSite
from eutectic.tir.schedule.tensor_intrin import TensorIntrin
from eutectic.tir.stmt import For


@primitive
def tensorize(
    edit: Edit, block_or_loop: BlockLike | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """Replace what a block does, or what is under a loop, by the implementation of a tensor intrinsic.

    The body must be what the intrinsic describes, loop by loop and operation by operation, on regions of
    buffers: each index is that of the description, from the beginning of the region on. Operands of sums and products
    of integers may be exchanged. Initial values of a reduction are replaced too when they are described;
    otherwise they stay where they are. Buffers of the implementation become names of the regions.

    Where the intrinsic was registered as one that rounds floats differently, results are not kept bit for bit,
    and where it was registered without being checked it is trusted.

    Args:
        edit: The call.
        block_or_loop: A loop, which is blockized first; or a block around loops and a block, as blockize makes it.
        tensor_intrin: Name of a registered intrinsic.
        preserve_unit_iters: As for blockize.

    Raises:
        ScheduleError: the loop or block is gone, or cannot be blockized; there is no such intrinsic; it computes
            something else; initial values are described of a reduction that goes on elsewhere; what is written
            is a buffer under several names; a region is not laid out as the implementation needs it, or it is
            not proved to be; or the iterations are lanes of vectors.

    before: for i_0: for i_1, k in T.grid(4, 4): C[i_0 * 4 + i_1] = C[i_0 * 4 + i_1] + A[k] * B[i_0 * 4 + i_1, k]
    after tensorize(i_1, "dot_4x4_i8i8s32"):
        for i_0:
            with T.block("C_o"): match_buffer(C[v * 4:v * 4 + 4]), ...; the body of the implementation
    """
    intrin = _intrinsic(edit, tensor_intrin)
    target = blockize.function(edit, block_or_loop, preserve_unit_iters) if isinstance(block_or_loop, LoopRV) else None
    site = edit.block(target if target is not None else _as_block(block_or_loop))
    _require_whole_vectors(edit, site)
    analyzer = _analyzer_inside(site)
    places, init = _places(edit, site, intrin, tensor_intrin, analyzer)
    _require_own_memory(edit, site, intrin, places)
    block = _implementation(edit, site, intrin, places, init, analyzer)
    edit.keeps_results = edit.keeps_results and intrin.exact
    edit.keeps_sums = edit.keeps_sums and intrin.is_checked  # what is trusted cannot be run
    edit.replace(site.function, {site.stmt: replace(site.stmt, block=block)})


def _as_block(block: BlockLike | LoopRV) -> BlockLike:
    assert not isinstance(block, LoopRV)
    return block


def _intrinsic(edit: Edit, name: str) -> TensorIntrin:
    try:
        intrin = TensorIntrin.get(name)
    except ScheduleError as error:
        edit.refuse(None, f"{edit.name}: {error.message}", help=error.help)
    assert intrin is not None
    return intrin


def _require_whole_vectors(edit: Edit, site: BlockSite) -> None:
    for loop in (item for item in site.above if isinstance(item, For)):
        if loop.kind == "vectorized":
            message = f"{edit.name}: iterations of loop {loop.loop_var.name} are lanes of vectors"
            edit.refuse([site, edit.state.index(site.function).loops[loop.loop_var]], message)


def _analyzer_inside(site: BlockSite) -> Analyzer:
    analyzer = analyzer_for(site)
    for axis in site.block.iter_vars:
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)
    return analyzer


# ---- matching


def _places(
    edit: Edit, site: BlockSite, intrin: TensorIntrin, name: str, analyzer: Analyzer
) -> tuple[dict[Buffer, Place], bool]:
    """Where the buffers of the description are, and whether initial values are in it.

    Raises:
        ScheduleError: the block does something else.
    """
    block, pattern = site.block, pattern_of(intrin.desc)
    matcher = Matcher(analyzer)
    try:
        matcher.statement(block.body, pattern.body)
        if pattern.init is not None and block.init is not None:
            matcher.statement(block.init, pattern.init)
    except MismatchError as error:
        message = f"{edit.name}: block {block.name_hint} is not what {name} describes: {error}"
        edit.refuse(site, message, help="split and reorder so that the inner loops are those of the intrinsic")
    if pattern.init is None:
        return matcher.places, False
    if block.init is None:
        message = f"{edit.name}: {name} stores initial values, and block {block.name_hint} does not"
        edit.refuse(site, message, help="use an intrinsic that is described without them")
    for axis in block.iter_vars:
        if axis.iter_type == "comm_reduce" and not (axis.dom is not None and axis.dom.is_point):
            message = (
                f"{edit.name}: {name} stores initial values, and the reduction of block {block.name_hint} goes on over "
                f"axis {axis.var.name}"
            )
            edit.refuse(site, message, help="use an intrinsic that is described without initial values")
    return matcher.places, True


def _require_own_memory(edit: Edit, site: BlockSite, intrin: TensorIntrin, places: Mapping[Buffer, Place]) -> None:
    """What the implementation writes is no other buffer of it: the order of its accesses is its own."""
    written = written_data(intrin.desc)
    names = names_of_regions(site)

    def memory(buffer: Buffer) -> Var:
        while buffer in names:
            buffer = names[buffer].source.buffer
        return buffer.data

    for one, place in places.items():
        for other, elsewhere in places.items():
            if one is not other and one.data in written and memory(place.buffer) is memory(elsewhere.buffer):
                message = (
                    f"{edit.name}: {place.buffer.name} would be both {one.name} and {other.name}, and {one.name} is "
                    "written"
                )
                edit.refuse(site, message, help="an implementation may read elements after it has written others")


def _implementation(
    edit: Edit,
    site: BlockSite,
    intrin: TensorIntrin,
    places: Mapping[Buffer, Place],
    with_init: bool,
    analyzer: Analyzer,
) -> Block:
    """The block with the implementation as its body."""
    block, impl, root = site.block, intrin.impl, root_of(intrin.impl)
    taken = {other.block.name_hint for other in edit.state.index(site.function).blocks}
    copier = BlockCopier({}, partial(_free_name, taken))
    layouts = Layouts(edit, site, analyzer, pointers_used(impl))
    matched: list[MatchBufferRegion] = []
    for own, described in zip(buffers_of(impl), buffers_of(intrin.desc), strict=True):
        place = places[described]
        layouts.require(own, place)
        matched.append(MatchBufferRegion(copier.named(own), region_at(place, own.shape)))
    allocated = [] if root is None else [copier.allocated(buffer) for buffer in root.alloc_buffers]
    matched += [] if root is None else [copier.matched(match) for match in root.match_buffers]
    return replace(
        block,
        body=copier.stmt(body_of(impl)),
        init=None if with_init else block.init,
        alloc_buffers=(*block.alloc_buffers, *allocated),
        match_buffers=(*block.match_buffers, *matched),
    )


def _free_name(taken: set[str], name: str) -> str:
    """A name for a block of the implementation."""
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free)
    return free
