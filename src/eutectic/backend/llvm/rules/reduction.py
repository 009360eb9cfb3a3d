"""Reductions: a tile of accumulators in registers, the epilogue where the finished tile is stored.

Matrix products, convolutions, pooling and sums over outer axes keep the order of
the reduction: vectors lie along an axis of the result. Where only the reduced axis
is contiguous, vectors lie along that, and partial results are combined in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.rules.combine import Combiner, combiner_of, start_of
from eutectic.backend.llvm.rules.flat import Flat
from eutectic.tir.schedule.rules.linear import Linear
from eutectic.backend.llvm.rules.loops import (
    Body,
    Piece,
    for_,
    lanes_loop,
    local,
    nest,
    number,
    parallel_over,
    pieces,
    tile_at,
    tile_count,
    tile_loop,
    unrolled,
)
from eutectic.tir.schedule.rules.stage import Axis, substitute
from eutectic.tir.schedule.rules.tile_size import Tile, choose_tile
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, mul
from eutectic.ir.visit import rewrite
from eutectic.support.deep import deep
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.stmt import BufferStore, ForKind, Stmt, seq

_CACHE_BYTES = 384 * 1024  # of a matrix that is better kept near and read again than streamed
_FAR = 256  # elements between neighbours of a reduction, from which on a tile's operand is copied together
_PANEL_ROWS = 24  # rows that must read the copy for it to pay
_PANEL_STEPS = 8192
_UNROLL = 10  # steps of a small window that are written out


@dataclass(frozen=True)
class Layout:
    """Which axis does what.

    Attributes:
        vector: Vectors lie along it.
        rows: Several of its values are worked on at once.
        apart: Other axes that select another part of what the rows select, such as the batch of a batched product.
        others: All other axes.
        shares: Whether loaded vectors serve all rows.
        row_bytes: Size of what the rows select, such as weights; None when it is not known.
        whole: Whether vectors may be computed beyond the end of the axis.
        panel: What is worth copying together.
    """

    vector: Axis | None
    rows: Axis | None
    apart: tuple[Axis, ...]
    others: tuple[Axis, ...]
    shares: bool
    row_bytes: int | None
    whole: bool = False
    panel: Panel | None = None


@dataclass(frozen=True)
class Panel:
    """An operand of a tile that is copied together before all rows read it.

    Attributes:
        load: What reads it.
        steps: The axis of the reduction that it depends on.
        bytes: Size of the whole operand; None when it is not known.
    """

    load: BufferLoad
    steps: Axis
    bytes: int | None


def reduction(flat: Flat, machine: Machine, parallel: bool = True) -> Stmt:
    """The loops of a stage with a reduction.

    Args:
        flat: The stage.
        machine: What it is for.
        parallel: Whether threads may share it.
    """
    lanes = machine.lanes(8 * max(item_bytes(flat.acc.dtype), 4)) if flat.acc is not None else 1
    vector = _vector_axis(flat)
    inner = _reduced_axis(flat)
    wide = vector is not None and (vector.size is None or vector.size >= lanes // 2)
    if not wide and inner is not None and (inner.size is None or inner.size >= lanes):
        combiner = combiner_of(flat)
        if combiner is not None:
            return _along_reduction(flat, inner, combiner, lanes, parallel)
    layout = _layout(flat, vector)
    bits = 8 * max(item_bytes(flat.target.dtype), 4)
    tile = choose_tile(vector, layout.rows, layout.shares, machine, bits, layout.whole)
    return _Tiled(flat, layout, tile, lanes).build(parallel)


def _forms(flat: Flat) -> list[tuple[BufferLoad, Linear | None]]:
    return flat.steps(flat.update)


def _vector_axis(flat: Flat) -> Axis | None:
    """An axis of the result along which it, and what is read, is contiguous, or read at every other element."""
    forms = _forms(flat)
    for axis in reversed(flat.spatial):
        if flat.target_step(axis.var) != 1:
            continue
        steps = [None if form is None else form.step(axis.var) for _, form in forms]
        if steps and all(step in (0, 1, 2) for step in steps) and any(step in (1, 2) for step in steps):
            return axis
    return None


def _reduced_axis(flat: Flat) -> Axis | None:
    """A reduced axis along which everything is contiguous or constant."""
    forms = _forms(flat)
    for axis in reversed(flat.reduce):
        steps = [None if form is None else form.step(axis.var) for _, form in forms]
        if steps and all(step in (0, 1) for step in steps) and any(step == 1 for step in steps):
            return axis
    return None


def _layout(flat: Flat, vector: Axis | None) -> Layout:
    forms = [(load, form) for load, form in _forms(flat) if form is not None]
    free = [axis for axis in flat.spatial if vector is None or axis.var is not vector.var]
    moving = [form for _, form in forms if vector is not None and form.step(vector.var) != 0]
    resting = [(load, form) for load, form in forms if vector is None or form.step(vector.var) == 0]
    rows: Axis | None = None
    shares = False
    for axis in free:  # an axis that the vectors do not depend on: they are loaded once for all rows
        apart_from = vector is not None and all(form.step(axis.var) == 0 for form in moving)
        selects = any(form.step(axis.var) != 0 for _, form in resting)
        if apart_from and selects and (rows is None or _size(axis) > _size(rows)):
            rows, shares = axis, True
    if rows is None and free:
        shared = [axis for axis in free if all(form.step(axis.var) == 0 for _, form in resting)]
        rows = shared[-1] if shared and resting else None
    selected = [(load, form) for load, form in resting if rows is not None and form.step(rows.var) != 0]
    rest = [axis for axis in free if rows is None or axis.var is not rows.var]
    apart = tuple(axis for axis in rest if any(form.step(axis.var) != 0 for _, form in selected))
    others = tuple(axis for axis in rest if axis not in apart)
    size = _bytes(flat, selected) if shares else None
    whole = bool(moving) and all(
        id(load.buffer) in flat.slack for load, form in forms if vector is not None and form.step(vector.var) != 0
    )
    whole = whole and len(forms) == len(_forms(flat))
    panel = _panel(flat, vector, rows, forms) if shares and vector is not None else None
    return Layout(vector, rows, apart, others, shares, size, whole, panel)


def _panel(flat: Flat, vector: Axis, rows: Axis | None, forms: list[tuple[BufferLoad, Linear]]) -> Panel | None:
    """The operand that vectors are loaded from, when its neighbours in the reduction are far apart."""
    moving = [(load, form) for load, form in forms if form.step(vector.var) != 0]
    if len(moving) != 1 or rows is None or (rows.size is not None and rows.size < _PANEL_ROWS):
        return None
    load, form = moving[0]
    used = [axis for axis in flat.reduce if form.step(axis.var) != 0]
    if len(used) != 1 or used[0].size is None or used[0].size > _PANEL_STEPS:
        return None
    step = form.step(used[0].var)
    if isinstance(step, int) and step < _FAR:
        return None
    return Panel(load, used[0], _bytes(flat, moving))


def _size(axis: Axis) -> int:
    return axis.size or 1


def _bytes(flat: Flat, selected: list[tuple[BufferLoad, Linear]]) -> int | None:
    total = 0
    for load, form in selected:
        size = item_bytes(load.buffer.dtype)
        for axis in (*flat.spatial, *flat.reduce):
            if form.step(axis.var) != 0:
                if axis.size is None:
                    return None
                size *= axis.size
        total += size
    return total


@dataclass
class _Tiled:
    flat: Flat
    layout: Layout
    tile: Tile
    lanes: int

    def __post_init__(self) -> None:
        self.env: dict[Var, PrimExpr] = {}
        self.update = self.flat.update
        self.lane = Var("lane", "int64" if self.layout.vector is None else self.layout.vector.var.dtype)

    def build(self, parallel: bool) -> Stmt:
        """The whole nest; the larger of both operands is walked through once."""
        layout, env = self.layout, self.env
        vectors = pieces(layout.vector, self.tile.width, self.lanes if layout.whole else 1)
        rows = pieces(layout.rows, self.tile.rows)
        if not vectors or not rows:
            return seq()
        stream_rows = layout.shares and (layout.row_bytes is None or layout.row_bytes > _CACHE_BYTES)
        if layout.panel is not None and (layout.panel.bytes is None or layout.panel.bytes > _CACHE_BYTES):
            stream_rows = False
        row_tiles, vector_tiles = self._tiles(layout.rows, rows), self._tiles(layout.vector, vectors)
        if stream_rows and layout.rows is not None:
            outer = (*layout.apart, row_tiles)
            return parallel_over(
                outer,
                env,
                lambda: tile_at(rows, env[row_tiles.var], lambda low, at: self._inside(low, at, vectors)),
                parallel,
            )
        outer = (*layout.apart, *layout.others, vector_tiles)
        if layout.vector is None:
            outer = (*layout.apart, *layout.others, row_tiles)
            return parallel_over(
                outer,
                env,
                lambda: tile_at(rows, env[row_tiles.var], lambda low, at: self._tile(low, at, vectors[0], None)),
                parallel,
            )
        if not layout.shares and layout.rows is not None:
            outer = (*layout.apart, *layout.others, row_tiles)
            return parallel_over(
                outer,
                env,
                lambda: tile_at(rows, env[row_tiles.var], lambda low, at: self._all_vectors(low, at, vectors)),
                parallel,
            )
        return parallel_over(
            outer,
            env,
            lambda: tile_at(vectors, env[vector_tiles.var], lambda wide, at: self._all_rows(rows, wide, at)),
            parallel,
        )

    @staticmethod
    def _tiles(axis: Axis | None, found: list[Piece]) -> Axis:
        like = axis.var if axis is not None else Var("one", "int64")
        return Axis(Var(f"{like.name}_tile", like.dtype), tile_count(found, like))

    def _inside(self, low: Piece, at: PrimExpr, vectors: list[Piece]) -> Stmt:
        """All of the rest for one tile of rows."""
        return nest(self.layout.others, self.env, lambda: self._all_vectors(low, at, vectors))

    def _all_vectors(self, low: Piece, at: PrimExpr, vectors: list[Piece]) -> Stmt:
        axis = self.layout.vector
        assert axis is not None
        name = f"{axis.var.name}_tile"
        return seq(
            *(
                tile_loop(wide, name, axis.var, lambda begin, wide=wide: self._tile(low, at, wide, begin))  # type: ignore[misc]
                for wide in vectors
            )
        )

    def _all_rows(self, rows: list[Piece], wide: Piece, begin: PrimExpr) -> Stmt:
        axis = self.layout.rows
        if axis is None:
            return self._tile(rows[0], None, wide, begin)
        name, like = f"{axis.var.name}_tile", axis.var

        def tiles() -> Stmt:
            return seq(
                *(
                    tile_loop(low, name, like, lambda at, low=low: self._tile(low, at, wide, begin))  # type: ignore[misc]
                    for low in rows
                )
            )

        return tiles() if self.layout.panel is None else self._with_panel(self.layout.panel, wide, begin, tiles)

    def _with_panel(self, panel: Panel, wide: Piece, begin: PrimExpr, tiles: Callable[[], Stmt]) -> Stmt:
        """The tiles of all rows, which read a copy of the operand in the order in which they need it."""
        vector, env, flat = self.layout.vector, self.env, self.flat
        assert vector is not None
        assert panel.steps.size is not None
        assert flat.update is not None

        def body(copy: Buffer) -> Stmt:
            def step(value: PrimExpr) -> Stmt:
                env[panel.steps.var] = value

                def lane(at: PrimExpr) -> Stmt:
                    env[vector.var] = add(begin, at)
                    return BufferStore(copy, substitute(panel.load, env), (add(mul(value, wide.width), at),))

                return lanes_loop(wide.width, vector.var, lane)

            filled = for_(panel.steps.var.name, panel.steps.extent, panel.steps.var, step)
            place = add(mul(panel.steps.var, wide.width), self.lane)
            assert flat.update is not None
            read = rewrite(flat.update, lambda node: BufferLoad(copy, (place,)) if node is panel.load else None)
            assert isinstance(read, PrimExpr)
            self.update = read
            made = seq(filled, tiles())
            self.update = flat.update
            return made

        return local(f"{flat.name}_panel", panel.load.buffer.dtype, panel.steps.size * wide.width, body)

    def _tile(self, low: Piece, row: PrimExpr | None, wide: Piece, begin: PrimExpr | None) -> Stmt:
        """One tile: start, reduce, store."""
        flat, env = self.flat, self.env
        assert flat.acc is not None
        width = wide.width if begin is not None else 1

        def body(buffer: Buffer) -> Stmt:
            def each(make: Body) -> Stmt:
                return self._points((width, width), low, row, begin, make)

            start = each(lambda place: BufferStore(buffer, start_of(flat, env), (place,)))
            reduced = self._reduce(
                lambda: each(lambda place: BufferStore(buffer, self._next(BufferLoad(buffer, (place,))), (place,)))
            )
            stored = self._points(
                (width, width - wide.surplus),
                low,
                row,
                begin,
                lambda place: BufferStore(
                    flat.target, self._finished(BufferLoad(buffer, (place,))), (substitute(flat.offset, env),)
                ),
            )
            return seq(start, reduced, stored)

        return local(f"{flat.name}_tile", flat.acc.dtype, low.width * width, body)

    def _points(
        self, widths: tuple[int, int], low: Piece, row: PrimExpr | None, begin: PrimExpr | None, make: Body
    ) -> Stmt:
        """Something at each place of the tile: rows written out, vectors along the lanes, of which some may be left."""
        layout, env = self.layout, self.env
        width, used = widths

        def line(i: PrimExpr) -> Stmt:
            if layout.rows is not None and row is not None:
                env[layout.rows.var] = add(row, i)
            like = layout.vector.var if layout.vector is not None else Var("one", "int64")

            def lane(at: PrimExpr) -> Stmt:
                if layout.vector is not None and begin is not None:
                    env[layout.vector.var] = add(begin, at)
                    env[self.lane] = at
                return make(add(mul(i, width) if width != 1 else i, at))

            return lanes_loop(used, like, lane)

        like = layout.rows.var if layout.rows is not None else Var("one", "int64")
        return unrolled(low.width, like, line)

    def _next(self, acc: BufferLoad) -> PrimExpr:
        assert self.update is not None
        assert self.flat.acc is not None
        return substitute(self.update, {**self.env, self.flat.acc: acc})

    def _finished(self, acc: BufferLoad) -> PrimExpr:
        assert self.flat.acc is not None
        return substitute(self.flat.final, {**self.env, self.flat.acc: acc})

    def _reduce(self, each: Callable[[], Stmt]) -> Stmt:
        """Loops over the reduction; a small window inside of them is written out."""
        axes = list(self.flat.reduce)
        kinds: list[str] = []
        left = _UNROLL
        for axis in reversed(axes):
            small = axis.size is not None and axis.size <= left and not (self.layout.shares and axis is axes[0])
            kinds.append(ForKind.UNROLLED if small else ForKind.SERIAL)
            left = left // axis.size if small and axis.size else 0

        @deep
        def loops(number_: int) -> Stmt:
            if number_ == len(axes):
                return each()
            axis = axes[number_]

            def inside(value: PrimExpr) -> Stmt:
                self.env[axis.var] = value
                return loops(number_ + 1)

            return for_(axis.var.name, axis.extent, axis.var, inside, kinds[len(axes) - 1 - number_])

        return loops(0)


def _along_reduction(flat: Flat, inner: Axis, combiner: Combiner, lanes: int, parallel: bool) -> Stmt:
    """Vectors along a reduced axis: partial results per lane, combined by halves."""
    env: dict[Var, PrimExpr] = {}
    acc = flat.acc
    assert acc is not None
    width = lanes
    while width < 4 * lanes and (inner.size is None or inner.size >= 2 * width):
        width *= 2
    rest = [axis for axis in flat.reduce if axis.var is not inner.var]
    partial = flat.target  # that of the row at hand
    current = Piece(1, 1, 0)

    def update(at: PrimExpr) -> Stmt:
        def lane(i: PrimExpr) -> Stmt:
            env[inner.var] = add(at, i)
            assert flat.update is not None
            return BufferStore(partial, substitute(flat.update, {**env, acc: BufferLoad(partial, (i,))}), (i,))

        return lanes_loop(current.width, inner.var, lane)

    def row(buffer: Buffer) -> Stmt:
        nonlocal partial, current
        partial = buffer
        start = lanes_loop(width, inner.var, lambda i: BufferStore(buffer, combiner.neutral, (i,)))

        def walk() -> Stmt:
            nonlocal current
            steps = []
            for piece in _reduced_pieces(inner, width, lanes):
                current = piece
                steps.append(tile_loop(piece, f"{inner.var.name}_tile", inner.var, update))
            return seq(*steps)

        reduced = nest(rest, env, walk)
        halves = []
        half = width // 2
        while half:
            halves.append(_fold_half(buffer, half, combiner, inner.var))
            half //= 2
        zero = number(0, inner.var)
        result: PrimExpr = BufferLoad(buffer, (zero,))
        if combiner.starts:
            result = combiner(start_of(flat, env), result)
        stored = BufferStore(flat.target, substitute(flat.final, {**env, acc: result}), (substitute(flat.offset, env),))
        return seq(start, reduced, *halves, stored)

    return parallel_over(flat.spatial, env, lambda: local(f"{flat.name}_partial", acc.dtype, width, row), parallel)


def _reduced_pieces(axis: Axis, width: int, lanes: int) -> list[Piece]:
    """Wide vectors, then single ones, then what remains."""
    first = pieces(axis, width)
    if axis.size is None or len(first) < 2 or first[-1].width < lanes or not isinstance(first[-1].start, int):
        return first
    start = first[-1].start
    out = first[:-1]
    for piece in pieces(Axis(axis.var, IntImm(axis.var.dtype, axis.size - start)), lanes):
        assert isinstance(piece.start, int)
        out.append(Piece(piece.width, piece.count, piece.start + start))
    return out


def _fold_half(buffer: Buffer, half: int, combiner: Combiner, like: Var) -> Stmt:
    def lane(i: PrimExpr) -> Stmt:
        a, b = BufferLoad(buffer, (i,)), BufferLoad(buffer, (add(i, half),))
        return BufferStore(buffer, combiner(a, b), (i,))

    return lanes_loop(half, like, lane)
