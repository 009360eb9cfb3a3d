"""Neighbouring axes whose sizes vary, that a tensor program walks through as through one: made one axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from eutectic.ir.node import replace
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, mul
from eutectic.ir.structural import structural_equal
from eutectic.ir.visit import post_order
from eutectic.tir.analysis.conditions import variables
from eutectic.tir.analysis.example_sizes import with_size_in_example
from eutectic.tir.block import BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.schedule.rewriting.regions import with_recomputed_regions
from eutectic.tir.schedule.rules.stage import Axis, Stage, loads, stages_of
from eutectic.tir.statement_mutator import rewrite_expr, with_values
from eutectic.tir.stmt import BufferStore, For, Stmt, parts_of, seq
from eutectic.tir.trusted import is_trusted, trust

_SIZE: Final = "int64"  # dtype of what is counted
Groups: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class JoinedAxes:
    """A tensor program with axes that were several ones.

    Attributes:
        func: The program, whose parameters are the same memory under other shapes.
        groups: For each buffer among its parameters, in order, which axes of the former one each axis is made of.
    """

    func: PrimFunc
    groups: tuple[Groups, ...]


def join_axes(func: PrimFunc) -> JoinedAxes | None:
    """The program with neighbouring axes of varying sizes put together; None where there is nothing to put together.

    Two axes are one when each buffer that has the first has the second behind it, and each block that reads or writes
    one of these runs over both, and uses them for nothing else. The size of that axis is a variable of its own: what
    schedules and proofs meet is no product of sizes. A size that is needed otherwise, and that no parameter would tell
    any more, keeps its axes apart.

    Args:
        func: A program as `te.create_prim_func` and `FuseTIR` make them; others are left as they are.
    """
    groups: list[Groups] = [tuple((axis,) for axis in range(buffer.ndim)) for buffer in func.buffer_map.values()]
    joined, sizes = func, _Sizes()
    while (found := _first_join(joined, sizes)) is not None:
        fresh, at = found
        groups = [
            _merged(group, at.get(old, ())) for group, old in zip(groups, joined.buffer_map.values(), strict=True)
        ]
        joined = fresh
    if joined is func:
        return None
    return JoinedAxes(trust(joined) if is_trusted(func) else joined, tuple(groups))


def _merged(groups: Groups, places: Sequence[int]) -> Groups:
    """Groups of axes where some were joined with the next one."""
    merged: list[tuple[int, ...]] = []
    for number, group in enumerate(groups):
        if number - 1 in places:
            merged[-1] = (*merged[-1], *group)
        else:
            merged.append(group)
    return tuple(merged)


def _first_join(func: PrimFunc, sizes: _Sizes) -> tuple[PrimFunc, Mapping[Buffer, Sequence[int]]] | None:
    """The program after the first join that is possible, and at which axes of which buffers it is."""
    seeds = list(_seeds(func.buffer_map.values()))
    staged = stages_of(func) if seeds else None
    if staged is None:
        return None
    tried: set[tuple[Buffer, int]] = set()
    for seed in seeds:
        if seed in tried:
            continue
        pairs = _Pairs(staged[0], seed)
        tried |= pairs.dims
        if pairs.are_complete and (fresh := _Rewriter(pairs, sizes.joined(pairs.sizes)).func(func)) is not None:
            return fresh, pairs.places
    return None


def _seeds(buffers: Iterable[Buffer]) -> Iterator[tuple[Buffer, int]]:
    """Neighbouring axes of varying sizes: buffers, and the number of the first one."""
    for buffer in buffers:
        varies = [not isinstance(size, IntImm) for size in buffer.shape]
        yield from ((buffer, axis) for axis in range(len(varies) - 1) if varies[axis] and varies[axis + 1])


class _Sizes:
    """Variables for products of sizes, one for each product."""

    def __init__(self) -> None:
        self._known: list[tuple[Sequence[PrimExpr], Var]] = []

    def joined(self, sizes: Sequence[PrimExpr]) -> Var:
        """The variable for the product of two sizes."""
        for known, var in self._known:
            if all(map(structural_equal, known, sizes)):
                return var
        taken = {var.name for _, var in self._known}
        name = "_".join(sorted({var.name for size in sizes for var in variables(size)}))
        fresh = Var(name if name not in taken else f"{name}_{len(taken)}", _SIZE)
        self._known.append((sizes, fresh))
        return fresh


class _Access(NamedTuple):
    buffer: Buffer
    indices: tuple[PrimExpr, ...]


@dataclass
class _Pairs:
    """Neighbouring axes of buffers, and the axes of blocks that go along them, from one of them on.

    Attributes:
        stages: The blocks.
        seed: A buffer, and the number of the first of both axes.
        dims: All that belong to it.
        axes: For each stage the axes that go along both.
        are_complete: Whether nothing was found that keeps them apart.
    """

    stages: Sequence[Stage]
    seed: tuple[Buffer, int]
    dims: set[tuple[Buffer, int]] = field(default_factory=set)
    axes: dict[int, set[tuple[Var, Var]]] = field(default_factory=dict)
    are_complete: bool = True

    def __post_init__(self) -> None:
        buffer, axis = self.seed
        self.sizes = buffer.shape[axis : axis + 2]
        self._accesses = [list(_accesses(stage)) for stage in self.stages]
        self._left = [self.seed]
        while self._left and self.are_complete:
            found = self._left.pop()
            if found not in self.dims:
                self.dims.add(found)
                self.are_complete = self._follow(*found)

    @property
    def places(self) -> dict[Buffer, list[int]]:
        """Numbers of the axes that are joined with the next one, by buffer."""
        places: dict[Buffer, list[int]] = {}
        for buffer, axis in self.dims:
            places.setdefault(buffer, []).append(axis)
        return places

    def _follow(self, buffer: Buffer, axis: int) -> bool:
        """Go on to the blocks that access a buffer; False where one of them keeps the axes apart."""
        is_plain = not buffer.strides and not buffer.axis_separators and buffer.elem_offset is None
        apart = {(buffer, axis - 1), (buffer, axis + 1)} & self.dims  # one axis is in two pairs
        if not is_plain or apart or not self._fits(buffer.shape[axis : axis + 2]):
            return False
        for number, accesses in enumerate(self._accesses):
            for access in accesses:
                if access.buffer is buffer and not self._follow_axes(number, access.indices[axis : axis + 2]):
                    return False
        return True

    def _follow_axes(self, number: int, indices: Sequence[PrimExpr]) -> bool:
        """Go on to the buffers that a block accesses along two axes."""
        first, second = indices
        axes = _neighbours(self.stages[number], first, second)
        if axes is None or not self._fits([axis.extent for axis in axes]):
            return False
        pair = (axes[0].var, axes[1].var)
        known = self.axes.setdefault(number, set())
        if pair not in known:
            known.add(pair)
            for access in self._accesses[number]:
                for place, index in enumerate(access.indices[:-1]):
                    if index is first and access.indices[place + 1] is second:
                        self._left.append((access.buffer, place))
        return len({var for both in known for var in both}) == 2 * len(known)

    def _fits(self, sizes: Sequence[PrimExpr]) -> bool:
        return all(
            size.dtype == _SIZE and structural_equal(size, own) for size, own in zip(sizes, self.sizes, strict=True)
        )


def _accesses(stage: Stage) -> Iterator[_Access]:
    yield _Access(stage.output, stage.indices)
    for expr in [stage.value] if stage.init is None else [stage.value, stage.init]:
        yield from (_Access(load.buffer, load.indices) for load in loads(expr))


def _neighbours(stage: Stage, first: PrimExpr, second: PrimExpr) -> tuple[Axis, Axis] | None:
    """The axes that two indices are, where one follows the other."""
    for axes in (stage.spatial, stage.reduce):
        for one, next_one in pairwise(axes):
            if one.var is first and next_one.var is second:
                return one, next_one
    return None


class _Rewriter:
    """Joins axes in a program.

    Args:
        pairs: What is joined.
        size: The size of the axis that both become.
    """

    def __init__(self, pairs: _Pairs, size: Var) -> None:
        self.pairs, self.places, self.size = pairs, pairs.places, size
        self.buffers = {buffer: self._buffer(buffer, axes) for buffer, axes in self.places.items()}

    def func(self, func: PrimFunc) -> PrimFunc | None:
        """The program; None where something in it needs one of the two axes, or its size, by itself."""
        assert isinstance(func.body, BlockRealize)
        root = func.body.block
        nests = [self._nest(part, number) for number, part in enumerate(parts_of(root.body))]
        if None in nests:
            return None
        body = seq(*(nest for nest in nests if nest is not None))
        allocated = tuple(self.buffers.get(buffer, buffer) for buffer in root.alloc_buffers)
        described = {param: self.buffers.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
        fresh = replace(
            func,
            body=replace(func.body, block=replace(root, body=body, alloc_buffers=allocated)),
            buffer_map=described,
        )
        if not self._are_sizes_known(fresh):
            return None
        return with_size_in_example(fresh, self.size, mul(*self.pairs.sizes))

    def _are_sizes_known(self, func: PrimFunc) -> bool:
        """Whether a parameter tells the size that is new, and those that are still needed."""
        told = {size for buffer in func.buffer_map.values() for size in buffer.shape if isinstance(size, Var)}
        gone = {var for size in self.pairs.sizes for var in variables(size)} - told - set(func.params)
        nodes = (item for root in (func.body, *func.buffer_map.values()) for item in post_order(root))
        return self.size in told and not any(item in gone for item in nodes if isinstance(item, Var))

    def _buffer(self, buffer: Buffer, axes: Sequence[int]) -> Buffer:
        sizes = [self.size if axis in axes else size for axis, size in enumerate(buffer.shape) if axis - 1 not in axes]
        return replace(buffer, shape=tuple(sizes))

    def _nest(self, stmt: Stmt, number: int) -> Stmt | None:
        """A stage: a block with its loops."""
        loops: list[For] = []
        inner = stmt
        while isinstance(inner, For):
            loops.append(inner)
            inner = inner.body
        assert isinstance(inner, BlockRealize)
        pairs = self.pairs.axes.get(number)
        if not pairs:
            return stmt
        block = _OneBlock(self, inner, loops, dict(pairs))
        return block.nest() if block.is_possible else None


@dataclass
class _OneBlock:
    """A block whose axes are joined.

    Attributes:
        whole: The rewriting of the program.
        realize: The block.
        loops: The loops around it.
        pairs: The second axis by the first one.
    """

    whole: _Rewriter
    realize: BlockRealize
    loops: Sequence[For]
    pairs: Mapping[Var, Var]

    def __post_init__(self) -> None:
        axes = (axis.var for axis in self.realize.block.iter_vars)
        values: dict[Var, Any] = dict(zip(axes, self.realize.iter_values, strict=True))
        self.loop_pairs = {values[first]: values[second] for first, second in self.pairs.items()}
        self.joined = {first: Var(f"{first.name}_{second.name}", _SIZE) for first, second in self.loop_pairs.items()}
        extents = {loop.loop_var: loop.extent for loop in self.loops}
        narrow = (axis for axis, value in values.items() if _is_narrow(extents.get(value, value), value))
        self.units = {axis: IntImm(axis.dtype, 0) for axis in narrow}
        self.axes = {first: Var(f"v_{self.joined[values[first]].name}", _SIZE) for first in self.pairs}

    @property
    def is_possible(self) -> bool:
        """Whether each loop over a second axis is right inside of the one over the first."""
        order = [loop.loop_var for loop in self.loops]
        return all(order.index(second) == order.index(first) + 1 for first, second in self.loop_pairs.items())

    def nest(self) -> Stmt | None:
        """The block in its loops; None where it uses an axis otherwise."""
        block = self.realize.block
        seconds = set(self.loop_pairs.values())
        axes, values = [], []
        for axis, value in zip(block.iter_vars, self.realize.iter_values, strict=True):
            if value not in seconds:
                axes.append(self._axis(axis))
                values.append(self.joined.get(value, value))
        body, init = self._store(block.body), self._store(block.init)
        fresh = replace(block, iter_vars=tuple(axes), body=body, init=init)
        gone = {*self.pairs, *self.pairs.values()}
        if any(item in gone for item in post_order(replace(fresh, reads=(), writes=())) if isinstance(item, Var)):
            return None
        nest: Stmt = replace(self.realize, iter_values=tuple(values), block=with_recomputed_regions(fresh))
        for loop in reversed(self.loops):
            if loop.loop_var in self.joined:
                nest = replace(loop, loop_var=self.joined[loop.loop_var], extent=self.whole.size, body=nest)
            elif loop.loop_var not in seconds:
                nest = replace(loop, body=nest)
        return nest

    def _axis(self, axis: IterVar) -> IterVar:
        if axis.var not in self.axes:
            return axis
        return replace(axis, var=self.axes[axis.var], dom=Range.from_min_extent(IntImm(_SIZE, 0), self.whole.size))

    def _store(self, store: Stmt | None) -> Stmt | None:
        if not isinstance(store, BufferStore):
            return store
        value = rewrite_expr(store.value, self._load)
        buffer, indices = self._place(store.buffer, store.indices)
        return replace(store, buffer=buffer, indices=indices, value=value)

    def _load(self, expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, BufferLoad) or expr.buffer not in self.whole.buffers:
            return None
        return BufferLoad(*self._place(expr.buffer, expr.indices), expr.predicate)

    def _place(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        """A buffer with joined axes, and indices in it."""
        axes = self.whole.places.get(buffer, ())
        places = [
            self.axes[self._bare(index)] if axis in axes else index
            for axis, index in enumerate(indices)
            if axis - 1 not in axes
        ]
        return self.whole.buffers.get(buffer, buffer), tuple(places)

    def _bare(self, index: PrimExpr) -> Var:
        """The axis that an index is, beside axes of one iteration."""
        bare = with_values(index, self.units)
        assert isinstance(bare, Var)  # as the stage has it
        return bare


def _is_narrow(extent: PrimExpr, value: PrimExpr) -> bool:
    """Whether an axis has one iteration: its loop has one, or it is bound to zero."""
    return isinstance(extent, IntImm) and extent.value == (1 if isinstance(value, Var) else 0)
