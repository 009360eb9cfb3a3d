"""Running sums and products along an axis: programs, as no stage of tensor expressions reads what it wrote."""

from __future__ import annotations

from collections.abc import Sequence

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr, Var, as_prim
from eutectic.tir.block import SCAN
from eutectic.tir.buffer import Buffer, BufferLoad
from eutectic.tir.complete import complete
from eutectic.tir.function import PrimFunc
from eutectic.tir.stmt import BufferStore, For, Stmt, seq
from eutectic.topi.loop_nest import block_under_loops
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
    loops = {} if axis is None else {a: Var(f"ax{a}", shape[a].dtype) for a in range(len(shape)) if a != along}
    k = Var("k", count.dtype)
    zero = (as_prim(0, "int32"),)

    def body(*at: Var) -> Stmt:
        points = dict(zip(loops, at, strict=True))
        place: tuple[PrimExpr, ...] = (k,) if axis is None else tuple(points.get(a, k) for a in range(len(shape)))
        source = unravel(k, shape) if axis is None else place
        held, term = BufferLoad(total, zero), BufferLoad(data, source).astype(total.dtype)
        grow = BufferStore(total, held + term if kind == "cumsum" else held * term, zero)
        give = BufferStore(out, held.astype(out_dtype), place)
        steps = (give, grow) if exclusive else (grow, give)
        start = BufferStore(total, as_prim(0 if kind == "cumsum" else 1, total.dtype), zero)
        return seq(start, For(k, as_prim(0, k.dtype), count, "serial", seq(*steps)))

    sizes = {loop: shape[a] for a, loop in loops.items()}
    is_last = axis is None or along == len(shape) - 1
    notes = {} if is_last else {SCAN: "across"}  # of loops, the last of which goes through neighbours
    stmt = block_under_loops(f"T_{kind}", sizes, body, memory=[total], notes=notes)
    return complete(PrimFunc((data, out), stmt, attrs={"tir.noalias": True}))  # type: ignore[arg-type]  # the node converts what it is given
