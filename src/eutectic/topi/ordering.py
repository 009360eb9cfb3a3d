"""Elements along an axis in order: programs, as what a step compares depends on the steps before.

Rows, which are what lies along the axis, do not depend on each other. A row is sorted in runs of up to 16 entries, each
by a network of comparisons, and pairs of runs of one length are merged until one is left. A merge goes from both ends
at once: each side gives as many entries as one run has, so that none of them can run out, and nothing but the indices
depends on the data. The few first elements of a long row are kept in order while it is gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eutectic.arith.proofs import simplify
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr, Var, add, as_prim, floordiv, floormod, shift_left, shift_right, sub
from eutectic.ir.prim_logic import Select
from eutectic.tir import isnan
from eutectic.tir.buffer import Buffer
from eutectic.tir.function import PrimFunc
from eutectic.tir.op import clz
from eutectic.tir.stmt import BufferStore, For, LetStmt, Stmt, seq
from eutectic.topi.first_entries import FirstEntries, is_kept
from eutectic.topi.order_keys import Entries, Entry, chosen, given, int64, precedes
from eutectic.topi.order_rows import Body, Rows, each, loop
from eutectic.topi.shapes import static

_RUN: Final = 16  # entries that a network sorts: they fit in registers, nearly


def sort_program(
    shape: Sequence[PrimExpr],
    dtype: str,
    axis: int,
    results: Sequence[str],
    *,
    descending: bool = False,
    count: int | None = None,
    index_dtype: str = "int64",
) -> PrimFunc:
    """A program that gives the first elements along an axis in order, and their places.

    Args:
        shape: Sizes of the data, in variables of the program's own.
        dtype: Dtype of the data.
        axis: The axis.
        results: `values`, `indices`, or both in one order or the other.
        descending: Whether the largest come first.
        count: How many elements; None for all.
        index_dtype: Dtype of the places.

    Returns:
        A function of the data and the results, whose size along the axis is `count`. NaN counts as the largest; equal
        elements, among which are the two zeros, keep their order in both directions.

    Raises:
        ValueError: no such axis, or other results.

    Reference: numpy.argsort with kind="stable"; torch.sort with stable=True.
    """
    _check(results, ("values", "indices"))
    rows = Rows(shape, dtype, axis, descending)
    number = rows.count if count is None else as_prim(count, rows.count.dtype)
    sizes = [number if a == rows.axis else size for a, size in enumerate(shape)]
    outs = [Buffer(f"T_{kind}", sizes, dtype if kind == "values" else index_dtype) for kind in results]

    def give(entries: Entries, first: PrimExpr, at: Sequence[Var]) -> Stmt:
        def element(k: PrimExpr) -> Stmt:
            entry, target = entries.load(add(first, k)), rows.point(at, k)
            return given(entry, "entry", lambda one: rows.stores(outs, entries.place(one), at, target))

        return each("k", number.astype("int64"), element)

    if count is not None and is_kept(static(rows.count), count):
        first = FirstEntries(rows, count)
        return rows.program(
            "T_topk", outs, lambda *at: seq(first.found(at), give(first.kept, int64(0), at)), first.memory
        )
    return rows.program("T_sort", outs, *_sorted(rows, give))


def median_program(
    shape: Sequence[PrimExpr],
    dtype: str,
    axis: int,
    results: Sequence[str] = ("values", "indices"),
    keepdims: bool = False,
) -> PrimFunc:
    """A program that gives the element in the middle along an axis, of two the lower one, and its place.

    Args:
        shape: Sizes of the data, in variables of the program's own.
        dtype: Dtype of the data.
        axis: The axis.
        results: `values`, `indices`, or both in one order or the other.
        keepdims: Whether the axis stays with size one.

    Returns:
        A function of the data and the results; places are int64. Of a row with a NaN it is the first one.

    Raises:
        ValueError: no such axis, or other results.

    Reference: torch.median.
    """
    _check(results, ("values", "indices"))
    rows = Rows(shape, dtype, axis, False, counts_missing=is_float(dtype))
    one = [as_prim(1, "int64")] if keepdims else []
    sizes = [*shape[: rows.axis], *one, *shape[rows.axis + 1 :]]
    outs = [Buffer(f"T_{kind}", sizes, dtype if kind == "values" else "int64") for kind in results]

    def give(entries: Entries, first: PrimExpr, at: Sequence[Var]) -> Stmt:
        point = rows.point(at, int64(0))
        target = point if keepdims else (*point[: rows.axis], *point[rows.axis + 1 :])
        middle = floordiv(sub(rows.count.astype("int64"), 1), 2)
        if rows.counts_missing:
            missing = rows.missing[0]
            middle = Select(missing > 0, rows.count - missing, middle)
        entry = entries.load(add(first, middle))
        return given(entry, "entry", lambda one: rows.stores(outs, entries.place(one), at, target))

    return rows.program("T_median", outs, *_sorted(rows, give))


def _check(given_names: Sequence[str], known: Sequence[str]) -> None:
    if not given_names or set(given_names) - set(known):
        raise ValueError(f"results are {' and '.join(known)}, not {', '.join(given_names) or 'nothing'}")


_Give = Callable[[Entries, PrimExpr, Sequence[Var]], Stmt]


@dataclass(frozen=True)
class _Plan:
    """How a row is cut into runs, all of one length and in a number that is a power of two.

    Attributes:
        run: Entries of a run before the first merge; what is missing at the end of a row is filled up.
        levels: How often pairs of runs are merged.
        half: Entries of each of the two halves of the memory between which they move.
    """

    run: int
    levels: PrimExpr
    half: PrimExpr

    @property
    def runs(self) -> PrimExpr:
        """Runs before the first merge."""
        return shift_left(as_prim(1, "int64"), self.levels)

    def half_at(self, level: PrimExpr) -> PrimExpr:
        """Where the entries are before a merge."""
        return simplify(floormod(add(level, 1), 2) * self.half)


def _levels(size: int) -> int:
    """Merges that a row of so many elements takes."""
    return max(-(-size // _RUN) - 1, 0).bit_length()


def _plan(count: PrimExpr) -> _Plan:
    size = static(count)
    if size is not None:
        merges = _levels(size)
        run = max(-(-size // (1 << merges)), 1)
        return _Plan(run, int64(merges), int64(run << merges))
    wide = count.astype("int64")
    levels = sub(64, clz(floordiv(sub(wide, 1), _RUN)).astype("int64"))
    return _Plan(_RUN, levels, add(wide * 2, _RUN))


def _sorted(rows: Rows, give: _Give) -> tuple[Body, list[Buffer]]:
    """All entries of a row, in order."""
    plan = _plan(rows.count)
    entries = rows.entries("entries", simplify(plan.half * 2))
    taken = Buffer("taken", (2,), "int64")

    def body(*at: Var) -> Stmt:
        steps = [_filled(rows, entries, plan, at), _runs(entries, plan), _merged(entries, plan, taken)]
        return seq(*(step for step in steps if step is not None), give(entries, plan.half_at(plan.levels), at))

    return body, [*entries.buffers, taken]


def _filled(rows: Rows, entries: Entries, plan: _Plan, at: Sequence[Var]) -> Stmt:
    """The entries of a row, and what fills up the last run."""
    count, zero = rows.count.astype("int64"), int64(0)

    def element(k: PrimExpr) -> Stmt:
        entry = entries.store(rows.entry(entries, at, k), k)
        if not rows.counts_missing:
            return entry
        is_missing = isnan(rows.data[rows.point(at, k)]).astype("int64")
        return seq(entry, BufferStore(rows.missing, rows.missing[zero] + is_missing, (zero,)))

    def filler(k: PrimExpr) -> Stmt:
        return entries.store(entries.last(add(count, k)), add(count, k))

    begin = [BufferStore(rows.missing, zero, (zero,))] if rows.counts_missing else []
    rest = simplify(sub(plan.runs * plan.run, count))
    return seq(*begin, loop("k", count, element), loop("k", rest, filler))


def _runs(entries: Entries, plan: _Plan) -> Stmt:
    """Sorted runs, in the other half; entries of one run are as far apart as there are runs, at first."""
    r = Var("r", "int64")
    bindings: list[tuple[Var, PrimExpr]] = []

    def named(entry: Entry, name: str) -> Entry:
        names = [Var(f"{name}{k}", part.dtype) for k, part in enumerate(entry)]
        bindings.extend(zip(names, entry, strict=True))
        return tuple(names)

    now = [named(entries.load(simplify(add(plan.runs * t, r))), f"e{t}_") for t in range(plan.run)]
    for low, high in _network(plan.run):
        a, b = now[low], now[high]
        (ordered,) = named((precedes(a, b),), "ordered")
        now[low], now[high] = named(chosen(ordered, a, b), f"e{low}_"), named(chosen(ordered, b, a), f"e{high}_")
    first = add(plan.half, r * plan.run)
    stmt: Stmt = seq(*(entries.store(entry, add(first, t)) for t, entry in enumerate(now)))
    for var, value in reversed(bindings):
        stmt = LetStmt(var, value, stmt)
    return For(r, int64(0), plan.runs, "serial", stmt)


def _network(size: int) -> Iterator[tuple[int, int]]:
    """Pairs of places to compare, one after the other, that sort so many entries.

    Reference: Batcher's merge exchange; D. Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M.
    """
    top = 1 << max((size - 1).bit_length() - 1, 0)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(size - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1


def _merged(entries: Entries, plan: _Plan, taken: Buffer) -> Stmt | None:
    """Pairs of runs merged until one is left; None where there is one from the first."""
    known = static(plan.levels)
    if known is not None:
        merges = [_merge(entries, plan, taken, as_prim(level, "int64")) for level in range(known)]
        return seq(*merges) if merges else None
    return loop("level", plan.levels, lambda level: _merge(entries, plan, taken, level))


def _merge(entries: Entries, plan: _Plan, taken: Buffer, level: PrimExpr) -> Stmt:
    """Each pair of runs as one run in the other half, from the first and from the last entry on."""
    length = simplify(shift_left(int64(plan.run), level))
    pairs = simplify(shift_right(plan.runs, add(level, 1)))
    source, target = plan.half_at(level), plan.half_at(add(level, 1))
    front, back = int64(0), int64(1)

    def pair(number: PrimExpr) -> Stmt:
        begin = [BufferStore(taken, int64(0), (side,)) for side in (front, back)]
        first = number * length * 2
        return seq(*begin, loop("k", length, lambda k: step(add(source, first), add(target, first), k)))

    def step(low: PrimExpr, out: PrimExpr, k: PrimExpr) -> Stmt:
        return given((taken[front], taken[back]), "taken", lambda counts: compared(low, out, k, *counts))

    def compared(low: PrimExpr, out: PrimExpr, k: PrimExpr, ahead: PrimExpr, behind: PrimExpr) -> Stmt:
        """What comes first of two entries, and last of two others, given how many of the first run were taken."""
        high, last = add(low, length), add(low, length * 2 - 1)
        places = (add(low, ahead), high + (k - ahead), high - 1 - behind, last - (k - behind))

        def place(parts: Entry) -> Stmt:
            width = len(entries.buffers)
            a, b, c, d = (parts[width * n : width * (n + 1)] for n in range(4))
            is_left, is_left_end = precedes(a, b), precedes(d, c)
            return seq(
                entries.store(chosen(is_left, a, b), add(out, k)),
                entries.store(chosen(is_left_end, c, d), out + length * 2 - 1 - k),
                BufferStore(taken, ahead + is_left.astype("int64"), (front,)),
                BufferStore(taken, behind + is_left_end.astype("int64"), (back,)),
            )

        return given([part for at in places for part in entries.load(at)], "end", place)

    return loop("pair", pairs, pair)
