"""Running sums and products along an axis: programs, as no stage of tensor expressions reads what it wrote."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import IntImm, PrimExpr, Var, as_prim
from eutectic.tir.block import DETECT_ACCESS, Block, BlockRealize
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.iter_var import IterVar, Range
from eutectic.tir.stmt import BufferStore, For, Stmt, seq
from eutectic.topi.shapes import axis_of, product, unravel


def scan(
    kind: str,
    shape: Sequence[PrimExpr],
    dtype: str,
    axis: int | None,
    out_dtype: str,
    exclusive: bool = False,
) -> PrimFunc:
    """A program that accumulates along an axis, in one pass over it.

    Args:
        kind: `cumsum` or `cumprod`.
        shape: Sizes of the data, in variables of the program's own; each is a size by itself somewhere.
        dtype: Dtype of the data.
        axis: The axis; None accumulates all elements in C order.
        out_dtype: Dtype of the result.
        exclusive: Whether an element leaves itself out.

    Returns:
        A function of the data and the result, which has the shape of the data, or `(number of elements,)` without
        an axis. One block `T_<kind>` for all elements along the axis; what it adds up lives in a buffer of its own.

    Raises:
        ValueError: another kind, or no such axis.

    Accuracy: floats are accumulated in float64 and rounded at the end; integers wrap around.
    Reference: TVM topi.cumsum, topi.cumprod.
    """
    if kind not in ("cumsum", "cumprod"):
        raise ValueError(f"there is no scan {kind!r}")
    along = -1 if axis is None else axis_of(axis, len(shape))
    count = simplify(product(shape)) if axis is None else shape[along]
    data = Buffer("A", shape, dtype)
    out = Buffer(f"T_{kind}", (count,) if axis is None else shape, out_dtype)
    total = Buffer("total", (1,), "float64" if is_float(out_dtype) else out_dtype)
    outer = [] if axis is None else [a for a in range(len(shape)) if a != along]
    points = {a: Var(f"v_ax{a}", shape[a].dtype) for a in outer}
    k = Var("k", count.dtype)
    zero = (as_prim(0, "int32"),)
    place: tuple[PrimExpr, ...] = (k,) if axis is None else tuple(points.get(a, k) for a in range(len(shape)))
    source = unravel(k, shape) if axis is None else place
    held, term = BufferLoad(total, zero), BufferLoad(data, source).astype(total.dtype)
    grow = BufferStore(total, held + term if kind == "cumsum" else held * term, zero)
    give = BufferStore(out, held.astype(out_dtype), place)
    steps = (give, grow) if exclusive else (grow, give)
    start = BufferStore(total, as_prim(0 if kind == "cumsum" else 1, total.dtype), zero)
    body = seq(start, For(k, as_prim(0, k.dtype), count, "serial", seq(*steps)))
    return _under_loops(f"T_{kind}", body, {points[a]: shape[a] for a in outer}, total, (data, out))


def _under_loops(
    name: str, body: Stmt, points: dict[Var, PrimExpr], total: Buffer, params: tuple[Buffer, Buffer]
) -> PrimFunc:
    """A function of one block, under a loop for each of its axes."""
    axes = [
        IterVar(Range(min=as_prim(0, var.dtype), extent=size), var, "data_par")
        for var, size in (points or {Var("vi", "int32"): as_prim(1, "int32")}).items()
    ]
    loops = [Var(var.name.removeprefix("v_"), var.dtype) for var in points]
    values: tuple[PrimExpr, ...] = tuple(loops) or (IntImm("int32", 0),)
    block = Block(tuple(axes), (), (), name, body, alloc_buffers=(total,), annotations={DETECT_ACCESS: 3})  # type: ignore[arg-type]  # the node converts what it is given
    stmt: Stmt = BlockRealize(values, IntImm("bool", 1), block)
    for loop, size in reversed(list(zip(loops, points.values(), strict=True))):
        stmt = For(loop, as_prim(0, loop.dtype), size, "serial", stmt)
    return complete(PrimFunc(params, stmt, attrs={"tir.noalias": True}))  # type: ignore[arg-type]  # the node converts what it is given
