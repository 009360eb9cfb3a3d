"""Stages without a reduction: vectors along the contiguous axis, threads along the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from eutectic.backend.llvm.machine import Machine
from eutectic.backend.llvm.rules.flat import Flat
from eutectic.tir.schedule.rules.producers import operations
from eutectic.backend.llvm.rules.loops import (
    Piece,
    lanes_loop,
    nest,
    parallel_over,
    pieces,
    tile_at,
    tile_count,
    tile_loop,
)
from eutectic.backend.llvm.rules.partition import split_points, under
from eutectic.tir.schedule.rules.stage import Axis, substitute
from eutectic.ir.dtype import item_bytes
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add
from eutectic.tir.stmt import BufferStore, Stmt, seq

_SMALL = 4096  # elements below which one thread is faster than several


def elementwise(flat: Flat, machine: Machine, parallel: bool = True) -> Stmt:
    """The loops of a stage that reduces nothing.

    Args:
        flat: The stage.
        machine: What it is for.
        parallel: Whether threads may share it.
    """
    parallel = parallel and not _is_small(flat)
    axis = _vector_axis(flat)
    if axis is None:
        env: dict[Var, PrimExpr] = {}
        return parallel_over(flat.spatial, env, lambda: _store(flat, env), parallel)
    others = [other for other in flat.spatial if other.var is not axis.var]
    across = _reading_axis(flat, axis)
    points = split_points(flat.final, axis)
    if points:
        return _partitioned(flat, axis, others, points, machine, parallel)
    width = _width(flat, machine)
    if across is not None:
        rest = [other for other in others if other.var is not across.var]
        return _tiles(flat, axis, rest, [across], width, parallel)
    return _tiles(flat, axis, others, [], width, parallel)


def _is_small(flat: Flat) -> bool:
    total = 1
    for axis in flat.spatial:
        if axis.size is None:
            return False
        total *= axis.size
    return total * max(1, operations(flat.final) // 4) < _SMALL


def _vector_axis(flat: Flat) -> Axis | None:
    """The axis along which results are contiguous."""
    for axis in reversed(flat.spatial):
        if flat.target_step(axis.var) == 1 and axis.size != 1:
            return axis
    return None


def _reading_axis(flat: Flat, axis: Axis) -> Axis | None:
    """The axis along which something is read contiguously that is not along `axis`: that of a transposition."""
    for load, form in flat.steps(flat.final):
        if form is None or form.step(axis.var) in (0, 1, 2):
            continue
        for other in flat.spatial:
            if form.step(other.var) == 1 and load.buffer is not flat.target:
                return other
    return None


def _width(flat: Flat, machine: Machine) -> int:
    lanes = machine.lanes(8 * max(item_bytes(flat.target.dtype), 4))
    return lanes if operations(flat.final) >= 20 else 2 * lanes


def _store(flat: Flat, env: dict[Var, PrimExpr], value: PrimExpr | None = None) -> Stmt:
    return BufferStore(flat.target, substitute(flat.final if value is None else value, env), (substitute(flat.offset, env),))


def _tiles(flat: Flat, axis: Axis, outer: list[Axis], inner: list[Axis], width: int, parallel: bool) -> Stmt:
    """Vectors along `axis`; its tiles outside of `inner`, so that lines that are read across are read once."""
    env: dict[Var, PrimExpr] = {}
    found = pieces(axis, width)
    if not found:
        return seq()
    tile = Axis(Var(f"{axis.var.name}_tile", axis.var.dtype), tile_count(found, axis.var))

    def vector(piece: Piece, begin: PrimExpr) -> Stmt:
        def lane(at: PrimExpr) -> Stmt:
            env[axis.var] = add(begin, at)
            return _store(flat, env)

        return nest(inner, env, lambda: lanes_loop(piece.width, axis.var, lane))

    return parallel_over([*outer, tile], env, lambda: tile_at(found, env[tile.var], vector), parallel)


def _partitioned(
    flat: Flat, axis: Axis, others: list[Axis], points: list[int], machine: Machine, parallel: bool
) -> Stmt:
    """One loop for each part of the axis on which all conditions on it are known."""
    env: dict[Var, PrimExpr] = {}
    assert axis.size is not None
    bounds = [0, *points, axis.size]
    width = _width(flat, machine)

    def part(low: int, high: int) -> Stmt:
        value = under(flat.final, axis.var, low, high)
        made = replace(flat, final=value, offset=flat.offset)
        inside = Axis(axis.var, IntImm(axis.var.dtype, high - low))
        out = []
        for piece in pieces(inside, width):
            shifted = Piece(piece.width, piece.count, add(piece.start, IntImm(axis.var.dtype, low)))
            out.append(_piece(made, axis, shifted, env))
        return seq(*out)

    def row() -> Stmt:
        return seq(*(part(low, high) for low, high in pairwise(bounds) if low < high))

    return parallel_over(others, env, row, parallel)


def _piece(flat: Flat, axis: Axis, piece: Piece, env: dict[Var, PrimExpr]) -> Stmt:
    def tile(begin: PrimExpr) -> Stmt:
        def lane(at: PrimExpr) -> Stmt:
            env[axis.var] = add(begin, at)
            return _store(flat, env)

        return lanes_loop(piece.width, axis.var, lane)

    return tile_loop(piece, f"{axis.var.name}_tile", axis.var, tile)
