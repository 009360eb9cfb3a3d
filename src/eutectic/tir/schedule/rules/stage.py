"""What a tensor program computes, stage by stage: the form that the default schedules work on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.ir.node import Node
from eutectic.ir.prim_expr import Cast, IntImm, PrimExpr, Var
from eutectic.ir.visit import post_order, rewrite
from eutectic.tir.analysis.example_sizes import size_in_example
from eutectic.tir.analysis.linear import linear
from eutectic.tir.block import TERMS_OF_SUM, Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.function_attributes import example_sizes
from eutectic.tir.statement_mutator import with_values
from eutectic.tir.stmt import BufferStore, For, ForKind, Stmt, parts_of

_SPATIAL: Final = "data_par"
_REDUCE: Final = "comm_reduce"


@dataclass(frozen=True)
class Axis:
    """A loop of a stage, from 0.

    Attributes:
        var: Its variable in the stage.
        extent: Number of iterations.
        loop: The loop that runs over it in the program.
        likely: The extent, or where that varies the one of an example; None when that is not known either.
    """

    var: Var
    extent: PrimExpr
    loop: Var
    likely: int | None = None

    @property
    def size(self) -> int | None:
        """The extent when it is a constant."""
        return self.extent.value if isinstance(self.extent, IntImm) else None


@dataclass(frozen=True)
class Stage:
    """`output[indices] = value` for all points of `spatial`; with `reduce`, repeated over that, from `init`.

    Axes of one iteration are replaced by 0.

    Attributes:
        name: Of the block.
        spatial: Axes of the output, outermost first.
        reduce: Axes that are reduced over.
        output: What is written.
        indices: Where; each spatial axis occurs once, in their order, everything else is a constant. Where nothing is
            reduced, an index may count several axes together, such as `g * 16 + o`, if that was asked for.
        value: What is written; of a reduction the new value of the accumulator, which is read as
            `output[indices]`.
        init: First value of the accumulator; None when nothing is reduced.
        epilogue: What becomes of the finished accumulator; it reads the accumulator as `output[indices]`,
            and has the same spatial axes.
        units: Loops of one iteration that spatial axes are bound to, and loops that no axis is bound to.
        reduce_units: Loops of one iteration that a reduction runs over.
        terms_of_sum: How many terms are to be summed at a time, for accuracy; None where nothing is said.
    """

    name: str
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    output: Buffer
    indices: tuple[PrimExpr, ...]
    value: PrimExpr
    init: PrimExpr | None = None
    epilogue: Stage | None = None
    units: tuple[Var, ...] = ()
    reduce_units: tuple[Var, ...] = ()
    terms_of_sum: int | None = None

    @property
    def result(self) -> Buffer:
        """What is written in the end."""
        return self.output if self.epilogue is None else self.epilogue.output

    def reads(self) -> list[BufferLoad]:
        """Loads of other buffers than the accumulator, those of the epilogue included."""
        exprs = [self.value] if self.init is None else [self.value, self.init]
        if self.epilogue is not None:
            exprs.append(self.epilogue.value)
        return [load for expr in exprs for load in loads(expr) if load.buffer is not self.output]


def loads(expr: Node) -> list[BufferLoad]:
    """Loads in an expression, each node once."""
    return [part for part in post_order(expr) if isinstance(part, BufferLoad)]


def stages_of(func: PrimFunc, *, counts_together: bool = False) -> tuple[list[Stage], tuple[Buffer, ...]] | None:
    """The stages of a function in order, and its intermediate buffers; None when it is not of that form.

    Args:
        func: The function.
        counts_together: Whether an index of what is stored, and not reduced, may count several axes, as `groups_apart`
            makes them.

    The form is that of `te.create_prim_func` and `FuseTIR`: a root block with a sequence of perfect loop nests
    around one block each, whose axes are bound to loops one to one and which store to one buffer.
    """
    body = func.body
    if not isinstance(body, BlockRealize) or body.block.iter_vars or body.block.init or body.block.match_buffers:
        return None
    root, examples = body.block, example_sizes(func)
    candidates = [_stage(part, examples, counts_together) for part in parts_of(root.body)]
    stages = [stage for stage in candidates if stage is not None]
    if len(stages) != len(candidates):
        return None
    written = [stage.output for stage in stages]
    return (stages, root.alloc_buffers) if len({id(b) for b in written}) == len(written) else None


def _stage(stmt: Stmt, examples: Mapping[str, int], counts_together: bool) -> Stage | None:
    extents: dict[Var, PrimExpr] = {}
    while isinstance(stmt, For):
        plain = isinstance(stmt.min, IntImm) and stmt.min.value == 0 and stmt.kind == ForKind.SERIAL
        depends = any(part in extents for part in post_order(stmt.extent) if isinstance(part, Var))
        if not plain or depends or stmt.annotations or stmt.loop_var in extents:
            return None
        extents[stmt.loop_var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, BlockRealize) or not stmt.always_runs:
        return None
    return _from_block(stmt.block, stmt.iter_values, extents, examples, counts_together)


def _from_block(
    block: Block,
    values: Iterable[PrimExpr],
    extents: Mapping[Var, PrimExpr],
    examples: Mapping[str, int],
    counts_together: bool,
) -> Stage | None:
    spatial: list[Axis] = []
    reduce: list[Axis] = []
    units: dict[Var, PrimExpr] = {}  # what stands for axes of one iteration, and for narrow ones
    reduce_units: list[Var] = []
    used: set[int] = set()
    for axis, value in zip(block.iter_vars, values, strict=True):
        var = axis.var
        if isinstance(value, IntImm) and value.value == 0:
            units[var] = value
            continue
        if (
            not isinstance(value, Var)
            or value not in extents
            or id(value) in used
            or axis.iter_type not in (_SPATIAL, _REDUCE)
        ):
            return None
        used.add(id(value))
        extent = extents[value]
        if isinstance(extent, IntImm) and extent.value == 1:
            units[var] = IntImm(var.dtype, 0)
            if axis.iter_type == _REDUCE:
                reduce_units.append(value)
            continue
        wide = var
        if var.dtype != "int64":  # offsets are counted in 64 bits
            wide = Var(var.name, "int64")
            units[var] = wide.astype(var.dtype)
            extent = IntImm("int64", extent.value) if isinstance(extent, IntImm) else extent.astype("int64")
        likely = size_in_example(extent, examples)
        (spatial if axis.iter_type == _SPATIAL else reduce).append(Axis(wide, extent, value, likely))
    body, init = block.body, block.init
    if not isinstance(body, BufferStore) or body.predicate is not None:
        return None
    if init is not None and (not isinstance(init, BufferStore) or init.buffer is not body.buffer):
        return None
    if block.alloc_buffers or block.match_buffers or (init is None) != (not _reads_itself(body)):
        return None
    indices = tuple(_bare(with_values(index, units)) for index in body.indices)
    if not _is_bijection(indices, spatial, counts_together and init is None):
        return None
    start = None if init is None else _with_bare_indices(with_values(init.value, units))
    value = _with_bare_indices(with_values(body.value, units))
    bound = {axis.loop for axis in (*spatial, *reduce)} | {*reduce_units}
    loops = (tuple(loop for loop in extents if loop not in bound), tuple(reduce_units))
    axes = (tuple(spatial), tuple(reduce))
    together = block.annotations.get(TERMS_OF_SUM)
    terms = together if isinstance(together, int) else None
    return Stage(block.name_hint, *axes, body.buffer, indices, value, start, None, *loops, terms)


def _bare(index: PrimExpr) -> PrimExpr:
    """A store index without the conversion of its axis."""
    return index.value if isinstance(index, Cast) and isinstance(index.value, Var) else index


def _with_bare_indices(expr: PrimExpr) -> PrimExpr:
    def change(node: Node) -> Node | None:
        if not isinstance(node, BufferLoad) or not any(isinstance(index, Cast) for index in node.indices):
            return None
        return BufferLoad(node.buffer, tuple(map(_bare, node.indices)), node.predicate)

    rewritten = rewrite(expr, change)
    assert isinstance(rewritten, PrimExpr)
    return rewritten


def _reads_itself(store: BufferStore) -> bool:
    return any(load.buffer is store.buffer for load in loads(store.value))


def _is_bijection(indices: Iterable[PrimExpr], spatial: Sequence[Axis], counts_together: bool) -> bool:
    """Whether each point of the axes has a place of its own, in their order; an index may be of several axes."""
    found: list[Var] = []
    for index in indices:
        variables = [index] if isinstance(index, Var) else _digits(index, spatial) if counts_together else None
        if variables is None and not isinstance(index, IntImm):
            return False
        found += variables or []
    return [id(var) for var in found] == [id(axis.var) for axis in spatial]


def _digits(index: PrimExpr, spatial: Sequence[Axis]) -> list[Var] | None:
    """The axes of which an index is the number that they count together, such as `g * 16 + o`; None when it is none."""
    sizes = {axis.var: axis.size for axis in spatial}
    form = linear(index, sizes.keys())
    if form is None or not isinstance(form.rest, IntImm) or form.rest.value:
        return None
    steps = sorted(form.steps.items(), key=lambda item: item[1] if isinstance(item[1], int) else 0)
    wanted: int = 1
    for var, step in steps:
        if step != wanted or sizes[var] is None:
            return None
        wanted *= sizes[var] or 1
    return [var for var, _ in reversed(steps)]
