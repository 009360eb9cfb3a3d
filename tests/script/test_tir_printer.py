"""The text of tensor programs: every statement and expression, the same text each time, valid as Python."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from tests.tir.programs import block, matmul, softmax

from eutectic import tir
from eutectic.ir.module import GlobalVar, IRModule
from eutectic.ir.node import Node
from eutectic.relax import op
from eutectic.testing.graphs import graph
from eutectic.testing.round_trip import check_round_trip
from eutectic.tir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    IntImm,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PointerType,
    PrimFunc,
    PrimType,
    Range,
    SizeVar,
    Stmt,
    StringImm,
    Var,
    While,
    complete,
    seq,
)

A, OUT = Buffer("A", (8, 8)), Buffer("OUT", (8,))


def text_of(item: Node | IRModule, **options: Any) -> str:
    """The text; printing again gives the same, it is Python, and programs come back from it."""
    text = item.script(**options)
    assert item.script(**options) == text
    ast.parse(text)
    if isinstance(item, (PrimFunc, IRModule)) and not options:
        check_round_trip(item, map_free_vars=True)
    return text


def function(*stmts: Stmt, params: tuple[Any, ...] = (A, OUT), **options: Any) -> PrimFunc:
    return complete(PrimFunc(params, seq(*stmts), **options))


def body_text(*stmts: Stmt, **options: Any) -> str:
    """Lines of a function's body, without the head."""
    lines = text_of(function(*stmts, **options)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return "\n".join(line[4:] for line in lines[start + 1 :])


# ---- whole programs


def test_matmul(golden):
    golden(text_of(matmul().with_attr({"global_symbol": "main", "tir.noalias": True})))


def test_matmul_of_int64(golden):
    golden(text_of(matmul(size=IntImm("int64", 8), dtype="int64")))


def test_softmax(golden):
    golden(text_of(softmax()))


def test_symbolic_shapes(golden):
    n, m = Var("n", "int64"), SizeVar("m", "int64")
    x, y = Buffer("x", (n, m + 1), "float16"), Buffer("y", (n,), "float32")
    golden(text_of(function(Evaluate(x[0, 0]), Evaluate(y[0]), params=(x, y, m, Var("k")))))


def test_modules_sort_their_functions(golden):
    mod = graph({"x": (2,)}, lambda bb, x: op.exp(x))
    mod["b"] = matmul()
    mod["a"] = function(Evaluate(tir.Call("void", GlobalVar("b"), (OUT.data, tir.Call("int32", GlobalVar("b"), ())))))
    golden(text_of(mod))
    golden(text_of(IRModule({"def": matmul(), "b": matmul()})), part="tensor-functions-only")


def test_schedules(golden):
    bx, tx, i, j, v, u = (Var(name) for name in ("bx", "tx", "i", "j", "v", "u"))
    inner = block(
        "scaled",
        {"vi": (32, "S"), "vj": (8, "S")},
        (bx * 4 + tx, v),
        lambda a, b: BufferStore(OUT, A[a % 8, b] * 2.0, (b,)),
        predicate=tir.all(bx * 4 + tx < 30, v < 7),
        annotations={"auto": [1, 2.5, None, True, "x"], "nested": {"k": IntImm("int64", 1)}},
    )
    vector = For(v, 0, 8, "vectorized", inner)
    unrolled = For(u, 2, 2, "unrolled", vector, None, {"pragma_auto_unroll_max_step": 16})
    threads = For(tx, 0, 4, "thread_binding", unrolled, "threadIdx.x")
    nested = For(bx, 0, 8, "thread_binding", threads, "blockIdx.x", {"hint": "first"})
    plain = For(i, 0, 4, "parallel", For(j, 1, 3, "serial", Evaluate(i + j)))
    golden(text_of(function(nested, plain, For(Var("k"), 0, 4, "serial", Evaluate(0), None, {"a": 1}))))


def test_axes(golden):
    i, j, k = Var("i"), Var("j"), Var("k")
    axes = [
        IterVar(Range(8), "va", "S"),
        IterVar(Range(4), "vb", "R"),
        IterVar(Range(16), "vc", "S"),
        IterVar(Range(8), "vd", "S"),
        IterVar(Range(2, 6), "ve", "S"),
        IterVar(Range(8), "vf", "scan"),
        IterVar(Range(8), "vg", "opaque"),
    ]
    made = BlockRealize((i, j, k, i, j + 2, i, 3), True, Block(axes, (), (), "axes", Evaluate(0)))
    golden(_in_loops(made, i, j, k))


def _in_loops(stmt: Stmt, *variables: Var) -> str:
    for var, extent in zip(reversed(variables), (8, 4, 8), strict=True):
        stmt = For(var, 0, extent, "serial", stmt)
    return text_of(function(stmt))


def test_buffers(golden):
    p = Var("p", PointerType(PrimType("float32"), "shared"))
    view = Buffer("view", (4, 4), data=p)
    local = Buffer("local", (4,), "float16", scope="local")
    s0 = Var("s0")
    part = Buffer("part", (4,), strides=(s0,), offset_factor=1, elem_offset=Var("offset"))
    options = Buffer("options", (4, 4), "int8", strides=(8, 1), elem_offset=4, data_alignment=16, axis_separators=(1,))
    scalar = Buffer("scalar", ())
    stores = [
        BufferStore(local, 1.0, (0,)),
        BufferStore(part, 2.0, (0,)),
        BufferStore(scalar, local[0].astype("float32"), ()),
    ]
    made = block(
        "b", {}, (), lambda: seq(*stores), alloc_buffers=(local,), match_buffers=(MatchBufferRegion(part, A[2, 0:4]),)
    )
    shared = Buffer("shared", (4,), scope="shared")
    alias = DeclBuffer(Buffer("flat", (64,), data=A.data), Evaluate(A.data))
    allocated = Allocate(p, "float32", (4, 4), True, DeclBuffer(view, BufferStore(view, 0.0, (0, 0))))
    func = PrimFunc((A, options, scalar), seq(made, allocated, alias))
    golden(text_of(complete(func, (shared,))))


def test_lets_asserts_and_attributes_hold_for_the_rest_of_their_block(golden):
    x, y, z = Var("x"), Var("y", "float32"), Var("z", PointerType(PrimType("int8")))
    thread = IterVar(Range(8), "tx", "thread_index", "threadIdx.x")

    def stacked(last: Stmt) -> Stmt:
        inner = AttrStmt(A, "scope", "near", AssertStmt(tir.LT(x, 3), 'no "x"', last))
        return LetStmt(x, 1, LetStmt(y, 0.5, AttrStmt(thread, "thread_extent", 8, inner)))

    golden(body_text(stacked(Evaluate(x))))
    golden(body_text(stacked(seq(Evaluate(x), LetStmt(z, A.data, Evaluate(z)), Evaluate(y))), Evaluate(0)), part="with")


def test_control_flow(golden):
    i = Var("i")
    condition = tir.any(tir.all(i < 3, i.not_equal(1)), i > 5)
    chosen = IfThenElse(condition, Evaluate(1), IfThenElse(~(i < 3), Evaluate(2), seq(Evaluate(3), Evaluate(4))))
    golden(body_text(While(OUT[0] < 3.0, For(i, 0, 8, "serial", chosen)), IfThenElse(True, Evaluate(5))))


def test_names_are_unique_where_they_are_visible(golden):
    def twice(name: str) -> Stmt:
        i = Var(name)
        return For(i, 0, 4, "serial", For(Var(name), 0, i + 1, "serial", Evaluate(i)))

    shadow = Buffer("OUT", (4,))
    free = Var("i")
    func = PrimFunc(
        (OUT, shadow, Var("T"), Var("lambda")), seq(twice("i"), twice("i"), twice("range"), Evaluate(shadow[0]))
    )
    golden(text_of(func))
    golden(text_of(function(twice("i"), Evaluate(tir.Let(free, 3, free * 2)))), part="free")


def test_loops_whose_bounds_do_not_cancel(golden):
    n, m, q = Var("n"), Var("m"), Var("q")
    loops = [For(Var("i"), m, extent, "serial", Evaluate(0)) for extent in (n, q - m, tir.min(n, q))]
    golden(body_text(*loops, params=(n, m, q)))


def test_statements_alone(golden):
    i = Var("i", "int64")
    golden("\n---\n".join(text_of(stmt) for stmt in (
        BufferStore(OUT, A[0, 1], (i,)),
        For(i, 0, 4, "serial", Evaluate(i)),
        matmul().body.block.body.body.body.body.block,
    )))  # fmt: skip


def test_deep_nests():
    stmt: Stmt = Evaluate(0)
    for _ in range(400):
        stmt = IfThenElse(OUT[0] < 1.0, LetStmt(Var("x"), 1, stmt))
    assert text_of_lines(stmt) == 2 * 400 + 1


def text_of_lines(stmt: Stmt) -> int:
    return len(stmt.script(declare=False).splitlines())


def test_long_sums():
    total = OUT[0]
    for _ in range(3000):
        total = total + OUT[0]
    assert Evaluate(total).script(declare=False).count(" + ") == 3000


# ---- expressions

I, J, L, P = Var("i"), Var("j"), Var("l", "int64"), Var("p", "bool")  # noqa: E741
X, H = Var("x", "float32"), Var("h", "float16")
EXPRESSIONS = {
    "literals": [IntImm("int32", -3), IntImm("int64", 3), IntImm("uint8", 3), IntImm("bool", 1), StringImm('a"b')],
    "floats": [FloatImm(d, v) for d, v in (("float32", 0.1), ("float16", -0.0), ("float64", 1e300), ("bfloat16", 2.0))],
    "special": [FloatImm("float32", v) for v in (float("inf"), float("-inf"), float("nan"))],
    "sums": [I + J - 1, I - (J - 1), I + (J + 1), (I + J) * 2, I * J + 2, -I, X * -1.0],
    "divisions": [I // J % 3, I // (J % 3), X / 2.0, tir.truncdiv(I, J), tir.truncmod(I, 3), tir.ceildiv(I, 4)],
    "comparisons": [I < J, (I < J).equal(P), P.not_equal(I < J), (I + 1).equal(J * 2), L >= 3],
    "logic": [P & (I < 3) | ~P, P & ((I < 3) | P), ~(P & P), (~P).equal(P), ~~P],
    "unfolded": [
        tir.Add(1, 2),
        tir.Add(I, 0),
        tir.Mul(I, 1),
        tir.Add(L, 1),
        tir.FloorDiv(1, 0),
        tir.Max(1, 2),
        tir.TruncDiv(4, 2),
        tir.LT(1, 2),
        tir.And(IntImm("bool", 1), P),
        tir.Not(IntImm("bool", 1)),
        tir.Add(tir.Add(1, 2) + I, 0) + 1,
        tir.Div(I, J),
    ],
    "conversions": [I.astype("float32"), tir.Cast("int64", 3), tir.reinterpret("float32", I), tir.Cast("int32", I)],
    "choices": [tir.Select(P, I, 1), tir.if_then_else(P, X, 1.0), tir.min(I, tir.max(J, 3)), tir.likely(P)],
    "intrinsics": [
        tir.exp(X),
        tir.pow(X, 2.0),
        tir.fma(X, X, X),
        tir.isnan(X),
        I & 3,
        I << J,
        ~I,
        tir.popcount(I),
        tir.clz(L),
        tir.call_extern("float32", "f", I, X),
        tir.call_packed("g", "text", 1),
        tir.tvm_storage_sync("shared"),
        tir.address_of(A[I, 0]),
        tir.undef("int8"),
    ],
    "intrinsics-of-other-dtypes": [
        tir.Call("float64", "tir.exp", (X,)),
        tir.Call("int32", "tir.bitwise_and", (1, 2)),
        tir.Call("int32", "tir.call_extern", ()),
    ],
    "vectors": [tir.Ramp(I, 1, 4), tir.Broadcast(X, 8), tir.Shuffle((I, J), (1, 0)), tir.Ramp(I, 1, 4) + 1],
    "accesses": [A[I, J + 1], A[I, tir.Ramp(0, 1, 4)], Buffer("S", ())[()], A.vload((I, 0), predicate=P)],
    "lets": [tir.Let(I, 3, I + 1)],
    "pointers": [A.data, tir.tvm_tuple(A.data, OUT.data)],
}


@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_expressions(golden, kind):
    shown = [body_text(Evaluate(e), params=(A, OUT)).splitlines()[-1] for e in EXPRESSIONS[kind]]
    golden("\n".join(shown))


def test_regions_buffers_and_ranges(golden):
    stepped = Range(min=I, extent=tir.FloorMod(I, 0))
    items = [
        A,
        Buffer("b", (I,), "int8", scope="local"),
        A[I, 0:4],
        A[I : I + 2, :],
        tir.BufferRegion(A, (stepped, 0)),
        Buffer("S", ()).full_region(),
        Range(I, J),
        IterVar(Range(4), "v", "R"),
        IterVar(None, "v", "thread_index", "vthread"),
        PointerType(PrimType("int8"), "shared"),
    ]
    golden("\n".join(text_of(item) for item in items))
