"""Fusion kinds of tensor programs: a table over topi, and programs about which nothing may be said."""

from __future__ import annotations

import pytest

from eutectic import te, topi
from eutectic.ir.module import IRModule
from eutectic.relax.analysis import OpPatternKind, op_pattern_of
from eutectic.relax.transform import AnnotateTIROpPattern
from eutectic.script import tir as T
from eutectic.tir import PrimFunc

X, Y, ROW, COL = (2, 3), (2, 3), (3,), (2, 1)
IMAGE, KERNEL = (1, 3, 6, 6), (4, 3, 3, 3)

TABLE = {
    "ELEMWISE": [
        ("relu", topi.nn.relu, X),
        ("exp", topi.exp, X),
        ("silu", topi.nn.silu, X),
        ("gelu", topi.nn.gelu, X),
        ("cast", lambda x: topi.cast(x, "float16"), X),
        ("add", topi.add, X, Y),
        ("bias", topi.add, X, ROW),
        ("column", topi.multiply, X, COL),
        ("full", lambda: topi.full(X, "float32", 1.0)),
    ],
    "BROADCAST": [
        ("outer", topi.add, COL, (1, 3)),
        ("broadcast_to", lambda x: topi.broadcast_to(x, X), ROW),
        ("expand_dims", lambda x: topi.expand_dims(x, 0), ROW),
        ("squeeze", topi.squeeze, (1, 3, 1)),
        ("bias_reshape", lambda x: topi.reshape(x, (1, 3, 1)), ROW),
    ],
    "INJECTIVE": [
        ("transpose", topi.transpose, X),
        ("reshape", lambda x: topi.reshape(x, (3, 2)), X),
        ("flip", lambda x: topi.flip(x, 0), X),
        ("tile", lambda x: topi.tile(x, (2,)), ROW),
        ("pad", lambda x: topi.nn.pad(x, (1, 1)), X),
        ("slice", lambda x: topi.strided_slice(x, [0], [1], [1]), X),
        ("concatenate", lambda x, y: topi.concatenate([x, y]), X, Y),
        ("split", lambda x: topi.split(x, 2, 0), (4, 3)),
    ],
    "COMM_REDUCE": [
        ("sum", lambda x: topi.sum(x, 1), X),
        ("sum_all", topi.sum, X),
        ("max", lambda x: topi.max(x, 1), X),
        ("prod", lambda x: topi.prod(x, 0), X),
        ("dot", topi.matmul, ROW, ROW),
    ],
    "OUT_ELEMWISE_FUSABLE": [
        ("matmul", topi.matmul, X, (3, 4)),
        ("batch_matmul", topi.nn.batch_matmul, (2, 2, 3), (2, 4, 3)),
        ("dense", topi.nn.dense, X, (4, 3)),
        ("conv2d", lambda x, w: topi.nn.conv2d(x, w), IMAGE, KERNEL),
        ("conv2d_padded", lambda x, w: topi.nn.conv2d(x, w, 1, 1), IMAGE, KERNEL),
        ("softmax", topi.nn.softmax, X),
        ("mean", lambda x: topi.mean(x, 1), X),
        ("max_pool", lambda x: topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [0, 0, 0, 0], "max"), (1, 1, 4, 4)),
        ("avg_pool", lambda x: topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [1, 1, 1, 1], "avg"), (1, 1, 4, 4)),
        ("layer_norm", lambda x, g, b: topi.nn.layer_norm(x, g, b, [1], 1e-5), X, ROW, ROW),
    ],
    "OPAQUE": [
        ("argmax", lambda x: topi.argmax(x, 1), X),
    ],
}
CASES = [(kind, *case) for kind, cases in TABLE.items() for case in cases]


def program(make, *shapes) -> PrimFunc:
    given = [te.placeholder(shape, "float32", f"A{i}") for i, shape in enumerate(shapes)]
    made = make(*given)
    return te.create_prim_func([*given, *(made if isinstance(made, (list, tuple)) else [made])])


@pytest.mark.parametrize(("kind", "make", "shapes"), [(c[0], c[2], c[3:]) for c in CASES], ids=[c[1] for c in CASES])
def test_kinds_of_topi(kind, make, shapes):
    assert op_pattern_of(program(make, *shapes)).name == kind


def test_a_gather_computes_each_element_from_one_place():
    data, at = te.placeholder((5, 3), "float32", "A"), te.placeholder((2,), "int32", "B")
    assert op_pattern_of(te.create_prim_func([data, at, topi.take(data, at, 0)])) is OpPatternKind.INJECTIVE


@T.prim_func
def no_blocks(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]


@T.prim_func
def scatter(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi * 2] = A[vi]


@T.prim_func
def in_place(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + B[vi]


@T.prim_func
def two_stores(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
            C[vi] = A[vi]


@T.prim_func
def calls_out(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.call_extern("float32", "rand", A[vi])


@T.prim_func
def nested(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            for j in range(2):
                with T.block("B"):
                    vj = T.axis.spatial(2, j)
                    B[vi * 2 + vj] = A[vi * 2 + vj]


@T.prim_func
def scan(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.scan(4, i)
            B[vi] = A[vi]


@pytest.mark.parametrize(
    "func", [no_blocks, scatter, in_place, two_stores, calls_out, nested, scan], ids=lambda f: f.attr("global_symbol")
)
def test_what_is_not_understood_is_opaque(func):
    assert op_pattern_of(func) is OpPatternKind.OPAQUE


def test_the_pass_writes_numbers_and_keeps_what_is_there():
    mod = IRModule({"relu": program(topi.nn.relu, X), "given": program(topi.exp, X).with_attr("op_pattern", 8)})
    after = AnnotateTIROpPattern()(mod)
    assert {gv.name_hint: f.attr("op_pattern") for gv, f in after.functions_items()} == {"relu": 0, "given": 8}
    assert AnnotateTIROpPattern()(after) is after
    assert mod["relu"].attr("op_pattern") is None
