"""Building blocks of loop nests: loops, tiles with their remainders, local accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eutectic.tir.schedule.rules.stage import Axis
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, add, floordiv, floormod, mul
from eutectic.support.deep import deep
from eutectic.tir.buffer import Buffer
from eutectic.tir.stmt import Allocate, DeclBuffer, For, ForKind, IfThenElse, Stmt

Body = Callable[[PrimExpr], Stmt]


def number(value: int, like: Var) -> IntImm:
    """A constant of the dtype of a loop variable."""
    return IntImm(like.dtype, value)


def for_(name: str, extent: PrimExpr | int, like: Var, body: Body, kind: str = ForKind.SERIAL) -> Stmt:
    """A loop from 0; one of a single iteration is its body at 0."""
    size = number(extent, like) if isinstance(extent, int) else extent
    if isinstance(size, IntImm) and size.value == 1:
        return body(number(0, like))
    var = Var(name, like.dtype)
    return For(var, number(0, like), size, kind, body(var))


@deep
def nest(axes: Sequence[Axis], env: dict[Var, PrimExpr], body: Callable[[], Stmt], kind: str = ForKind.SERIAL) -> Stmt:
    """Loops over axes, outermost first, whose variables are noted in `env` while the body is built."""
    if not axes:
        return body()
    axis = axes[0]

    def inside(value: PrimExpr) -> Stmt:
        env[axis.var] = value
        return nest(axes[1:], env, body, kind)

    return for_(axis.var.name, axis.extent, axis.var, inside, kind)


def product(extents: Sequence[PrimExpr]) -> PrimExpr:
    """The product of extents."""
    total: PrimExpr = IntImm("int64", 1)
    for extent in extents:
        total = mul(total, extent)
    return total


def parallel_over(axes: Sequence[Axis], env: dict[Var, PrimExpr], body: Callable[[], Stmt], parallel: bool) -> Stmt:
    """One loop over all axes, which threads share when `parallel`; without that, loops one inside the other."""
    if not parallel:
        return nest(axes, env, body)
    big = [axis for axis in axes if axis.size != 1]
    for axis in axes:
        if axis.size == 1:
            env[axis.var] = number(0, axis.var)
    if not big:
        return body()
    if len(big) == 1:
        return nest(big, env, body, ForKind.PARALLEL)
    like = Var("p", "int64")

    def inside(value: PrimExpr) -> Stmt:
        rest = value
        for axis in reversed(big[1:]):
            env[axis.var] = floormod(rest, axis.extent)
            rest = floordiv(rest, axis.extent)
        env[big[0].var] = rest
        return body()

    extent = product([axis.extent for axis in big])
    return for_("p", extent, like, inside, ForKind.PARALLEL)


@dataclass(frozen=True)
class Piece:
    """Some tiles of an axis, all of one width.

    Attributes:
        width: Iterations of the axis in a tile.
        count: How many tiles.
        start: Where the first begins.
        surplus: Iterations at the end of a tile that are computed, but not stored.
    """

    width: int
    count: PrimExpr | int
    start: PrimExpr | int
    surplus: int = 0


def pieces(axis: Axis | None, width: int, multiple: int = 1) -> list[Piece]:
    """An axis cut into tiles and what remains; a remainder of unknown size has tiles of one.

    Args:
        axis: The axis; None for one iteration.
        width: Iterations of a tile.
        multiple: The width of the remainder is a multiple of it, with a surplus that is not stored.
    """
    if axis is None:
        return [Piece(1, 1, 0)]
    size = axis.size
    if size is None:
        if width == 1:
            return [Piece(1, axis.extent, 0)]
        whole = floordiv(axis.extent, width)
        return [Piece(width, whole, 0), Piece(1, floormod(axis.extent, width), mul(whole, width))]
    out = []
    if size // width:
        out.append(Piece(width, size // width, 0))
    if size % width:
        rest = size % width
        surplus = -rest % multiple
        out.append(Piece(rest + surplus, 1, size // width * width, surplus))
    return out


def tile_loop(piece: Piece, name: str, like: Var, body: Body) -> Stmt:
    """A loop over the tiles of a piece; the body is given where its tile begins."""
    return for_(name, piece.count, like, lambda at: body(begin_of(piece, at)))


def begin_of(piece: Piece, at: PrimExpr) -> PrimExpr:
    """Where a tile begins."""
    moved = mul(at, piece.width) if piece.width != 1 else at
    return moved if isinstance(piece.start, int) and piece.start == 0 else add(moved, piece.start)


def tile_count(found: Sequence[Piece], like: Var) -> PrimExpr:
    """How many tiles all pieces have."""
    total: PrimExpr = number(0, like)
    for piece in found:
        total = add(total, piece.count)
    return total


@deep
def tile_at(found: Sequence[Piece], at: PrimExpr, body: Callable[[Piece, PrimExpr], Stmt]) -> Stmt:
    """The tile of a number, counted through all pieces; the body is given its piece and where it begins."""
    piece = found[0]
    if len(found) == 1:
        return body(piece, begin_of(piece, at))
    after = at - piece.count
    return IfThenElse(at < piece.count, body(piece, begin_of(piece, at)), tile_at(found[1:], after, body))


def local(name: str, dtype: str, size: int, body: Callable[[Buffer], Stmt]) -> Stmt:
    """Memory of a thread's own, which becomes registers when all its indices are constants."""
    buffer = Buffer(name, (IntImm("int64", size),), dtype, scope="local")
    declared = DeclBuffer(buffer, body(buffer))
    return Allocate(buffer.data, dtype, (IntImm("int64", size),), IntImm("bool", 1), declared)


def lanes_loop(width: int, like: Var, body: Body) -> Stmt:
    """A vectorised loop."""
    return for_("l", width, like, body, ForKind.VECTORIZED)


def unrolled(count: int, like: Var, body: Body) -> Stmt:
    """An unrolled loop."""
    return for_("i", count, like, body, ForKind.UNROLLED)
