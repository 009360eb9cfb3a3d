"""The verifier accepts what is right, and says what is wrong and where."""

from __future__ import annotations

import pytest
from tests.tir.programs import matmul, nest, softmax

from eutectic import tir
from eutectic.ir.module import IRModule
from eutectic.support.errors import WellFormedError
from eutectic.tir import (
    DETECT_ACCESS,
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Range,
    Var,
    seq,
    verify_well_formed,
)

A, B = Buffer("A", (4,)), Buffer("B", (4, 4), "int32")
I, J = Var("i"), Var("j")  # noqa: E741  # loop variables


def realize(body, axes=(), values=(), predicate=True, **options):
    return BlockRealize(values, predicate, Block(axes, (), (), "b", body, **options))


def test_what_is_right():
    p = Var("p", tir.PointerType(tir.PrimType("float32")))
    view = Buffer("view", (4,), data=p)
    thread = IterVar(Range(4), "tx", "thread_index", "threadIdx.x")
    part = Buffer("part", (2,), strides=(Var("s"),))
    body = seq(
        Allocate(p, "float32", (4,), True, DeclBuffer(view, BufferStore(view, A[0], (0,)))),
        AttrStmt(thread, "thread_extent", 4, Evaluate(thread.var)),
        realize(BufferStore(part, 1.0, (0,)), match_buffers=(MatchBufferRegion(part, A[0:2]),)),
        Evaluate(tir.Let(I, 1, I + 1)),
        For(J, 0, 4, "thread_binding", Evaluate(J), "vthread.x"),
    )
    assert verify_well_formed(PrimFunc((A,), body))
    n = Var("n")
    assert verify_well_formed(PrimFunc((Buffer("X", (n, n + 1)), Buffer("Y", (n * 2,))), Evaluate(n)))
    assert verify_well_formed(IRModule({"f": matmul(), "g": softmax()}))
    shared = A[0] + 1.0
    assert verify_well_formed(PrimFunc((A,), seq(*(BufferStore(A, shared * shared, (k,)) for k in range(3)))))


def in_block(value):
    v = IterVar(Range(4), "v", "S")
    return For(I, 0, 4, "serial", realize(BufferStore(A, value, (v.var,)), (v,), (I,)))


FAULTS = {
    "free-variable": (Evaluate(I), "variable i is used where it is not defined"),
    "after-its-loop": (seq(For(I, 0, 4, "serial", Evaluate(I)), Evaluate(I)), "variable i is used where"),
    "twice-nested": (For(I, 0, 4, "serial", LetStmt(I, 1, Evaluate(0))), "a let defines variable i, which a loop"),
    "twice": (
        seq(For(I, 0, 4, "serial", Evaluate(0)), For(I, 0, 4, "serial", Evaluate(0))),
        "a loop defines variable i, which another statement defines",
    ),
    "free-buffer": (BufferStore(Buffer("C", (4,)), 1.0, (0,)), "buffer C is used where it is not defined"),
    "free-load": (Evaluate(Buffer("C", (4,))[0]), "buffer C is used"),
    "free-data": (DeclBuffer(Buffer("C", (4,)), Evaluate(0)), "variable C is used where"),
    "rank": (BufferStore(A, 1.0, (0, 0)), "an access of buffer A has 2 indices for 1 axes"),
    "load-rank": (Evaluate(B[0]), "an access of buffer B has 1 indices for 2 axes"),
    "region-rank": (
        BlockRealize((), True, Block((), (B[0:1],), (), "b", Evaluate(0))),
        "a region of buffer B has 1 indices for 2 axes",
    ),
    "store-dtype": (BufferStore(A, B[0, 0], (0,)), "a int32 is stored into buffer A, where float32 is expected"),
    "store-lanes": (
        BufferStore(A, A[0], (tir.Ramp(0, 1, 4),)),
        "a float32 is stored into buffer A, where float32x4 is expected",
    ),
    "float-index": (Evaluate(A[A[0]]), "buffer A is indexed with a float32"),
    "vector-index": (Evaluate(B[tir.Ramp(0, 1, 4), 0]), "buffer B is indexed with a vector before its last axis"),
    "condition": (IfThenElse(B[0, 0], Evaluate(0)), "the condition of if is int32, not bool"),
    "let-dtype": (LetStmt(I, A[0], Evaluate(0)), "variable i of int32 is bound to a float32"),
    "thread": (For(I, 0, 4, "thread_binding", Evaluate(0), "threadIdx.w"), "unknown thread axis 'threadIdx.w'"),
    "bare-block": (Block((), (), (), "b", Evaluate(0)), "block b stands without values for its axes"),
    "axis-kind": (
        realize(Evaluate(0), (IterVar(Range(4), "v", "unrolled"),), (0,)),
        "axis v of block b is unrolled; block axes are",
    ),
    "axis-without-range": (realize(Evaluate(0), (IterVar(None, "v", "S"),), (0,)), "axis v of block b has no range"),
    "axis-dtype": (
        For(I, 0, 4, "serial", realize(Evaluate(0), (IterVar(Range(4), Var("v", "int64"), "S"),), (I,))),
        "axis v of block b is int64, but its value is int32",
    ),
    "predicate": (realize(Evaluate(0), predicate=I), "variable i is used where"),
    "not-complete": (realize(Evaluate(0), annotations={DETECT_ACCESS: 3}), "block b does not state its regions yet"),
    "loop-inside-block": (in_block(I.astype("float32")), "loop variable i is used inside a block"),
    "axis-outside": (
        seq(realize(Evaluate(0), (axis := IterVar(Range(4), "v", "S"),), (0,)), Evaluate(axis.var)),
        "variable v is used where",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong(fault):
    body, message = FAULTS[fault]
    func = PrimFunc((A, B), body)
    with pytest.raises(WellFormedError, match=message):
        verify_well_formed(func)
    assert not verify_well_formed(func, assert_mode=False)


def test_parameters():
    n, x = Var("n"), Var("x", "int32")
    with pytest.raises(WellFormedError, match="variable n is used where it is not defined"):
        verify_well_formed(PrimFunc((Buffer("X", (n + 1,)),), Evaluate(0)))
    with pytest.raises(WellFormedError, match="parameter x of buffer A is int32, not a handle"):
        verify_well_formed(PrimFunc((x,), Evaluate(0), None, {x: A}))
    with pytest.raises(WellFormedError, match="the signature defines variable n"):
        verify_well_formed(PrimFunc((n, n), Evaluate(0)))


def test_the_statement_is_shown(golden):
    body = nest("ij", (4, 4), lambda i, j: seq(BufferStore(B, i + j, (i, j)), BufferStore(A, B[i, j], (i,))))
    with pytest.raises(WellFormedError) as error:
        verify_well_formed(PrimFunc((A, B), body))
    golden(str(error.value))
