"""A stage within a schedule: its loops by span, in the order of the spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eutectic.ir.prim_expr import Var
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.block import Block, BlockRealize
from eutectic.tir.buffer import Buffer
from eutectic.tir.schedule.handles import BlockRV, LoopRV
from eutectic.tir.schedule.rules.walk import Span, Walk
from eutectic.tir.schedule.schedule import Schedule
from eutectic.tir.stmt import For


class Nest:
    """The loops of one stage, from the outermost on: shared ones, those of one iteration, and one for each span.

    Args:
        sch: The schedule, in which the loops of the stage are as they were when it was read.
        walk: The stage.

    Attributes:
        block: Name of the block that computes the stage.
        shared: Loops over the axes that it shares with others.
        units: Loops of one iteration.
        reduce_units: Those of them that the reduction runs over.
        loops: The loop of each span.
    """

    def __init__(self, sch: Schedule, walk: Walk) -> None:
        self.sch, self.walk, self.block = sch, walk, walk.stage.name
        stage = walk.stage
        loops = loops_by_variable(sch, self.block)
        self.shared = [loops[axis.loop] for axis in walk.shared]
        self.units = [loops[var] for var in stage.units if var in loops]
        axes = [loops[axis.loop] for span in walk.spatial for axis in span.axes]
        terms = [loops[axis.loop] for span in walk.reduce for axis in span.axes]
        self.reduce_units = [loops[var] for var in stage.reduce_units]
        reorder(sch, [*self.shared, *self.units, *axes, *self.reduce_units, *terms])
        self.loops = {span: self._one(span, loops) for span in (*walk.spatial, *walk.reduce)}

    def _one(self, span: Span, loops: Mapping[Var, LoopRV]) -> LoopRV:
        parts = [loops[axis.loop] for axis in span.axes]
        return parts[0] if len(parts) == 1 else self.sch.fuse(*parts)

    @property
    def innermost_shared(self) -> dict[str, LoopRV]:
        """For each nest of the stage, by a block in it, the innermost loop over shared axes."""
        return {self.block: self.shared[-1]}

    def of(self, spans: Sequence[Span]) -> list[LoopRV]:
        """The loops of spans."""
        return [self.loops[span] for span in spans]


def blocks_in_root(sch: Schedule) -> Sequence[BlockRV]:
    """The blocks in the root of the function."""
    root = sch.func.body
    assert isinstance(root, BlockRealize)
    return sch.get_child_blocks(sch.get_block(root.block.name_hint))


def loops_by_variable(sch: Schedule, block: str) -> dict[Var, LoopRV]:
    """The loops around a block, outermost first."""
    loops: dict[Var, LoopRV] = {}
    for rv in sch.get_loops(block):
        loops[variable_of(sch, rv)] = rv
    return loops


def variable_of(sch: Schedule, rv: LoopRV) -> Var:
    """The variable of a loop."""
    loop = sch.get(rv)
    assert isinstance(loop, For)
    return loop.loop_var


def reorder(sch: Schedule, wanted: Sequence[LoopRV]) -> None:
    """Bring loops of one nest into an order, unless they are in it."""
    if len(wanted) < 2:
        return
    variables = []
    for rv in wanted:
        loop = sch.get(rv)
        assert isinstance(loop, For)
        variables.append(loop)
    inner, outer = variables[-1], variables[0]
    line: list[For] = []
    at = outer
    while isinstance(at, For):
        line.append(at)
        if at is inner:
            break
        at = at.body  # type: ignore[assignment]  # the loop ends it when it is no loop
    if [item for item in line if any(item is loop for loop in variables)] != variables:
        sch.reorder(*wanted)


@dataclass(frozen=True)
class Tiles:
    """A loop cut into tiles of a width, and a narrower one for what remains.

    Attributes:
        outside: Loops over tiles that follow each other: over whole ones, and over the remainder.
        inside: The loop over the iterations of a tile in each of them.
    """

    outside: tuple[LoopRV, ...]
    inside: tuple[LoopRV, ...]


def tiles(nest: Nest, loop: LoopRV, span: Span, width: int, inner: Sequence[LoopRV] = ()) -> Tiles:
    """Cut a loop into tiles.

    Args:
        nest: The nest.
        loop: Its loop, which gets inside of all others.
        span: What the loop runs over.
        width: Iterations of a tile.
        inner: Loops that come between the tiles and their iterations.
    """
    sch, size = nest.sch, span.size
    if size is not None and size <= width:
        reorder(sch, [*inner, loop])
        return Tiles((), (loop,))
    outer, lanes = sch.split(loop, [None, width])
    reorder(sch, [outer, *inner, lanes])
    parts, blocks = whole_and_rest(sch, outer, nest.block)
    return Tiles(tuple(parts), tuple(sch.get_loops(block)[-1] for block in blocks))


def whole_and_rest(sch: Schedule, outer: LoopRV, block: str) -> tuple[Sequence[LoopRV], Sequence[str]]:
    """A loop over tiles as one over whole ones and one over the rest, if there is any, and the block in each."""
    parts = [outer] if has_no_remainder(sch, block, outer) else sch.loop_partition(outer, ["whole", None])
    return parts, [name for (name,) in copies(sch, parts, block)]


def has_no_remainder(sch: Schedule, block: str, outer: LoopRV) -> bool:
    """Whether a block runs in every iteration of a loop alike, as it does when all tiles of the loop are whole."""
    return variable_of(sch, outer) not in variables(realize_of(sch, block).predicate)


def realize_of(sch: Schedule, block: str) -> BlockRealize:
    """A block with the values of its axes."""
    stmt = sch.get_sref(sch.get_block(block)).stmt
    assert isinstance(stmt, BlockRealize)
    return stmt


def number_of_read(sch: Schedule, block: str, buffer: Buffer) -> int:
    """Which of the buffers that a block reads one of them is, as primitives count them."""
    return next(k for k, region in enumerate(realize_of(sch, block).block.reads) if region.buffer is buffer)


def copies(sch: Schedule, loops: Sequence[LoopRV], *blocks: str) -> list[tuple[str, ...]]:
    """Names of blocks in each of the loops that a loop was partitioned into.

    Args:
        sch: The schedule.
        loops: The loops, of which the first one has the blocks under their names, and the others have copies.
        blocks: The names.
    """
    inside = [[block_name(sch, rv) for rv in sch.get_child_blocks(loop)] for loop in loops]
    places = [inside[0].index(block) for block in blocks]
    return [tuple(names[place] for place in places) for names in inside]


def pair_parts(
    sch: Schedule, pair: tuple[str, str], place: int, factors: Sequence[int | str | None]
) -> list[tuple[str, str]]:
    """Two blocks of one nest in each part of the loop within so many others, as `loop_partition` cuts it."""
    parts = sch.loop_partition(sch.get_loops(pair[1])[place], list(factors))
    return [(first, second) for first, second in copies(sch, parts, *pair)]


def block_name(sch: Schedule, rv: BlockRV) -> str:
    """Name of a block."""
    block = sch.get(rv)
    assert isinstance(block, Block)
    return block.name_hint


def with_iterations(sch: Schedule, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """Those of the loops that have more than one iteration."""
    statements = [(rv, sch.get(rv)) for rv in loops]
    return [rv for rv, loop in statements if isinstance(loop, For) and loop.static_extent != 1]


def has_constant_extent(sch: Schedule, rv: LoopRV) -> bool:
    """Whether it is known how many iterations a loop has."""
    loop = sch.get(rv)
    return isinstance(loop, For) and loop.static_extent is not None


def in_registers(sch: Schedule, block: str, count: int) -> None:
    """Write out the innermost loops around a block, the last one as a vector."""
    *unrolled, lanes = sch.get_loops(block)[-count:]
    for loop in unrolled:
        sch.unroll(loop)
    sch.vectorize(lanes)


def in_registers_within(sch: Schedule, block: str, depth: int) -> None:
    """The same for all loops within so many others: blocks of a nest may differ in loops of one iteration."""
    in_registers(sch, block, len(sch.get_loops(block)) - depth)


def run_by_threads(sch: Schedule, loops: Sequence[LoopRV]) -> None:
    """Let threads share loops, each of which is all that is in the one before."""
    for loop in loops:  # one by one: how far their iterations are apart is seen best before they are one
        sch.parallel(loop)
    if len(loops) > 1:
        sch.fuse(*loops)


def joined(sch: Schedule, loops: Sequence[LoopRV]) -> list[LoopRV]:
    """Loops that follow each other as one, which threads can share."""
    return [sch.loop_join(*loops)] if len(loops) > 1 else list(loops)
