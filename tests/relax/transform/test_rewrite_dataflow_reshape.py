"""Which tensor programs are reshapes, and where a call of one becomes the operator again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.relax.transform.rewriting import ops

from eutectic import te, topi
from eutectic.relax import TensorStructInfo, call_tir
from eutectic.relax.analysis import has_reshape_pattern, problems_of
from eutectic.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, RewriteDataflowReshape
from eutectic.script import tir as T
from eutectic.testing.graphs import assert_same_results, evaluate, graph
from eutectic.tir import IntImm
from eutectic.tir import Var as SizeSymbol


def sizes(*values):
    return [IntImm("int64", value) if isinstance(value, int) else value for value in values]


def run(mod, *args):
    after = RewriteDataflowReshape()(mod)
    assert problems_of(after) == []
    if args:
        np.testing.assert_array_equal(evaluate(after, *args), evaluate(mod, *args))
    else:
        assert_same_results(mod, after)
    return after


def program(make, *shape):
    given = te.placeholder(shape, "float32", "A")
    return te.create_prim_func([given, make(given)])


RESHAPES = [
    ("merge", lambda x: topi.reshape(x, (6, 4)), (2, 3, 4)),
    ("split", lambda x: topi.reshape(x, (2, 3, 2, 2)), (6, 4)),
    ("mix", lambda x: topi.reshape(x, (4, 9)), (6, 6)),
    ("flatten", lambda x: topi.reshape(x, (24,)), (2, 3, 4)),
    ("expand_dims", lambda x: topi.expand_dims(x, 1), (2, 3)),
    ("squeeze", topi.squeeze, (2, 1, 3)),
    ("same", lambda x: topi.reshape(x, (2, 3)), (2, 3)),
    ("transpose of one row", lambda x: topi.transpose(x, (1, 0)), (1, 4)),
    ("two steps", lambda x: topi.squeeze(topi.expand_dims(x, 0)), (2, 3)),
]
OTHERS = [
    ("transpose", topi.transpose, (2, 3)),
    ("broadcast", lambda x: topi.broadcast_to(x, (2, 3)), (3,)),
    ("slice", lambda x: topi.strided_slice(x, [0], [2], [1]), (4,)),
    ("flip", lambda x: topi.flip(x, 0), (4,)),
    ("relu", topi.nn.relu, (4,)),
    ("cast", lambda x: topi.cast(x, "float16"), (4,)),
    ("sum", lambda x: topi.sum(x, 1), (4, 1)),
    ("there and elsewhere", lambda x: topi.transpose(topi.reshape(x, (2, 3))), (6,)),
]


@pytest.mark.parametrize(("make", "shape"), [c[1:] for c in RESHAPES], ids=[c[0] for c in RESHAPES])
def test_programs_that_are_reshapes(make, shape):
    assert has_reshape_pattern(program(make, *shape))


@pytest.mark.parametrize(("make", "shape"), [c[1:] for c in OTHERS], ids=[c[0] for c in OTHERS])
def test_programs_that_are_none(make, shape):
    assert not has_reshape_pattern(program(make, *shape))


@T.prim_func
def two_inputs(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]


@T.prim_func
def strided(a: T.handle, B: T.Buffer((4,), "float32")):
    A = T.match_buffer(a, (4,), strides=(2,))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]


@pytest.mark.parametrize("func", [two_inputs, strided], ids=lambda f: f.attr("global_symbol"))
def test_programs_whose_buffers_do_not_fit(func):
    assert not has_reshape_pattern(func)


def test_symbolic_sizes():
    n = te.size_var("n", "int64")
    assert has_reshape_pattern(program(lambda x: topi.reshape(x, [n, *sizes(12)]), n, *sizes(3, 4)))
    assert has_reshape_pattern(program(lambda x: topi.reshape(x, [n, *sizes(3, 4)]), n, *sizes(12)))
    assert has_reshape_pattern(program(lambda x: topi.reshape(x, [n * 12]), n, *sizes(12)))


# ---- the pass


def reshaped(bb, x):
    return bb.emit_te(topi.nn.softmax, bb.emit_te(topi.reshape, x, sizes(3, 2)))


def test_a_call_becomes_the_operator():
    after = run(graph({"x": (2, 3)}, reshaped))
    assert ops(after) == ["reshape", "call_tir"]
    assert RewriteDataflowReshape()(after) is after


def test_sizes_stay_symbolic():
    n = SizeSymbol("n", "int64")

    def body(bb, x):
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.reshape, x, [n, *sizes(6)]))

    assert ops(run(graph({"x": (n, 2, 3)}, body), np.ones((2, 2, 3), "float32"))) == ["reshape", "call_tir"]


def test_a_value_that_leaves_the_block_keeps_memory_of_its_own():
    mod = graph({"x": (2, 3)}, lambda bb, x: bb.emit_te(topi.reshape, x, sizes(6)))
    assert RewriteDataflowReshape()(mod) is mod


def test_empty_tensors_are_left_alone():
    def body(bb, x):
        return bb.emit_te(topi.nn.relu, bb.emit_te(topi.reshape, x, sizes(3, 0)))

    mod = graph({"x": (0, 2)}, body)
    assert RewriteDataflowReshape()(mod) is mod


def test_a_program_that_does_not_fit_its_call_is_left_alone():
    def body(bb, x):
        lv = bb.emit_te(topi.reshape, x, sizes(3, 2))
        target = bb.lookup_binding(lv).args[0]
        other = bb.emit(call_tir(target, [x], [TensorStructInfo((3, 2)), TensorStructInfo((3, 2))]))
        return bb.emit_te(topi.nn.relu, bb.emit(other[0]))

    assert ops(RewriteDataflowReshape()(graph({"x": (2, 3)}, body))) == ["reshape", "call_tir", "call_tir"]


def test_a_result_with_another_number_of_elements_is_left_alone():
    def body(bb, x):
        target = bb.lookup_binding(bb.emit_te(topi.reshape, x, sizes(3, 2))).args[0]
        return bb.emit_te(topi.nn.relu, bb.emit(call_tir(target, [x], TensorStructInfo((3, 3)))))

    assert ops(RewriteDataflowReshape()(graph({"x": (2, 3)}, body))) == ["reshape", "call_tir", "call_tir"]


def test_after_fusion_only_what_is_no_part_of_a_group_is_rewritten():
    def body(bb, x, w, b):
        lv = bb.emit_te(topi.matmul, bb.emit_te(topi.reshape, x, sizes(2, 3)), w)
        return bb.emit_te(topi.add, lv, bb.emit_te(topi.reshape, b, sizes(1, 2)))

    mod = graph({"x": (6,), "w": (3, 2), "b": (2,)}, body)
    for step in (AnnotateTIROpPattern(), FuseOps(), FuseTIR()):
        mod = step(mod)
    after = run(mod)
    assert ops(after) == ["reshape", "call_tir"]


def test_reshapes_that_were_fused_are_one_reshape():
    def body(bb, x, w):
        lv = bb.emit_te(topi.expand_dims, bb.emit_te(topi.reshape, x, sizes(3, 2)), 0)
        return bb.emit_te(topi.nn.batch_matmul, lv, w)

    mod = graph({"x": (6,), "w": (1, 2, 2)}, body)
    for step in (AnnotateTIROpPattern(), FuseOps(), FuseTIR()):
        mod = step(mod)
    assert ops(run(mod)) == ["reshape", "call_tir"]
