"""Random borders and sums of products: what is padded, or filled by a block of its own, computes the same bits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tir.programs import block, nest
from tests.tir.schedule import test_random as steps
from tests.tir.schedule.programs import PROGRAMS, keeps
from tests.tir.schedule.test_random import PHASES, Draw, program
from tests.tir.schedule.test_random_moves import move

from eutectic import tir
from eutectic.ir.dtype import is_float
from eutectic.ir.prim_expr import PrimExpr, Var, as_prim, cast
from eutectic.support.errors import ScheduleError
from eutectic.tir import Buffer, BufferStore, For, PrimFunc, Stmt, complete
from eutectic.tir.schedule import Schedule
from eutectic.tir.schedule.validate import compare_programs

tried: Counter[tuple[str, bool]] = Counter()


def einsum(sch: Schedule, draw: Draw) -> None:
    block, _ = steps._loops(sch, draw)
    count = len(sch.get(block).iter_vars)
    sch.pad_einsum(block, draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)))


def border(sch: Schedule, draw: Draw) -> None:
    block, loops = steps._loops(sch, draw)
    loop = steps._one(loops, draw)
    able = sch.can_decompose_padding(block, loop)
    try:
        sch.decompose_padding(block, loop, border_only=draw(st.booleans()))
    except ScheduleError:
        assert not able
        raise
    assert able


OTHERS = (steps.split, steps.fuse, steps.reorder, steps.kind, steps.bind, steps.inline, steps.decompose, steps.copies)
STEPS = (einsum, einsum, border, border, move, *OTHERS)
# After steps that leave more loops than the interpreter runs through in a moment nothing else is tried.
SMALL = ("small conv", "pool", "pad", "matmul", "dense", "chain", "integer sum", "transpose")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name in SMALL])
@settings(phases=PHASES, max_examples=max(10, settings.default.max_examples // 4))
@given(data=st.data())
def test_random_schedules(name: str, data: st.DataObject):
    before = program(name)
    sch = Schedule(before, seed=0, error_render_level="none")
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)):
        mod = sch.mod
        try:
            step(sch, data.draw)
        except ScheduleError:
            assert all(sch.mod[var] is made for var, made in mod.functions_items())
    if sch.func is not before:
        keeps(before, sch)


# ---- borders

ROWS, COLUMNS = 5, 6
bound = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "=="]), st.sampled_from([1, 1, 1, 2, -1]), st.integers(-2, 7))
borders = st.fixed_dictionaries(
    {
        "rows": st.lists(bound, max_size=2),
        "columns": st.lists(bound, max_size=2),
        "at": st.sampled_from(["plain", "plain", "plain", "turned", "halved"]),
        "value": st.sampled_from(["zero", "axis", "memory", "division"]),
        "repeated": st.sampled_from([None, None, "serial", "parallel"]),
        "guard": st.sampled_from([True, True, False]),
        "watched": st.sampled_from([None, None, None, "inside", "outside"]),
    }
)


def holds(v: PrimExpr, b: Any) -> PrimExpr:
    kind, factor, limit = b
    side = v * factor
    return {"<": side < limit, "<=": side <= limit, ">": side > limit, ">=": side >= limit, "==": side.equal(limit)}[
        kind
    ]


def bordered(s: Any) -> PrimFunc:
    a, b, c = Buffer("A", (ROWS, COLUMNS)), Buffer("B", (ROWS, COLUMNS)), Buffer("C", (ROWS,))

    def value(i: Var, j: Var) -> PrimExpr:
        conditions = [holds(v, one) for v, part in ((i, s["rows"]), (j, s["columns"])) for one in part]
        outside: dict[str, PrimExpr] = {
            "zero": as_prim(0.0, "float32"),
            "axis": cast("float32", i * 2 + j),
            "memory": a[i, 0],
            "division": cast("float32", tir.floordiv(7, i + 1)),
        }
        return tir.if_then_else(tir.all(*conditions, i >= 0), a[ROWS - 1 - i, j], outside[s["value"]])

    def place(i: Var, j: Var) -> tuple[PrimExpr, PrimExpr]:
        return {"plain": (i, j), "turned": (ROWS - 1 - i, j), "halved": (i, tir.floordiv(j, 2))}[s["at"]]

    def work(i: Var, j: Var) -> Stmt:
        return block(
            "B",
            {"vi": (ROWS, "S"), "vj": (COLUMNS, "S")},
            (i, j),
            lambda i, j: BufferStore(b, value(i, j), place(i, j)),
            predicate=True if s["guard"] else i + j != 4,
        )

    def look(i: Var) -> Stmt:
        return block("C", {"vi": (ROWS, "S")}, (i,), lambda i: BufferStore(c, c[i] + b[i, 1], (i,)))

    def row(i: Var) -> Stmt:
        inner = nest("j", (COLUMNS,), lambda j: work(i, j))
        return tir.seq(inner, look(i)) if s["watched"] == "inside" else inner

    body = nest("i", (ROWS,), row)
    if s["repeated"]:
        body = For(Var("r", "int32"), 0, 2, s["repeated"], body)
    if s["watched"] == "outside":
        body = tir.seq(body, nest("i", (ROWS,), look))
    return complete(PrimFunc((a, b, c), body))


@settings(max_examples=settings.default.max_examples * 4)
@given(
    s=borders,
    depth=st.integers(0, 2),
    tiles=st.sampled_from([None, None, 2, 3]),
    before=st.booleans(),
    only=st.booleans(),
)
def test_random_borders(s: Any, depth: int, tiles: int | None, before: bool, only: bool):
    func = bordered(s)
    sch = Schedule(func, error_render_level="none")
    if tiles is not None:
        loops = sch.get_loops("B")
        sch.split(loops[-1 if before else -2], [None, tiles])
    loops = sch.get_loops("B")
    try:
        sch.decompose_padding("B", loops[min(depth, len(loops) - 1)], border_only=only)
    except ScheduleError:
        tried["border", False] += 1
        return
    tried["border", True] += 1
    compare_programs(func, sch.func, str(sch.trace))
    compare_programs(func, tir.transform.lower(sch.func), f"lowering after {sch.trace}")


# ---- sums of products

EXTENTS = {"i": 3, "j": 2, "k": 5, "l": 3}
factor = st.one_of(
    st.tuples(st.sampled_from("AB"), st.sampled_from(["ik", "kj", "k", "i", "kl", "il", "kk", "3k", "lk"])),
    st.tuples(st.just("C"), st.sampled_from([0.0, 1.0, -2.0, 6e4])),
    st.tuples(st.just("V"), st.sampled_from("ijkl")),
)
sums = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float32", "float32", "float16", "int32", "int8"]),
        "wide": st.booleans(),
        "kind": st.sampled_from(["sum", "sum", "sum", "product", "max", "min", "difference"]),
        "first": st.sampled_from([0.0, 0.0, -0.0, 1.0, "neutral", "memory"]),
        "factors": st.lists(factor, min_size=1, max_size=3),
        "plus": st.sampled_from([False, False, False, True]),
        "order": st.permutations("ijkl"),
        "padding": st.tuples(*[st.integers(1, 4)] * 4),
    }
)


def summed(s: Any) -> PrimFunc:
    dtype = s["dtype"]
    wide = ("float32" if is_float(dtype) else "int64") if s["wide"] else dtype
    a, b = (Buffer(name, (6, 6), dtype) for name in "AB")
    c, first = Buffer("C", (3, 2), wide), Buffer("D", (2,), wide)

    def term(at: dict[str, PrimExpr]) -> PrimExpr:
        found: PrimExpr | None = None
        for what, which in s["factors"]:
            if what == "C":
                one = as_prim(which if is_float(wide) else int(max(min(which, 3), -3)), wide)
            elif what == "V":
                one = cast(wide, at[which])
            else:
                index = [at[name] if name in at else as_prim(3, "int32") for name in which]
                one = cast(wide, (a if what == "A" else b)[tuple((index * 2)[:2] if len(index) == 1 else index)])
            found = one if found is None else (found + one if s["plus"] else found * one)
        assert found is not None
        return found

    def combined(old: PrimExpr, new: PrimExpr) -> PrimExpr:
        kinds = {"sum": old + new, "product": new * old, "max": tir.max(old, new), "min": tir.min(new, old)}
        return kinds.get(s["kind"], old - new)

    def begin(j: PrimExpr) -> PrimExpr:
        if s["first"] == "memory":
            return first[j]
        if s["first"] == "neutral":
            return tir.max_value(wide) if s["kind"] == "min" else tir.min_value(wide)
        return as_prim(s["first"] if is_float(wide) else int(s["first"]), wide)

    def body(*loops: Var) -> Stmt:
        at = dict(zip(s["order"], loops, strict=True))
        return block(
            "C",
            {f"v{n}": (EXTENTS[n], "S" if n in "ij" else "R") for n in "ijkl"},
            [at[n] for n in "ijkl"],
            lambda i, j, k, l: BufferStore(  # noqa: E741  # the name of an axis
                c, combined(c[i, j], term({"i": i, "j": j, "k": k, "l": l})), (i, j)
            ),
            lambda i, j, k, l: BufferStore(c, begin(j), (i, j)),  # noqa: E741
        )

    extents = tuple(EXTENTS[n] for n in s["order"])
    return complete(PrimFunc((a, b, first, c), nest("".join(s["order"]), extents, body)))


@settings(max_examples=settings.default.max_examples * 4)
@given(s=sums)
def test_random_sums(s: Any):
    func = summed(s)
    sch = Schedule(func, error_render_level="none")
    try:
        sch.pad_einsum("C", list(s["padding"]))
    except ScheduleError:
        tried["sum", False] += 1
        return
    tried["sum", True] += 1
    compare_programs(func, sch.func, str(sch.trace))
    compare_programs(func, tir.transform.lower(sch.func), f"lowering after {sch.trace}")


def test_both_answers_were_given():
    """Proofs that accept nothing would pass everything above."""
    for kind in ("border", "sum"):
        yes, no = tried[kind, True], tried[kind, False]
        if yes + no > 60:  # fewer when another process ran the tests above
            assert min(yes, no) > 0, tried
